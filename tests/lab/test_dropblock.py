"""DropBlock in linear nets: the norm, its prox, the mean loss and the optimum, each against a slow, reliable method."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from offdiag.lab import dropblock, frames, montecarlo
from tests.fixtures.mistakes import rejects


def exact_prox(m, order, beta):
    """The prox in rational arithmetic: every choice of which t are 1 and which are between, until one is consistent."""
    beta = Fraction(beta)
    a = sorted((abs(Fraction(v)) for v in m), reverse=True)
    filled = sum(v > 0 for v in a)
    if filled <= order or beta == 0:
        return [Fraction(v) / (1 + beta) for v in m]
    for ones in range(order + 1):
        for some in range(ones, filled + 1):
            part = a[ones:some]
            if part:
                alpha = (order - ones + beta * len(part)) / sum(part)
            elif ones == order and (1 + beta) * a[ones] <= beta * a[ones - 1]:
                alpha = (1 + beta) / a[ones - 1]
            else:
                continue
            t = [alpha * v - beta for v in a]
            fits = all(v >= 1 for v in t[:ones]) and all(v <= 0 for v in t[some:filled])
            if fits and all(0 <= v <= 1 for v in t[ones:some]):
                t = [min(max(alpha * abs(Fraction(v)) - beta, 0), 1) for v in m]
                return [Fraction(v) * w / (w + beta) for v, w in zip(m, t, strict=True)]
    raise AssertionError("no guess fits")


def assert_exact(m, order, beta):
    truth = np.array([float(v) for v in exact_prox(m, order, beta)])
    assert np.abs(dropblock.prox(m, order, beta) - truth).max() <= 1e-13 * np.abs(truth).max()


def variational(a, order):
    """Σ a²/t at a general solver's t, made feasible, and the lower bound that its dual gives there."""
    a = np.abs(a)
    found = minimize(
        lambda t: np.sum(a**2 / t) / (a @ a),
        np.full(len(a), min(1.0, order / len(a))),
        jac=lambda t: -(a**2) / t**2 / (a @ a),
        bounds=[(1e-9, 1)] * len(a),
        constraints={"type": "ineq", "fun": lambda t: order - t.sum(), "jac": lambda t: -np.ones(len(a))},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    t = np.clip(found.x, 1e-9, 1)
    t *= min(1.0, order / t.sum())
    x = 2 * a / t  # L(a) = max_x a·x − ¼·(sum of the ``order`` largest x²)
    return np.sum(a**2 / t), a @ x - np.sort(x**2)[::-1][:order].sum() / 4


vectors = st.lists(
    st.one_of(
        st.integers(-3, 3).map(float),
        st.floats(-10, 10, allow_nan=False),
        st.floats(-1, 1).map(lambda v: 1 + 1e-9 * v),
        st.floats(1e-60, 1e60),
    ),
    min_size=1,
    max_size=6,
)
betas = st.one_of(st.just(0.0), st.floats(1e-12, 1e14), st.sampled_from([1e-200, 0.5, 1.0, 1e200]))


@given(vectors, st.integers(1, 8), betas)
def test_the_prox_is_exact_for_ties_zeros_any_range_and_any_weight(m, order, beta):
    assert_exact(m, order, beta)


@pytest.mark.parametrize("beta", [1e4, 1e8, 1e12])
@pytest.mark.parametrize(
    "m", [[2.0, 2.0, 2.0], [-1.0, 2.0, 2.0, 2.0], [0.3 * (1 + v * 1e-9) for v in (0.7, -0.2, 0.1, 0.9, 0.5)]]
)
def test_near_ties_are_kept_apart_under_any_penalty(m, beta):
    """Which of nearly equal entries survive depends on differences as small as m/beta."""
    for order in range(1, len(m)):
        assert_exact(m, order, beta)


@pytest.mark.parametrize("beta", [1e15, 4e15, 9.1e15, 1e17, 1e200])
def test_ties_share_even_where_the_penalty_swallows_one(beta):
    """1 + beta = beta: which entries are whole must follow from differences, and ties must be treated equally."""
    assert dropblock.prox([3.0, 3.0, 3.0], 2, beta) == pytest.approx(np.full(3, 2 / beta), rel=1e-13)
    rng = np.random.default_rng(5)
    odd = [[2.0, 2 - 9e-16, 1.0, 3 - 1.4e-15, 3 + 1.4e-15], [5.0, 3.0, 3.0, 3.0]]
    for m in odd + [(rng.integers(1, 4, 5) * (1 + 2.3e-16 * rng.integers(-2, 3, 5))).tolist() for _ in range(60)]:
        for order in range(1, len(m)):
            assert_exact(m, order, beta)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 9), st.sampled_from([0.0, 0.01, 0.5, 1.0, 30.0]))
