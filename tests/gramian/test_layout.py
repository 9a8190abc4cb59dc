import numpy as np
import pytest
from scipy.linalg import lapack

from offdiag.gramian import layout

sizes = pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 6, 7, 8, 9])


def symmetric(m):
    A = np.random.default_rng(m).standard_normal((m, m))
    return A + A.T


@sizes
def test_our_layout_is_lapacks_rectangular_full_packed_layout(m):
    theirs, info = lapack.dtrttf(np.asfortranarray(symmetric(m)), transr="N", uplo="L")
    assert info == 0
    assert np.array_equal(layout.pack(symmetric(m)), theirs)


@sizes
def test_unpacking_a_packed_matrix_gives_it_back(m):
    A = symmetric(m)
    assert np.array_equal(layout.unpack(layout.pack(A), m), A)
    assert np.array_equal(layout.pack(A)[layout.diagonal_positions(m)], np.diag(A))


@sizes
def test_any_part_is_read_without_unpacking_the_rest(m):
    A = symmetric(m)
    rows, cols = np.arange(0, m, 2), np.arange(m)[::-1]
    assert np.array_equal(layout.pack(A)[layout.positions(m, rows, cols)], A[np.ix_(rows, cols)])
    assert np.array_equal(layout.columns(layout.pack(A), m, np.array([m - 1, 0])), A[:, [m - 1, 0]])
