"""The laws of the low-rank solvers and models; every value is compared with a slow dense twin."""

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from threadpoolctl import threadpool_limits

import offdiag as od
from offdiag.solvers import alternating, low_rank, products
from tests.laws import oracles
from tests.laws import oracles_low_rank as slow
from tests.laws.strategies import dropouts, dtypes, interactions, kept_weights

KEPT = [0.0, 0.01, 0.3, 1.0]
both_precisions = pytest.mark.parametrize("dtype", ["float32", "float64"])
every_kept_weight = pytest.mark.parametrize("b", KEPT)
l2s = st.sampled_from([0.5, 3.0, 40.0])
values = st.sampled_from(["binary", "ratings", "counts"])


@pytest.fixture(autouse=True, scope="module")
def one_blas_thread():
    """These matrices are tiny: on a busy machine BLAS threads would wait for each other, thirty times as long."""
    with threadpool_limits(1):
        yield


def tastes(seed, n, m, density=0.5):
    """0/1 data in which a few hidden tastes explain something."""
    rng = np.random.default_rng(seed)
    return (rng.random((n, m)) < density * (rng.random((n, 3)) @ rng.random((3, m)))).astype(np.float32)


def with_trouble():
    """An empty user, an item without users, two items that always co-occur, counts."""
    rng = np.random.default_rng(7)
    X = tastes(3, 50, 11) * rng.integers(1, 9, (50, 11))
    X[4] = 0
    X[:, 5] = 0
    X[:, 8] = X[:, 2]
    return X.astype(np.float32)


DATA = {
    "small": tastes(0, 40, 8),
    "tastes": tastes(1, 60, 12),
    "fewer users than items": tastes(3, 6, 9),
    "trouble": with_trouble(),
    "ties": np.kron(np.eye(4), np.ones((3, 2))).astype(np.float32) * 2,  # G has four equal eigenvalues
    "nothing in common": np.repeat(np.eye(5), [5, 4, 3, 2, 1], axis=0).astype(np.float32),
}
every_data = pytest.mark.parametrize("data", DATA)


def product(X, dtype="float64", power=0.0, kind="gram"):
    matrix = sparse.csr_array(X)
    if kind == "data":
        return products.DataProduct(matrix, power, np.dtype(dtype))
    return products.GramProduct(od.gram(matrix, power, dtype=dtype))


def scale(G, factors, dropout, l2):
    """The largest of the terms that J adds up, so that rounding can be judged against it."""
    U, V = slow.wide(factors.U), slow.wide(factors.V)
    beta = np.einsum("ik,ik->i", U, V)
    h = np.diag(G) + oracles.penalty(G, dropout, l2)
    return float(np.trace(G) + (h * beta**2).sum())


def rounding(dtype):
    """Relative error of a J that was summed from products of this precision."""
    return {"float32": 3e-5, "float64": 1e-11}[dtype]


def check_report(G, factors, value, dtype, size, rank):
    """What every solver promises about its result."""
    m = len(G)
    for A in (factors.U, factors.V):
        assert A.shape == (m, rank)
        assert A.dtype == dtype
        assert A.flags.c_contiguous
        assert np.isfinite(A).all()
    assert factors.objective == pytest.approx(value, rel=0, abs=rounding(dtype) * size)
    steps = np.array(factors.objectives)
    assert len(steps) >= 1
    assert (np.diff(steps[:-1]) <= 0).all(), steps
    assert (np.diff(steps) <= rounding(dtype) * size).all(), steps  # the last one is computed again
    assert factors.objective == pytest.approx(steps[-1], rel=0, abs=rounding(dtype) * size)
    assert factors.objective <= np.trace(G) * (1 + rounding(dtype)), "B = 0 would be better"


# The oracles themselves


@every_kept_weight
def test_the_oracle_gradients_are_the_slopes_of_the_oracle_objective(b):
    rng = np.random.default_rng(0)
    G, step = oracles.gram(DATA["small"]), 1e-6
    U, V, dU, dV = rng.standard_normal((4, 8, 3))
    slope = sum((A * d).sum() for A, d in zip(slow.gradients(G, U, V, 0.3, 2.0, b), (dU, dV), strict=True))
    ahead, behind = (slow.objective(G, U + t * dU, V + t * dV, 0.3, 2.0, b) for t in (step, -step))
    assert slope == pytest.approx((ahead - behind) / (2 * step), rel=1e-6)
    decay = sum((A * d).sum() for A, d in zip(slow.decay_gradients(G, U, V, 2.0), (dU, dV), strict=True))
    ahead, behind = (slow.decay_objective(G, U + t * dU, V + t * dV, 2.0) for t in (step, -step))
    assert decay == pytest.approx((ahead - behind) / (2 * step), rel=1e-6)


@every_kept_weight
def test_the_oracle_steps_leave_no_slope(b):
    rng = np.random.default_rng(1)
    G = oracles.gram(DATA["small"])
    U, V = rng.standard_normal((2, 8, 3))
    assert np.abs(slow.gradients(G, U, slow.best_decoder(G, U, 0.3, 2.0, b), 0.3, 2.0, b)[1]).max() < 1e-11
    assert np.abs(slow.gradients(G, slow.best_encoder(G, V, 0.3, 2.0, b), V, 0.3, 2.0, b)[0]).max() < 1e-11


