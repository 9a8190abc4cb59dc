"""The search for the leading subspace: restarts of its basis, data of low rank, and a start from nearby factors."""

import numpy as np
import pytest

import offdiag as od
from offdiag.solvers import low_rank, subspace
from offdiag.solvers.products import GramProduct
from tests.fixtures.low_rank_problems import both_precisions, check_report, five_tastes, product, tastes
from tests.laws import oracles
from tests.laws import oracles_low_rank as slow


@both_precisions
def test_ranks_beyond_that_of_the_data_reach_the_full_optimum(dtype):
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


def test_a_start_saves_rounds(monkeypatch):
    X = five_tastes(n=600, m=200)
    before, after = (GramProduct(od.gram(part, dtype=np.float64)) for part in (X, X[1:]))
    rounds = []
    best = subspace._Basis.best
    monkeypatch.setattr(subspace._Basis, "best", lambda self, k: rounds.append(1) or best(self, k))
    found = low_rank.dlae(before, 5, dropout=0.5, l2=5.0)
    rounds.clear()
    cold = low_rank.dlae(after, 5, dropout=0.5, l2=5.0)
    n_cold = len(rounds)
    rounds.clear()
    warm = low_rank.dlae(after, 5, dropout=0.5, l2=5.0, start=found.U)
    assert len(rounds) < n_cold
    assert warm.objective == pytest.approx(cold.objective, rel=1e-10)
