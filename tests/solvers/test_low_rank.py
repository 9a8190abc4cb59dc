"""The low-rank solvers: every value is compared with a slow dense twin."""

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offdiag as od
from offdiag.solvers import low_rank
from offdiag.solvers.products import GramProduct
from tests.fixtures.low_rank_problems import (  # noqa: F401
    CASES,
    DATA,
    KEPT,
    both_precisions,
    check_report,
    every_data,
    every_kept_weight,
    five_tastes,
    one_blas_thread,
    product,
    rounding,
    scale_of,
    tastes,
)
from tests.laws import oracles
from tests.laws import oracles_low_rank as slow
from tests.laws.strategies import dropouts, dtypes, interactions, kept_weights

l2s = st.sampled_from([0.5, 3.0, 40.0])
values = st.sampled_from(["binary", "ratings", "counts"])


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


@pytest.mark.parametrize("decay", [pytest.param(False, marks=pytest.mark.slow), True])
@settings(max_examples=40)
@given(st.data(), values, dropouts, l2s, dtypes)
def test_closed_forms_are_the_best_matrices_of_their_rank(decay, draws, kind, dropout, l2, dtype):
    X = draws.draw(interactions(values=kind, min_items=2)).toarray()
    rank = draws.draw(st.integers(1, X.shape[1] - 1))
    G, P = oracles.gram(X), product(X, dtype)
    if decay:
        factors = low_rank.weight_decay(P, rank, l2=l2)
        value, slopes = (f(G, factors.U, factors.V, l2) for f in (slow.decay_objective, slow.decay_gradients))
        best = slow.decay_optimum(G, rank, l2)
    else:
        factors = low_rank.dlae(P, rank, dropout=dropout, l2=l2)
        value, slopes = (f(G, factors.U, factors.V, dropout, l2, 1.0) for f in (slow.objective, slow.gradients))
        best, _ = slow.dlae(G, rank, dropout, l2)
    check_report(G, factors, value, dtype, np.trace(G), rank)
    assert factors.stopped == "closed form"
    assert factors.kkt_residual is None
    assert value >= best - 1e-12 * np.trace(G), "nothing of this rank can be better: the oracle is wrong"
    # without dropout l2 is lost next to squared counts of millions: float32 then ends a little above
    assert value <= best + (1e-10 if dtype == "float64" else 1e-5 if decay else 1e-4) * np.trace(G)
    if dtype == "float64":
        for slope in slopes:
            assert np.abs(slope).max() <= 1e-5 * (np.abs(G).max() + l2)  # the root of the objective's tolerance


@pytest.mark.parametrize(("data", "rank"), [("small", 3), ("tastes", 2), ("trouble", 3), ("ties", 3)])
def test_closed_forms_reach_the_best_of_eight_general_searches(data, rank):
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


def test_weight_decay_drops_components_weaker_than_l2():
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


@functools.cache
def best_known(data, rank, dropout, l2, b):
    return slow.lbfgs(oracles.gram(DATA[data]), rank, dropout, l2, b, starts=10, iterations=200)[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "rank", "dropout", "l2", "b"),
    [(*case, b) for case in CASES for b in KEPT] + [("trouble", 3, 0.33, 5.0, 0.0), ("trouble", 3, 0.33, 5.0, 0.3)],
)
def test_edlae_is_as_low_as_a_general_optimiser(data, rank, dropout, l2, b):
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
        check_report(G, one, value, "float64", scale_of(G, one, dropout, l2), rank)


@every_data
@pytest.mark.parametrize("rank", [1, 3])
def test_edlae_with_everything_kept_reaches_the_optimum_of_dlae(data, rank):
    G = oracles.gram(DATA[data])
    factors = low_rank.edlae(product(DATA[data]), rank, dropout=0.33, l2=2.0, kept_weight=1.0, iterations=300)
    assert factors.objective == pytest.approx(slow.dlae_optimum(G, rank, 0.33, 2.0), rel=1e-8)