@every_data
def test_the_oracle_closed_forms_agree_with_each_other(data):
    G = oracles.gram(DATA[data])
    for rank, dropout in itertools.product((1, 3), (0.0, 0.4)):
        value, B = slow.dlae(G, rank, dropout, 2.0)
        assert value == pytest.approx(slow.dlae_optimum(G, rank, dropout, 2.0), rel=1e-12)
        assert value == pytest.approx(oracles.objective(G, B, dropout, 2.0, 1.0), rel=1e-12)
        assert np.linalg.matrix_rank(B, tol=1e-9) <= rank


# Closed forms


@pytest.mark.slow
@settings(max_examples=40)
@given(st.data(), values, dropouts, l2s, dtypes)
def test_low_rank_dlae_is_the_best_matrix_of_its_rank(draws, kind, dropout, l2, dtype):
    X = draws.draw(interactions(values=kind, min_items=2)).toarray()
    rank = draws.draw(st.integers(1, X.shape[1] - 1))
    G = oracles.gram(X)
    factors = low_rank.dlae(product(X, dtype), rank, dropout=dropout, l2=l2)
    value = slow.objective(G, factors.U, factors.V, dropout, l2, 1.0)
    check_report(G, factors, value, dtype, np.trace(G), rank)
    assert factors.stopped == "closed form"
    assert factors.kkt_residual is None
    best, _ = slow.dlae(G, rank, dropout, l2)
    assert value >= best - 1e-12 * np.trace(G), "nothing of this rank can be better: the oracle is wrong"
    # without dropout l2 is lost next to squared counts of millions: float32 then ends a little above
    assert value <= best + (1e-10 if dtype == "float64" else 1e-4) * np.trace(G)
    if dtype == "float64":
        for slope in slow.gradients(G, factors.U, factors.V, dropout, l2, 1.0):
            assert np.abs(slope).max() <= 1e-5 * (np.abs(G).max() + l2)  # the root of the objective's tolerance


@settings(max_examples=40)
@given(st.data(), values, l2s, dtypes)
def test_weight_decay_is_the_best_matrix_of_its_rank(draws, kind, l2, dtype):
    X = draws.draw(interactions(values=kind, min_items=2)).toarray()
    rank = draws.draw(st.integers(1, X.shape[1] - 1))
    G = oracles.gram(X)
    factors = low_rank.weight_decay(product(X, dtype), rank, l2=l2)
    value = slow.decay_objective(G, factors.U, factors.V, l2)
    check_report(G, factors, value, dtype, np.trace(G), rank)
    assert factors.stopped == "closed form"
    best = slow.decay_optimum(G, rank, l2)
    assert value >= best - 1e-12 * np.trace(G), "nothing of this rank can be better: the oracle is wrong"
    assert value <= best + (1e-10 if dtype == "float64" else 1e-5) * np.trace(G)
    if dtype == "float64":
        for slope in slow.decay_gradients(G, factors.U, factors.V, l2):
            assert np.abs(slope).max() <= 1e-5 * (np.abs(G).max() + l2)  # the root of the objective's tolerance


@pytest.mark.parametrize(("data", "rank"), [("small", 3), ("tastes", 2), ("trouble", 3), ("ties", 3)])
def test_closed_forms_reach_what_a_general_optimiser_finds_from_eight_starts(data, rank):
    G = oracles.gram(DATA[data])
    P = product(DATA[data])
    found = low_rank.dlae(P, rank, dropout=0.33, l2=2.0).objective
    tried, _, _, _ = slow.lbfgs(G, rank, 0.33, 2.0, 1.0, starts=8, iterations=200)
    assert found == pytest.approx(slow.dlae_optimum(G, rank, 0.33, 2.0), rel=1e-10)
    assert found <= tried * (1 + 1e-10)
    assert found == pytest.approx(tried, rel=1e-6)
    found = low_rank.weight_decay(P, rank, l2=2.0).objective
    tried, _, _, _ = slow.decay_lbfgs(G, rank, 2.0, starts=8)
    assert found == pytest.approx(slow.decay_optimum(G, rank, 2.0), rel=1e-10)
    assert found == pytest.approx(tried, rel=1e-10)


@both_precisions
def test_a_rank_beyond_that_of_the_data_costs_nothing(dtype):
    """Three users: G has rank three, so ranks three to eight all reach the optimum of full rank."""
    X = tastes(5, 3, 9, density=1.0)
    G = oracles.gram(X)
    full = oracles.objective(G, oracles.weights(G, 0.4, 1.0, 1.0), 0.4, 1.0, 1.0)
    for rank in (3, 5, 8):
        factors = low_rank.dlae(product(X, dtype), rank, dropout=0.4, l2=1.0)
        assert factors.objective == pytest.approx(full, rel=1e-4 if dtype == "float32" else 1e-10)
        value = slow.objective(G, factors.U, factors.V, 0.4, 1.0, 1.0)
        check_report(G, factors, value, dtype, np.trace(G), rank)


