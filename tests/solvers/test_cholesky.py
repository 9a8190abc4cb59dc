import ctypes
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from offdiag import memory
from offdiag.errors import NotEnoughMemory, OffdiagError
from offdiag.gramian import layout
from offdiag.solvers import cholesky, lapack
from offdiag.weights import Packed
from tests.laws import oracles
from tests.laws.strategies import dropouts, dtypes, interactions, kept_weights

l2s = st.sampled_from([0.5, 3.0, 40.0])


def solve(G, dropout, l2, b, dtype="float64"):
    solution = cholesky.solve(layout.pack(G.astype(dtype)), len(G), dropout=dropout, l2=l2, kept_weight=b)
    return Packed(solution.C, solution.scale, solution.diagonal).toarray(), solution


@given(interactions(values="ratings"), dropouts, l2s, kept_weights, dtypes)
def test_every_full_rank_model_solves_its_normal_equations(X, dropout, l2, b, dtype):
    G = oracles.gram(X.toarray())
    B, solution = solve(G, dropout, l2, b, dtype)
    expected = oracles.weights(G, dropout, l2, b)
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(B, expected, rtol=0, atol=oracles.TOLERANCE[dtype] * scale)
    value = oracles.objective(G, expected, dropout, l2, b)
    assert solution.objective == pytest.approx(
        value, rel=10 * oracles.TOLERANCE[dtype], abs=1e-3 if dtype == "float32" else 1e-8
    )


@given(interactions(values="counts"), dropouts, l2s, kept_weights)
def test_the_gradient_of_the_objective_is_zero_at_the_solution(X, dropout, l2, b):
    G = oracles.gram(X.toarray())
    B, _ = solve(G, dropout, l2, b)
    gradient = oracles.gradient(G, B, dropout, l2, b)
    assert np.abs(gradient).max() <= 1e-9 * (np.abs(G).max() + l2)


@given(interactions(), dropouts, l2s, kept_weights, st.integers(0, 10_000))
def test_no_perturbation_lowers_the_objective(X, dropout, l2, b, seed):
    G = oracles.gram(X.toarray())
    B, solution = solve(G, dropout, l2, b)
    step = np.random.default_rng(seed).standard_normal(B.shape)
    if b == 0:
        np.fill_diagonal(step, 0)
    for size in (1e-3, 1.0):
        assert oracles.objective(G, B + size * step, dropout, l2, b) >= solution.objective - 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("dropout", [0.1, 0.5])
@pytest.mark.parametrize("b", [0.0, 0.2, 1.0])
def test_the_closed_form_minimises_the_mean_loss_over_all_masks(dropout, b):
    """Enumerates all masks, minimises that sum numerically from scratch, and compares: the whole chain at once."""
    rng = np.random.default_rng(3)
    X = (rng.random((5, 4)) < 0.6).astype(float)
    B, solution = solve(oracles.gram(X), dropout, 0.0, b)
    w = dropout + b * (1 - dropout)
    assert oracles.expected_stochastic_loss(X, B, dropout, 1.0, b) == pytest.approx(w * solution.objective, rel=1e-10)

    def loss(flat):
        return oracles.expected_stochastic_loss(X, flat.reshape(4, 4), dropout, 1.0, b)

    found = minimize(loss, np.zeros(16), method="L-BFGS-B", options={"maxiter": 300, "ftol": 1e-15, "gtol": 1e-9})
    assert found.fun == pytest.approx(w * solution.objective, rel=1e-7)
    off = ~np.eye(4, dtype=bool)
    np.testing.assert_allclose(found.x.reshape(4, 4)[off], B[off], atol=2e-4)


@pytest.mark.parametrize("b", [0.0, 0.5])
def test_sampled_dropout_agrees_with_the_closed_form(b):
    rng = np.random.default_rng(0)
    X = (rng.random((40, 8)) < 0.4).astype(float)
    dropout, q = 0.3, 0.7
    B, solution = solve(oracles.gram(X), dropout, 0.0, b)
    samples = []
    for _ in range(3000):
        kept = rng.random(X.shape) < q  # every entry, zeros too (masks are drawn there as well)
        samples.append(float((np.where(kept, b, 1.0) * (X - (X * kept) @ B / q) ** 2).sum()))
    sem = np.std(samples, ddof=1) / np.sqrt(len(samples))
    assert abs(np.mean(samples) - (dropout + b * q) * solution.objective) < 4 * sem


@given(interactions(), dropouts, l2s, kept_weights)
def test_scaling_the_data_and_l2_together_leaves_the_weights(X, dropout, l2, b):
    G = oracles.gram(X.toarray())
    one, _ = solve(G, dropout, l2, b)
    other, _ = solve(49 * G, dropout, 49 * l2, b)
    np.testing.assert_allclose(one, other, atol=1e-9)


def test_near_certain_dropout_tends_to_conditional_co_occurrence():
    """c·B → off(D⁻¹G) as p → 1."""
    G = oracles.gram(np.random.default_rng(0).random((30, 6)) < 0.5)
    p = 1 - 1e-7
    B, _ = solve(G, p, 0.0, 0.0)
    expected = G / np.diag(G)[:, None]
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(p / (1 - p) * B, expected, atol=1e-5)


def test_full_emphasis_is_not_the_limit_of_small_kept_weights():
    """The paper says otherwise: the diagonal tends to p(1 − ΛC)/(ΛC), not to 0; the off-diagonal is continuous."""
    G = oracles.gram(np.random.default_rng(1).random((30, 5)) < 0.5)
    zero, _ = solve(G, 0.3, 0.0, 0.0)
    tiny, solution = solve(G, 0.3, 0.0, 1e-9)
    C_ii = solution.C[layout.diagonal_positions(5)]
    free = oracles.penalty(G, 0.3, 0.0) * C_ii
    np.testing.assert_allclose(np.diag(tiny), 0.3 * (1 - free) / free, rtol=1e-6)
    assert np.diag(tiny).min() > 0.01
    off = ~np.eye(5, dtype=bool)
    np.testing.assert_allclose(tiny[off], zero[off], atol=1e-6)
    assert (np.diag(zero) == 0).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("l2", [0.0, 1.0])
