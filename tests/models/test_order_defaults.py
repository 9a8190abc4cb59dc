from dataclasses import replace

import numpy as np
import pytest

import offdiag as od
from offdiag.data.sequences import Sequences
from offdiag.gramian.order import Ageing, count_order
from offdiag.models import order_defaults
from offdiag.models.order_defaults import HISTORY_DECAYS, VALUES, Choice, Search, SmallProblem
from offdiag.ranking import Recency
from offdiag.solvers import next_item


def sequences(n=80, m=15, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 6, n)
    return Sequences(np.concatenate([[0], np.cumsum(lengths)]), rng.integers(0, m, lengths.sum()).astype(np.int32))


def test_the_last_event_is_hidden_from_the_small_problem(monkeypatch):
    monkeypatch.setattr(order_defaults, "ITEMS", 6)
    events = sequences()
    small = SmallProblem.of(events, 15, repeats=True)
    popular = np.sort(np.argsort(-np.bincount(events.items, minlength=15), kind="stable")[:6])
    kept = [[i for i in events.of(u).tolist() if i in popular] for u in range(80)]
    assert small.targets.tolist() == [np.searchsorted(popular, user[-1]) for user in kept if len(user) > 1]
    assert popular[small.past.items].tolist() == [i for user in kept for i in (user[:-1] if len(user) > 1 else user)]
    assert small.matrix.shape == (80, 6)


def test_targets_that_cannot_be_recommended_are_left_out():
    small = SmallProblem.of(sequences(), 15, repeats=False)
    for row, target in enumerate(small.targets.tolist()):
        assert target not in small.histories.of(row).tolist()


def test_ndcg_is_that_of_a_sort():
    small = SmallProblem.of(sequences(), 15, repeats=False)
    B = np.random.default_rng(0).random((15, 15)).astype(np.float32)
    expected = []
    for row, target in enumerate(small.targets.tolist()):
        items = small.histories.of(row).tolist()
        scores = sum(0.5 ** (len(items) - 1 - at) * B[i] for at, i in enumerate(items))
        better = [i for i in np.argsort(-scores).tolist() if i not in items]
        expected.append(1 / np.log2(better.index(target) + 2))
    assert abs(small.ndcg(B, Recency(0.5), repeats=False) - np.mean(expected)) < 1e-12


def test_given_settings_stay_and_few_users_get_the_usual_ones():
    X = od.synthetic.interactions(30, 20, 200, times=True, seed=0)
    used = od.NextItem(mix=0.9, l2=7.0).fit(X).settings_
    assert (used["mix"], used["l2"]) == (0.9, 7.0)
    assert (used["decay"], used["history_decay"]) == (0.8, 0.6)
    assert (used["dropout"], used["user_power"]) == (0.5, 0.0)


def test_events_that_hardly_count_add_nothing_but_stay_seen():
    events = Sequences(np.array([0, 31]), np.array([*([0, 1] * 15), 2], dtype=np.int32))
    small = SmallProblem.of(events, 3, repeats=False)
    B = np.ones((3, 3), dtype=np.float32)
    assert small.ndcg(B, Recency(0.001), repeats=False) == 1.0  # 0 and 1 are seen
    assert small.ndcg(B, Recency(0.001), repeats=True) == 1 / 2  # third: last among its equals


def test_places_count_the_items_that_are_not_popular(monkeypatch):
    monkeypatch.setattr(order_defaults, "ITEMS", 3)
    events = Sequences(np.array([0, 6, 13]), np.array([0, 1, 3, 0, 4, 2, 1, 5, 0, 2, 1, 2, 6], dtype=np.int32))
    small = SmallProblem.of(events, 7, repeats=True)
    assert [small.histories.of(u).tolist() for u in (0, 1)] == [[0, 1, 0], [1, 0, 2, 1]]
    assert small.places.tolist() == [3, 2, 0, 4, 2, 1, 0]
    assert small.targets.tolist() == [2, 2]


@pytest.mark.parametrize("given", [{}, {"repeats": True}, {"targets": "later", "window": 2}, {"user_power": 0.5}])
def test_shared_sums_lead_to_the_weights_of_a_whole_fit(given):
    events = sequences(n=300)
    model = od.NextItem(**({"user_power": 0.0} | given))
    small = SmallProblem.of(events, 15, repeats=model.repeats)
    search = Search(model, small, 2.0, [])
    choice = Choice(mix=0.2, dropout=0.3, l2=1.5, decay=0.65)
    search.run(choice, None)
    sums = count_order(
        small.past, 15, Ageing(0.65, None, model.window), later=model.targets == "later", mix=0.2, matrix=small.matrix,
        user_power=model.user_power,
    )  # fmt: skip
    expected = next_item.solve(sums.A, sums.K, dropout=0.3, l2=3.0, repeats=model.repeats)
    np.testing.assert_allclose(search.fit(choice), expected, atol=2e-6)


def test_the_search_climbs_to_the_best_values_and_counts_once(monkeypatch):
    """On a sum of peaks, one in each setting, beside every path that leads upwards without a valley."""
    peak = Choice(mix=0.7, dropout=0.1, l2=3.0, decay=0.95, history_decay=0.9)
    small = SmallProblem.of(sequences(n=300), 15, repeats=False)
    search = Search(od.NextItem(user_power=0.0), small, 1.0, list(vars(Choice())))
    counted, fitted = [], []
    count = small.count

    def place(name, value):
        return [*VALUES.get(name, HISTORY_DECAYS)].index(value)

    def value(choice, decay):
        there = replace(choice, history_decay=decay)
        return -sum(abs(place(name, at) - place(name, getattr(peak, name))) for name, at in vars(there).items())

    monkeypatch.setattr(
        SmallProblem, "count", lambda _, *given, **more: counted.append(given[1]) or count(*given, **more)
    )
    monkeypatch.setattr(search, "fit", lambda choice: fitted.append(choice) or choice)
    monkeypatch.setattr(search, "ndcg", value)
    assert search.run(Choice(), None) == peak
    assert sorted(set(counted[1:])) == sorted(counted[1:])  # the first is for what occurs together
    assert len(fitted) == len({(c.mix, c.dropout, c.l2, c.decay) for c in fitted}) <= 20