@both_precisions
@pytest.mark.parametrize("rank", [1, 20, 40, 149])
@pytest.mark.parametrize("hard", [False, True])
def test_closed_forms_hold_where_the_basis_of_the_search_is_cut_back(dtype, rank, hard):
    """200 items and random data, whose spectrum is flat: the basis fills up several times."""
    X = (np.random.default_rng(0).random((150 if hard else 400, 200)) < 0.1).astype(np.float32)
    dropout, l2 = (0.0, 1.0) if hard else (0.33, 2.0)
    G, P = oracles.gram(X), product(X, dtype)
    size, tolerance = np.trace(G), 1e-5 if dtype == "float32" else 1e-10
    found = low_rank.dlae(P, rank, dropout=dropout, l2=l2)
    value = slow.objective(G, found.U, found.V, dropout, l2, 1.0)
    check_report(G, found, value, dtype, size, rank)
    assert value <= slow.dlae_optimum(G, rank, dropout, l2) + tolerance * size
    found = low_rank.weight_decay(P, rank, l2=l2)
    value = slow.decay_objective(G, found.U, found.V, l2)
    check_report(G, found, value, dtype, size, rank)
    assert value <= slow.decay_optimum(G, rank, l2) + tolerance * size


def test_weight_decay_switches_off_what_is_weaker_than_l2():
    X = DATA["tastes"]
    G = oracles.gram(X)
    strength = np.sort(np.linalg.eigvalsh(G))[::-1]
    l2 = float(np.sqrt(strength[2] * strength[3]))  # between the third and the fourth
    factors = low_rank.weight_decay(product(X), 6, l2=l2)
    assert np.linalg.matrix_rank(factors.U @ factors.V.T, tol=1e-8) == 3
    assert factors.objective == pytest.approx(slow.decay_optimum(G, 6, l2), rel=1e-10)
    nothing = low_rank.weight_decay(product(X), 6, l2=float(2 * strength[0]))
    assert not (nothing.U @ nothing.V.T).any()
    assert nothing.objective == pytest.approx(np.trace(G), rel=1e-12)


# EDLAE


@functools.cache
def best_known(data, rank, dropout, l2, b):
    return slow.lbfgs(oracles.gram(DATA[data]), rank, dropout, l2, b, starts=10, iterations=200)[0]


CASES = [("small", 3, 0.33, 2.0), ("tastes", 2, 0.2, 3.0), ("fewer users than items", 3, 0.4, 1.0)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "rank", "dropout", "l2", "b"),
    [(*case, b) for case in CASES for b in KEPT] + [("trouble", 3, 0.33, 5.0, 0.0), ("trouble", 3, 0.33, 5.0, 0.3)],
)
def test_edlae_comes_as_low_as_a_general_optimiser(data, rank, dropout, l2, b):
    G, P = oracles.gram(DATA[data]), product(DATA[data])
    best = best_known(data, rank, dropout, l2, b)
    full = oracles.objective(G, oracles.weights(G, dropout, l2, b), dropout, l2, b)
    given = {"dropout": dropout, "l2": l2, "kept_weight": b}
    ten = low_rank.edlae(P, rank, **given, iterations=60, starts=10, seed=0)
    assert full * (1 - 1e-9) <= ten.objective <= 1.002 * best
    for seed in range(3):
        one = low_rank.edlae(P, rank, **given, iterations=30, seed=seed)
        # with six users for nine items the start leads to a local minimum 4.4 % above the best one
        assert full * (1 - 1e-9) <= one.objective <= (1.05 if data == "fewer users than items" else 1.03) * best
        assert ten.objective <= one.objective * (1 + 1e-9) or seed > 0
        value = slow.objective(G, one.U, one.V, dropout, l2, b)
        check_report(G, one, value, "float64", scale(G, one, dropout, l2), rank)


@every_data
@pytest.mark.parametrize("rank", [1, 3])
def test_edlae_with_everything_kept_reaches_the_optimum_of_dlae(data, rank):
    G = oracles.gram(DATA[data])
    factors = low_rank.edlae(product(DATA[data]), rank, dropout=0.33, l2=2.0, kept_weight=1.0, iterations=300)
    assert factors.objective == pytest.approx(slow.dlae_optimum(G, rank, 0.33, 2.0), rel=1e-8)


@settings(max_examples=60)
@given(st.data(), values, dropouts, l2s, kept_weights, dtypes)
def test_edlae_descends_reports_its_objective_and_ends_with_an_exact_decoder(draws, kind, dropout, l2, b, dtype):
    X = draws.draw(interactions(values=kind, min_items=2)).toarray()
    rank = draws.draw(st.integers(1, X.shape[1] - 1))
    G = oracles.gram(X)
    factors = low_rank.edlae(product(X, dtype), rank, dropout=dropout, l2=l2, kept_weight=b, iterations=8)
    size = scale(G, factors, dropout, l2)
    value = slow.objective(G, factors.U, factors.V, dropout, l2, b)
    check_report(G, factors, value, dtype, size, rank)
    assert factors.stopped in (["closed form"] if b == 1 else ["converged", "iterations"])
    assert len(factors.objectives) <= 8 + 1
    full = oracles.objective(G, oracles.weights(G, dropout, l2, b), dropout, l2, b)
    assert value >= full - 1e-9 * np.trace(G)
    exact = slow.objective(G, factors.U, slow.best_decoder(G, factors.U, dropout, l2, b), dropout, l2, b)
    assert value <= exact + rounding(dtype) * 10 * size


