"""Dropout in the hidden layer: every formula against every mask, direct minimisation, or the steps written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from offdiag.lab import deep, dropout
from offdiag.lab import montecarlo as mc
from tests.fixtures.mistakes import rejects

seeds = st.integers(0, 2**32 - 1)
drops = st.sampled_from([0.0, 0.1, 0.5, 0.9])


def lowest(M, width, drop, tied=False, S=None, starts=4):
    """The least value that L-BFGS finds from several starts, with the gradient written out here."""
    lam, (d1, d2) = drop / (1 - drop), M.shape
    S = np.eye(d2) if S is None else S

    def untied(theta):
        U, V = theta[: d1 * width].reshape(d1, width), theta[d1 * width :].reshape(d2, width)
        E, u, v = M - U @ V.T, (U**2).sum(axis=0), (V * (S @ V)).sum(axis=0)
        by_U, by_V = -2 * E @ S @ V + 2 * lam * U * v, -2 * S @ E.T @ U + 2 * lam * (S @ V) * u
        return np.sum((E @ S) * E) + lam * u @ v, np.concatenate([by_U.ravel(), by_V.ravel()])

    def shared(theta):
        value, slope = untied(np.concatenate([theta, theta]))
        return value, slope[: theta.size] + slope[theta.size :]

    rng = np.random.default_rng(0)
    size = d1 * width if tied else (d1 + d2) * width
    options = {"maxiter": 5000, "maxfun": 20000, "gtol": 1e-11, "ftol": 0.0}
    found = [
        minimize(shared if tied else untied, rng.standard_normal(size), jac=True, method="L-BFGS-B", options=options)
        for _ in range(starts)
    ]
    return min(float(f.fun) for f in found)


@given(seeds, st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.sampled_from([0.3, 0.8, 1.0]))
def test_the_expected_loss_is_the_mean_over_every_mask(seed, a, d, n, keep):
    rng = np.random.default_rng(seed)
    Y, U, A = rng.standard_normal((a, n)), rng.standard_normal((a, d)), rng.standard_normal((d, n))
    masks, chances = mc.enumerate_masks(d, drop=1 - keep)
    exact = mc.exact_mean(lambda z: float(np.sum((Y - U @ (z[:, None] / keep * A)) ** 2)), masks, chances)
    mean, cov = mc.moments(masks, chances)
    assert dropout.expected_loss(Y, U, A, mean, cov) == pytest.approx(exact, rel=1e-11)
    assert dropout.expected_loss(Y, U, A, keep, cov) == pytest.approx(exact, rel=1e-11)


@given(seeds, st.integers(1, 5))
def test_it_holds_for_any_distribution_of_masks(seed, d):
    rng = np.random.default_rng(seed)
    masks, chances = rng.standard_normal((7, d)) + 2, rng.dirichlet(np.ones(7))  # correlated, signed, unequal means
    mean, cov = mc.moments(masks, chances)
    Y, U, A = rng.standard_normal((2, 3)), rng.standard_normal((2, d)), rng.standard_normal((d, 3))
    exact = mc.exact_mean(lambda z: float(np.sum((Y - U @ ((z / mean)[:, None] * A)) ** 2)), masks, chances)
    assert dropout.expected_loss(Y, U, A, mean, cov) == pytest.approx(exact, rel=1e-9)


@given(seeds, st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), drops)
def test_the_objective_is_the_mean_over_masks_and_inputs(seed, d1, d2, width, drop):
    rng = np.random.default_rng(seed)
    M, U, V = rng.standard_normal((d1, d2)), rng.standard_normal((d1, width)), rng.standard_normal((d2, width))
    X = rng.standard_normal((d2, 5))  # five equally likely inputs
    masks, chances = mc.enumerate_masks(width, drop=drop)

    def loss(z):
        return float(np.mean(np.sum((M @ X - U @ (z[:, None] / (1 - drop) * (V.T @ X))) ** 2, axis=0)))

    exact = mc.exact_mean(loss, masks, chances)
    assert dropout.objective(M, U, V, drop, X @ X.T / 5) == pytest.approx(exact, rel=1e-10)
    white = dropout.objective(M, U, V, drop)
    assert white == pytest.approx(dropout.objective(M, U, V, drop, np.eye(d2)), rel=1e-12)
    loss_alone = np.sum((M - U @ V.T) ** 2)
    assert white == pytest.approx(loss_alone + drop / (1 - drop) * dropout.path_norm(U, V) ** 2, rel=1e-12)


def test_the_path_norm_is_a_sum_over_paths():
    rng = np.random.default_rng(2)
    U, V = rng.standard_normal((3, 2)), rng.standard_normal((4, 2))
    paths = sum(U[j, i] ** 2 * V[k, i] ** 2 for i in range(2) for j in range(3) for k in range(4))
    assert dropout.path_norm(U, V) == pytest.approx(np.sqrt(paths), rel=1e-13)


@pytest.mark.parametrize("drop", [0.0, 0.1, 0.5, 0.8])
@pytest.mark.parametrize(("d1", "d2", "width"), [(5, 4, 2), (4, 6, 4), (3, 3, 7), (1, 5, 3), (4, 1, 1)])
def test_the_closed_form_is_the_best_end_of_any_search(d1, d2, width, drop):
    M = np.random.default_rng(d1 + 10 * d2 + width).standard_normal((d1, d2))
    found = dropout.optimum(M, width, drop)
    truth = lowest(M, width, drop)
    assert found.value == pytest.approx(truth, rel=1e-9, abs=1e-12)
    assert dropout.objective(M, found.U, found.V, drop) == pytest.approx(found.value, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("drop", [0.0, 0.2, 0.7])
@pytest.mark.parametrize(("d", "width", "shift"), [(4, 2, 3.0), (4, 4, 0.0), (3, 6, 0.0), (3, 2, -9.0), (1, 2, 2.0)])
def test_tied_weights_reach_the_closed_form_of_the_eigenvalues(d, width, shift, drop):
    A = np.random.default_rng(d + width).standard_normal((d, d))
    M = A + A.T + shift * np.eye(d)  # definite, indefinite, negative definite
    found = dropout.optimum(M, width, drop, tied=True)
    assert np.allclose(found.U, found.V, atol=1e-14)
    assert found.value == pytest.approx(lowest(M, width, drop, tied=True), rel=1e-9)
    assert dropout.objective(M, found.U, found.U, drop) == pytest.approx(found.value, rel=1e-12)


@pytest.mark.parametrize("rank", [4, 2])
def test_inputs_that_are_not_white_change_the_optimum_by_the_formula(rank):
    rng = np.random.default_rng(3)
    M, L = rng.standard_normal((3, 4)), rng.standard_normal((4, rank))
    S = L @ L.T
    found = dropout.optimum(M, 2, 0.4, second_moment=S)
    assert found.value == pytest.approx(lowest(M, 2, 0.4, S=S), rel=1e-9)
    assert dropout.objective(M, found.U, found.V, 0.4, S) == pytest.approx(found.value, rel=1e-10)
    assert np.allclose(found.product, found.U @ found.V.T)


@given(seeds, st.integers(1, 6), st.integers(1, 6), st.integers(1, 9), drops, st.booleans())
def test_the_optimum_is_equalised_stationary_and_shrunk(seed, d1, d2, width, drop, tied):
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((d1, d2))
    if tied:
        M = rng.standard_normal((d1, d1))
        M = M + M.T
    lam = drop / (1 - drop)
    found = dropout.optimum(M, width, drop, tied)
    assert found.U.shape == (len(M), width)
    assert found.V.shape == (M.shape[1], width)
    scores = dropout.importances(found.U, found.V)
    assert np.allclose(scores, found.singular_values.sum() / width, atol=1e-12)
    left = np.linalg.svd(found.product, compute_uv=False)
    assert np.allclose(left[: found.rank], found.singular_values, atol=1e-12)
    assert np.allclose(left[found.rank :], 0, atol=1e-12)
    sigma = np.sort(np.linalg.eigvalsh(M))[::-1] if tied else np.linalg.svd(M, compute_uv=False)
    assert np.allclose(sigma[: found.rank] - found.threshold, found.singular_values, atol=1e-12)
    E = M - found.product
    slope = -E @ found.V + lam * found.U * (found.V**2).sum(axis=0)
    assert np.abs(slope).max() < 1e-11


def test_ties_zeros_and_low_rank_are_handled():
    flat = dropout.optimum(np.eye(4), 4, 0.5)
    assert flat.rank == 4
    assert np.allclose(flat.product, np.eye(4) / 2)
    nothing = dropout.optimum(np.zeros((3, 2)), 5, 0.3)
    assert (nothing.rank, nothing.value, nothing.threshold) == (0, 0.0, 0.0)
    assert nothing.U.shape == (3, 5)
    assert not nothing.product.any()
    rng = np.random.default_rng(4)
    low = rng.standard_normal((6, 2)) @ rng.standard_normal((2, 5))
    assert dropout.optimum(low, 4, 0.0).rank == 2
    assert dropout.optimum(low, 4, 0.0).value == pytest.approx(0, abs=1e-24)
    assert dropout.optimum(-np.eye(2), 2, 0.5, tied=True).value == 2.0


def test_the_rank_is_at_most_the_width():
    found = dropout.optimum(np.diag([5, 4.9, 4.8, 4.7]), 2, 0.2)
    assert found.rank == 2 == np.linalg.matrix_rank(found.product)
    assert found.threshold < 4.7
    assert found.value == pytest.approx(lowest(np.diag([5, 4.9, 4.8, 4.7]), 2, 0.2), rel=1e-9)


def test_the_limits_of_no_and_of_total_dropout():
    M = np.random.default_rng(5).standard_normal((4, 5))
    U, s, Vt = np.linalg.svd(M, full_matrices=False)
    assert np.allclose(dropout.optimum(M, 2, 0.0).product, (U[:, :2] * s[:2]) @ Vt[:2])
    late = dropout.optimum(M, 3, 1 - 1e-12)
    assert late.value == pytest.approx(np.sum(M**2), rel=1e-9)
    assert late.rank == 1
    lam = (1 - 1e-12) / (1 - (1 - 1e-12))
    assert late.singular_values == pytest.approx([3 * s[0] / (3 + lam)], rel=1e-12)  # not lost to cancellation


def test_the_deep_recursion_is_the_one_of_the_deep_module():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((5, 3))
    weights = [rng.standard_normal((3, 2)), rng.standard_normal((2, 3))]
    value = dropout.deep_expected_loss(X.T @ X, weights, [0.2, 0.5])
    assert value == deep.expected_loss(X.T @ X, weights, [0.2, 0.5])


def two_layer_mean(X, U, V, input_drop, hidden_drop, block=1):
    """E‖X − net(X)‖² over every mask of the input and of the hidden layer."""
    z, chance = mc.enumerate_masks(len(U), drop=input_drop)
    y, also = mc.enumerate_masks(U.shape[1], block, drop=hidden_drop)
    total = 0.0
    for one, c in zip(z, chance, strict=True):
        hidden = (X * one / (1 - input_drop)) @ U
        for other, d in zip(y, also, strict=True):
            total += c * d * np.sum((X - (hidden * other / (1 - hidden_drop)) @ V.T) ** 2)
    return total


@pytest.mark.parametrize(("input_drop", "hidden_drop"), [(0.4, 0.3), (0.2, 0.6), (0.0, 0.5), (0.5, 0.0)])
@pytest.mark.parametrize(("n", "width"), [(12, 2), (12, 5), (3, 4)])
def test_dropout_at_two_layers_has_a_closed_form(n, width, input_drop, hidden_drop):
    """Its value is that of its factors over every mask, and no search ends below it."""
    X = np.random.default_rng(n + width).standard_normal((n, 4))
    G, drops = X.T @ X, [input_drop, hidden_drop]
    best = dropout.joint_optimum(G, width, *drops)
    assert np.allclose(best.U @ best.V.T, best.product)
    assert two_layer_mean(X, best.U, best.V, *drops) == pytest.approx(best.value, rel=1e-10, abs=1e-10)
    assert deep.expected_loss(G, [best.U, best.V.T], drops) == pytest.approx(best.value, rel=1e-10, abs=1e-10)
    ends = [deep.fit(G, [width], drops, seed=seed, tolerance=1e-9).loss for seed in range(3)]
    assert min(ends) == pytest.approx(best.value, rel=1e-8, abs=1e-8)
    assert max(np.abs(slope).max() for slope in deep.gradient(G, [best.U, best.V.T], drops)) < 1e-9 * np.trace(G)
    assert best.tight
    assert best.bound == best.value
    assert best.rank <= min(width, 4)


@given(seeds, st.integers(1, 5), st.integers(1, 6), drops, drops)
def test_l2_at_two_layers_is_the_mean_square_of_the_noisy_matrix(seed, m, width, input_drop, hidden_drop):
    X = np.random.default_rng(seed).standard_normal((2 * m, m))
    G, l2, lam = X.T @ X, 3.0, hidden_drop / (1 - hidden_drop)
    best = dropout.joint_optimum(G, width, input_drop, hidden_drop, l2=l2)
    plain = deep.expected_loss(G, [best.U, best.V.T], [input_drop, hidden_drop])
    square = np.sum(best.product**2) + lam * dropout.path_norm(best.U, best.V) ** 2
    assert best.value == pytest.approx(plain + l2 * square, rel=1e-9)
    assert best.value >= dropout.joint_optimum(G, width, input_drop, hidden_drop).value * (1 - 1e-9)


def test_an_item_that_never_occurs_stays_at_zero_in_both_layers():
    best = dropout.joint_optimum(np.diag([4.0, 0.0, 1.0]), 2, 0.3, 0.2)
    assert not best.product[1].any()
    assert not best.product[:, 1].any()
    assert np.isfinite(best.U).all()


@pytest.mark.parametrize("width", [4, 6, 8])
def test_hidden_blocks_at_two_layers_have_a_bound_and_a_net(width):
    X = np.random.default_rng(width).standard_normal((12, 4))
    best = dropout.joint_optimum(X.T @ X, width, 0.3, 0.4, block=2)
    assert two_layer_mean(X, best.U, best.V, 0.3, 0.4, block=2) == pytest.approx(best.value, rel=1e-10)
    assert best.bound <= best.value * (1 + 1e-12)
    assert best.tight == (best.value - best.bound <= 1e-9 * np.sum(X**2))
    rng = np.random.default_rng(0)
    for _ in range(100):  # no net is below the bound
        U, V = best.U + 0.1 * rng.standard_normal((4, width)), best.V + 0.1 * rng.standard_normal((4, width))
        assert two_layer_mean(X, U, V, 0.3, 0.4, block=2) > best.bound


square = np.eye(2)


test_mistakes_get_a_message_of_one_line = rejects(
    (lambda: dropout.optimum(square, 2, 1.0), r"drop.*\[0, 1\).*1.0"),
    (lambda: dropout.optimum(square, 2, -0.1), r"drop.*-0.1"),
    (lambda: dropout.optimum(square, 2, float("nan")), r"drop.*nan"),
    (lambda: dropout.optimum(square, 0, 0.5), "width.*0"),
    (lambda: dropout.optimum([[np.nan]], 1, 0.5), "M holds NaN"),
    (lambda: dropout.optimum(np.ones((2, 3)), 1, 0.5, tied=True), "symmetric.*2×3"),
    (lambda: dropout.optimum([[0.0, 1.0], [2.0, 0.0]], 1, 0.5, tied=True), "symmetric"),
    (lambda: dropout.optimum(square, 1, 0.5, tied=True, second_moment=square), "white inputs"),
    (lambda: dropout.optimum(square, 1, 0.5, second_moment=np.eye(3)), "second_moment must be 2×2"),
    (lambda: dropout.optimum(square, 1, 0.5, second_moment=-square), "negative eigenvalue"),
    (lambda: dropout.objective(square, np.ones((3, 1)), np.ones((2, 1)), 0.5), "U must be 2×any.*3×1"),
    (lambda: dropout.objective(square, np.ones((2, 1)), np.ones((2, 2)), 0.5), "V must be 2×1"),
    (lambda: dropout.expected_loss(square, square, square, [1.0, 0.0], square), "mean must not be 0"),
    (lambda: dropout.expected_loss(square, square, np.ones((2, 3)), np.ones(2), square), "A must be any×2"),
    (lambda: dropout.expected_loss(square, square, square, np.ones(3), square), "mean must be 1×2"),
    (lambda: dropout.joint_optimum(-square, 2, 0.5, 0.5), "G = XᵀX cannot have a negative eigenvalue"),
    (lambda: dropout.joint_optimum(square, 2, 1.0, 0.5), "input_drop, the probability of dropping"),
    (lambda: dropout.joint_optimum(square, 2, 0.5, 1.0), "drop, the probability of dropping"),
    (lambda: dropout.joint_optimum(square, 3, 0.5, 0.5, block=2), "multiple of the block"),
    (lambda: dropout.joint_optimum(square, 2, 0.5, 0.5, l2=-1.0), "l2 must be a number"),
    (lambda: dropout.joint_optimum(np.ones((2, 3)), 2, 0.5, 0.5), "G must be square"),
    (lambda: dropout.sgd(square, 2, 0.5, steps=0, learning_rate=0.1), "steps.*0"),
    (lambda: dropout.sgd(square, 2, 0.5, steps=9, learning_rate="a"), "learning_rate .* received 'a'"),
    (lambda: dropout.sgd(square, 2, 0.5, steps=9, learning_rate=0.1, decay="a"), "decay .* received 'a'"),
    (lambda: dropout.sgd(square, 2, 0.5, steps=9, learning_rate=0.1, seed=-1), "seed .* received -1"),
    (lambda: dropout.sgd(square, 2, 0.5, steps=9, learning_rate=0.1, start=3), "two matrices"),
    (lambda: dropout.sgd(square, 2, 0.5, steps=9, learning_rate=0.1, start=np.ones((3, 2))), "received 3"),
    (lambda: dropout.optimum(1e200 * np.eye(3), 2, 0.5), r"M must be at most 1e\+100 .* scale the values down"),
    (lambda: dropout.optimum([[1.0, 2.0], [3.0]], 2, 0.5), "M must be a matrix of numbers.*equal length"),
    (lambda: dropout.optimum([["a"]], 2, 0.5), "M must be a matrix of numbers.*U1"),
    (lambda: dropout.optimum([[1j]], 2, 0.5), "M must be a matrix of numbers.*complex"),
    (lambda: dropout.optimum([[None]], 2, 0.5), "M must be a matrix of numbers.*object"),
    (lambda: dropout.expected_loss(square, square, square, 1e-200, square), "beyond the range of float64"),
    (lambda: dropout.expected_loss(square, square, square, "a", square), "mean must be a number or a vector"),
    (lambda: dropout.objective(1e90 * square, 1e90 * square, 1e90 * square, 0.5), "beyond the range"),
    (
        lambda: dropout.deep_expected_loss(square, [square], 0.5),
        r"dropouts must be a list .* received 0.5; .*\[ \]",
    ),
    (lambda: dropout.deep_expected_loss(square, None, [0.5]), "weights must be a list of matrices, received None"),
    (lambda: dropout.deep_expected_loss(square, [[[1.0], [1.0, 2.0]]], [0.5]), "W_1 must be a matrix.*equal"),
    (lambda: deep.expected_loss(square, [square], [0.5], l2="a"), "l2 must be a number .* received 'a'"),
    (lambda: deep.expected_loss(square, [1e99 * square] * 2, [0.5, 0.5]), "beyond the range"),
    (lambda: deep.sample_loss(square, [square], [0.5], draws="a"), "draws must be at least 2.*'a'"),
    (lambda: deep.sample_loss(square, [square], [0.5], draws=2, seed=-1), "seed"),
    (lambda: deep.fit(square, 2, [0.5, 0.0]), "widths must be a list"),
    (lambda: dropout.sgd(square, 2, 0.5, steps=9, learning_rate=-1.0), "learning_rate"),
    (lambda: dropout.sgd(100 * square, 2, 0.5, steps=500, learning_rate=9.0), "diverged.*lower learning_rate=9"),
    (lambda: dropout.sgd(square, 2, 0.5, steps=9, learning_rate=0.1, start=(square, np.eye(3))), "V must be 2×2"),
)
