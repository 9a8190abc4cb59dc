"""Which items of a user are hidden follows from the user's own items and a seed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag.data.hiding import hide
from offdiag.data.sparse_rows import share_of_rows
from tests.laws.strategies import interactions


@given(interactions(values="counts"), st.floats(0.05, 0.95), st.integers(0, 5))
def test_histories_and_targets_divide_each_row(X, share, seed):
    X = sparse.csr_array(X)
    X.sum_duplicates()
    part = hide(X, share, seed)
    assert np.array_equal((part.histories + part.targets).toarray(), X.toarray())
    assert not part.histories.multiply(part.targets).nnz
    sizes, hidden = np.diff(X.indptr), np.diff(part.targets.indptr)
    assert (hidden[sizes >= 2] >= 1).all()
    assert (hidden[sizes < 2] == 0).all()
    assert (hidden < np.maximum(sizes, 1)).all()
    assert np.abs(hidden - share * sizes)[sizes >= 2].max(initial=0) <= 1.0


@given(interactions(values="counts"), st.randoms(use_true_random=False))
def test_other_users_their_order_and_values_do_not_matter(X, random):
    X = sparse.csr_array(X)
    order = list(range(X.shape[0]))
    random.shuffle(order)
    some = order[: max(1, len(order) // 2)]
    ones = X.copy()
    ones.data[:] = 1
    whole, part = hide(X).targets.toarray() > 0, hide(sparse.csr_array(ones[some])).targets.toarray() > 0
    assert np.array_equal(part, whole[some])


def test_every_item_of_a_row_is_hidden_equally_often():
    """Over many seeds, each of 10 items is hidden in a fifth of the draws, within 5 standard errors."""
    X = sparse.csr_array(np.ones((1, 10)))
    times = sum(hide(X, 0.2, seed).targets.toarray() for seed in range(2_000))[0]
    assert times.sum() == 2 * 2_000
    assert np.abs(times - 400).max() < 5 * np.sqrt(2_000 * 0.2 * 0.8)


def test_users_with_the_same_number_of_items_hide_different_places():
    X = od.synthetic.interactions(200, 40, 3_000, seed=0).matrix
    places = [np.flatnonzero(np.isin(X[[u]].indices, hide(X).targets[[u]].indices)).tolist() for u in range(200)]
    assert len(set(map(tuple, places))) > 50


@pytest.mark.parametrize("share", [0, 1, "x", True])
def test_a_share_is_between_0_and_1(share):
    with pytest.raises(od.OffdiagError, match="hidden must be"):
        hide(sparse.csr_array(np.eye(2)), share)


def test_a_share_of_rows_leaves_one():
    assert share_of_rows(np.array([0, 1, 2, 3, 10]), 0.2).tolist() == [0, 0, 1, 1, 2]
    assert share_of_rows(np.array([0, 1, 2, 3, 10]), 0.99).tolist() == [0, 0, 1, 2, 9]