@every_kept_weight
@both_precisions
@pytest.mark.parametrize(("data", "rank", "dropout", "l2"), CASES)
def test_the_decoder_is_the_exact_answer_to_the_encoder(data, rank, dropout, l2, b, dtype):
    G = oracles.gram(DATA[data])
    factors = low_rank.edlae(product(DATA[data], dtype), rank, dropout=dropout, l2=l2, kept_weight=b, iterations=3)
    exact = slow.best_decoder(G, factors.U, dropout, l2, b)
    found, wanted = factors.U @ factors.V.T, slow.wide(factors.U) @ exact.T
    np.testing.assert_allclose(
        found, wanted, rtol=0, atol=(2e-3 if dtype == "float32" else 1e-9) * np.abs(wanted).max()
    )
    slope = slow.gradients(G, factors.U, factors.V, dropout, l2, b)[1]
    size = np.abs(slow.wide(factors.U).T @ G).max()
    assert np.abs(slope).max() <= (1e-3 if dtype == "float32" else 1e-9) * size


@every_kept_weight
@pytest.mark.parametrize("refresh", [False, True])
def test_a_step_of_the_encoder_goes_down_the_slope_as_far_as_it_should(b, refresh):
    """Along the preconditioned gradient; J is a parabola there, whose minimum gives the length."""
    rng, dropout, l2 = np.random.default_rng(0), 0.4, 3.0
    G, P = oracles.gram(DATA["tastes"]), product(DATA["tastes"])
    lam, w = oracles.penalty(G, dropout, l2), dropout + b * (1 - dropout)
    problem = alternating.Problem(P, lam, 1 - b / w, (b - b**2) / w**2 * lam, np.zeros(12))
    U = rng.standard_normal((12, 3))
    state = alternating.v_step(problem, U, problem.times_h(U))
    H = G + np.diag(lam)
    np.testing.assert_allclose(state.U.T @ H @ state.U, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(state.V, slow.best_decoder(G, state.U, dropout, l2, b), atol=1e-9)
    value = slow.objective(G, state.U, state.V, dropout, l2, b)
    assert value == pytest.approx(state.J, rel=1e-12)

    moved, H_moved = alternating.u_step(problem, state, refresh=refresh)
    np.testing.assert_allclose(H_moved, H @ moved, atol=1e-9)
    step = moved - state.U
    slope = slow.gradients(G, state.U, state.V, dropout, l2, b)[0]
    downhill = -slope @ np.linalg.inv(state.V.T @ state.V) / np.diag(H)[:, None]
    length = (step * downhill).sum() / (downhill**2).sum()
    np.testing.assert_allclose(step, length * downhill, atol=1e-9)
    at = [slow.objective(G, state.U + x * step, state.V, dropout, l2, b) for x in (0.0, 0.5, 1.0)]
    bend, fall = 2 * (at[2] - 2 * at[1] + at[0]), 4 * at[1] - at[2] - 3 * at[0]
    assert -fall / (2 * bend) == pytest.approx(1 / alternating.RELAX, rel=1e-6)


@every_kept_weight
def test_at_convergence_neither_factor_has_a_slope(b):
    G, P = oracles.gram(DATA["tastes"]), product(DATA["tastes"])
    factors = low_rank.edlae(P, 3, dropout=0.4, l2=3.0, kept_weight=b, iterations=1000, tolerance=1e-12)
    if b > 0:  # the diagonal is free at b = 0, and this minimum lies in an endless valley
        assert factors.stopped == ("closed form" if b == 1 else "converged")
    dU, dV = slow.gradients(G, factors.U, factors.V, 0.4, 3.0, b)
    U, V = factors.U, factors.V
    # in units that do not change with U → UA, V → VA⁻ᵀ
    for slope, other in ((dU, V), (dV, U)):
        assert np.linalg.norm(slope @ np.linalg.pinv(other)) <= 1e-4 * np.trace(G)
    better = slow.best_encoder(G, V, 0.4, 3.0, b)
    assert slow.objective(G, better, V, 0.4, 3.0, b) >= factors.objective * (1 - (1e-9 if b > 0 else 1e-7))


@every_kept_weight
def test_the_objective_is_the_expected_loss_over_every_dropout_mask(b):
    X = tastes(2, 6, 5, density=0.9)
    factors = low_rank.edlae(product(X), 2, dropout=0.3, l2=0.0, kept_weight=b, iterations=20)
    w = 0.3 + b * 0.7
    B = factors.U @ factors.V.T
    assert oracles.expected_stochastic_loss(X, B, 0.3, 1.0, b) == pytest.approx(w * factors.objective, rel=1e-10)


def test_more_starts_and_more_iterations_are_never_worse():
    P = product(DATA["tastes"])
    given = {"dropout": 0.4, "l2": 1.0, "kept_weight": 0.0, "seed": 3}
    by_iterations = [low_rank.edlae(P, 4, **given, iterations=n).objective for n in (0, 1, 2, 5, 20)]
    assert by_iterations == sorted(by_iterations, reverse=True)
    assert by_iterations[-1] < by_iterations[0]
    by_starts = [low_rank.edlae(P, 4, **given, iterations=10, starts=n).objective for n in (1, 3, 10)]
    assert by_starts == sorted(by_starts, reverse=True)


# Zero diagonal


@settings(max_examples=40)
@given(st.data(), values, dropouts, l2s, dtypes)
def test_zero_diagonal_keeps_its_constraint_and_reports_what_it_reached(draws, kind, dropout, l2, dtype):
    X = draws.draw(interactions(values=kind, min_items=2)).toarray()
    rank = draws.draw(st.integers(1, X.shape[1] - 1))
    G = oracles.gram(X)
    factors = low_rank.zero_diagonal(product(X, dtype), rank, dropout=dropout, l2=l2, iterations=10)
    value = slow.zero_objective(G, factors.U, factors.V, dropout, l2)
    check_report(G, factors, value, dtype, np.trace(G), rank)
    B = slow.wide(factors.U) @ slow.wide(factors.V).T
    eps = np.finfo(dtype).eps
    lengths = np.linalg.norm(factors.U, axis=1) * np.linalg.norm(factors.V, axis=1)
    assert (np.abs(np.diag(B)) <= 1e3 * eps * (1 + lengths)).all()
    full = oracles.objective(G, oracles.weights(G, dropout, l2, 0.0), dropout, l2, 0.0)
    assert value >= full - rounding(dtype) * np.trace(G), "below the optimum of full rank: not the same objective"
    reported = slow.kkt_residual(G, factors.U, factors.V, dropout, l2)
    assert factors.kkt_residual == pytest.approx(reported, rel=1e-2, abs=1e-4 if dtype == "float32" else 1e-9)


@pytest.mark.parametrize(("data", "rank", "dropout", "l2"), [*CASES, ("trouble", 3, 0.33, 5.0)])
def test_zero_diagonal_comes_lower_than_the_published_alternation_and_near_stationarity(data, rank, dropout, l2):
    G = oracles.gram(DATA[data])
    factors = low_rank.zero_diagonal(product(DATA[data]), rank, dropout=dropout, l2=l2, iterations=300)
    published = slow.published_alternation(G, rank, dropout, l2, starts=4, iterations=60)[0]
    assert factors.objective <= published * (1 + 1e-6)
    if factors.stopped == "converged":
        assert slow.kkt_residual(G, factors.U, factors.V, dropout, l2) <= 1e-4


def test_zero_diagonal_escapes_where_the_published_alternation_stalls():
    X = tastes(2, 60, 12)
    G = oracles.gram(X)
    stalled, U, V, _ = slow.published_alternation(G, 2, 0.33, 2.0, starts=4, iterations=60)
    assert slow.kkt_residual(G, U, V, 0.33, 2.0) > 1e-2
    reference = slow.augmented_lagrangian(G, 2, 0.33, 2.0, starts=3)[0]
    assert reference < 0.95 * stalled
    factors = low_rank.zero_diagonal(product(X), 2, dropout=0.33, l2=2.0, iterations=300)
    assert factors.objective <= 1.03 * reference


# Laws of all solvers

SOLVERS = {
    "dlae": lambda P, k, l2=2.0, **kw: low_rank.dlae(P, k, dropout=0.4, l2=l2, **kw),
    "weight decay": lambda P, k, l2=2.0, **kw: low_rank.weight_decay(P, k, l2=l2, **kw),
    "edlae": lambda P, k, l2=2.0, **kw: low_rank.edlae(P, k, dropout=0.4, l2=l2, kept_weight=0.0, iterations=20, **kw),
    "edlae b=.3": lambda P, k, l2=2.0, **kw: low_rank.edlae(
        P, k, dropout=0.4, l2=l2, kept_weight=0.3, iterations=20, **kw
    ),
    "zero diagonal": lambda P, k, l2=2.0, **kw: low_rank.zero_diagonal(P, k, dropout=0.4, l2=l2, iterations=20, **kw),
}
GLOBAL = {"dlae", "weight decay"}
every_solver = pytest.mark.parametrize("name", SOLVERS)


@every_solver
@both_precisions
@pytest.mark.parametrize("power", [0.0, 0.5])
def test_from_the_data_alone_the_result_is_that_of_the_gram(name, dtype, power):
    X = tastes(8, 200, 30)
    X[5] = 0
    X[:, 7] = 0
    one = SOLVERS[name](product(X, dtype, power), 5)
    other = SOLVERS[name](product(X, dtype, power, kind="data"), 5)
    assert other.objective == pytest.approx(one.objective, rel=1e-4 if dtype == "float32" else 1e-9)
    weighted = oracles.gram(X, power)
    if name != "weight decay":
        b = {"dlae": 1.0, "edlae": 0.0, "edlae b=.3": 0.3, "zero diagonal": 1.0}[name]
        value = slow.objective(weighted, other.U, other.V, 0.4, 2.0, b)
    else:
        value = slow.decay_objective(weighted, other.U, other.V, 2.0)
    assert other.objective == pytest.approx(value, rel=1e-4 if dtype == "float32" else 1e-10)


@every_solver
@pytest.mark.parametrize("t", [2.0, 3.0])
def test_scaling_the_data_and_l2_together_leaves_the_weights(name, t):
    X = DATA["tastes"]
    one, other = SOLVERS[name](product(X), 3), SOLVERS[name](product(t * X), 3, l2=2.0 * t**2)
    if name == "weight decay":  # U and V are penalised themselves, so they are pinned down as well
        np.testing.assert_allclose(other.U @ other.V.T, one.U @ one.V.T, atol=1e-8)
    assert other.objective == pytest.approx(t**2 * one.objective, rel=1e-9 if name in GLOBAL or t == 2 else 1e-3)
    if name in GLOBAL or t == 2:  # a factor of two rounds nothing, so even the path is the same
        np.testing.assert_allclose(other.U @ other.V.T, one.U @ one.V.T, atol=1e-7)


@every_solver
def test_the_order_of_the_items_does_not_matter(name):
    X = DATA["tastes"]
    order = np.random.default_rng(3).permutation(X.shape[1])
    one, other = SOLVERS[name](product(X), 3), SOLVERS[name](product(X[:, order]), 3)
    assert other.objective == pytest.approx(one.objective, rel=1e-10 if name in GLOBAL else 0.03)
    if name in GLOBAL:
        B = (one.U @ one.V.T)[np.ix_(order, order)]
        np.testing.assert_allclose(other.U @ other.V.T, B, atol=1e-6)


@every_solver
@both_precisions
def test_the_same_seed_gives_the_same_bits_and_another_seed_about_the_same_value(name, dtype):
    P = product(tastes(8, 200, 30), dtype)
    one, again, other = (SOLVERS[name](P, 4, seed=seed) for seed in (5, 5, 6))
    assert np.array_equal(one.U, again.U)
    assert np.array_equal(one.V, again.V)
    assert one.objectives == again.objectives
    assert other.objective == pytest.approx(
        one.objective, rel=0.03 if name not in GLOBAL else 1e-4 if dtype == "float32" else 1e-10
    )


@every_solver
def test_a_higher_rank_is_not_worse(name):
    P = product(DATA["tastes"])
    found = [SOLVERS[name](P, rank).objective for rank in (1, 2, 4, 8, 11)]
    slack = 1e-10 if name in GLOBAL else 0.01
    assert all(b <= a * (1 + slack) for a, b in itertools.pairwise(found)), found
    assert found[-1] < 0.99 * found[0]


@every_solver
@both_precisions
def test_two_items_that_share_nothing_are_no_trouble(name, dtype):
    """G is diagonal: off the diagonal nothing can be learned, so zero-diagonal models must end at tr G."""
    X = DATA["nothing in common"]
    factors = SOLVERS[name](product(X, dtype), 2)
    for A in (factors.U, factors.V):
        assert np.isfinite(A).all()
    if name in ("edlae", "zero diagonal"):
        assert factors.objective == pytest.approx(np.trace(oracles.gram(X)), rel=1e-4 if dtype == "float32" else 1e-9)


@every_solver
def test_progress_is_told_and_runs_to_one(name):
    heard = []
    SOLVERS[name](product(DATA["tastes"]), 3, progress=lambda stage, fraction: heard.append((stage, fraction)))
    fractions = [fraction for _, fraction in heard]
    assert all(isinstance(stage, str) and stage for stage, _ in heard)
    assert all(0 <= fraction <= 1 for fraction in fractions)
    assert fractions[-1] == 1.0


# The models

GIVEN = {"dropout": 0.4, "l2": 2.0, "user_power": 0.0}
MODELS = {
    "LowRankDLAE": lambda **kw: od.LowRankDLAE(**GIVEN | kw),
    "LowRankEDLAE": lambda **kw: od.LowRankEDLAE(**GIVEN | kw),
    "LowRankEDLAE b=.3": lambda **kw: od.LowRankEDLAE(**GIVEN | {"kept_weight": 0.3} | kw),
    "ZeroDiagonalLAE": lambda **kw: od.ZeroDiagonalLAE(**GIVEN | kw),
    "WeightDecayLAE": lambda **kw: od.WeightDecayLAE(**{"l2": 2.0, "user_power": 0.0} | kw),
}
every_model = pytest.mark.parametrize("name", MODELS)
iterated = pytest.mark.parametrize("name", [name for name in MODELS if "EDLAE" in name or "Zero" in name])


def full_rank(name, X, dtype):
    """The weights without a rank limit."""
    if name == "WeightDecayLAE":
        strength, Q = np.linalg.eigh(oracles.gram(X))
        return (Q * np.maximum(1 - 2.0 / np.maximum(strength, 1e-9), 0)) @ Q.T
    if name == "LowRankDLAE":
        return od.DLAE(**GIVEN, dtype=dtype).fit(X).weights_.toarray()
    b = 0.3 if name.endswith("b=.3") else 0.0
    return od.EDLAE(**GIVEN, kept_weight=b, dtype=dtype).fit(X).weights_.toarray()


@every_model
@both_precisions
@pytest.mark.parametrize("extra", [0, 1, 300])
def test_a_rank_of_all_items_or_more_is_the_full_rank_model(name, dtype, extra):
    X = with_trouble()
    model = MODELS[name](rank=X.shape[1] + extra, dtype=dtype).fit(X)
    wanted = full_rank(name, X, dtype)
    tolerance = oracles.TOLERANCE[dtype] * max(1.0, np.abs(wanted).max())
    np.testing.assert_allclose(model.weights_.toarray(), wanted, rtol=0, atol=tolerance)
    assert model.stopped_ == ("closed form" if name == "WeightDecayLAE" else "full rank")
    assert model.settings_["rank"] == np.count_nonzero(X.any(axis=0)), "more than the items in use changes nothing"


@settings(max_examples=30)
@given(st.data(), values, dtypes)
def test_every_model_fits_any_data_at_any_rank(draws, kind, dtype):
    X = draws.draw(interactions(values=kind))
    rank = draws.draw(st.integers(1, X.shape[1] + 2))
    for make in MODELS.values():
        model = make(rank=rank, dtype=dtype, l2=5.0).fit(X)
        assert np.isfinite(model.weights_.toarray()).all()
        assert np.isfinite(model.objective_)
        assert model.objectives_[-1] == pytest.approx(model.objective_, rel=1e-4, abs=1e-4)
        assert model.encoder_.shape == model.decoder_.shape
        assert not model.encoder_.flags.writeable
        assert not model.decoder_.flags.writeable
        np.testing.assert_allclose(model.weights_.toarray(), model.encoder_ @ model.decoder_.T, rtol=1e-5, atol=1e-6)


@every_model
@both_precisions
@pytest.mark.parametrize("power", [0.0, 0.5])
def test_models_from_data_gram_and_products_agree(name, dtype, power):
    X = tastes(8, 150, 20)
    gram = MODELS[name](rank=4, dtype=dtype, user_power=power, products="gram").fit(X)
    data = MODELS[name](rank=4, dtype=dtype, user_power=power, products="data").fit(X)
    summed = MODELS[name](rank=4, dtype=dtype, user_power=power).fit_gram(od.gram(X, power, dtype=dtype))
    tolerance = 1e-4 if dtype == "float32" else 1e-9
    assert data.objective_ == pytest.approx(gram.objective_, rel=tolerance)
    assert summed.objective_ == pytest.approx(gram.objective_, rel=tolerance)
    G = oracles.gram(X, power)
    B = gram.weights_.toarray().astype(np.float64)
    if name == "WeightDecayLAE":
        value = slow.decay_objective(G, gram.encoder_, gram.decoder_, 2.0)
    else:
        b = {"LowRankEDLAE": 0.0, "LowRankEDLAE b=.3": 0.3}.get(name, 1.0)
        value = oracles.objective(G, B, 0.4, 2.0, b)
    assert gram.objective_ == pytest.approx(value, rel=tolerance)
    assert np.linalg.matrix_rank(B, tol=1e-4) == 4


@every_model
def test_one_rank_less_than_all_items_still_works(name):
    X = DATA["tastes"]
    model = MODELS[name](rank=X.shape[1] - 1, dtype="float64").fit(X)
    full = MODELS[name](rank=X.shape[1], dtype="float64").fit(X)
    assert full.objective_ * (1 - 1e-9) <= model.objective_ <= 1.1 * full.objective_


def test_the_zero_diagonal_model_reports_its_stationarity():
    X = DATA["tastes"]
    model = MODELS["ZeroDiagonalLAE"](rank=4, dtype="float64").fit(X)
    residual = slow.kkt_residual(oracles.gram(X), model.encoder_, model.decoder_, 0.4, 2.0)
    assert model.kkt_residual_ == pytest.approx(residual, rel=1e-2, abs=1e-9)
    assert np.abs(np.diag(model.weights_.toarray())).max() < 1e-12


# Interruption


def interrupt_after(n, what="minimising"):
    """A progress callback that raises KeyboardInterrupt at the n-th report of the stage."""
    heard = []

    def progress(stage, fraction):
        if stage.startswith(what):
            heard.append(fraction)
            if len(heard) == n:
                raise KeyboardInterrupt

    return progress, heard


@iterated
def test_an_interrupted_fit_warns_and_keeps_the_best_iterate(name):
    X = tastes(8, 150, 20)
    progress, heard = interrupt_after(3)
    model = MODELS[name](rank=4, dtype="float64")
    with pytest.warns(od.errors.InterruptedFitWarning, match="interrupted") as caught:
        assert model.fit(X, progress=progress) is model
    assert len(caught) == 1
    assert len(heard) == 3
    assert model.stopped_ == "interrupted"
    assert model.objective_ <= min(model.objectives_) * (1 + 1e-12)
    whole = MODELS[name](rank=4, dtype="float64").fit(X)
    assert whole.stopped_ in ("converged", "iterations")
    assert whole.objective_ <= model.objective_
    assert len(model.objectives_) < len(whole.objectives_)
    assert np.allclose(whole.objectives_[: len(model.objectives_)], model.objectives_, rtol=1e-12, atol=0)
    b = {"LowRankEDLAE": 0.0, "LowRankEDLAE b=.3": 0.3}.get(name, 1.0)
    B = model.weights_.toarray()
    assert model.objective_ == pytest.approx(oracles.objective(oracles.gram(X), B, 0.4, 2.0, b), rel=1e-9)
    assert model.recommend(X, k=3).indices.shape == (150, 3)


@pytest.mark.parametrize("start", [2, 3])
def test_an_interruption_in_a_later_start_keeps_the_best_start_so_far(start):
    X = tastes(8, 150, 20)
    one = MODELS["LowRankEDLAE"](rank=4, dtype="float64").fit(X)
    progress, heard = interrupt_after(1, f"start {start} of 3")
    with pytest.warns(od.errors.InterruptedFitWarning):
        model = MODELS["LowRankEDLAE"](rank=4, dtype="float64", starts=3).fit(X, progress=progress)
    assert len(heard) == 1
    assert model.stopped_ == "interrupted"
    assert model.objective_ <= one.objective_ * (1 + 1e-12)


@pytest.mark.parametrize("name", ["LowRankDLAE", "WeightDecayLAE"])
def test_an_interrupted_closed_form_keeps_the_best_subspace_so_far(name):
    X = tastes(8, 150, 20)
    progress, heard = interrupt_after(2, "finding the subspace")
    with pytest.warns(od.errors.InterruptedFitWarning, match="interrupted"):
        model = MODELS[name](rank=4, dtype="float64").fit(X, progress=progress)
    assert len(heard) == 2
    assert model.stopped_ == "interrupted"
    whole = MODELS[name](rank=4, dtype="float64").fit(X)
    assert whole.objective_ <= model.objective_ <= 1.2 * whole.objective_
    G = oracles.gram(X)
    if name == "WeightDecayLAE":
        value = slow.decay_objective(G, model.encoder_, model.decoder_, 2.0)
    else:
        value = slow.objective(G, model.encoder_, model.decoder_, 0.4, 2.0, 1.0)
    assert model.objective_ == pytest.approx(value, rel=1e-9)


@iterated
def test_an_interruption_before_there_is_anything_to_keep_is_passed_on(name):
    model = MODELS[name](rank=4)

    def progress(stage, fraction):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.fit(tastes(8, 150, 20), progress=progress)
    assert not hasattr(model, "weights_")


# Bad input


@every_model
@pytest.mark.parametrize("rank", [0, -3, 2.5, True, "many", None, float("nan"), float("inf")])
def test_a_rank_that_is_no_whole_number_is_refused(name, rank):
    with pytest.raises(od.OffdiagError, match="rank must be a whole number of at least 1, received") as error:
        MODELS[name](rank=rank).fit(DATA["small"])
    assert "\n" not in str(error.value)
    assert repr(rank) in str(error.value)


@every_model
@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("seed", -1), ("seed", 1.5), ("seed", "x"), ("seed", True),
        ("products", "both"), ("products", None),
        ("l2", -1.0), ("l2", float("inf")), ("user_power", "x"), ("dtype", "float16"),
    ],
)  # fmt: skip
def test_settings_out_of_range_are_named(name, setting, value):
    with pytest.raises(od.OffdiagError, match=f"{setting} must be.*received") as error:
        MODELS[name](rank=2, **{setting: value}).fit(DATA["small"])
    assert "\n" not in str(error.value)
    assert repr(value) in str(error.value)


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        *itertools.product(["LowRankEDLAE", "ZeroDiagonalLAE"], ["iterations"], [-1, 2.5, "x", True]),
        *itertools.product(["LowRankEDLAE"], ["starts"], [0, -1, 2.5, "x", True]),
        *itertools.product(["LowRankEDLAE"], ["kept_weight"], [-0.1, 1.5, "auto", True]),
        *itertools.product(["LowRankEDLAE", "LowRankDLAE", "ZeroDiagonalLAE"], ["dropout"], [1.0, -0.1, "x", True]),
    ],
)
def test_settings_of_the_iteration_out_of_range_are_named(name, setting, value):
    with pytest.raises(od.OffdiagError, match=f"{setting} must be.*received") as error:
        MODELS[name](rank=2, **{setting: value}).fit(DATA["small"])
    assert "\n" not in str(error.value)
    assert repr(value) in str(error.value)


