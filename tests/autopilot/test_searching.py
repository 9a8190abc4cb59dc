"""The second stage: time is shared by the best families, then the one that is ahead gets the rest."""

from dataclasses import replace

import numpy as np
import pytest

import offdiag as od
from offdiag.autopilot import blending, families, searching
from offdiag.autopilot.outcome import COMPLETE, Row
from tests.autopilot.races import entrant, race


def test_tuning_without_time_for_several_fits_is_left_out():
    found = race(seconds=30.0)
    families.run(found, [entrant("best", od.EASE(), automatic=True)])
    found.rows[0].fit_seconds = 20.0
    searching.run(found)
    assert len(found.rows) == 1
    assert "settings were not searched" in found.notes[-1]


def test_tuned_settings_make_a_row_of_the_same_family(monkeypatch):
    monkeypatch.setattr(searching, "TRIALS", 8)
    found = race(seconds=40.0)
    families.run(found, [entrant("full rank", od.EASE(l2=1e5), automatic=True)])
    searching.run(found)
    found.journal.close()
    (tuned,) = (row for row in found.rows if row.trials)
    assert tuned.note == f"tuned, {tuned.trials} trials"
    assert tuned.value("ndcg@20") > found.rows[0].value("ndcg@20")
    assert np.isfinite(tuned.fit_seconds)
    assert found.ask(tuned, found.model(tuned), "validation").mean == tuned.result.mean


def test_ctrl_c_in_a_search_keeps_its_best_trial(monkeypatch):
    search = searching.tune

    def cut(*words, **more):
        found = search(*words, **more | {"seconds": None})
        return replace(found, stopped="interrupted")

    monkeypatch.setattr(searching, "tune", cut)
    monkeypatch.setattr(searching, "TRIALS", 4)
    found = race()
    families.run(found, [entrant("full rank", od.EASE(l2=1e5), automatic=True)])
    with pytest.raises(KeyboardInterrupt):
        searching.run(found)
    found.journal.close()
    assert any(row.trials for row in found.rows)


def test_the_family_that_is_ahead_continues_its_search(monkeypatch):
    """Two families share the first round, and one of them the second, in the same study."""
    asked = []
    search = searching.tune

    def spy(model, split, metric, trials, **words):
        found = search(model, split, metric, 3 if trials == searching.TRIALS else 6, **words | {"seconds": None})
        asked.append((model.__name__, words["study"], len(found.trials)))
        return found

    monkeypatch.setattr(searching, "tune", spy)
    found = race(seconds=60.0)
    families.run(found, [entrant("full rank", od.EDLAE(), automatic=True), entrant("free diagonal", od.DLAE())])
    for row in found.rows:
        row.fit_seconds = 0.01
    searching.run(found)
    found.journal.close()
    assert [n for _, _, n in asked] == [3, 3, 6]
    first = {name: study for name, study, _ in asked[:2]}
    name, study, _ = asked[2]
    assert first[name] == study
    assert len({row.name for row in found.rows}) == len(found.rows), "a later round replaces the row of an earlier one"


def test_the_best_part_of_a_blend_that_wins_is_tuned_within_it(monkeypatch):
    """Two models that know one half of the items each: a blend of them wins before anything is tuned."""
    monkeypatch.setattr(searching, "TRIALS", 2)
    found = race(n=1500)
    X = found.split.train.matrix
    for odd, (family, model) in enumerate((("odd", od.SparseEDLAE(neighbours=20)), ("even", od.EASE(l2=50.0)))):
        part = X.copy()
        part.data[X.indices % 2 == odd] = 1e-6
        found.entrants[family] = entrant(family, type(model)(), kind=family, tunable=not odd)
        found.add(Row(family, type(model).__name__, COMPLETE, fit_seconds=0.01), model.fit(part))
    assert blending.company(found).row.family == "odd"
    assert searching._search_for_blend(found)
    found.journal.close()
    (tuned,) = (row for row in found.rows if row.for_blend)
    assert tuned.name == "odd, tuned for a blend"
    assert "for a blend" in tuned.note
    tuned.result = replace(tuned.result, mean={found.metric: 0.9 * found.rows[0].value(found.metric)})
    assert tuned in blending.choose_parts(found), "even if another row of its kind is better alone"

    alone = race(n=400)
    families.run(alone, [entrant("full rank", od.EASE(), automatic=True), entrant("same", od.EASE(), kind="same")])
    assert blending.company(alone) is None, "a copy adds nothing"
    assert not searching._search_for_blend(alone)
