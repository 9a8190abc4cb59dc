"""G @ V from the packed Gram and from the data alone, against the dense product."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag.solvers import products
from tests.laws import oracles
from tests.laws.strategies import dtypes, interactions, powers

RANKS = [1, 3, 16, 17, 64, 200]
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
@pytest.mark.parametrize("values", ["binary", "ratings", "counts"])
@given(data=st.data(), power=powers, dtype=dtypes, k=st.sampled_from(RANKS))
def test_the_product_equals_the_dense_one(make, values, data, power, dtype, k):
    check(make, data.draw(interactions(max_users=20, values=values)), power, dtype, k)


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


@both_kinds
@both_precisions
def test_the_same_product_twice_is_the_same_bit_for_bit(make, dtype):
    """Threads must not decide the order of a sum: otherwise a seed would not fix a fit."""
    product = make(larger(2000, 150), 0.5, dtype)
    V = factor(150, 33, dtype)
    first = product(V)
    kept = first.copy()
    for _ in range(5):
        product(-V)
        assert np.array_equal(product(V), kept)
    assert np.array_equal(first, kept)  # not overwritten by a later product


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
def test_any_memory_order_is_refused_or_multiplied_correctly(make, dtype, form):
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
