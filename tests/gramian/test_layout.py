import numpy as np
import pytest
from scipy.linalg import lapack

from offdiag.gramian import layout


@pytest.mark.parametrize("m", [1, 2, 3, 4, 7, 8])
def test_our_layout_is_lapacks_rectangular_full_packed_layout(m):
    A = np.random.default_rng(m).standard_normal((m, m))
    A = A + A.T
    theirs, info = lapack.dtrttf(np.asfortranarray(A), transr="N", uplo="L")
    assert info == 0
    assert np.array_equal(layout.pack(A), theirs)


@pytest.mark.parametrize("m", [1, 2, 5, 6])
def test_unpacking_a_packed_matrix_gives_it_back(m):
    A = np.random.default_rng(m).standard_normal((m, m))
    A = A + A.T
    assert np.array_equal(layout.unpack(layout.pack(A), m), A)
    assert np.array_equal(layout.pack(A)[layout.diagonal_positions(m)], np.diag(A))


@pytest.mark.parametrize("m", [1, 2, 5, 6, 9])
def test_any_part_is_read_without_unpacking_the_rest(m):
    A = np.random.default_rng(m).standard_normal((m, m))
    A = A + A.T
    rows, cols = np.arange(0, m, 2), np.arange(m)[::-1]
    assert np.array_equal(layout.pack(A)[layout.positions(m, rows, cols)], A[np.ix_(rows, cols)])