@pytest.mark.parametrize("b", [0.0, 0.5, 1.0])
def test_an_item_nobody_has_gets_exactly_zero_weights(dtype, l2, b):
    X = (np.random.default_rng(0).random((20, 6)) < 0.5).astype(float)
    X[:, 2] = 0
    B, _ = solve(oracles.gram(X), 0.3, l2, b, dtype)
    assert not B[2].any()
    assert not B[:, 2].any()
    without, _ = solve(oracles.gram(np.delete(X, 2, axis=1)), 0.3, l2, b, dtype)
    np.testing.assert_allclose(np.delete(np.delete(B, 2, 0), 2, 1), without, atol=1e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_duplicate_columns_without_any_regularisation_are_a_clear_error(dtype):
    X = (np.random.default_rng(0).random((40, 5)) < 0.5).astype(float)
    X[:, 3] = X[:, 1]
    with pytest.raises(OffdiagError, match="singular.*set l2 or dropout > 0"):
        solve(oracles.gram(X), 0.0, 0.0, 0.0, dtype)
    B, _ = solve(oracles.gram(X), 0.1, 0.0, 0.0, dtype)  # dropout alone separates them
    assert np.isfinite(B).all()


def test_huge_counts_stay_accurate_in_float32():
    rng = np.random.default_rng(0)
    X = (rng.random((200, 12)) < 0.4) * rng.integers(1, 20_000, (200, 12)).astype(float)
    G = oracles.gram(X)
    B, _ = solve(G, 0.33, 1000.0, 0.0, "float32")
    np.testing.assert_allclose(B, oracles.weights(G, 0.33, 1000.0, 0.0), atol=1e-5)


def test_a_catalogue_that_is_too_large_is_an_error_with_an_alternative():
    with pytest.raises(NotEnoughMemory, match=r"needs .*TB.*available.*SparseEDLAE.*LowRankEDLAE"):
        cholesky.check_feasible(60_000, 4, extra=10**15)
    cholesky.check_feasible(100, 4)


def test_memory_is_the_only_limit_of_a_full_rank_model(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 10 * 10**9)
    cholesky.check_feasible(70_000, 4)
    with pytest.raises(NotEnoughMemory, match=r"72,000 items.* needs 10\.4 GB.* 10 GB is available"):
        cholesky.check_feasible(72_000, 4)


def test_an_interrupted_factorisation_ends_with_the_block_at_work():
    """LAPACK cannot be stopped: what it reads must stay alive after the caller has left, and nothing more is begun."""
    m = 6000  # long enough that LAPACK is still at work when the caller leaves
    values = np.zeros(layout.size(m), dtype=np.float32)
    values[layout.diagonal_positions(m)] = 4.0

    class StopError(Exception):
        pass

    def tick(_):
        raise StopError

    before = set(threading.enumerate())
    with pytest.raises(StopError):
        lapack.pftrf(values, m, tick)
    junk = [ctypes.c_int(7) for _ in range(20_000)]  # would overwrite what was freed
    for at_work in set(threading.enumerate()) - before:  # none on a machine so fast that it has finished
        at_work.join()
    assert len(junk) == 20_000
    found = values[layout.diagonal_positions(m)]
    h = m // 2
    assert (found[:h] == 2.0).all()
    assert (found[h:] == found[h]).all()
    assert found[h] in (2.0, 4.0)


def test_no_block_is_begun_after_the_caller_has_left():
    begun, may_continue, finished = threading.Event(), threading.Event(), []
    blocks = lapack._Blocks(layout.pack(np.eye(3)), 3)
    one = "potrf", lapack.LOWER, blocks.h, blocks.T1, blocks.ld

    def calls():
        yield one
        begun.set()
        may_continue.wait(60)
        yield one
        finished.append("the second call")  # the next one is asked for

    def leave(_):
        if begun.is_set():
            raise KeyboardInterrupt

    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        blocks.run(calls(), leave)
    at_work = set(threading.enumerate()) - before
    may_continue.set()
    for thread in at_work:
        thread.join()
    assert not finished


def test_sums_of_squares_beyond_the_precision_are_a_clear_error():
    with pytest.raises(OffdiagError, match="overflow"):
        solve(np.array([[np.inf, 0.0], [0.0, 1.0]]), 0.3, 1.0, 0.0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("m", [1, 2, 7, 64, 301])
def test_the_packed_inverse_is_the_inverse(dtype, m):
    A = np.random.default_rng(m).standard_normal((m, 2 * m))
    A = A @ A.T / m + np.eye(m)
    values = layout.pack(A.astype(dtype))
    reported = []
    cholesky.invert(values, m, lambda stage, fraction: reported.append(fraction))
    np.testing.assert_allclose(layout.unpack(values, m) @ A, np.eye(m), atol=3e-4 if dtype == "float32" else 1e-10)
    assert reported == sorted(reported)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("m", "at"), [(1, 0), (2, 1), (7, 2), (7, 4), (7, 6), (64, 63)])
def test_an_indefinite_matrix_is_one_clear_error_wherever_it_fails(m, at, dtype):
    A = np.eye(m, dtype=dtype)
    A[at, at] = -1
    assert lapack.pftrf(layout.pack(A), m) > 0
    with pytest.raises(OffdiagError, match="singular"):
        cholesky.invert(layout.pack(A), m)
