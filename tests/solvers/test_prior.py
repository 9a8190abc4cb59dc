"""Weights near given ones, against the normal equations of each column."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offdiag.gramian import layout
from offdiag.solvers import cholesky, prior
from tests.laws import oracles
from tests.laws.strategies import dropouts, dtypes, interactions

BOUNDS = {"zero": 0.0, "free": None, "bounded": 0.1}


def solved(G, W, weight, kind="zero", dtype="float64", **problem):
    problem |= {"kept_weight": float(kind == "free"), "max_diagonal": BOUNDS[kind] if kind == "bounded" else None}
    return prior.solve(layout.pack(G.astype(dtype)), np.array(W, dtype=dtype, order="C"), weight, **problem)


@given(
    X=interactions(values="ratings"), kind=st.sampled_from(list(BOUNDS)), dropout=dropouts,
    l2=st.sampled_from([0.0, 3.0]), weight=st.sampled_from([0.5, 20.0]), seed=st.integers(0, 99), dtype=dtypes,
)  # fmt: skip
def test_weights_solve_the_problem_of_each_column(X, kind, dropout, l2, weight, seed, dtype):
    G = oracles.gram(X.toarray())
    W = np.random.default_rng(seed).normal(size=G.shape)
    found = solved(G, W, weight, kind, dtype, dropout=dropout, l2=l2)
    true = oracles.weights_near(G, W, weight, dropout, l2, BOUNDS[kind])
    loose = 10 * oracles.TOLERANCE[dtype]  # the smallest eigenvalue of H may be 0.5
    np.testing.assert_allclose(found.B, true, atol=loose * max(abs(true).max(), 1))
    loss = oracles.loss_near(G, true, W, weight, dropout, l2)
    assert np.isclose(found.objective, loss, rtol=loose, atol=loose * np.trace(G))


def test_a_large_weight_gives_the_prior_and_a_small_one_edlae():
    X = (np.random.default_rng(0).random((80, 31)) < 0.3).astype(np.float64)
    G, W = X.T @ X, np.random.default_rng(1).normal(size=(31, 31))
    np.fill_diagonal(W, 0.0)
    np.testing.assert_allclose(solved(G, W, 1e9, dropout=0.4, l2=3.0).B, W, atol=1e-6)
    none = solved(G, W, 1e-9, dropout=0.4, l2=3.0).B
    np.testing.assert_allclose(none, oracles.weights(G, 0.4, 3.0, 0.0), atol=1e-8)


@pytest.mark.parametrize("m", [1, 2, 1025])
def test_rows_are_completed_in_blocks_of_any_size(m):
    rng = np.random.default_rng(0)
    X = (rng.random((40, m)) < 0.1).astype(np.float64)
    W = rng.normal(size=(m, m)) / m
    B = solved(X.T @ X, W, 2.0, dropout=0.3, l2=1.0).B
    H = X.T @ X + np.diag(oracles.penalty(X.T @ X, 0.3, 1.0) + 2.0)
    residual = H @ B - X.T @ X - 2.0 * W
    np.fill_diagonal(residual, 0.0)
    assert abs(residual).max() < 1e-9
    assert not np.diag(B).any()


def test_zero_as_prior_is_more_l2():
    X = (np.random.default_rng(0).random((80, 31)) < 0.3).astype(np.float64)
    values = layout.pack(X.T @ X)
    plain = cholesky.solve(values, 31, dropout=0.4, l2=8.0, kept_weight=0.0)
    B = layout.unpack(plain.C, 31) * plain.scale
    np.fill_diagonal(B, 0.0)
    found = solved(X.T @ X, np.zeros((31, 31)), 5.0, dropout=0.4, l2=3.0)
    np.testing.assert_allclose(found.B, B, atol=1e-12)
    assert np.isclose(found.objective, plain.objective)
