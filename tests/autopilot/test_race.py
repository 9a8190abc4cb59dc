"""The race: rows are dropped, tuned and blended by paired differences on the validation users."""

import numpy as np

import offdiag as od
from offdiag.autopilot.clock import Clock
from offdiag.autopilot.entrants import Entrant
from offdiag.autopilot.outcome import BEHIND, COMPLETE, FAILED, SKIPPED
from offdiag.autopilot.race import Race
from offdiag.errors import NotEnoughMemory


def race(seconds=60.0, n=400):
    X = od.synthetic.interactions(n, 60, 15 * n, seed=2)
    return Race(od.split.weak(X, 0.2, 0.1, seed=0), "ndcg@20", Clock(seconds, None), 0)


def entrant(family, model, **words):
    return Entrant(family, model, 1.0, **words)


def test_what_is_behind_by_more_than_two_errors_is_marked():
    found = race(n=2000)
    found.run([entrant("best", od.EDLAE(), automatic=True), entrant("worst", od.Popularity())])
    states = {row.family: row.state for row in found.rows}
    assert states == {"best": COMPLETE, "worst": BEHIND}
    test = found.rows[0].result.compare(found.rows[1].result)
    assert test.difference["ndcg@20"] > 2 * test.sem["ndcg@20"]


def test_an_automatic_row_that_falls_behind_is_still_the_automatic_one():
    found = race(n=2000)
    found.run([entrant("worst", od.Popularity(), automatic=True), entrant("best", od.EDLAE())])
    assert found.automatic.family == "worst"
    assert found.automatic.state == BEHIND
    assert found.automatic in found.models
    assert found.best.family == "best"


def test_a_lead_that_is_none_leaves_the_automatic_row_the_best():
    found = race()
    found.run([entrant("first", od.EASE(l2=100.0), automatic=True), entrant("same", od.EASE(l2=100.001))])
    assert found.best.family == "first"


class Greedy(od.EASE):
    def fit(self, X, y=None, *, progress=None, **reading):
        raise NotEnoughMemory("needs 9 TB")


class Broken(od.EASE):
    def fit(self, X, y=None, *, progress=None, **reading):
        raise od.OffdiagError("cannot be")


class Slow(od.EASE):
    def fit(self, X, y=None, *, progress=None, **reading):
        for step in range(10**9):
            progress("slow", step / 10**9)
        return self


def test_what_cannot_be_fitted_is_noted_and_the_race_goes_on():
    found = race(seconds=2.0)
    found.run(
        [
            entrant("automatic", od.EASE(), automatic=True),
            entrant("greedy", Greedy()),
            entrant("broken", Broken()),
            entrant("slow", Slow()),
            Entrant("dear", od.EASE(), 1e30),
        ]
    )
    notes = {row.family: (row.state, row.note) for row in found.rows}
    assert notes["greedy"] == (SKIPPED, "needs 9 TB")
    assert notes["broken"] == (FAILED, "cannot be")
    assert notes["slow"][0] == SKIPPED
    assert "stopped after" in notes["slow"][1]
    assert notes["dear"][0] == SKIPPED
    assert "a fit takes about" in notes["dear"][1]


def test_a_blend_is_kept_only_if_it_wins_on_other_users():
    """Two halves of what there is to know, against a model and a copy of itself."""
    found = race(n=1500)
    X = found.split.train.matrix.copy()
    left, right = X.copy(), X.copy()
    left.data[X.indices % 2 == 0] = 1e-6
    right.data[X.indices % 2 == 1] = 1e-6
    halves = [od.EASE(l2=50.0, user_power=0.0).fit(part) for part in (left, right)]
    for family, model in zip(("odd", "even"), halves, strict=True):
        found._add(family, model, 0.1, 0.0)
    found.blend()
    (made,) = (row for row in found.rows if row.family == "blend")
    assert found.best is made
    assert "gained" in found.notes[-1]

    alone = race()
    model = od.EASE().fit(alone.split.train)
    alone._add("one", model, 0.1, 0.0)
    alone._add("same", model, 0.1, 0.0)
    alone.blend()
    assert all(row.family != "blend" for row in alone.rows)
    assert "was not kept" in alone.notes[-1]


def test_tuning_without_time_for_several_fits_is_left_out():
    found = race(seconds=30.0)
    found.run([entrant("best", od.EASE(), automatic=True)])
    slow = found.rows[0]
    object.__setattr__(slow, "fit_seconds", 20.0)
    found.tune()
    assert len(found.rows) == 1
    assert "settings were not searched" in found.notes[-1]


def test_tuned_settings_make_a_row_of_the_same_family():
    found = race(seconds=40.0)
    found.run([entrant("full rank", od.EASE(l2=1e5), automatic=True)])
    found.rows[0].settings["l2"] = 1e5
    found.tune()
    tuned = [row for row in found.rows if row.note.startswith("tuned")]
    assert len(tuned) == 1
    assert tuned[0].value("ndcg@20") > found.rows[0].value("ndcg@20")
    assert np.isfinite(tuned[0].fit_seconds)
