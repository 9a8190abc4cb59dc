"""Accuracy over time: the same numbers as by hand, and ageing found where there is some."""

from datetime import timedelta

import numpy as np
import pytest

import offdiag as od
from tests.fixtures.ordered_logs import DAY, drifting, steady


@pytest.mark.parametrize("model", [od.EASE(l2=10.0), od.MarkovChain()], ids=["EASE", "MarkovChain"])
def test_one_long_period_is_the_split_by_time(model):
    X, cut = steady(), "2024-09-01"
    over = od.evaluate_over_time(model, X, cut, every=timedelta(days=1000), metrics=["ndcg@10", "coverage@5"])
    split = od.split.by_time(X, cut)
    expected = od.evaluate(type(model)(**model.get_params()).fit(split.train), split.test, ["ndcg@10", "coverage@5"])
    assert [period.as_fitted.mean for period in over.periods] == [pytest.approx(expected.mean)]
    assert over.periods[0].as_fitted.n_users == expected.n_users
    assert over.refit_after() is None


@pytest.mark.parametrize(
    "model",
    [od.EASE(l2=10.0, user_power=0.0), od.Popularity(), od.SparseEDLAE(neighbours=10, l2=5.0), od.ItemKNN()],
    ids=lambda model: type(model).__name__,
)
def test_an_updated_model_is_one_fitted_on_everything_before(model):
    X, cut, length = steady(), 1725148800.0, 30 * DAY
    over = od.evaluate_over_time(model, X, cut, every=length)
    assert len(over.periods) > 3
    for period in over.periods:
        split = od.split.by_time(X, period.start)
        fresh = type(model)(**model.get_params()).fit(split.train)
        ahead = X.select_entries((X.times >= period.start) & (X.times < period.end)).matrix
        held_out = od.split.HeldOut(split.train.matrix, ahead, X.user_ids, X.item_ids)
        assert period.updated.mean["ndcg@10"] == pytest.approx(od.evaluate(fresh, held_out, "ndcg@10").mean["ndcg@10"])


def test_ageing_is_found_where_the_world_changes():
    X = drifting()
    over = od.evaluate_over_time(
        od.MarkovChain(), X, at=3 * 7 * DAY, every=7 * DAY, metrics="hit@1", exclude_seen=False
    )
    assert over.refit_after() == 1
    assert "hit@1 is lower for certain after 1 period without a refit" in str(over)
    assert over.to_polars().filter(over.to_polars()["age"] == 0)["lost"].to_list() == [0.0]


def test_new_items_are_counted_as_targets_that_cannot_be_reached():
    table = {"user": [0, 0, 1, 1, 0, 1], "item": list("ababcc"), "time": [0, 1, 0, 1, 9, 9]}
    X = od.read(table, time="time")
    over = od.evaluate_over_time(od.Popularity(), X, at=5, every=10, metrics="hit@1")
    assert over.periods[0].new_items == 1.0


def test_the_model_given_is_not_changed():
    model = od.EASE(l2=10.0)
    od.evaluate_over_time(model, steady(), "2024-09-01", every=60 * DAY)
    assert not hasattr(model, "weights_")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"at": "1999-01-01"}, "expected a time between the first"),
        ({"every": 0}, "every must be"),
        ({"every": "week"}, "every must be"),
        ({"every": 1.0}, "at most 1,000 periods"),
        ({"metrics": "ndgc@10"}, "did you mean ndcg@10"),
        ({"metrics": "coverage@10"}, "a value per user"),
        ({"data": np.eye(3)}, "expected Interactions with times, received ndarray"),
        ({"data": od.read(np.eye(3))}, "received none; read with time="),
        ({"model": "ease"}, "expected a model such as od.EASE"),
    ],
)
def test_mistakes_are_named(words, message):
    given = {"model": od.Popularity(), "data": steady(), "at": "2024-09-01"} | words
    with pytest.raises(od.OffdiagError, match=message):
        od.evaluate_over_time(given.pop("model"), given.pop("data"), given.pop("at"), **given)


def test_a_metric_that_was_not_measured_is_refused():
    over = od.evaluate_over_time(od.Popularity(), steady(), "2024-09-01", every=60 * DAY)
    with pytest.raises(od.OffdiagError, match="expected one of ndcg@10, received 'hit@1'"):
        over.refit_after("hit@1")
    assert "verdict" in over._repr_html_()


ORDERED = {"l2": 5.0, "dropout": 0.2, "mix": 0.3, "history_decay": 0.8, "user_power": 0.5, "dtype": "float64"}


@pytest.mark.parametrize("kind", [{"decay": 0.7}, {"half_life": 20.0 * DAY}, {"decay": 0.7, "neighbours": 5}], ids=str)
@pytest.mark.parametrize("data", [steady, drifting], ids=["pairs", "events"])
def test_a_model_of_order_is_one_fitted_on_everything_before(kind, data):
    """By exact updates, or with neighbours by new fits: the same lists either way."""
    X, model = data(), od.NextItem(**ORDERED, **kind)
    times = X.times if X.events is None else X.events.times
    cut, length = float(np.quantile(times, 0.5)), float(np.ptp(times)) / 9
    over = od.evaluate_over_time(model, X, cut, every=length, exclude_seen=False)
    assert len(over.periods) > 2
    for period in over.periods:
        split = od.split.by_time(X, period.start)
        fresh = od.NextItem(**model.get_params()).fit(split.train)
        within = (times >= period.start) & (times < period.end)
        ahead = (X.select_entries(within) if X.events is None else X.select_events(within)).matrix
        held_out = od.split.HeldOut(split.train.matrix, ahead, X.user_ids, X.item_ids, split.train)
        expected = od.evaluate(fresh, held_out, "ndcg@10", exclude_seen=False)
        np.testing.assert_allclose(period.updated.per_user["ndcg@10"], expected.per_user["ndcg@10"], atol=1e-9)


def test_a_model_of_order_is_updated_where_it_can_be(monkeypatch):
    fits, fit = [], od.NextItem.fit
    monkeypatch.setattr(od.NextItem, "fit", lambda model, *data, **words: fits.append(1) or fit(model, *data, **words))
    for neighbours, expected in ((None, 1), (5, 5)):
        fits.clear()
        model = od.NextItem(**ORDERED, decay=0.7, neighbours=neighbours)
        over = od.evaluate_over_time(model, drifting(), 7 * DAY, every=7 * DAY)
        assert (len(over.periods), len(fits)) == (5, expected)
