"""What the ADMM and the alternation of Steck (2020), as published, really do, compared with our solver."""

import numpy as np
import pytest
from scipy import sparse

import offdiag as od
from benchmarks.peers import admm, zero_diagonal
from tests.laws import oracles

pytestmark = pytest.mark.slow

DROPOUT, L2 = 0.3, 2.0


def data(n=150, m=20, seed=0):
    """0/1 data with a few hidden tastes."""
    rng = np.random.default_rng(seed)
    taste = rng.normal(size=(n, 4)) @ rng.normal(size=(4, m))
    return (taste + rng.normal(size=(n, m)) > 1.0).astype(np.float64)


def gram(**words):
    X = data(**words)
    return X.T @ X


def stationarity(G, U, V, dropout, l2):
    """How far U and V are from a stationary point of Eq. 10, relative to the two parts that must cancel."""
    D = oracles.gradient(G, U @ V.T, dropout, l2, 0.0)
    size = 2 * G
    return max(np.linalg.norm(D @ V) / np.linalg.norm(size @ V), np.linalg.norm(D.T @ U) / np.linalg.norm(size.T @ U))


def doubled(omega):
    """dropout and l2 whose Λ is 2Λ + ω."""
    odds = 2 * DROPOUT / (1 - DROPOUT)
    return odds / (1 + odds), 2 * L2 + omega


# The published ADMM


def printed(G, V, omega, iterations):
    """The update equations of the supplement with full matrices, symbol by symbol."""
    g, Lam = np.diag(G), np.diag(oracles.penalty(G, DROPOUT, L2))
    Om = Lam + omega * np.eye(len(G))
    beta, gamma = np.zeros(len(G)), np.zeros(len(G))
    for _ in range(iterations):
        R = G @ np.diag(1 + beta) + Om @ np.diag(beta - gamma)
        U = np.linalg.inv(G + Lam + Om) @ R @ V @ np.linalg.inv(V.T @ V)
        V = (np.linalg.inv(U.T @ (G + Lam + Om) @ U) @ U.T @ R).T
        B = U @ V.T
        beta = (np.diag(G @ B) - g + np.diag(Om) * (np.diag(B) + gamma)) / (g + np.diag(Om - Lam))
        gamma = gamma + np.diag(B) - beta
    return U, V, beta, gamma


