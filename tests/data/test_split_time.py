"""Splits of events by order and time; those of pairs are in test_split.py."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od

LOG = {
    "user": ["ann", "bob", "ann", "ann", "bob", "cyd"],
    "item": ["tea", "jam", "cup", "tea", "jam", "cup"],
    "day": [3, 1, 1, 7, 1, 5],
}


def read(**words):
    return od.read(LOG, time="day", keep="events", **words)


def test_the_last_event_is_held_out_even_if_it_is_a_repeat():
    split = od.split.last_out(read())
    ids = split.train.item_ids
    assert split.train.history("ann") == ["cup"]
    assert ids[split.test.targets[[0]].indices].tolist() == ["tea"]
    assert ids[split.test.histories[[0]].indices].tolist() == ["cup", "tea"]
    assert ids[split.test.ordered.events.of(0)].tolist() == ["cup", "tea"]
    assert ids[split.validation.targets[[0]].indices].tolist() == ["tea"]
    assert split.validation.targets[[1]].nnz == 0  # bob has two events: one to learn from, one to test
    assert split.test.targets[[2]].nnz == 0


@pytest.mark.parametrize("timed", [True, False])
def test_the_last_part_is_the_latest_by_time_or_else_by_row(timed):
    items = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]
    log = {"user": [1] * 10 + [2], "item": [*items, "a"], "day": [*range(10, 0, -1), 1]}
    split = od.split.last_part(od.read(log, time="day") if timed else od.read(log), 0.2, 0.1)
    ids = split.train.item_ids
    assert set(ids[split.test.targets[[0]].indices]) == ({"a", "b"} if timed else {"i", "j"})
    assert set(ids[split.validation.targets[[0]].indices]) == ({"c"} if timed else {"h"})
    assert split.train.nnz == 8
    assert split.test.targets[[1]].nnz == 0  # a user with one item keeps it


@pytest.mark.parametrize("divide", [od.split.weak, od.split.last_part])
def test_of_some_users_only_a_part_is_held_out(divide):
    X = od.synthetic.interactions(100, 30, 900, times=True, seed=0)
    split = divide(X, held_out=0.2, validation=0.1, users=20)
    asked = [set(np.flatnonzero(np.diff(part.targets.indptr))) for part in (split.test, split.validation)]
    assert len(asked[0]) == 20
    assert asked[1] <= asked[0]
    kept = np.diff(split.train.matrix.indptr) == np.diff(X.matrix.indptr)
    assert set(np.flatnonzero(~kept)) == asked[0]
    whole = divide(X, held_out=0.2, users=100)
    assert (whole.test.targets != divide(X, held_out=0.2).test.targets).nnz == 0


def test_events_in_order_need_no_times_for_last_out():
    log = {"user": [1, 1, 1], "item": ["b", "a", "b"]}
    split = od.split.last_out(od.read(log, keep="events"))
    assert split.train.history(1) == ["b"]
    with pytest.raises(od.OffdiagError, match="with times for by_time"):
        od.split.by_time(od.read(log, keep="events"), at=3)
    with pytest.raises(od.OffdiagError, match="two interactions or more"):
        od.split.last_out(od.read({"user": [1], "item": [1]}, keep="events"))


def test_nothing_after_the_cut_is_known_before_it():
    split = od.split.by_time(read(), at=5, validation_at=2)
    assert split.train.history("ann") == ["cup"]
    assert split.train.history("cyd") == []
    assert split.train.events.times.max() < 2
    assert split.test.ordered.events.times.max() < 5
    assert split.test.ordered.events.of(0).tolist() == [split.train.item_ids.tolist().index(x) for x in ("cup", "tea")]
    assert split.test.targets[[0]].nnz == 1  # the second tea, although the first one is in the history


purchases = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=40)


def baskets_of(user, rows, gap):
    """Directly: the events of a user by time, and a new basket wherever more than ``gap`` passes."""
    events = sorted((time, at, item) for at, (who, item, time) in enumerate(rows) if who == user)
    found = []
    for at, (time, _, item) in enumerate(events):
        if at == 0 or time - events[at - 1][0] > gap:
            found.append([])
        found[-1].append(item)
    return found


@given(purchases, st.sampled_from([0, 2]), st.booleans())
def test_the_last_basket_is_held_out_as_a_whole(rows, gap, validation):
    who, what, when = zip(*rows, strict=True)
    log = od.read({"user": who, "item": what, "second": when}, time="second", keep="events")
    baskets = {user: baskets_of(user, rows, gap) for user in log.user_ids.tolist()}
    if all(len(found) < 2 for found in baskets.values()):
        with pytest.raises(od.OffdiagError, match="two baskets or more"):
            od.split.last_basket(log, gap / 60)
        return
    parts = od.split.last_basket(log, gap / 60, validation)
    assert (parts.validation is None) == (not validation)
    for row, found in enumerate(baskets.values()):
        n_test = int(len(found) >= 2)
        n_validation = int(validation and len(found) >= 3)
        past = found[: len(found) - n_test]
        ids = log.item_ids
        assert set(ids[parts.test.targets[[row]].indices]) == set(chain(*found[len(past) :]))
        assert ids[parts.test.ordered.events.of(row)].tolist() == list(chain(*past))
        train = past[: len(past) - n_validation]
        assert ids[parts.train.events.of(row)].tolist() == list(chain(*train))
        if validation:
            assert set(ids[parts.validation.targets[[row]].indices]) == set(chain(*past[len(train) :]))


@given(purchases)
def test_baskets_of_pairs_are_those_of_their_latest_times(rows):
    latest = {(who, what): when for who, what, when in sorted(rows, key=lambda row: row[2])}
    who, what, when = zip(*rows, strict=True)
    inter = od.read({"user": who, "item": what, "second": when}, time="second", duplicates="once")
    last = {user: max(t for (u, _), t in latest.items() if u == user) for user, _ in latest}
    if all(t == last[user] for (user, _), t in latest.items()):
        with pytest.raises(od.OffdiagError, match="two baskets or more"):
            od.split.last_basket(inter)
        return
    test = od.split.last_basket(inter).test
    for row, user in enumerate(inter.user_ids.tolist()):
        mine = {item: t for (u, item), t in latest.items() if u == user}
        expected = {item for item, t in mine.items() if t == last[user]}
        found = set(inter.item_ids[test.targets[[row]].indices].tolist())
        assert found == (expected if len(expected) < len(mine) else set())
        assert set(inter.item_ids[test.histories[[row]].indices].tolist()) == set(mine) - found
    assert test.users_with_later_history() == 0


def test_a_basket_needs_times_and_a_gap_that_is_a_length():
    with pytest.raises(od.OffdiagError, match="with times for last_basket"):
        od.split.last_basket(od.read({"user": [1, 1], "item": [1, 2]}, keep="events"))
    with pytest.raises(od.OffdiagError, match="gap_minutes"):
        od.split.last_basket(read(), gap_minutes=-1)
