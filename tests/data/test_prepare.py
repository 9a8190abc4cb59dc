"""Filters against plain loops over the entries."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

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