@pytest.mark.parametrize("diagonal", ["product", "rows"])
@pytest.mark.parametrize("rank", [1, 4])
def test_the_iterations_are_those_of_the_supplement(rank, diagonal):
    G = gram()
    start = np.random.default_rng(1).normal(size=(len(G), rank))
    found = admm.minimise(G, rank, dropout=DROPOUT, l2=L2, omega=7.0, iterations=4, start=start, diagonal=diagonal)
    for here, there in zip((found.U, found.V, found.beta, found.gamma), printed(G, start, 7.0, 4), strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_both_ways_to_the_diagonal_agree(dtype):
    G = gram(m=25, seed=3).astype(dtype)
    words = {"dropout": DROPOUT, "l2": L2, "omega": 20.0, "iterations": 6, "seed": 5}
    rows = admm.minimise(G, 6, diagonal="rows", **words)
    product = admm.minimise(G, 6, diagonal="product", **words)
    assert rows.U.dtype == product.V.dtype == dtype
    np.testing.assert_allclose(rows.U @ rows.V.T, product.U @ product.V.T, atol=100 * oracles.TOLERANCE[dtype])
    np.testing.assert_allclose(rows.objectives, product.objectives, rtol=oracles.TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_objective_from_one_product_is_eq_10(dtype):
    G = gram(m=9).astype(dtype)
    rng = np.random.default_rng(2)
    U, V = (rng.normal(size=(9, 3)).astype(dtype) for _ in range(2))
    expected = oracles.objective(G.astype(float), (U @ V.T).astype(float), DROPOUT, L2, 0.0)
    lam = admm.penalty(G, DROPOUT, L2)
    assert admm.objective(G, lam, U, V) == pytest.approx(expected, rel=oracles.TOLERANCE[dtype])
    assert admm.objective(G, lam, U, V, G @ U) == pytest.approx(expected, rel=oracles.TOLERANCE[dtype])
    found = admm.minimise(G, 3, dropout=DROPOUT, l2=L2, omega=5.0, iterations=3)
    last = oracles.objective(G.astype(float), (found.U @ found.V.T).astype(float), DROPOUT, L2, 0.0)
    assert found.objectives[-1] == pytest.approx(last, rel=oracles.TOLERANCE[dtype])


def test_the_multiplier_has_the_other_sign_than_in_the_lagrangian():
    """The β step is where the derivative of the augmented Lagrangian vanishes, for one of the two signs only."""
    G = gram()
    words = {"dropout": DROPOUT, "l2": L2, "omega": 10.0, "start": np.random.default_rng(0).normal(size=(20, 3))}
    gamma = admm.minimise(G, 3, iterations=1, **words).gamma
    after = admm.minimise(G, 3, iterations=2, **words)
    g, lam = np.diag(G), admm.penalty(G, DROPOUT, L2)
    Omega = lam + 10.0
    B = after.U @ after.V.T
    without = g + g * after.beta - np.diag(G @ B) - lam * after.beta + Omega * (after.beta - np.diag(B))
    assert np.abs(without - gamma * Omega).max() < 1e-9 * np.abs(g).max()  # +2γᵀΩ(diag(UVᵀ) − β)
    assert np.abs(without + gamma * Omega).max() > 1e-2 * np.abs(gamma * Omega).max()  # as printed


@pytest.mark.parametrize(("m", "rank", "omega"), [(20, 2, 1.0), (20, 3, 50.0), (30, 3, 200.0)])
def test_the_admm_converges_to_the_optimum_of_a_doubled_penalty(m, rank, omega):
    G = gram(m=m, seed=m + rank)
    found = admm.minimise(G, rank, dropout=DROPOUT, l2=L2, omega=omega, iterations=4000)
    assert found.gap < 1e-9
    assert stationarity(G, found.U, found.V, *doubled(omega)) < 1e-8
    assert stationarity(G, found.U, found.V, DROPOUT, L2) > 1e-2


def test_a_run_without_tracking_is_the_same_run():
    G = gram()
    words = {"dropout": DROPOUT, "l2": L2, "omega": 5.0, "iterations": 3, "seed": 1}
    tracked, bare = admm.minimise(G, 3, **words), admm.minimise(G, 3, track=False, **words)
    np.testing.assert_array_equal(tracked.U, bare.U)
    assert (len(tracked.objectives), bare.objectives) == (3, [])
    with pytest.raises(ValueError, match="product"):
        admm.minimise(G, 3, diagonal="fast", **words)


def test_the_gram_of_a_sparse_matrix_is_dense_and_in_float32():
    X = data(n=9, m=4)
    for given in (X, sparse.csr_array(X)):
        G = admm.gram(given)
        assert isinstance(G, np.ndarray)
        assert G.dtype == np.float32
        np.testing.assert_array_equal(G, X.T @ X)


# The published alternation for Eq. 11


def eq_11(G, B):
    lam = oracles.penalty(G, DROPOUT, L2)
    return np.trace(G) - 2 * np.trace(G @ B) + np.trace(B.T @ (G + np.diag(lam)) @ B)


@pytest.mark.parametrize("rank", [2, 3, 8])
def test_the_alternation_keeps_a_zero_diagonal_and_never_rises(rank):
    G = gram()
    found = zero_diagonal.minimise(G, rank, dropout=DROPOUT, l2=L2, iterations=25, seed=rank)
    B = found.U @ found.V.T
    assert np.abs(np.diag(B)).max() < 1e-12
    assert len(found.objectives) == 50
    assert (np.diff(found.objectives) <= 1e-9 * found.objectives[0]).all()
    assert found.objectives[-1] == pytest.approx(eq_11(G, B), rel=1e-12)
    # U is the best one for its V: the derivative is a multiple of the constraints.
    H = G + np.diag(oracles.penalty(G, DROPOUT, L2))
    rest = (H @ B - G + np.diag(found.eta_u)) @ found.V
    assert np.abs(rest).max() < 1e-9 * np.abs(G @ found.V).max()


def test_the_decoder_is_the_best_one_for_its_encoder():
    """Eq. 29 and 30 against a constrained least-squares solve of each column."""
    G = gram(m=8)
    H = G + np.diag(oracles.penalty(G, DROPOUT, L2))
    start = np.random.default_rng(0).normal(size=(8, 3))
    found = zero_diagonal.minimise(G, 3, dropout=DROPOUT, l2=L2, iterations=1, start=start)
    for i in range(8):
        K = np.block([[start.T @ H @ start, start[i][:, None]], [start[i], 0]])
        v = np.linalg.solve(K, np.append(start.T @ G[:, i], 0.0))[:3]
        np.testing.assert_allclose(found.V[i], v, atol=1e-10)


def test_at_a_small_rank_the_alternation_misses_a_stationary_point():
    """The multipliers of the two half steps belong to the same constraint, yet differ at convergence."""
    found = zero_diagonal.minimise(gram(m=12, seed=1), 2, dropout=DROPOUT, l2=L2, iterations=3000)
    assert abs(found.objectives[-1] - found.objectives[-100]) < 1e-6 * found.objectives[-1]
    assert np.abs(found.eta_u - found.eta_v).max() > 1.0


def test_items_without_users_or_embeddings_do_no_harm():
    G = gram(m=10)
    G[3], G[:, 3] = 0, 0
    start = np.random.default_rng(0).normal(size=(10, 3))
    start[5] = 0
    found = zero_diagonal.minimise(G, 3, dropout=DROPOUT, l2=L2, iterations=5, start=start)
    assert np.isfinite(found.U).all()
    assert np.isfinite(found.V).all()
    assert np.abs(np.diag(found.U @ found.V.T)).max() < 1e-12
    assert zero_diagonal.minimise(G, 3, dropout=DROPOUT, l2=L2, iterations=1, track=False).objectives == []
    with pytest.raises(ValueError, match="rank 1"):
        zero_diagonal.minimise(G, 1, dropout=DROPOUT, l2=L2, iterations=1)


# Our solver compared with them


@pytest.mark.parametrize(("m", "rank", "seed"), [(20, 2, 0), (30, 3, 1), (30, 8, 2), (40, 5, 3)])
def test_our_solver_reaches_a_lower_eq_10_than_the_admm(m, rank, seed):
    X = data(n=200, m=m, seed=seed)
    G = X.T @ X
    ours = od.LowRankEDLAE(rank=rank, dropout=DROPOUT, l2=L2, user_power=0.0, dtype="float64").fit(X)
    reached = oracles.objective(G, ours.weights_.toarray(), DROPOUT, L2, 0.0)
    assert ours.objective_ == pytest.approx(reached, rel=1e-9)
    for omega in (1.0, 10.0, 100.0):
        found = admm.minimise(G, rank, dropout=DROPOUT, l2=L2, omega=omega, iterations=300)
        assert reached < min(found.objectives) - 1e-4 * reached, omega


def test_with_the_doubled_penalty_our_solver_ends_where_the_admm_ends():
    X = data(n=200, m=30, seed=1)
    G = X.T @ X
    found = admm.minimise(G, 3, dropout=DROPOUT, l2=L2, omega=50.0, iterations=3000)
    dropout, l2 = doubled(50.0)
    ours = od.LowRankEDLAE(rank=3, dropout=dropout, l2=l2, user_power=0.0, dtype="float64", iterations=200).fit(X)
    there = oracles.objective(G, found.U @ found.V.T, dropout, l2, 0.0)
    assert ours.objective_ == pytest.approx(there, rel=1e-3)