@every_model
@pytest.mark.parametrize("kind", ["gram", "data", "auto"])
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.array([[1.0, np.nan, 1.0]]), "NaN"),
        (np.array([[1.0, np.inf, 1.0]]), "infinite"),
        (np.array([[1.0, -2.0, 1.0]]), "negative"),
        (np.zeros((3, 4)), "nothing to learn from"),
        (np.zeros((0, 4)), "nothing to learn from"),
        (np.zeros((3, 0)), "nothing to learn from"),
    ],
)
def test_bad_data_is_named(name, kind, X, message):
    with pytest.raises(od.OffdiagError, match=message):
        MODELS[name](rank=1, products=kind).fit(X)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "WeightDecayLAE"])
def test_without_dropout_and_l2_there_is_no_low_rank_model(name):
    with pytest.raises(od.OffdiagError, match="dropout and l2 are both 0.*give l2 or dropout > 0"):
        MODELS[name](rank=3, dropout=0.0, l2=0.0).fit(DATA["tastes"])


@both_precisions
def test_weight_decay_without_decay_is_the_truncated_decomposition(dtype):
    G = oracles.gram(DATA["tastes"])
    model = MODELS["WeightDecayLAE"](rank=3, l2=0.0, dtype=dtype).fit(DATA["tastes"])
    Q = np.linalg.eigh(G)[1][:, -3:]
    np.testing.assert_allclose(model.weights_.toarray(), Q @ Q.T, atol=2e-3 if dtype == "float32" else 1e-5)
    assert model.objective_ == pytest.approx(
        np.linalg.eigvalsh(G)[:-3].sum(), rel=1e-5 if dtype == "float32" else 1e-10
    )


