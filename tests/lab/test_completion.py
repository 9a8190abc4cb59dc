"""Dropout in matrix completion: its loss over every mask, its norm, and a bound that holds on every trial."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offdiag.lab import completion, equalizer
from offdiag.lab import montecarlo as mc
from tests.fixtures.mistakes import rejects

seeds = st.integers(0, 2**32 - 1)


def sample(seed, n=30, shape=(5, 4), rank=2):
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    rows, columns = rng.integers(0, shape[0], n), rng.integers(0, shape[1], n)
    return rows, columns, M[rows, columns] + 0.1 * rng.standard_normal(n)


@given(seeds, st.integers(1, 4), st.sampled_from([0.0, 0.2, 0.7]))
def test_the_objective_is_the_mean_over_every_mask(seed, width, drop):
    rng = np.random.default_rng(seed)
    rows, columns, y = sample(seed)
    U, V = rng.standard_normal((5, width)), rng.standard_normal((4, width))
    masks, chances = mc.enumerate_masks(width, drop=drop)

    def loss(z):
        return float(np.mean((y - np.sum(U[rows] * z / (1 - drop) * V[columns], axis=1)) ** 2))

    exact = mc.exact_mean(loss, masks, chances)
    assert completion.objective(rows, columns, y, U, V, drop) == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize("chances", [None, (np.full(5, 0.2), np.array([0.1, 0.2, 0.3, 0.4]))])
def test_the_fit_is_stationary_and_never_rises(chances):
    rows, columns, y = sample(0)
    found = completion.fit(rows, columns, y, (5, 4), width=3, drop=0.2, iterations=1000, chances=chances)
    assert all(a >= b - 1e-12 for a, b in zip(found.objectives, found.objectives[1:], strict=False))
    best, step = found.objectives[-1], 1e-5
    for F, G in ((found.U, found.V), (found.V, found.U)):
        for place in np.ndindex(F.shape):
            moved = F.copy()
            moved[place] += step
            pair = (moved, G) if F is found.U else (G, moved)
            assert completion.objective(rows, columns, y, *pair, 0.2, chances=chances) > best - 1e-9
    assert np.allclose(found.predict(rows, columns), (found.U @ found.V.T)[rows, columns])


@pytest.mark.parametrize("width", [2, 3, 6])
def test_the_least_penalty_of_a_product_is_the_weighted_trace_norm(width):
    """Drawn as p⊗q, the penalty of balanced factors is ‖·‖_*²/width, and other factors of the product have more."""
    rng = np.random.default_rng(width)
    p, q = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(4))
    M = rng.standard_normal((5, 2)) @ rng.standard_normal((2, 4))
    W, s, Yt = np.linalg.svd(np.sqrt(p)[:, None] * M * np.sqrt(q))
    A, B = equalizer.balanced(W[:, :2], s[:2], Yt[:2].T, width)
    U, V = A / np.sqrt(p)[:, None], B / np.sqrt(q)[:, None]
    assert np.allclose(U @ V.T, M)

    def penalty(U, V):  # the mean of Σ_k u_ik²v_jk² over all positions
        return float(np.sum((p @ U**2) * (q @ V**2)))

    norm = completion.weighted_trace_norm(U, V, p, q)
    assert norm == pytest.approx(s[:2].sum(), rel=1e-10)
    assert penalty(U, V) == pytest.approx(norm**2 / width, rel=1e-10)
    for _ in range(50):
        T = np.eye(width) + 0.3 * rng.standard_normal((width, width))
        assert penalty(U @ T, V @ np.linalg.inv(T).T) >= norm**2 / width * (1 - 1e-12)


def test_the_complexity_is_a_supremum_over_the_ball():
    """By duality: no matrix of norm 1 correlates more with the signs; one rank-1 matrix attains it."""
    rows, columns, _ = sample(3, n=12)
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(4))
    signs = np.random.default_rng(0).choice([-1.0, 1.0], 12)
    N = np.zeros((5, 4))
    np.add.at(N, (rows, columns), signs / np.sqrt(p[rows] * q[columns]))
    a, s, bt = np.linalg.svd(N)
    best = np.outer(a[:, 0] / np.sqrt(p), bt[0] / np.sqrt(q))  # weighted trace norm 1
    assert completion.complexity(rows, columns, p, q, draws=1, seed=0) == pytest.approx(s[0] / 12, rel=1e-6)
    assert np.sum(signs * best[rows, columns]) == pytest.approx(s[0], rel=1e-10)


def test_the_bound_holds_and_tightens_with_more_entries():
    rng = np.random.default_rng(1)
    M = np.clip(rng.random((12, 1)) @ rng.random((1, 9)) + 0.1, 0, 1)
    p, q = np.full(12, 1 / 12), np.full(9, 1 / 9)
    gaps = []
    for n in (200, 2_000, 20_000):
        rows, columns = rng.integers(0, 12, n), rng.integers(0, 9, n)
        y = np.clip(M[rows, columns] + 0.1 * rng.standard_normal(n), 0, 1)
        found = completion.fit(rows, columns, y, M.shape, width=2, drop=0.1, iterations=10)
        new = rng.integers(0, 12, 50_000), rng.integers(0, 9, 50_000)
        truth = np.clip(M[new] + 0.1 * rng.standard_normal(50_000), 0, 1)
        training = np.mean((y - np.clip(found.predict(rows, columns), 0, 1)) ** 2)
        error = np.mean((truth - np.clip(found.predict(*new), 0, 1)) ** 2)
        norm = completion.weighted_trace_norm(found.U, found.V, p, q)
        unit = completion.complexity(rows, columns, p, q, draws=3)
        upper = completion.bound(float(training), norm, unit, n, low=0.0, high=1.0)
        assert error < upper.value == upper.training + upper.complexity + upper.confidence
        gaps.append(upper.value - upper.training)
    assert gaps[0] > 2 * gaps[1] > 4 * gaps[2]


one = ([0], [0], [1.0])
test_mistakes_get_a_message_of_one_line = rejects(
    (lambda: completion.fit([0], [5], [1.0], (2, 2), 1, 0.1), "columns must be 1 whole numbers from 0 to 1"),
    (lambda: completion.fit([0.5], [0], [1.0], (2, 2), 1, 0.1), "rows must be"),
    (lambda: completion.fit(*one, (2,), 1, 0.1), "shape must be two sizes"),
    (lambda: completion.fit(*one, (2, 2), 0, 0.1), "width must be"),
    (lambda: completion.complexity([0], [0], [0.0, 1.0], [1.0]), "p and q must be above 0"),
    (lambda: completion.weighted_trace_norm(np.eye(2), np.eye(2), [1.0], [0.5, 0.5]), "p must be 2 probabilities"),
    (lambda: completion.bound(0.1, 1.0, 0.1, 10, low=1.0, high=0.0), "high must be"),
    (lambda: completion.bound(0.1, 1e12, 0.1, 10, low=0.0, high=1.0), "norm must be at most"),
)