def test_the_search_of_the_paper_finds_the_same_when_rho_runs_to_the_order(seed, d, order, beta):
    rng = np.random.default_rng(seed)
    m = rng.standard_normal(d) * rng.choice([0.1, 1, 10], d)
    m[rng.random(d) < 0.2] = 0
    m[: d // 3] = m[0]
    found, searched = dropblock.prox(m, order, beta), dropblock.prox_by_search(m, order, beta)
    assert found == pytest.approx(searched, abs=1e-11 * (1 + np.abs(m).max()))


def objective(x, m, order, beta):
    return np.sum((m - x) ** 2) + beta * dropblock.k_support_squared(x, order)


@pytest.mark.parametrize("seed", range(12))
def test_the_prox_beats_a_general_solver_and_every_step_away(seed):
    rng = np.random.default_rng(seed)
    d, order, beta = int(rng.integers(2, 8)), int(rng.integers(1, 5)), float(10 ** rng.uniform(-2, 1))
    m = rng.standard_normal(d) * 3
    x = dropblock.prox(m, order, beta)
    best = objective(x, m, order, beta)
    # over (x, t) the objective Σ (m − x)² + beta Σ x²/t is smooth; given t, x = m t/(t + beta)
    found = minimize(
        lambda t: np.sum(beta * m**2 / (t + beta)),
        np.full(d, min(1.0, order / d)),
        bounds=[(0, 1)] * d,
        constraints={"type": "ineq", "fun": lambda t: order - t.sum()},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    assert best == pytest.approx(found.fun, rel=1e-9)
    for _ in range(50):
        assert objective(x + rng.standard_normal(d) * 10 ** rng.uniform(-6, 0), m, order, beta) > best - 1e-12


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=6), st.integers(1, 8))
def test_the_norm_lies_between_its_neighbours(a, order):
    a = np.array(a)
    found = dropblock.k_support_squared(a, order)
    total, squares = np.abs(a).sum() ** 2, float(a @ a)
    assert max(total / order, squares) <= found * (1 + 1e-12) + 1e-300
    assert found <= total * (1 + 1e-12)
    assert found == dropblock.k_support_squared(-a[::-1], order)
    if order == 1:
        assert found == pytest.approx(total, rel=1e-12)
    if order >= len(a):
        assert found == pytest.approx(squares, rel=1e-12)


@pytest.mark.parametrize("seed", range(15))
def test_the_norm_is_its_variational_form(seed):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(int(rng.integers(2, 9))) * rng.choice([0.2, 1, 5])
    order = int(rng.integers(1, len(a)))
    above, below = variational(a, order)
    found = dropblock.k_support_squared(a, order)
    assert below * (1 - 1e-12) <= found <= above * (1 + 1e-12)
    assert above - below < 1e-4 * found


def test_neither_the_largest_nor_the_least_value_over_all_rho_is_the_norm():
    """The paper's ρ maximises Eq. 11; that is correct only among the feasible ρ."""

    def over_rho(a, order):
        return [np.sum(a[: rho - 1] ** 2) + a[rho - 1 :].sum() ** 2 / (order - rho + 1) for rho in range(1, order + 1)]

    equal = np.array([1.0, 1.0, 1.0])
    assert dropblock.k_support_squared(equal, 2) == pytest.approx(9 / 2)
    assert max(over_rho(equal, 2)) == pytest.approx(5)
    steep = np.array([5.0, 0.1, 0.1])
    assert dropblock.k_support_squared(steep, 2) == pytest.approx(25 + 0.04)
    assert min(over_rho(steep, 2)) == pytest.approx(5.2**2 / 2)


