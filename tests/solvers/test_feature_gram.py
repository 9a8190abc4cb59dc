"""Features as users of the Gram, in any mixture of rare and common ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from offdiag.gramian import layout
from offdiag.gramian.packed import gram
from offdiag.solvers import feature_gram
from offdiag.solvers.products import GramProduct
from tests.laws import oracles
from tests.laws.strategies import dtypes


def features(m, d, density, seed=0):
    rng = np.random.default_rng(seed)
    return sparse.csr_array((rng.random((m, d)) < density) * rng.normal(size=(m, d)))


@given(
    m=st.integers(1, 40), d=st.integers(0, 30), density=st.sampled_from([0.0, 0.04, 0.3, 1.0]),
    seed=st.integers(0, 99), dtype=dtypes,
)  # fmt: skip
def test_the_sum_is_that_of_the_outer_product(m, d, density, seed, dtype):
    F = features(m, d, density, seed)
    G = np.cov(np.random.default_rng(seed).normal(size=(m, m + 2))).reshape(m, m)
    values = layout.pack(G.astype(dtype))
    feature_gram.add(values, F, 0.7)
    expected = G + 0.7 * (F @ F.T).toarray()
    np.testing.assert_allclose(layout.unpack(values, m), expected, atol=20 * oracles.TOLERANCE[dtype])
    np.testing.assert_allclose(feature_gram.squares(F), np.diag((F @ F.T).toarray()))


def test_many_rows_are_added_in_blocks(monkeypatch):
    monkeypatch.setattr(feature_gram, "ROWS_BYTES", 8 * 301 * 7)
    monkeypatch.setattr(feature_gram, "WIDTH", 3)
    F = sparse.csr_array(sparse.hstack([features(301, 50, 0.01), features(301, 10, 0.5)]))
    values = np.zeros(layout.size(301))
    feature_gram.add(values, F, 2.0)
    np.testing.assert_allclose(layout.unpack(values, 301), 2.0 * (F @ F.T).toarray(), atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_are_those_with_the_sum(dtype):
    X = (np.random.default_rng(0).random((50, 20)) < 0.3).astype(np.float64)
    F = features(20, 6, 0.4)
    product = feature_gram.FeatureProduct(GramProduct(gram(X, dtype=dtype)), F, 1.5)
    whole = X.T @ X + 1.5 * (F @ F.T).toarray()
    V = np.random.default_rng(1).normal(size=(20, 3)).astype(dtype)
    np.testing.assert_allclose(product(V), whole @ V, atol=100 * oracles.TOLERANCE[dtype])
    np.testing.assert_allclose(product.g, np.diag(whole))
    assert product.m == 20
