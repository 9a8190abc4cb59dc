"""Events in order: reading, filters and splits keep them consistent with the matrix of pairs."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from offdiag.data.sequences import Sequences, in_order, join, weighted_rows
from tests.laws.strategies import ordered

LOG = {
    "user": ["ann", "bob", "ann", "ann", "bob", "cyd"],
    "item": ["tea", "jam", "cup", "tea", "jam", "cup"],
    "day": [3, 1, 1, 7, 1, 5],
}


def read(**words):
    return od.read(LOG, time="day", keep="events", **words)


def table_of(events):
    rows = [(u, item, time) for u, user in enumerate(events) for item, time in user]
    return pl.DataFrame(rows, schema=["user", "item", "time"], orient="row")


def test_events_are_in_order_of_time_with_repeats():
    inter = read()
    assert inter.history("ann") == ["cup", "tea", "tea"]
    assert inter.history("bob") == ["jam", "jam"]
    assert inter.events.times.tolist() == [1, 3, 7, 1, 1, 5]
    assert inter.nnz == 4
    assert "6 events in order" in repr(inter)


def test_equal_times_stay_in_the_order_of_the_table():
    log = {"user": [1] * 4, "item": ["d", "b", "c", "a"], "t": [5, 5, 5, 4]}
    assert od.read(log, time="t", keep="events").history(1) == ["a", "d", "b", "c"]
    assert od.read(log, keep="events").history(1) == ["d", "b", "c", "a"]  # no times: the order of the table


@given(data=ordered())
def test_the_matrix_holds_the_pairs_of_the_events(data):
    events, _ = data
    if not any(events):
        return
    inter = od.read(table_of(events), time="time", keep="events")
    plain = od.read(table_of(events), time="time")
    assert (inter.matrix != plain.matrix).nnz == 0
    for row, user in enumerate(inter.user_ids.tolist()):
        assert inter.item_ids[inter.events.of(row)].tolist() == [item for item, _ in events[user]]


def check_consistent(inter):
    pairs = set(zip(inter.events.users.tolist(), inter.events.items.tolist(), strict=True))
    assert pairs == set(zip(*(axis.tolist() for axis in inter.matrix.nonzero()), strict=True))
    latest = {}
    for user, item, time in zip(inter.events.users, inter.events.items, inter.events.times, strict=True):
        latest[user, item] = time
    rows, columns = inter.matrix.nonzero()
    assert [latest[pair] for pair in zip(rows, columns, strict=True)] == inter.times.tolist()


@given(data=ordered(), seed=st.integers(0, 100))
def test_selections_keep_events_and_pairs_consistent(data, seed):
    events, _ = data
    if not any(events):
        return
    inter = od.read(table_of(events), time="time", keep="events")
    rng = np.random.default_rng(seed)
    check_consistent(inter.select_users(positions=rng.permutation(inter.n_users)[: 1 + inter.n_users // 2]))
    check_consistent(inter.select_items(positions=rng.permutation(inter.n_items)[: 1 + inter.n_items // 2]))
    check_consistent(inter.select_entries(rng.random(inter.nnz) < 0.5))
    check_consistent(inter.select_events(rng.random(inter.events.n_events) < 0.5))
    check_consistent(od.prepare.min_counts(inter))


def test_values_below_the_threshold_take_their_events_along():
    log = LOG | {"stars": [5, 2, 4, 5, 3, 1]}
    inter = od.prepare.binarize(od.read(log, time="day", value="stars", keep="events"), at_least=4)
    assert inter.history("ann") == ["cup", "tea", "tea"]
    assert inter.history("bob") == []
    assert inter.events.n_events == 3


def test_a_value_of_zero_is_no_event():
    log = LOG | {"stars": [5, 2, 0, 5, 0, 1]}
    inter = od.read(log, time="day", value="stars", keep="events")
    assert inter.history("ann") == ["tea", "tea"]
    assert inter.history("bob") == []  # the latest value of the pair is 0, so it is no interaction


def test_counts_cannot_be_divided_between_events():
    counts = read(duplicates="sum")
    with pytest.raises(od.OffdiagError, match="binarise first"):
        od.split.last_out(counts)
    assert od.split.last_out(od.prepare.binarize(counts)).train.nnz == 3


def test_what_has_no_events_is_refused_with_advice():
    with pytest.raises(od.OffdiagError, match="keep must be 'pairs' or 'events'"):
        od.read(LOG, keep="all")
    with pytest.raises(od.OffdiagError, match="a matrix, which has no order"):
        od.read(np.eye(2), keep="events")
    with pytest.raises(od.OffdiagError, match="negative='net' joins them"):
        od.read(LOG, value="day", negative="net", keep="events")
    with pytest.raises(od.OffdiagError, match="read with keep='events'"):
        od.read(LOG).select_events(np.ones(6, dtype=bool))
    with pytest.raises(od.OffdiagError, match="one time per event"):
        Sequences(np.array([0, 1]), np.array([0], dtype=np.int32), np.array([1, 2]))


def test_given_parts_are_joined_in_order():
    train, valid, test = (od.read(p, time="t", keep="events") for p in (
        {"user": [1, 2, 1], "item": [5, 6, 7], "t": [2, 1, 9]},
        {"user": [1, 3], "item": [6, 8], "t": [4, 1]},
        {"user": [1], "item": [9], "t": [10]},
    ))  # fmt: skip
    split = od.split.given(train, test, valid)
    assert split.train.history(1) == [5, 7]
    assert split.train.item_ids[split.test.ordered.events.of(0)].tolist() == [5, 6, 7]
    assert split.test.ordered.events.of(2).tolist() == [3]


def test_sequences_of_two_parts_without_times_follow_each_other():
    one, two = (in_order(np.array([0, 1]), np.array(x, dtype=np.int32), None, 2) for x in ([1, 2], [3, 4]))
    assert join(one, two).of(1).tolist() == [2, 4]
    timed = in_order(np.array([0]), np.array([0], dtype=np.int32), np.array([5]), 1)
    with pytest.raises(od.OffdiagError, match="times in both parts"):
        join(one, timed)


@given(data=ordered())
def test_weights_of_repeated_items_add_up_in_a_row(data):
    events, m = data
    sequences = in_order(
        np.repeat(np.arange(len(events)), [len(user) for user in events]).astype(np.int32),
        np.array([item for user in events for item, _ in user], dtype=np.int32), None, len(events),
    )  # fmt: skip
    weight = 0.5 ** sequences.from_end()
    true = np.zeros((len(events), m))
    for u, user in enumerate(events):
        for place, (item, _) in enumerate(user):
            true[u, item] += 0.5 ** (len(user) - 1 - place)
    rows = weighted_rows(sequences, m, weight)
    np.testing.assert_allclose(rows.toarray(), true, rtol=1e-6)
    assert rows.has_sorted_indices
    assert rows.dtype == np.float32