@given(st.integers(0, 2**32 - 1), st.integers(2, 9), st.integers(1, 6), st.sampled_from([0.05, 1.0, 20.0]))
def test_the_prox_never_spreads_points_and_keeps_their_order(seed, d, order, beta):
    rng = np.random.default_rng(seed)
    m, n = rng.standard_normal((2, d)) * 3
    x, y = (dropblock.prox(v, order, beta) for v in (m, n))
    assert np.linalg.norm(x - y) <= np.linalg.norm(m - n) * (1 + 1e-12)
    assert (np.diff(np.abs(x)[np.argsort(np.abs(m))]) >= -1e-12).all()
    assert (np.sign(x) * np.sign(m) >= 0).all()
    assert dropblock.prox(7.5 * m, order, beta) == pytest.approx(7.5 * x, rel=1e-12)


def test_a_million_singular_values_are_handled():
    m = np.random.default_rng(0).standard_exponential(1_000_000)
    x = dropblock.prox(m, 1000, 0.3)
    t = 0.3 * x / (m - x)  # from x = m t/(t + beta)
    assert t.sum() == pytest.approx(1000, rel=1e-9)
    assert t.max() <= 1 + 1e-9


def net(seed, a, b, n, width, *, rank=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((b, n))
    if rank is not None:
        X = rng.standard_normal((b, rank)) @ rng.standard_normal((rank, n))
    return 2 * rng.standard_normal((a, n)), X, rng.standard_normal((a, width)), rng.standard_normal((b, width))


def every_mask(Y, U, V, X, block, drop):
    k = U.shape[1] // block
    total = 0.0
    for mask in itertools.product([0, 1], repeat=k):
        chance = np.prod([1 - drop if w else drop for w in mask])
        z = np.repeat(mask, block) / (1 - drop)
        total += chance * np.sum((Y - (U * z) @ V.T @ X) ** 2)
    return total


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 4), st.sampled_from([0.0, 0.2, 0.5, 0.9]))
def test_the_mean_loss_is_the_mean_over_every_mask(seed, block, k, drop):
    Y, X, U, V = net(seed, 3, 4, 5, block * k)
    truth = every_mask(Y, U, V, X, block, drop)
    assert dropblock.expected_loss(Y, U, V, X, block, drop) == pytest.approx(truth, rel=1e-11)


def test_sampled_masks_agree_within_four_standard_errors():
    Y, X, U, V = net(1, 4, 5, 6, 12)
    masks = montecarlo.dropblock(12, 3, 20_000, np.random.default_rng(2), drop=0.4)
    losses = np.array([np.sum((Y - (U * (z / 0.6)) @ V.T @ X) ** 2) for z in masks])
    found = montecarlo.estimate(losses)
    assert abs(found.mean - dropblock.expected_loss(Y, U, V, X, 3, 0.4)) < 4 * found.standard_error


