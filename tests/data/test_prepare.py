"""Filters against plain loops over the entries."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag.data.prepare import binarize, min_counts
from offdiag.data.read import read
from offdiag.errors import OffdiagError
from tests.fixtures.mistakes import rejects

tables = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(1, 5)), min_size=1, max_size=40)


def from_rows(rows):
    return read(pl.DataFrame(rows, schema=["user", "item", "value"], orient="row"), value="value", duplicates="once")


def pairs(inter):
    coo = inter.matrix.tocoo()
    return set(zip(inter.user_ids[coo.row].tolist(), inter.item_ids[coo.col].tolist(), strict=True))


def slow_min_counts(pairs, users, items, first, until_stable):
    while True:
        before = set(pairs)
        for side in ("items", "users") if first == "items" else ("users", "items"):
            key, least = (1, items) if side == "items" else (0, users)
            count = {}
            for pair in pairs:
                count[pair[key]] = count.get(pair[key], 0) + 1
            pairs = {pair for pair in pairs if count[pair[key]] >= least}
        if not until_stable or pairs == before:
            return pairs


@given(tables, st.integers(1, 4), st.integers(1, 4), st.sampled_from(["items", "users"]), st.booleans())
def test_minimum_counts_equal_the_slow_filter(rows, users, items, first, until_stable):
    inter = from_rows(rows)
    expected = slow_min_counts(pairs(inter), users, items, first, until_stable)
    if not expected:
        with pytest.raises(OffdiagError, match="lower the minimum"):
            min_counts(inter, users, items, first=first, until_stable=until_stable)
        return
    kept = min_counts(inter, users, items, first=first, until_stable=until_stable)
    assert pairs(kept) == expected
    if until_stable:
        assert np.diff(kept.matrix.indptr).min() >= users
        assert np.bincount(kept.matrix.indices, minlength=kept.n_items).min() >= items


def test_the_order_of_the_filters_matters_and_songs_go_first():
    # Items first: item 9 is dropped, then user 0 has one item left and is dropped too. Users first: user 0 stays.
    rows = [(0, 9, 1), (0, 1, 1), (1, 1, 1), (1, 2, 1), (2, 1, 1), (2, 2, 1)]
    assert min_counts(from_rows(rows), users=2, items=2).user_ids.tolist() == [1, 2]
    assert min_counts(from_rows(rows), users=2, items=2, first="users").user_ids.tolist() == [0, 1, 2]


@given(tables, st.sampled_from([None, 1, 3, 4.5]))
def test_binarizing_keeps_values_that_reach_the_threshold(rows, at_least):
    inter = from_rows(rows)
    before = inter.matrix.copy()
    ones = binarize(inter, at_least)
    expected = (inter.matrix.toarray() >= (at_least or 1)).astype(np.float32)
    assert np.array_equal(ones.matrix.toarray(), expected)
    assert ones.matrix.shape == inter.matrix.shape
    assert (before != inter.matrix).nnz == 0
    kept = inter.table_order[inter.matrix.data >= (at_least or 1)]
    assert ones.rows is None or ones.table_order.tolist() == kept.tolist()


def test_a_threshold_that_float32_cannot_hold_still_counts_its_own_value():
    inter = read(sparse.csr_array(np.array([[0.1, 0.2]])))
    assert binarize(inter, 0.1).nnz == 2


ONE = from_rows([(1, 2, 3)])
test_a_wrong_setting_is_rejected = rejects(
    (lambda: binarize(ONE, np.nan), "at_least must be a finite number, received nan; give the lowest value"),
    (lambda: min_counts(ONE, users=-1), "users must be a whole number of at least 0, received -1"),
    (lambda: min_counts(ONE, items=1.5), "items must be a whole number of at least 0, received 1.5"),
    (lambda: min_counts(ONE, first="rows"), "first must be 'items' or 'users', received 'rows'"),
)


def test_a_session_ends_after_a_gap():
    log = {
        "user": ["b", "a", "a", "a", "b", "a", "a"],
        "item": ["y", "x", "y", "x", "y", "z", "x"],
        "t": [5, 0, 600, 601, 4000, 2401, 9999],
    }
    visits = od.prepare.sessions(od.read(log, time="t", keep="events"), gap_minutes=30)
    assert visits.user_ids.tolist() == ["a/1", "a/2", "b/1", "b/2"]
    assert [visits.history(user) for user in visits.user_ids] == [["x", "y", "x", "z"], ["x"], ["y"], ["y"]]
    assert visits.matrix.toarray().tolist() == [[1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 1, 0]]
    assert visits.times.tolist() == [601, 600, 2401, 9999, 5, 4000]


@pytest.mark.parametrize("seed", range(5))
def test_sessions_hold_every_event_once_and_no_gap(seed):
    rng = np.random.default_rng(seed)
    n = 200
    log = {"user": rng.integers(0, 9, n), "item": rng.integers(0, 7, n), "t": rng.integers(0, 60_000, n)}
    inter = od.read(log, time="t", keep="events")
    visits = od.prepare.sessions(inter, gap_minutes=20)
    assert sorted(visits.events.times.tolist()) == sorted(log["t"].tolist())
    for row in range(visits.n_users):
        times = visits.events.times[visits.events.indptr[row] : visits.events.indptr[row + 1]]
        assert len(times)
        assert (np.diff(times) <= 1200).all()
    for before, after in zip(visits.user_ids[:-1], visits.user_ids[1:], strict=True):
        (one, n), (other, next_n) = before.split("/"), after.split("/")
        assert int(next_n) == (int(n) + 1 if one == other else 1)


def test_sessions_need_times_and_a_gap():
    with pytest.raises(od.OffdiagError, match="read with time"):
        od.prepare.sessions(od.read({"user": [1], "item": [1]}, keep="events"))
    with pytest.raises(od.OffdiagError, match="gap_minutes must be"):
        od.prepare.sessions(od.read({"user": [1], "item": [1], "t": [1]}, time="t"), gap_minutes=0)
