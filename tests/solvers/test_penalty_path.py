"""One eigendecomposition for a ray of settings, and the exact error of users left out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from offdiag.solvers import penalty_path
from tests.laws import oracles
from tests.laws.examples import example
from tests.laws.strategies import interactions


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kappa", [0.0, 3.0])
def test_a_ray_gives_the_inverse_for_every_strength(dtype, kappa):
    X = example().toarray()
    X = X[:, X.any(axis=0)].astype(np.float64)
    G = X.T @ X
    d = np.diag(G) + kappa
    ray = penalty_path.ray(G.astype(dtype), d)
    Z = ray.project(X.astype(np.float32))
    for c in (0.05, 1.0, 30.0):
        C = np.linalg.inv(G + c * np.diag(d))
        np.testing.assert_allclose(ray.diagonal(c), np.diag(C), rtol=2e-4)
        np.testing.assert_allclose(ray.apply(Z, c), X @ C, atol=2e-4)
        np.testing.assert_allclose(ray.quadratic(Z, c), np.einsum("ij,ij->i", X @ C, X), rtol=2e-4, atol=1e-5)


@given(interactions(min_items=2), st.floats(0.01, 0.9), st.floats(0.5, 50.0))
def test_the_weights_of_a_model_lie_on_a_ray(X, dropout, l2):
    """Scores from the eigendecomposition are those of the fitted model."""
    X = X.toarray().astype(np.float64)
    model = od.EDLAE(dropout=dropout, l2=l2, user_power=0.0, dtype="float64").fit(X)
    odds = dropout / (1 - dropout)
    ray = penalty_path.ray(X.T @ X, (X**2).sum(axis=0) + l2 / odds)
    y = ray.apply(ray.project(X.astype(np.float32)), odds)
    scores = X - y / ray.diagonal(odds)
    np.testing.assert_allclose(scores, model.predict(X), atol=2e-3 * max(1.0, np.abs(scores).max()))


@pytest.mark.parametrize("weighted", [False, True])
def test_left_out_errors_are_those_of_a_fit_without_each_user(weighted):
    X = example().toarray().astype(np.float64)
    X = X[X.any(axis=1)][:, X.any(axis=0)]
    weight = X.sum(axis=1) ** -0.5 if weighted else np.ones(len(X))
    G = (X * weight[:, None]).T @ X
    lam = oracles.penalty(G, 0.4, 3.0)
    C = np.linalg.inv(G + np.diag(lam))
    Y = X @ C
    found = penalty_path.left_out(
        X.astype(np.float32), Y.astype(np.float32), np.diag(C), np.einsum("ij,ij->i", X, Y), weight
    )
    for u in range(len(X)):
        without = G - weight[u] * np.outer(X[u], X[u])
        Cu = np.linalg.inv(without + np.diag(lam))  # the penalty is held fixed
        B = -Cu / np.diag(Cu)
        np.fill_diagonal(B, 0)
        error = X[u] - X[u] @ B
        np.testing.assert_allclose(found[u], (error**2).sum() / (X[u] ** 2).sum(), rtol=1e-4)