def by_descent(Y, X, width, block, drop, starts=4):
    """The least mean loss that L-BFGS finds over U, V themselves."""
    rng = np.random.default_rng(0)
    a, b, odds = len(Y), len(X), drop / (1 - drop)
    C = np.kron(np.eye(width // block), np.full((block, block), odds))

    def loss(theta):
        U, V = theta[: a * width].reshape(a, width), theta[a * width :].reshape(b, width)
        T = V.T @ X
        E = U @ T - Y
        value = np.sum(E**2) + np.sum(C * (U.T @ U) * (T @ T.T))
        slope_T = U.T @ E + (C * (U.T @ U)) @ T
        return value, 2 * np.concatenate([(E @ T.T + U @ (C * (T @ T.T))).ravel(), (X @ slope_T.T).ravel()])

    options = {"maxiter": 3000, "maxfun": 6000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 25}
    return min(
        minimize(loss, rng.standard_normal((a + b) * width), jac=True, method="L-BFGS-B", options=options).fun
        for _ in range(starts)
    )


SHAPES = [  # a, b, samples, rank of X, width, block, drop
    (4, 3, 12, None, 3, 1, 0.5),  # more samples than features
    (4, 6, 5, None, 6, 2, 0.5),  # the reverse
    (4, 5, 9, 2, 4, 2, 0.3),  # X of low rank
    (5, 5, 7, None, 2, 1, 0.4),  # fewer units than singular values
    (5, 5, 7, None, 6, 2, 0.4),
    (3, 3, 4, None, 12, 3, 0.7),  # more units than needed
    (4, 4, 6, None, 4, 4, 0.5),  # one block
    (3, 4, 6, None, 5, 5, 0.2),
]


@pytest.mark.parametrize(("a", "b", "n", "rank", "width", "block", "drop"), SHAPES)
def test_the_optimum_is_what_direct_descent_finds(a, b, n, rank, width, block, drop, monkeypatch):
    monkeypatch.setattr(frames, "polished", lambda *_: pytest.fail("it is built, not searched for"))
    Y, X, *_ = net(a + 10 * width, a, b, n, width, rank=rank)
    found = dropblock.optimum(Y, X, width, block, drop)
    assert found.tight
    assert found.gap <= 1e-9 * np.sum(Y**2)
    assert found.value == pytest.approx(by_descent(Y, X, width, block, drop), rel=1e-8)
    assert dropblock.expected_loss(Y, found.U, found.V, X, block, drop) == pytest.approx(found.value, rel=1e-9)
    assert found.product == pytest.approx(found.U @ found.V.T)
    singular = np.linalg.svd(found.product @ X, compute_uv=False)
    assert singular[: len(found.singular_values)] == pytest.approx(found.singular_values, abs=1e-7 * singular[0])
    norms = dropblock.block_norms(found.U, found.V, X, block)
    assert norms == pytest.approx(np.full(width // block, norms.mean()), rel=1e-8)


def test_a_bound_that_is_not_attained_is_reported_with_its_gap():
    """Two blocks of two need two projections of rank 2 whose mean has the eigenvalues t, which rarely exist."""
    Y, X, *_ = net(3, 6, 6, 12, 4)
    found = dropblock.optimum(Y, X, 4, 2, 0.5)
    assert not found.tight
    assert found.bound < found.value
    assert found.gap == found.value - found.bound > 1e-4 * found.value
    assert found.value == pytest.approx(by_descent(Y, X, 4, 2, 0.5, starts=8), rel=1e-6)
    assert dropblock.expected_loss(Y, found.U, found.V, X, 2, 0.5) == pytest.approx(found.value, rel=1e-9)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 3]), st.sampled_from([1, 3, 4]), st.sampled_from([0.1, 0.6]))
def test_no_net_is_below_the_bound_and_no_step_improves_the_optimum(seed, block, k, drop):
    rng = np.random.default_rng(seed)
    a, b, n = rng.integers(1, 5, 3)
    Y, X, U, V = net(seed, a, b, n, block * k)
    found = dropblock.optimum(Y, X, block * k, block, drop)
    scale = np.sum(Y**2)
    assert dropblock.expected_loss(Y, U, V, X, block, drop) >= found.bound - 1e-9 * scale
    assert found.value >= found.bound - 1e-9 * scale
    for size in (1e-3, 1e-1):
        U, V = (W + size * rng.standard_normal(W.shape) for W in (found.U, found.V))
        near = dropblock.expected_loss(Y, U, V, X, block, drop)
        assert near >= found.bound - 1e-9 * scale
        if found.tight:
            assert near >= found.value - 1e-9 * scale


def test_without_noise_it_is_the_truncated_svd_and_with_much_noise_nothing():
    Y, X, *_ = net(5, 6, 5, 9, 4)
    fitted = Y @ np.linalg.pinv(X) @ X
    rest = np.sum((Y - fitted) ** 2) + np.sum(np.linalg.svd(fitted, compute_uv=False)[3:] ** 2)
    for drop in (0.0, 1e-305):
        found = dropblock.optimum(Y, X, 3, 1, drop)
        assert found.tight
        assert found.value == pytest.approx(rest)
        assert np.linalg.matrix_rank(found.product) == 3
    assert dropblock.optimum(Y, X, 4, 2, 1 - 1e-12).value == pytest.approx(np.sum(Y**2), rel=1e-9)


def test_nothing_to_fit_gives_zeros():
    Y, X, *_ = net(6, 3, 4, 5, 4)
    for left, right in ((np.zeros_like(Y), X), (Y, np.zeros_like(X))):
        found = dropblock.optimum(left, right, 4, 2, 0.5)
        assert found.tight
        assert found.value == pytest.approx(np.sum(left**2))
        assert found.product.shape == (3, 4)
        assert not found.product.any()


def test_equal_singular_values_are_shrunk_alike():
    Y = 3 * np.eye(6)
    found = dropblock.optimum(Y, np.eye(6), 12, 2, 0.5)  # Σ t = 2 over six equal values: t = 1/3, beta = 1/6
    assert found.tight
    assert found.product == pytest.approx(3 * (1 / 3) / (1 / 3 + 1 / 6) * np.eye(6), abs=1e-9)


def test_blocks_matter_only_where_a_singular_value_stands_out():
    """While no t reaches 1, block and drop enter as drop/((1 − drop)·width) alone: DropBlock is dropout."""
    Y = np.diag([4.0, 3.9, 3.8, 3.7, 3.6, 3.5])
    flat = [dropblock.optimum(Y, np.eye(6), 12, block, 0.5).value for block in (1, 2, 3)]
    assert flat == pytest.approx([flat[0]] * 3)
    Y[0, 0] = 40.0
    steep = [dropblock.optimum(Y, np.eye(6), 12, block, 0.5).value for block in (1, 2, 3)]
    assert steep[0] < steep[1] < steep[2]


@pytest.mark.parametrize(("theta", "block"), [(0.5, 1), (0.81, 2), (0.729, 3), (0.59049, 5)])
def test_overlapping_blocks_keep_units_as_often_as_the_grid(theta, block):
    width = 6
    seeds, shape = dropblock.overlapping(theta, block)
    assert seeds == pytest.approx(theta ** (1 / block))
    lives = np.array(list(itertools.product([0, 1], repeat=width + block - 1)))
    chances = np.prod(np.where(lives, seeds, 1 - seeds), axis=1)
    z = np.lib.stride_tricks.sliding_window_view(lives, block, axis=1).all(axis=-1).astype(float)
    mean = chances @ z
    cov = (z * chances[:, None]).T @ z - np.outer(mean, mean)
    assert mean == pytest.approx(np.full(width, theta), rel=1e-12)
    found = dropblock.overlapping(theta, block)
    assert found.cov(width) == pytest.approx(cov, abs=1e-13)
    assert cov[0, :block] / theta**2 == pytest.approx(shape[:width], abs=1e-12)
    printed = 1 - (1 - theta) ** (1 / (2 * block - 1))  # [Pal20 sec. 5.3]
    if block > 1:
        assert abs(printed**block - theta) > 0.15


I3 = np.eye(3)


test_mistakes_get_a_message_of_one_line = rejects(
    (lambda: dropblock.prox([1.0, np.nan], 1, 0.5), "m holds NaN"),
    (lambda: dropblock.prox([], 1, 0.5), "at least one entry"),
    (lambda: dropblock.prox(I3, 1, 0.5), r"received shape \(3, 3\)"),
    (lambda: dropblock.prox([1.0], 0, 0.5), "order must be a whole number of at least 1, received 0"),
    (lambda: dropblock.prox([1.0], 1, -0.5), r"beta, the weight of the penalty, must be .*received -0.5"),
    (lambda: dropblock.prox([1.0], 1, np.inf), "received inf"),
    (lambda: dropblock.prox_by_search([1.0], 1.5, 1), "order must be a whole number"),
    (lambda: dropblock.k_support_squared(["a"], 1), "a must be a vector of numbers"),
    (lambda: dropblock.expected_loss(I3, I3, I3, I3, 2, 0.5), "received width 3 and block 2"),
    (lambda: dropblock.expected_loss(I3, I3, I3, I3, 1, 1.0), r"must be a number in \[0, 1\), received 1.0"),
    (lambda: dropblock.expected_loss(I3, I3, np.eye(2), I3, 1, 0.5), "V must be 3×3"),
    (lambda: dropblock.optimum(I3, np.full((3, 3), np.nan), 3, 1, 0.5), "X holds NaN"),
    (lambda: dropblock.optimum(I3, np.eye(4), 3, 1, 0.5), "Y must be any×4"),
    (lambda: dropblock.optimum(I3, I3, 4, 3, 0.5), "received width 4 and block 3"),
    (lambda: dropblock.optimum(I3, I3, 0, 1, 0.5), "width must be a whole number"),
    (lambda: dropblock.overlapping(0.0, 2), r"theta, .* must be a number in \(0, 1\], received 0.0"),
    (lambda: dropblock.overlapping(0.5, 0), "block must be a whole number"),
    (lambda: dropblock.sgd(I3, I3, 2, 1, 0.5, learning_rate=0), r"learning_rate must be a number in \(0, 1e\+100\]"),
    (lambda: dropblock.sgd(I3, I3, 2, 1, 0.5, learning_rate=1e9, steps=50), "diverged by step"),
    (lambda: dropblock.sgd(I3, I3, 2, 1, 0.5, start=(I3, I3)), "U must be 3×2"),
    (lambda: dropblock.sgd(I3, I3, 2, 1, 0.5, start=I3), "two matrices, .* received 3"),
    (lambda: dropblock.sgd(I3, I3, 2, 1, 0.5, start=3), "start must be a list of two matrices"),
    (lambda: dropblock.sgd(I3, I3, 2, 1, 0.5, learning_rate="a"), "learning_rate must be .* received 'a'"),
    (lambda: dropblock.sgd(I3, I3, 2, 1, 0.5, seed=-1), "seed must be a whole number of at least 0, received -1"),
    (lambda: dropblock.sgd(I3, I3, 2, 1, 0.5, seed="a"), "seed .* received 'a'"),
    (lambda: dropblock.sgd(I3, I3, 2, 1, 0.5, speed=1), "learning_rate.*received 'speed'"),
    (lambda: dropblock.sgd(I3, I3, 2, 1, 0.5, connections=True), "received 'connections'"),
    (lambda: dropblock.prox([[1.0], [1.0, 2.0]], 1, 0.5), "m must be a vector of numbers.*equal length"),
    (lambda: dropblock.prox([1j], 1, 0.5), "m must be a vector of numbers.*complex"),
    (lambda: dropblock.prox([1.0], 1, "a"), "beta.*received 'a'"),
    (lambda: dropblock.overlapping(0.5, 2).cov(0), "width must be a whole number of at least 1, received 0"),
    (lambda: dropblock.overlapping(0.5, 2).cov(2.5), "width must be a whole number"),
    (lambda: dropblock.optimum(1e200 * I3, I3, 3, 1, 0.5), r"Y must be at most 1e\+100 .* scale the values down"),
    (lambda: dropblock.optimum(I3, [[1.0], [1.0, 2.0]], 3, 1, 0.5), "X must be a matrix.*equal length"),
    (lambda: dropblock.optimum(I3, I3, 3, 1, 0.5, seed=-1), "seed"),
    (lambda: dropblock.optimum(1e100 * I3, 1e-290 * I3, 3, 1, 0.5), "the optimum is beyond the range of float64"),
    (lambda: dropblock.prox_by_search([1.0, 2.0], 1, 1e308), r"beta.*in \[0, 1e\+100\]"),
    (lambda: dropblock.expected_loss(1e100 * I3, 1e99 * I3, 1e99 * I3, I3, 1, 0.5), "beyond the range of float64"),
)


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e170, 1e300])
def test_the_prox_is_independent_of_scale(scale):
    m = np.array([3.0, -1.0, 0.5, 2.0])
    truth = dropblock.prox(m, 2, 0.7)
    for way in (dropblock.prox, dropblock.prox_by_search):
        assert way(m * scale, 2, 0.7) / scale == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize("scale", [1e-90, 1e90])
def test_the_optimum_is_independent_of_scale(scale):
    Y = np.random.default_rng(2).standard_normal((3, 4))
    small, large = (dropblock.optimum(c * Y, np.eye(4), 4, 2, 0.4) for c in (1.0, scale))
    assert large.product / scale == pytest.approx(small.product, abs=1e-6)
    assert large.bound / scale**2 == pytest.approx(small.bound, rel=1e-9)
    assert large.tight == small.tight
