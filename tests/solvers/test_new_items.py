"""New items as mixtures of known ones: three systems, one answer, and what is chosen on held-out items."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from offdiag.solvers import new_items as solver
from tests.laws import oracles


def features(rng, n, d, density=0.4):
    F = rng.random((n, d)) * (rng.random((n, d)) < density)
    return sparse.csr_array(F / np.maximum(np.linalg.norm(F, axis=1, keepdims=True), 1e-9))


def dense(mixture):
    return mixture @ np.eye(mixture.R.shape[1])


@pytest.fixture(params=["features", "items", "nearest"])
def system(request, monkeypatch):
    """One of the three systems, whatever the sizes."""
    monkeypatch.setattr(solver, "FEATURES", 10**9 if request.param == "features" else 0)
    monkeypatch.setattr(solver, "ITEMS", 10**9 if request.param == "items" else 0)
    return request.param


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 3), st.floats(0.05, 5), st.integers(0, 2**32 - 1))
def test_every_system_gives_the_mixture_of_the_oracle(m, d, n, ridge, seed):
    rng = np.random.default_rng(seed)
    F, f = features(rng, m, d, 0.9), features(rng, n, d, 0.9)
    expected = np.array([oracles.new_item(F.toarray(), row, ridge) for row in f.toarray()]).reshape(n, m)
    with pytest.MonkeyPatch.context() as patch:
        for limits in ((10**9, 0), (0, 10**9), (0, 0)):
            patch.setattr(solver, "FEATURES", limits[0])
            patch.setattr(solver, "ITEMS", limits[1])
            found = dense(solver.mixture(F, f, ridge))
            if limits == (0, 0):  # known items without a common feature are left out of the system
                for row, one, part in zip(f.toarray(), found, expected, strict=True):
                    near = F.toarray() @ row > 0
                    part = oracles.new_item(F.toarray()[near], row, ridge) if near.any() else []
                    np.testing.assert_allclose(one[near], part, atol=1e-8)
                    assert not one[~near].any()
            else:
                np.testing.assert_allclose(found, expected, atol=1e-8)


def test_the_nearest_items_are_the_support_of_a_new_item(monkeypatch):
    monkeypatch.setattr(solver, "FEATURES", 0)
    monkeypatch.setattr(solver, "ITEMS", 0)
    monkeypatch.setattr(solver, "NEAREST", 3)
    rng = np.random.default_rng(0)
    F, f = features(rng, 30, 6), features(rng, 5, 6)
    found = dense(solver.mixture(F, f, 0.3))
    for row, similar, one in zip(found, (f @ F.T).toarray(), f.toarray(), strict=True):
        support = np.sort(np.argsort(-similar, kind="stable")[:3])
        assert set(np.flatnonzero(row)) <= set(support)
        np.testing.assert_allclose(row[support], oracles.new_item(F.toarray()[support], one, 0.3), atol=1e-9)


def test_strongest_entries_and_scales_are_those_of_the_dense_matrix(system):
    rng = np.random.default_rng(1)
    F, f = features(rng, 20, 9), features(rng, 4, 9)
    mixture = solver.mixture(F, f, 0.5)
    K = dense(mixture)
    rows, columns = rng.random(4), rng.random(20)
    np.testing.assert_allclose(dense(mixture.scaled(rows, columns)), rows[:, None] * K * columns, atol=1e-12)
    np.testing.assert_allclose(dense(mixture), K)  # the original is not changed
    best = mixture.strongest(3).toarray()
    for row, one in zip(K, best, strict=True):
        kept = np.argsort(-np.abs(row))[:3]
        np.testing.assert_allclose(one[kept], row[kept])
        assert np.count_nonzero(one) <= 3


def test_features_of_no_known_item_change_nothing():
    rng = np.random.default_rng(2)
    F, f, S = features(rng, 40, 8), features(rng, 5, 8), rng.random((30, 40))
    placed = solver.place(F, f, S)
    empty = sparse.csr_array((40, 1_000_000))
    wide = sparse.csr_array(sparse.hstack([F, empty])), sparse.csr_array(sparse.hstack([f, empty[:5]]))
    np.testing.assert_allclose(dense(solver.place(*wide, S).columns), dense(placed.columns), atol=1e-12)


def test_scores_that_follow_from_features_are_predicted_exactly():
    rng = np.random.default_rng(3)
    F, f = features(rng, 400, 5), features(rng, 6, 5)
    tastes = 1 + rng.random((50, 5))  # of histories for features
    S = tastes @ F.toarray().T
    placed = solver.place(F, f, S)
    assert placed.agreement > 0.98
    found, expected = placed.columns @ S.T, f.toarray() @ tastes.T
    assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.98


def test_a_few_items_or_none_with_features_are_placed_without_choices():
    S = np.ones((3, 4))
    empty = sparse.csr_array((4, 2))
    placed = solver.place(empty, sparse.csr_array(np.eye(2)), S)
    assert not dense(placed.columns).any()
    assert placed.agreement is None
    one = solver.place(sparse.csr_array(np.eye(4)[:, :2]), sparse.csr_array(np.eye(2)), S, ridge=1.0)
    np.testing.assert_allclose(dense(one.like), np.eye(4)[:2] / 2)


def test_typical_histories_follow_popularity_and_need_no_user():
    popularity = np.array([0.0, 1.0, 99.0])
    X = solver.typical_histories(popularity, n=50, items=4)
    counts = np.asarray(X.sum(axis=0)).ravel()
    assert counts[0] == 0
    assert counts[2] == 50
    assert (X != solver.typical_histories(popularity, n=50, items=4)).nnz == 0
    assert solver.typical_histories(np.zeros(3), n=5).nnz > 0
