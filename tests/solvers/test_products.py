"""G @ V from the packed Gram and from the data alone, against the dense product."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag.solvers import blas, products
from tests.laws import oracles
from tests.laws.strategies import dtypes, interactions, powers

RANKS = [1, 3, 16, 17, 64, 200]
ranks = st.sampled_from(RANKS)
both_precisions = pytest.mark.parametrize("dtype", ["float32", "float64"])


def from_gram(X, power, dtype):
    return products.GramProduct(od.gram(X, power, dtype=dtype))


def from_data(X, power, dtype):
    return products.DataProduct(sparse.csr_array(X), power, np.dtype(dtype))


both_kinds = pytest.mark.parametrize("make", [from_gram, from_data])


def factor(m, k, dtype, seed=0):
    return np.random.default_rng(seed).standard_normal((m, k)).astype(dtype)


def check(make, X, power, dtype, k, seed=0):
    """Every entry within the rounding of a sum: G has no negative entry, so G|V| is the size of what is added up."""
    n, m = X.shape
    G = oracles.gram(X.toarray(), power)
    V = factor(m, k, dtype, seed)
    before = V.copy()
    product = make(X, power, dtype)
    found = product(V)
    assert found.shape == (m, k)
    assert found.dtype == dtype
    assert found.flags.c_contiguous
    assert np.array_equal(V, before)
    bound = 2 * (n + m + 4) * np.finfo(dtype).eps * (G @ np.abs(V.astype(np.float64)))
    assert (np.abs(found - G @ V.astype(np.float64)) <= bound).all()
    assert product.m == m
    assert product.dtype == np.dtype(dtype)
    assert product.g.dtype == np.float64
    np.testing.assert_allclose(product.g, np.diag(G), rtol=5e-7 if dtype == "float32" else 1e-13, atol=0)
    return found


@both_kinds
@given(interactions(max_users=20), powers, dtypes, ranks)
def test_the_product_with_zeros_and_ones_equals_the_dense_one(make, X, power, dtype, k):
    check(make, X, power, dtype, k)


@both_kinds
@given(interactions(values="ratings"), powers, dtypes, ranks)
def test_the_product_with_ratings_equals_the_dense_one(make, X, power, dtype, k):
    check(make, X, power, dtype, k)


@both_kinds
@given(interactions(values="counts"), powers, dtypes, ranks)
def test_the_product_with_counts_equals_the_dense_one(make, X, power, dtype, k):
    check(make, X, power, dtype, k)


def larger(n, m, seed=0, values=True):
    """Popular and rare items, long and short rows, an empty user and an item without users."""
    rng = np.random.default_rng(seed)
    X = (rng.random((n, m)) < rng.beta(1, 6, (n, 1)) * 4 * np.linspace(1, 0.05, m)).astype(np.float32)
    if values:
        X *= rng.integers(1, 6, (n, m))
    X[n // 2] = 0
    X[:, m // 3] = 0
    X[0, 0] = 1
    return sparse.csr_array(X)


@both_kinds
@both_precisions
@pytest.mark.parametrize("m", [1, 2, 131, 400])
@pytest.mark.parametrize("k", RANKS)
def test_products_of_every_width_with_odd_and_even_catalogues(make, dtype, m, k):
    for power in (0.0, 0.5):
        check(make, larger(300, m, values=k % 2 == 0), power, dtype, k, seed=k)


@both_precisions
@pytest.mark.parametrize("power", [0.0, 0.5])
@pytest.mark.parametrize("n", [64, 65, 1000])
def test_blocks_of_users_do_not_change_the_product(monkeypatch, dtype, power, n):
    """64 users per block, the minimum: whole blocks, a last one of a single user, blocks without some items."""
    X = larger(n, 90)
    whole = check(from_data, X, power, dtype, 5)
    monkeypatch.setattr(products, "BLOCK_BYTES", 1)
    blocked = from_data(X, power, dtype)
    assert len(blocked._blocks) == -(-n // 64)
    np.testing.assert_allclose(check(from_data, X, power, dtype, 5), whole, rtol=1e-5 if dtype == "float32" else 1e-13)


def test_shares_of_much_data_cover_every_item_once():
    """Work is split into ranges only beyond a few thousand entries; none may be lost at the seams."""
    X = larger(3000, 120)
    shares = from_data(X, 0.0, "float64")._edges
    assert X.nnz > 1 << 14
    assert len(shares) > 1
    assert [i for lo, hi in shares for i in range(lo, hi)] == list(range(120))
    for power in (0.0, 0.5):
        check(from_data, X, power, "float64", 3)


def test_a_product_from_data_needs_no_memory_of_items_squared():
    """A Gram of 400,000 items would take 320 GB even packed and in float32."""
    rng = np.random.default_rng(0)
    n, m = 300, 400_000
    X = sparse.csr_array((np.ones(3000), (rng.integers(0, n, 3000), rng.integers(0, m, 3000))), shape=(n, m))
    V = factor(m, 3, "float64")
    np.testing.assert_allclose(from_data(X, 0.0, "float64")(V), X.T @ (X @ V), rtol=1e-12, atol=1e-12)


@both_precisions
def test_both_products_are_the_same_numbers_up_to_rounding(dtype):
    X = larger(500, 77)
    V = factor(77, 9, dtype)
    one, other = from_gram(X, 0.5, dtype)(V), from_data(X, 0.5, dtype)(V)
    np.testing.assert_allclose(one, other, rtol=0, atol=1e3 * np.finfo(dtype).eps * np.abs(one).max())
    assert not np.array_equal(from_data(X, 0.5, dtype)(V), from_data(X, 0.0, dtype)(V))


@both_kinds
@both_precisions
def test_the_same_product_twice_is_the_same_bit_for_bit(make, dtype):
    """Threads must not decide the order of a sum: otherwise a seed would not fix a fit."""
    product = make(larger(2000, 150), 0.5, dtype)
    V = factor(150, 33, dtype)
    first = product(V).copy()
    for _ in range(5):
        assert np.array_equal(product(V), first)


@both_kinds
def test_an_earlier_result_survives_the_next_product(make):
    product = make(larger(200, 50), 0.0, "float64")
    V, W = factor(50, 4, "float64", 1), factor(50, 4, "float64", 2)
    first = product(V)
    kept = first.copy()
    product(W)
    assert np.array_equal(first, kept)


@both_kinds
@both_precisions
def test_products_are_linear_and_symmetric(make, dtype):
    product = make(larger(400, 60), 0.5, dtype)
    V, W = factor(60, 5, dtype, 1), factor(60, 5, dtype, 2)
    size = np.abs(product(V)).max() * 60
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(product(V + W), product(V) + product(W), rtol=0, atol=100 * eps * size)
    np.testing.assert_allclose(W.T @ product(V), (V.T @ product(W)).T, rtol=0, atol=1000 * eps * size)


@both_kinds
@pytest.mark.parametrize("shape", [(49, 3), (51, 3), (3, 50), (50,), (50, 3, 1)])
def test_a_factor_of_another_shape_is_refused(make, shape):
    """Compiled code must never see it."""
    product = make(larger(100, 50), 0.0, "float64")
    with pytest.raises(ValueError, match="."):
        product(np.ones(shape))


@both_kinds
@both_precisions
@pytest.mark.parametrize("form", ["every other column", "Fortran order", "transposed", "backwards"])
def test_a_factor_in_any_memory_order_is_refused_or_multiplied_rightly(make, dtype, form):
    X = larger(100, 50)
    V = {
        "every other column": factor(50, 8, dtype)[:, ::2],
        "Fortran order": np.asfortranarray(factor(50, 4, dtype)),
        "transposed": factor(4, 50, dtype).T,
        "backwards": factor(50, 4, dtype)[::-1],
    }[form]
    product = make(X, 0.0, dtype)
    try:
        found = product(V)
    except ValueError:
        return
    np.testing.assert_allclose(found, product(np.ascontiguousarray(V)), rtol=1e-6 if dtype == "float32" else 1e-14)


@settings(max_examples=10)
@given(interactions(max_users=30), st.integers(1, 5))
def test_64_bit_row_pointers_and_float64_values_are_fine(X, k):
    wide = sparse.csr_array((X.data.astype(np.float64) * 1.1, X.indices, X.indptr), shape=X.shape)
    wide.indptr, wide.indices = wide.indptr.astype(np.int64), wide.indices.astype(np.int64)
    for dtype in ("float32", "float64"):
        check(from_data, wide, 0.5, dtype, k)


def slices(rng, rows, columns, dtype):
    """The same shape as a whole array and as columns of a wider one."""
    yield rng.standard_normal((rows, columns)).astype(dtype)
    yield rng.standard_normal((rows, columns + 5)).astype(dtype)[:, 2 : columns + 2]


@both_precisions
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("rows", "inner", "columns"), [(1, 1, 1), (7, 5, 3), (1, 6, 4), (6, 1, 4), (5, 3, 1), (40, 9, 9)]
)
def test_small_products_equal_those_of_numpy(dtype, transposed, rows, inner, columns):
    rng = np.random.default_rng(0)
    shape = (inner, rows) if transposed else (rows, inner)
    for A in slices(rng, *shape, dtype):
        for B in slices(rng, inner, columns, dtype):
            wanted = (A.T if transposed else A).astype(np.float64) @ B
            tolerance = 50 * np.finfo(dtype).eps
            found = blas.product(A, B, transposed=transposed)
            np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance)
            assert found.dtype == dtype
            start = rng.standard_normal((rows, columns)).astype(dtype)
            total = start.copy()
            assert blas.product(A, B, transposed=transposed, alpha=-0.5, add_to=total) is total
            np.testing.assert_allclose(total, start - 0.5 * wanted, rtol=0, atol=tolerance)


@pytest.mark.parametrize(("rows", "inner", "columns"), [(0, 3, 2), (3, 0, 2), (3, 2, 0)])
def test_products_without_entries_are_zero(rows, inner, columns):
    found = blas.product(np.ones((rows, inner)), np.ones((inner, columns)))
    assert np.array_equal(found, np.zeros((rows, columns)))
    kept = np.ones((rows, columns))
    assert np.array_equal(blas.product(np.ones((rows, inner)), np.ones((inner, columns)), add_to=kept), kept)


def test_products_of_shapes_or_types_that_do_not_fit_are_refused():
    A, B = np.ones((4, 3)), np.ones((3, 2))
    for wrong in (np.ones((4, 2)), np.ones((3, 2), dtype=np.float32)):
        with pytest.raises(ValueError, match="."):
            blas.product(A, wrong)
    with pytest.raises(ValueError, match="."):
        blas.product(A, B, transposed=True)
    for out in (np.ones((4, 3)), np.ones((4, 2), dtype=np.float32), np.ones((2, 4)).T, np.ones((4, 4))[:, :2]):
        with pytest.raises(ValueError, match="."):
            blas.product(A, B, add_to=out)


@both_precisions
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    "form", ["Fortran", "every other column", "rows backwards", "one row repeated", "every other row"]
)
def test_a_matrix_in_any_memory_order_is_refused_or_multiplied_rightly(dtype, transposed, form):
    rng = np.random.default_rng(0)
    A = {
        "Fortran": np.asfortranarray(rng.standard_normal((6, 6)).astype(dtype)),
        "every other column": rng.standard_normal((6, 12)).astype(dtype)[:, ::2],
        "rows backwards": rng.standard_normal((6, 6)).astype(dtype)[::-1],
        "one row repeated": np.broadcast_to(rng.standard_normal(6).astype(dtype), (6, 6)),
        "every other row": rng.standard_normal((12, 6)).astype(dtype)[::2],
    }[form]
    B = rng.standard_normal((6, 3)).astype(dtype)
    for left, right in ((A, B), (A, A)):
        try:
            found = blas.product(left, right, transposed=transposed)
        except ValueError:
            continue
        wanted = (left.T if transposed else left).astype(np.float64) @ right
        np.testing.assert_allclose(found, wanted, rtol=0, atol=50 * np.finfo(dtype).eps)
