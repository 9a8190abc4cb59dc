"""Interactions: shape, selection, and that times and table positions follow their entries."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from offdiag.data.interactions import Interactions
from offdiag.data.order import sort_pairs
from offdiag.errors import OffdiagError

dense = arrays(np.float32, st.tuples(st.integers(1, 6), st.integers(1, 6)), elements=st.sampled_from([0, 0, 1, 2]))


def make(matrix: np.ndarray) -> Interactions:
    csr = sparse.csr_array(matrix.astype(np.float32))
    times = np.arange(csr.nnz) * 10
    return Interactions(csr, np.arange(matrix.shape[0]), np.arange(matrix.shape[1]) + 100, times)


@given(dense, st.data())
def test_selecting_users_and_items_equals_indexing_the_dense_matrix(matrix, data):
    inter = make(matrix)
    users = data.draw(st.lists(st.integers(0, matrix.shape[0] - 1), unique=True))
    items = data.draw(st.lists(st.integers(0, matrix.shape[1] - 1), unique=True))
    chosen = inter.select_users(users).select_items(items)
    assert np.array_equal(chosen.matrix.toarray(), matrix[np.ix_(users, items)])
    assert chosen.user_ids.tolist() == users
    assert chosen.item_ids.tolist() == [100 + i for i in items]
    assert chosen.matrix.has_sorted_indices
    assert chosen.matrix.has_canonical_format


@given(dense, st.data())
def test_times_and_table_positions_stay_with_their_entries(matrix, data):
    inter = make(matrix)
    users = data.draw(st.permutations(range(matrix.shape[0])))
    items = data.draw(st.permutations(range(matrix.shape[1])))
    chosen = inter.select_users(users).select_items(items)
    time_of = {}
    coo = inter.matrix.tocoo()
    for u, i, t in zip(coo.row, coo.col, inter.times, strict=True):
        time_of[u, i] = t
    after = chosen.matrix.tocoo()
    for u, i, t, place in zip(after.row, after.col, chosen.times, chosen.table_order, strict=True):
        assert t == time_of[users[u], items[i]]
        assert place * 10 == t or chosen.rows is None  # times were made from the table position
    assert np.argsort(chosen.table_order).tolist() == np.argsort(chosen.times).tolist()


def test_a_mask_selects_like_positions():
    inter = make(np.eye(4))
    assert np.array_equal(
        inter.select_items(np.array([True, False, True, False])).matrix.toarray(), np.eye(4)[:, [0, 2]]
    )
    assert inter.select_users([]).matrix.shape == (0, 4)
    assert inter.select_users([-1]).user_ids.tolist() == [3]
    assert inter.select_users(slice(1, 3)).user_ids.tolist() == [1, 2]


def test_the_repr_says_the_size():
    assert repr(make(np.eye(4))) == "Interactions(4 users x 4 items, 4 interactions, 25 % filled, with times)"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda i: i.select_users([9]), "below 4"),
        (lambda i: i.select_users([True]), "mask over 4"),
        (lambda i: i.select_users(["a"]), "searchsorted"),
        (lambda i: i.select_items([1, 1]), "twice"),
        (lambda i: Interactions(i.matrix, i.user_ids[:2], i.item_ids), "2 users x 4 items"),
        (lambda i: Interactions(i.matrix, i.user_ids, i.item_ids, times=np.zeros(1)), "times"),
        (lambda i: Interactions(i.matrix, i.user_ids, i.item_ids, rows=np.zeros(1)), "rows"),
    ],
)
def test_a_wrong_selection_is_one_clear_line(call, words):
    with pytest.raises(OffdiagError, match=words) as caught:
        call(make(np.eye(4)))
    assert "\n" not in str(caught.value)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5))), st.sampled_from([6, 2**40]))
def test_pairs_are_sorted_stably_by_row_and_column(pairs, n_cols):
    # With 2^40 columns a pair and its position do not fit in one integer: the other branch.
    rows = np.array([p[0] for p in pairs], dtype=np.int32)
    cols = np.array([p[1] for p in pairs], dtype=np.int32)
    expected = sorted(range(len(pairs)), key=lambda k: (pairs[k], k))
    order, columns = sort_pairs(rows, cols, 2**22 if n_cols > 6 else 6, n_cols)
    assert (list(range(len(pairs))) if order is None else order.tolist()) == expected
    assert (order is None) == (expected == list(range(len(pairs))))
    assert columns.tolist() == cols[expected].tolist()
