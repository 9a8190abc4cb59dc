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


@given(
    st.tuples(st.integers(0, 40), st.integers(0, 9), st.integers(0, 9)),
    st.booleans(),
    dtypes,
    st.sampled_from([1.0, -0.5]),
    st.integers(0, 2),
)
def test_product_is_a_matrix_product_also_of_column_slices(sizes, transposed, dtype, alpha, cut):
    rows, inner, columns = sizes
    height, width = (inner, rows) if transposed else (rows, inner)
    A = random((height, width + 2 * cut), dtype)[:, cut : cut + width]
    B = random((inner, columns + cut), dtype, 1)[:, :columns]
    expected = alpha * ((A.T if transposed else A) @ B)
    found = blas.product(A, B, transposed=transposed, alpha=alpha)
    assert found.dtype == dtype
    close(found, expected, dtype)
    into = random((rows, columns), dtype, 2)
    before = into.copy()
    assert blas.product(A, B, transposed=transposed, alpha=alpha, add_to=into) is into
    close(into, before + expected, dtype)


A, B = np.ones((4, 3)), np.ones((3, 2))


@pytest.mark.parametrize(
    ("A", "B", "options"),
    [
        (A, np.ones((4, 2)), {}),
        (A, B, {"transposed": True}),
        (A, B.astype(np.float32), {}),
        (np.asfortranarray(A), B, {}),
        (A, B, {"add_to": np.ones((4, 3))}),
        (A, B, {"add_to": np.ones((4, 2), dtype=np.float32)}),
        (A, B, {"add_to": np.ones((2, 4)).T}),
        (A, B, {"add_to": np.ones((4, 4))[:, :2]}),
        (A, B, {"add_to": np.ones((4, 4))[:, ::2]}),
    ],
)
def test_arrays_that_blas_would_misread_are_refused(A, B, options):
    with pytest.raises(ValueError, match="expected|fit"):
        blas.product(A, B, **options)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    "view",
    [
        lambda A: np.asfortranarray(A[:6, :6]),
        lambda A: A[:6, ::2],
        lambda A: A[:6, 5::-1],
        lambda A: A[::2, :6],
        lambda A: A[5::-1, :6],
        lambda A: np.broadcast_to(A[0, :6], (6, 6)),
    ],
)
def test_any_memory_order_is_refused_or_multiplied_correctly(dtype, transposed, view):
    A, B = view(random((12, 12), dtype)), random((6, 3), dtype, 1)
    for right in (B, A):
        try:
            found = blas.product(A, right, transposed=transposed)
        except ValueError:
            continue
        close(found, (A.T if transposed else A) @ right, dtype)


@given(st.integers(1, 9), st.integers(1, 5), dtypes, st.sampled_from([1.0, 2.5]))
def test_a_packed_symmetric_matrix_times_columns(m, k, dtype, alpha):
    A = random((m, m), dtype)
    A += A.T
    V = random((m, k), dtype, 1)
    close(blas.symmetric_product(layout.pack(A), V, alpha), alpha * (A @ V), dtype)
    with pytest.raises(ValueError, match="expected"):
        blas.symmetric_product(layout.pack(A), np.vstack([V, V]))


@given(st.integers(1, 24), st.integers(0, 5), dtypes, st.sampled_from([-1.0, 0.5]))
def test_outer_products_are_added_in_place(m, k, dtype, alpha):
    A = random((m, m), dtype)
    A += A.T
    W = random((m, k), dtype, 1)
    values = layout.pack(A)
    blas.add_outer(values, W, alpha)
    close(layout.unpack(values, m), A + alpha * W @ W.T, dtype)


@given(st.integers(0, 12), st.integers(0, 5), st.booleans(), dtypes)
def test_a_packed_triangle_multiplies_in_place(m, k, transposed, dtype):
    T, V = np.tril(random((m, m), dtype)), random((m, k), dtype, 1)
    expected = (T.T if transposed else T) @ V
    blas.triangular_product(layout.pack(T + np.tril(T, -1).T), V, transposed=transposed)
    close(V, expected, dtype)
