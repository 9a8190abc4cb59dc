"""The state of a race: rows are compared on the same validation users, fitted models come and go."""

from dataclasses import replace

import numpy as np
import pytest

import offdiag as od
from offdiag.autopilot import families
from offdiag.autopilot.entrants import Entrant
from offdiag.autopilot.outcome import BEHIND, COMPLETE, NO_GAIN
from offdiag.autopilot.race import KEPT
from tests.autopilot.races import entrant, race

KINDS = {50.0: "a", 60.0: "a", 70.0: "a", 80.0: "a", 0.01: "b", 0.02: "b"}


def test_what_is_behind_by_more_than_two_errors_is_marked():
    found = race(n=2000)
    families.run(found, [entrant("best", od.EDLAE(), automatic=True), entrant("worst", od.Popularity())])
    states = {row.family: row.state for row in found.rows}
    assert states == {"best": COMPLETE, "worst": BEHIND}
    test = found.rows[0].result.compare(found.rows[1].result)
    assert test.difference["ndcg@20"] > 2 * test.sem["ndcg@20"]


def test_an_automatic_row_that_falls_behind_is_still_the_automatic_one():
    found = race(n=2000)
    families.run(found, [entrant("worst", od.Popularity(), automatic=True), entrant("best", od.EDLAE())])
    assert found.automatic.family == "worst"
    assert found.automatic.state == BEHIND
    assert found.best.family == "best"


def ahead(found, row, errors):
    """A row that differs from another one for every user, and leads by so many standard errors of the difference."""
    values = row.result.per_user["ndcg@20"]
    noise = np.random.default_rng(0).normal(0, 0.05, len(values))
    gap = noise - noise.mean()
    gap += errors * gap.std(ddof=1) / np.sqrt(len(gap))
    better = values + gap
    result = replace(row.result, mean={"ndcg@20": better.mean()}, per_user={"ndcg@20": better})
    return found.remember(replace(row, family="other", result=result))


@pytest.mark.parametrize(("errors", "automatic"), [(0.2, True), (0.3, False)])
def test_a_lead_that_is_none_leaves_the_automatic_row_the_best(errors, automatic):
    """Within a quarter of a standard error of the difference, a lead is none."""
    found = race()
    usual = found.automatic = found.measure("automatic", od.EASE(l2=100.0))
    other = ahead(found, usual, errors)
    gap = found.compare(other, usual)
    assert gap.difference["ndcg@20"] == pytest.approx(errors * gap.sem["ndcg@20"])
    assert found.measured[0] is other
    assert (found.best is usual) == automatic


def test_what_surely_adds_nothing_cannot_be_chosen():
    found = race()
    found.automatic = found.measure("poor", od.Popularity())
    good = found.measure("good", od.EASE(l2=100.0))
    good.state = NO_GAIN
    assert found.best is found.automatic


def test_a_model_that_was_forgotten_is_fitted_again_with_its_settings():
    found = race()
    rows = [found.measure(f"{l2}", od.EASE(l2=l2)) for l2 in (1e5, 50.0, 60.0, 70.0, 80.0, 90.0)]
    assert len(found.models) == KEPT
    worst = found.measured[-1]
    assert worst not in found.models
    assert worst in rows
    model = found.model(worst)
    assert model.settings_ == worst.settings
    assert found.ask(worst, model, "validation").mean == worst.result.mean


def test_the_best_model_of_each_kind_stays_in_memory():
    found = race()
    found.entrants = {f"{l2}": entrant(f"{l2}", od.EASE(), kind=kind) for l2, kind in KINDS.items()}
    for l2 in KINDS:
        found.measure(f"{l2}", od.EASE(l2=l2))
    order = found.measured
    of_b = next(row for row in order if KINDS[float(row.family)] == "b")
    assert order.index(of_b) >= KEPT
    assert set(found.models) == {*order[:KEPT], of_b}


def test_memory_and_size_of_a_fit_are_measured():
    row = race().measure("one", od.EASE())
    assert row.n_bytes > 0
    assert row.peak >= row.n_bytes


def test_another_fit_takes_no_longer_than_a_dearer_one_did():
    """The first fit of a process compiles machine code, which no later one does."""
    found = race()
    found.entrants = {name: Entrant(name, od.EASE(), flops) for name, flops in (("first", 1.0), ("dearer", 2.0))}
    first, dearer = found.measure("first", od.EASE(l2=50.0)), found.measure("dearer", od.EASE(l2=60.0))
    first.fit_seconds, dearer.fit_seconds = 9.0, 1.0
    assert found.cost(first) == 1.0
    dearer.fit_seconds, first.fit_seconds = 9.0, 1.0
    assert found.cost(dearer) == 9.0