@settings(max_examples=60)
@given(st.data(), values, dropouts, l2s, kept_weights, dtypes)
def test_edlae_descends_and_ends_with_an_exact_decoder(draws, kind, dropout, l2, b, dtype):
    X = draws.draw(interactions(values=kind, min_items=2)).toarray()
    rank = draws.draw(st.integers(1, X.shape[1] - 1))
    G = oracles.gram(X)
    factors = low_rank.edlae(product(X, dtype), rank, dropout=dropout, l2=l2, kept_weight=b, iterations=8)
    size = scale_of(G, factors, dropout, l2)
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


@settings(max_examples=40)
@given(st.data(), values, dropouts, l2s, dtypes)
def test_zero_diagonal_keeps_its_constraint_and_reports_its_objective(draws, kind, dropout, l2, dtype):
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
def test_zero_diagonal_is_lower_than_the_published_alternation(data, rank, dropout, l2):
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
def test_the_same_seed_gives_the_same_bits(name, dtype):
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
def test_items_without_common_users_are_accepted(name, dtype):
    """G is diagonal: off the diagonal nothing can be learned, so zero-diagonal models must end at tr G."""
    X = DATA["nothing in common"]
    factors = SOLVERS[name](product(X, dtype), 2)
    for A in (factors.U, factors.V):
        assert np.isfinite(A).all()
    if name in ("edlae", "zero diagonal"):
        assert factors.objective == pytest.approx(np.trace(oracles.gram(X)), rel=1e-4 if dtype == "float32" else 1e-9)


@every_solver
def test_progress_is_reported_up_to_one(name):
    heard = []
    SOLVERS[name](product(DATA["tastes"]), 3, progress=lambda stage, fraction: heard.append((stage, fraction)))
    fractions = [fraction for _, fraction in heard]
    assert all(isinstance(stage, str) and stage for stage, _ in heard)
    assert all(0 <= fraction <= 1 for fraction in fractions)
    assert fractions[-1] == 1.0


def test_a_start_includes_its_multipliers():
    """Without them the diagonal is pulled away first, and twenty iterations come no lower than the start."""
    X = five_tastes(n=600, m=200)
    before, after = (GramProduct(od.gram(part, dtype=np.float64)) for part in (X, X[1:]))
    found = low_rank.zero_diagonal(before, 5, dropout=0.5, l2=5.0, iterations=300)
    cold = low_rank.zero_diagonal(after, 5, dropout=0.5, l2=5.0, iterations=20)
    warm = low_rank.zero_diagonal(after, 5, dropout=0.5, l2=5.0, iterations=20, start=(found.U, found.V))
    assert warm.objective < min(cold.objective, warm.objectives[0] - 0.1)
    assert warm.kkt_residual < 0.1 * cold.kkt_residual


@every_data
@both_precisions
@pytest.mark.parametrize("hidden", [0.01, 0.3, 0.9])
def test_hidden_dropout_is_the_closed_form_of_the_lab(data, dtype, hidden):
    """There from a square root of H and a dense SVD."""
    X, rank = DATA[data], 3
    found = low_rank.dlae(product(X, dtype), rank, dropout=0.3, l2=2.0, hidden_dropout=hidden)
    best = od.lab.dropout.joint_optimum(oracles.gram(X), rank, 0.3, hidden, l2=2.0)
    assert found.objective == pytest.approx(best.value, rel=rounding(dtype))
    assert found.objectives == [found.objective]
    assert found.stopped == "closed form"
    if data != "ties":  # where components tie, only the objective is unique
        tolerance = {"float32": 2e-3, "float64": 1e-6}[dtype]
        assert np.allclose(found.U @ found.V.T, best.product, atol=tolerance * np.abs(best.product).max())


def test_without_hidden_dropout_nothing_changes():
    X = DATA["tastes"]
    plain = low_rank.dlae(product(X, "float32"), 4, dropout=0.3, l2=2.0)
    given = low_rank.dlae(product(X, "float32"), 4, dropout=0.3, l2=2.0, hidden_dropout=0.0)
    assert np.array_equal(plain.U, given.U)
    assert np.array_equal(plain.V, given.V)
    little = low_rank.dlae(product(X, "float32"), 4, dropout=0.3, l2=2.0, hidden_dropout=1e-9)
    assert np.allclose(plain.V, little.V, atol=1e-5)
