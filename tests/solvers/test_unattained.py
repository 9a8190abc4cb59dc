"""[Steck20 Eq. 10] without a minimum: matrices of the rank approach the limit, and ordinary data is not reported."""

import numpy as np
import pytest

import offdiag as od
from offdiag.solvers import low_rank
from offdiag.solvers.alternating import Problem, v_step
from offdiag.solvers.unattained import Swept, limit, unattained
from tests.fixtures.low_rank_problems import both_precisions, product
from tests.laws import oracles
from tests.laws import oracles_low_rank as slow

NOISE = {"dropout": 0.3, "l2": 1.0}


def runaway():
    """40 users, 6 items: at rank 2 one diagonal entry grows for ever."""
    return (np.random.default_rng(5).random((40, 6)) < 0.4).astype(float)


def problem_of(X, dtype="float64"):
    times = product(X, dtype)
    return Problem(times, low_rank.penalty(times, **NOISE), 1.0, np.zeros(times.m), np.zeros(times.m))


def fitted(X, rank, iterations, dtype="float64", kept_weight=0.0):
    return low_rank.edlae(product(X, dtype), rank, **NOISE, kept_weight=kept_weight, iterations=iterations)


def diagonal(found):
    return np.abs(np.einsum("ik,ik->i", found.U, found.V, dtype=np.float64))


def test_an_item_is_swept_out_as_by_regression():
    X = runaway()
    G = X.T @ X
    swept, V = Swept(product(X), 2, 7.5), np.random.default_rng(0).standard_normal((6, 3))
    dense = G - np.outer(G[:, 2], G[2]) / 7.5
    dense[2] = dense[:, 2] = 0
    assert np.allclose(swept(V), dense @ V)
    assert np.allclose(swept.g, np.diag(dense))


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_the_limit_is_approached_by_matrices_of_the_rank(rank):
    """(e_i + εx)(y + e_i/ε)ᵀ next to rank − 1 other directions, all written out here."""
    X, i = runaway(), 3
    problem, G = problem_of(X), X.T @ X
    H = G + np.diag(oracles.penalty(G, NOISE["dropout"], NOISE["l2"]))
    U = np.random.default_rng(rank).standard_normal((6, rank))
    state = v_step(problem, U, problem.times_h(U))
    found = limit(problem, state, i)
    others = np.arange(6) != i
    rest = H - np.outer(H[:, i], H[i]) / H[i, i]
    W = np.where(others[:, None], state.U, 0.0)
    W = W @ np.linalg.eigh(W.T @ rest @ W)[1][:, 1:]  # (6, rank − 1)
    V, y, x = np.zeros((6, rank - 1)), np.zeros(6), np.zeros(6)
    for j in np.flatnonzero(others):
        free = np.column_stack([np.where(np.arange(6) == j, 0.0, w) for w in W.T] + [np.eye(6)[i]])
        best = np.linalg.lstsq(free.T @ H @ free, free.T @ G[:, j], rcond=None)[0]
        V[j], y[j] = best[:-1], best[-1]
    x[others] = np.linalg.solve(H[np.ix_(others, others)], G[others, i])
    gaps = []
    for step in (1e-2, 1e-3, 1e-4):
        left = np.column_stack([W, np.eye(6)[i] + step * x])
        right = np.column_stack([V, y + np.eye(6)[i] / step])
        gaps.append(slow.objective(G, left, right, NOISE["dropout"], NOISE["l2"], 0.0) - found)
    assert abs(gaps[2]) < 1e-4 * found
    assert abs(gaps[2]) < 0.2 * abs(gaps[1]) < 0.04 * abs(gaps[0])


@both_precisions
def test_a_diagonal_that_grows_without_bound_is_reported(dtype):
    short, long, longer = (fitted(runaway(), 2, n, dtype) for n in (10, 500, 1_500))
    assert short.stopped != low_rank.NO_MINIMISER
    assert long.stopped == low_rank.NO_MINIMISER
    assert diagonal(long).max() > 4
    if dtype == "float64":  # in float32 the gains are soon below rounding
        assert diagonal(longer).max() > 1.4 * diagonal(long).max() > 10 * diagonal(short).max()
        assert longer.objective < long.objective < short.objective


def test_kept_weight_above_zero_has_a_minimum():
    found = fitted(runaway(), 2, 3_000, kept_weight=0.05)
    assert found.stopped == "converged"
    assert diagonal(found).max() < 5


@both_precisions
def test_ordinary_data_is_not_reported(dtype):
    inter = od.synthetic.interactions(500, 60, 6_000, seed=0)
    problem = problem_of(inter.matrix, dtype)
    for rank in (1, 2, 5):
        found = fitted(inter.matrix, rank, 100, dtype)
        state = v_step(problem, found.U, problem.times_h(found.U))
        assert found.stopped in ("converged", "iterations")
        assert diagonal(found).max() < 1
        assert unattained(problem, state) is None
        assert limit(problem, state, int(diagonal(found).argmax())) > found.objective


def test_several_items_may_run_away_at_once():
    """60 items at rank 20: two entries grow, and the limit of one of them has to be minimised to be lower."""
    inter = od.synthetic.interactions(500, 60, 6_000, seed=0)
    problem, found = problem_of(inter.matrix), fitted(inter.matrix, 20, 100)
    state = v_step(problem, found.U, problem.times_h(found.U))
    item = int(diagonal(found).argmax())
    assert found.stopped == low_rank.NO_MINIMISER
    assert limit(problem, state, item) > found.objective > limit(problem, state, item, 30)


@pytest.mark.slow
def test_real_data_has_no_minimum_with_much_l2_and_little_dropout(shared_data):
    """Last.fm, 2,828 artists, rank 100; with a quarter of the l2 there is one."""
    inter = od.read(shared_data("lastfm-hetrec2011") / "user_artists.dat", user=0, item=1)
    inter = od.prepare.min_counts(od.prepare.binarize(inter), items=5)
    train = od.split.strong(inter, held_out=0.1, seed=0).train
    times, noise = product(train.matrix, "float32", 0.5, "data"), {"dropout": 0.3, "kept_weight": 0.0}
    found, usual = (low_rank.edlae(times, 100, l2=l2, iterations=n, **noise) for l2, n in ((218.0, 90), (54.5, 30)))
    assert found.stopped == low_rank.NO_MINIMISER
    assert usual.stopped in ("converged", "iterations")
    assert diagonal(usual).max() < 0.5


@pytest.mark.slow
def test_real_data_is_far_from_the_limit(shared_data):
    train = od.read(shared_data("ml-1m-ultragcn") / "train.txt", format="adjacency")
    problem = problem_of(train.matrix, "float32")
    found = fitted(train.matrix, 20, 10, "float32")
    state = v_step(problem, found.U, problem.times_h(found.U))
    assert diagonal(found).max() < 0.5
    assert limit(problem, state, int(diagonal(found).argmax())) > found.objective
