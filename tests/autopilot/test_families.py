"""The first stage: what cannot be fitted is noted, and what a row has more than another one must win."""

import dataclasses

import numpy as np
import pytest

import offdiag as od
from offdiag.autopilot import families
from offdiag.autopilot.clock import Clock
from offdiag.autopilot.entrants import Entrant
from offdiag.autopilot.outcome import COMPLETE, FAILED, NO_GAIN, SKIPPED
from offdiag.autopilot.race import Race
from offdiag.errors import NotEnoughMemory
from tests.autopilot.races import entrant, race, tastes


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
    families.run(race(), [entrant("automatic", od.EASE(), automatic=True)])  # compiles what the two seconds are not for
    found = race(seconds=2.0)
    families.run(
        found,
        [
            entrant("automatic", od.EASE(), automatic=True),
            entrant("greedy", Greedy()),
            entrant("broken", Broken()),
            entrant("slow", Slow()),
            Entrant("dear", od.EASE(), 1e30),
        ],
    )
    notes = {row.family: (row.state, row.note) for row in found.rows}
    assert notes["greedy"] == (SKIPPED, "needs 9 TB")
    assert notes["broken"] == (FAILED, "cannot be")
    assert notes["slow"][0] == SKIPPED
    assert "stopped after" in notes["slow"][1]
    assert notes["dear"][0] == SKIPPED
    assert "a fit takes about" in notes["dear"][1]


@pytest.mark.parametrize("model", [Greedy(), Broken()])
def test_the_automatic_model_must_be_possible(model):
    with pytest.raises(od.OffdiagError):
        families.run(race(), [entrant("automatic", model, automatic=True)])


def look_at(model):
    found = race(seconds=60.0, X=tastes(5_000, 100)[0])
    dear = Entrant("dear", model, 30e10, by_users=True)
    families.run(found, [entrant("cheap", od.EASE(), automatic=True), dear])
    return {row.family: row for row in found.rows}["dear"]


def test_a_dear_family_that_loses_on_a_part_of_the_users_is_dropped():
    row = look_at(od.Popularity())
    assert row.state == SKIPPED, row.value("ndcg@20")
    assert "against cheap when both learn from 2,000 users" in row.note
    assert look_at(od.EDLAE()).result is not None


def test_features_that_help_are_used_and_those_that_do_not_are_dropped():
    """Features that are the communities of the items, and features that are noise; few users know rare items."""
    X, kinds = tastes(900, 300)
    rng = np.random.default_rng(1)
    good = od.read_features({"item": np.arange(300), "kind": [f"k{kind}" for kind in kinds]}, categories=["kind"])
    noise = {"item": np.arange(300), "kind": [f"k{kind}" for kind in rng.integers(0, 10, 300)]}
    for features, helps in ((good, True), (od.read_features(noise, categories=["kind"]), False)):
        found = race(X=X, also={"item_features": features})
        families.run(found, [entrant("full rank", od.EDLAE(), automatic=True)])
        plain, made = found.rows
        assert made.family == "full rank + features"
        assert (made.state == COMPLETE) == helps, made.note
        assert (found.best is made) == helps
        if helps:
            assert found.beats(made, plain)
            assert made.settings["feature_weight"] > 0
        else:
            assert made.state == NO_GAIN
            assert made.note


def test_values_are_taken_as_ones_if_that_surely_wins():
    """Numbers that say nothing, and spread over three orders of magnitude, hide who likes what."""
    X = od.synthetic.interactions(1500, 60, 22_000, seed=2)
    noisy = X.matrix.copy()
    noisy.data = (10.0 ** np.random.default_rng(0).uniform(0, 3, X.nnz)).astype(np.float32)
    found = race(X=dataclasses.replace(X, matrix=noisy))
    twins = [entrant("full rank", od.EDLAE(), automatic=True), entrant("ease", od.EASE())]
    families.run(found, twins, valued=True)
    usual, ones, later = found.rows
    assert ones.family == "full rank, values as 1"
    assert found.beats(ones, usual)
    assert found.automatic is usual
    assert ones.ones
    assert later.ones, "the others learn from the better form"
    assert "all values are taken as 1" in found.notes[0]
    assert set(found.data(ones).train.matrix.data) == {1.0}
    assert found.data(usual) is found.split


def test_a_history_that_fades_is_tried_where_order_is_known_and_must_win():
    rng = np.random.default_rng(1)
    chains = np.array([[(start + step) % 40 for step in range(8)] for start in rng.integers(0, 40, 400)])
    log = {"user": np.repeat(np.arange(400), 8), "item": chains.ravel(), "time": np.tile(np.arange(8), 400)}
    X = od.read(log, time="time", keep="events")
    found = Race(od.split.last_out(X), "ndcg@10", Clock(60.0, None), 0)
    families.run(found, [entrant("full rank", od.EDLAE(), automatic=True)], recency=True)
    plain, made = found.rows
    assert made.family == "full rank, recent first"
    assert found.beats(made, plain), "the next item follows the last one"
    assert found.best is made
    assert made.history_decay < 1
    assert made.settings == plain.settings


def test_with_groups_only_models_that_take_them_take_part():
    every = [entrant("popularity", od.Popularity()), entrant("full rank", od.EDLAE(), automatic=True)]
    taking, left_out = families.only_taking_groups([*every, entrant("smooth", od.Spectral(rank=2))])
    assert [one.family for one in taking] == ["full rank"]
    assert left_out == ["popularity", "smooth"]
    (only,), _ = families.only_taking_groups([entrant("next", od.NextItem(), automatic=True), entrant("b", od.EDLAE())])
    assert only.automatic


@pytest.mark.parametrize(("own", "better"), [(3.0, True), (0.4, False)])
def test_a_smooth_part_is_asked_with_other_powers_and_the_best_one_stays(own, better):
    """A power of 3 ranks by popularity, and any other is better."""
    X, _ = tastes(500, 80)
    found = race(X=X)
    part = od.Spectral(rank=9, shrink="hard", item_power=1.0, outer_power=own, user_power=1.0)
    families.run(found, [entrant("smooth", part, kind="smooth", automatic=True)])
    rows = {row.family: row for row in found.rows}
    other = rows.get("smooth, another power")
    if better:
        assert other.value("ndcg@20") > rows["smooth"].value("ndcg@20")
        assert found.model(other).settings_["outer_power"] == other.settings["outer_power"]
        again = found.fit_row(other, found.split.train, None)
        assert found.ask(other, again, "validation").mean["ndcg@20"] == pytest.approx(other.value("ndcg@20"), rel=0.02)
    else:
        assert other is None or other.value("ndcg@20") > rows["smooth"].value("ndcg@20")


def test_a_history_that_fades_is_remembered_by_the_model():
    log = od.synthetic.interactions(600, 60, 9_000, times=True, seed=1)
    found = Race(od.split.last_out(log), "ndcg@10", Clock(600.0, None), 0)
    families.run(found, [entrant("full rank", od.EASE(l2=20.0), automatic=True)], recency=True)
    (row,) = (row for row in found.rows if row.family.endswith("recent first"))
    model = found.fit_row(row, found.split.train, None)
    assert model.history_decay_ == row.history_decay
    assert od.evaluate(model, found.split.validation, "ndcg@10").mean == row.result.mean
