"""Rows of the Gram counted in pieces and added up, against a dense Gram."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offdiag import _kernels
from offdiag.solvers import gram_bands, popularity_order
from tests.laws.strategies import interactions


def by_popularity(X):
    """The data with items renumbered by popularity, as Rows and as a dense matrix."""
    rank = popularity_order.popularity_rank(np.bincount(X.indices, minlength=X.shape[1]))
    dense = X.toarray()[:, np.argsort(rank)].astype(np.float64)
    return popularity_order.by_popularity(X, np.ones(X.shape[0]), rank), dense


@given(interactions(values="counts"), st.data())
def test_a_piece_holds_the_rows_of_the_dense_gram(X, data):
    rows, dense = by_popularity(X)
    m = X.shape[1]
    items = np.array(data.draw(st.lists(st.integers(0, m - 1), min_size=1, max_size=m)), dtype=np.int64)
    piece = gram_bands.count(rows, items)
    found = np.zeros((len(items), m))
    for r in range(len(items)):
        at = slice(piece.ptr[r], piece.ptr[r + 1])
        assert len(set(piece.columns[at].tolist())) == at.stop - at.start
        found[r, piece.columns[at]] = piece.values[at]
    np.testing.assert_array_equal(found, (dense.T @ dense)[items])


def test_sums_that_cancel_stay_entries_of_the_row():
    ptr = np.array([[0, 1], [1, 2]])
    added = ptr, np.array([0, 0], np.uint32), np.array([2.0, -2.0])
    below = np.zeros(1, np.int64)
    _kernels.gram_bands.entries_before_diagonal(3, *added, np.array([2]), below)
    assert below.tolist() == [1]  # a user shares both items, so a Shelf keeps room for the entry