@every_model
@pytest.mark.parametrize("kind", ["gram", "data"])
def test_values_whose_squares_overflow_are_a_clear_error(name, kind):
    X = DATA["tastes"] * np.float32(1e25)
    with pytest.raises(od.OffdiagError, match="overflow"):
        MODELS[name](rank=3, products=kind).fit(X)


def test_a_catalogue_too_large_for_a_gram_is_fitted_from_its_data():
    """70,000 items are beyond what LAPACK's packed format can index."""
    m = 70_000
    popular = sparse.csr_array(tastes(0, 400, 40))
    rng = np.random.default_rng(0)
    tail = sparse.csr_array((np.ones(800), (rng.integers(0, 400, 800), rng.integers(0, m - 40, 800))), (400, m - 40))
    X = sparse.csr_array(sparse.hstack([popular, tail]))
    model = od.LowRankEDLAE(rank=2, iterations=2, **GIVEN).fit(X)
    assert model.settings_["products"] == "data"
    assert model.encoder_.shape == (m, 2)
    alone = od.LowRankEDLAE(rank=2, iterations=2, **GIVEN).fit(popular)
    # what the popular items explain of each other remains; the tail adds its own weight and explains little
    assert (X.data**2).sum() - model.objective_ >= 0.9 * ((popular.data**2).sum() - alone.objective_)
