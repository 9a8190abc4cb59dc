"""Products through SciPy's BLAS: against NumPy, on slices, transposed, added in place, and from packed storage."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offdiag.gramian import layout
from offdiag.solvers import blas
from tests.laws import oracles
from tests.laws.strategies import dtypes


def random(shape, dtype, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def close(a, b, dtype):
    np.testing.assert_allclose(a, b, rtol=0, atol=oracles.TOLERANCE[dtype] * max(1.0, np.abs(b).max(initial=0)))


@given(st.integers(0, 5), st.integers(0, 7), st.integers(0, 6), st.booleans(), dtypes, st.sampled_from([1.0, -0.5]))
def test_product_is_a_matrix_product_also_of_column_slices(rows, inner, columns, transposed, dtype, alpha):
    A = random((inner, rows + 3) if transposed else (rows, inner + 3), dtype)
    A = A[:, :rows] if transposed else A[:, :inner]
    B = random((inner, columns + 2), dtype, 1)[:, :columns]
    expected = alpha * ((A.T if transposed else A) @ B)
    found = blas.product(A, B, transposed=transposed, alpha=alpha)
    assert found.dtype == dtype
    close(found, expected, dtype)
    into = random((rows, columns), dtype, 2)
    before = into.copy()
    assert blas.product(A, B, transposed=transposed, alpha=alpha, add_to=into) is into
    close(into, before + expected, dtype)


@pytest.mark.parametrize(
    ("A", "B", "add_to"),
    [
        (np.ones((2, 3)), np.ones((2, 3)), None),
        (np.ones((2, 3)), np.ones((3, 2), dtype=np.float32), None),
        (np.asfortranarray(np.ones((2, 3))), np.ones((3, 2)), None),
        (np.ones((2, 3)), np.ones((3, 4)), np.ones((4, 2))),
        (np.ones((2, 3)), np.ones((3, 4)), np.ones((2, 8))[:, ::2]),
    ],
)
def test_arrays_that_blas_would_misread_are_refused(A, B, add_to):
    with pytest.raises(ValueError, match="expected|fit"):
        blas.product(A, B, add_to=add_to)


@given(st.integers(1, 9), st.integers(1, 5), dtypes, st.sampled_from([1.0, 2.5]))
def test_a_packed_symmetric_matrix_times_columns(m, k, dtype, alpha):
    A = random((m, m), dtype)
    A += A.T
    V = random((m, k), dtype, 1)
    close(blas.symmetric_product(layout.pack(A), V, alpha), alpha * (A @ V), dtype)
    with pytest.raises(ValueError, match="expected"):
        blas.symmetric_product(layout.pack(A), np.vstack([V, V]))
