"""New items as mixtures of known ones, and what is chosen on known items that are treated as new."""

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


def sample(rng, F, tastes):
    """Histories whose scores follow from the features."""
    m = F.shape[0]
    held = solver.held_out(F, np.ones(m))
    X = sparse.csr_array((rng.random((len(tastes), m)) < 0.1).astype(np.float32))
    return solver.Sample(held, X, tastes @ F.toarray().T, 0.01)


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 3), st.floats(0.05, 5), st.integers(0, 2**32 - 1))
def test_mixtures_are_those_of_the_oracle_on_items_with_common_features(m, d, n, ridge, seed):
    rng = np.random.default_rng(seed)
    F, f = features(rng, m, d, 0.7), features(rng, n, d, 0.7)
    found = solver.neighbours(F, f).mixture(1, ridge).toarray()
    assert found.shape == (n, m)
    for row, one in zip(f.toarray(), found, strict=True):
        near = F.toarray() @ row > 0
        expected = oracles.new_item(F.toarray()[near], row, ridge) if near.any() else []
        np.testing.assert_allclose(one[near], expected, atol=1e-8)
        assert not one[~near].any()


@pytest.mark.parametrize("power", solver.POWERS)
def test_only_the_nearest_items_count_in_the_kernel_of_their_products(monkeypatch, power):
    monkeypatch.setattr(solver, "NEAREST", 3)
    rng = np.random.default_rng(0)
    F, f = features(rng, 30, 6), features(rng, 5, 6)
    found = solver.neighbours(F, f, without=np.array([0, 1])).mixture(power, 0.3).toarray()
    assert not found[:, :2].any()
    for row, similar in zip(found, (f @ F.T).toarray(), strict=True):
        similar[:2] = 0
        support = np.argsort(-similar, kind="stable")[:3]
        kernel = (F.toarray()[support] @ F.toarray()[support].T) ** power
        expected = np.linalg.solve(kernel + 0.3 * np.eye(3), similar[support] ** power)
        np.testing.assert_allclose(row[support], expected, atol=1e-9)
        assert np.count_nonzero(row) <= 3


def test_vectors_have_the_neighbours_of_sparse_rows(monkeypatch):
    monkeypatch.setattr(solver, "NEAREST", 20)
    rng = np.random.default_rng(8)
    F, f = (sparse.csr_array(rng.standard_normal((n, 4))) for n in (30, 7))
    found = solver.neighbours(F, f, without=np.array([3]))
    monkeypatch.setattr(solver, "DENSE", 2.0)
    expected = solver.neighbours(F, f, without=np.array([3]))
    assert (found.sets < 0).any()
    assert np.array_equal(found.sets, expected.sets)
    np.testing.assert_allclose(found.products, expected.products, atol=1e-12)
    np.testing.assert_allclose(found.grams, expected.grams, atol=1e-12)


def test_sizes_that_follow_from_features_change_what_new_items_get():
    """Half of the items have a feature of which little is chosen; who is like whom says nothing about that."""
    rng = np.random.default_rng(7)
    tastes = features(rng, 400, 12, 0.3)
    rare = sparse.csr_array((np.arange(400) % 2 * 1.0)[:, None])
    F, kinds = sparse.csr_array(sparse.hstack([tastes, rare * 0.05])), np.repeat([0, 1], [12, 1])
    some = sample(rng, tastes, 1 + rng.random((60, 12)))
    some = solver.Sample(some.held, some.histories, some.scores * np.where(np.arange(400) % 2, 0.1, 1.0), some.unit)
    length = solver._lengths(some.scores)
    choice = solver.choose(F, some, length, kinds)
    assert choice.sized > 0
    f = sparse.csr_array(sparse.hstack([tastes[[0, 0]], np.array([[0.0], [0.05]])]))
    common, seldom = (solver.place(F, f, some, kinds).columns @ some.scores.T).mean(axis=1)
    assert common > 1.3 * seldom


def test_agreements_are_correlations_of_the_sums():
    rng = np.random.default_rng(9)
    F = features(rng, 60, 5)
    trial = solver._Trial(F, sample(rng, F, rng.random((20, 5))), np.ones(60), np.zeros(5, dtype=np.int64))
    scores, direct = (solver._centred(rng.random(trial.own.shape)) for _ in range(2))
    sums = [scores + w * direct for w in solver.DIRECT]
    expected = [np.vdot(one, trial.own) / np.linalg.norm(one) / np.linalg.norm(trial.own) for one in sums]
    np.testing.assert_allclose(trial._agreements(scores, direct), expected, rtol=1e-9)
    assert not trial._agreements(scores * 0, direct * 0).any()


def test_strongest_entries_are_those_of_the_dense_rows():
    rng = np.random.default_rng(1)
    K = sparse.csr_array(rng.standard_normal((6, 12)) * (rng.random((6, 12)) < 0.6))
    best = solver.strongest(K, 3).toarray()
    for row, one in zip(K.toarray(), best, strict=True):
        kept = np.argsort(-np.abs(row))[:3]
        assert np.array_equal(one[kept], row[kept])
        assert np.count_nonzero(one) == min(3, np.count_nonzero(row))
    assert solver.strongest(sparse.csr_array((2, 4)), 3).nnz == 0


def test_features_of_no_known_item_change_nothing():
    rng = np.random.default_rng(2)
    F, f = features(rng, 40, 8), features(rng, 5, 8)
    some = sample(rng, F, rng.random((30, 8)))
    placed = solver.place(F, f, some)
    empty = sparse.csr_array((40, 1_000_000))
    wide = sparse.csr_array(sparse.hstack([F, empty])), sparse.csr_array(sparse.hstack([f, empty[:5]]))
    again = solver.place(*wide, some)
    assert again.choice == placed.choice
    np.testing.assert_allclose(again.columns.toarray(), placed.columns.toarray(), atol=1e-12)


def test_scores_that_follow_from_features_are_predicted():
    rng = np.random.default_rng(3)
    F, f = features(rng, 400, 5), features(rng, 6, 5)
    tastes = 1 + rng.random((50, 5))
    some = sample(rng, F, tastes)
    placed = solver.place(F, f, some)
    assert placed.choice.agreement > 0.98
    found, expected = placed.columns @ some.scores.T, f.toarray() @ tastes.T
    assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.95


def test_items_of_a_kind_that_follow_each_other_count_directly():
    """Where an item is chosen because one like it was chosen, and for no other reason, direct is above 0."""
    F = sparse.csr_array(np.kron(np.eye(30), np.ones((4, 1))))
    W = F.toarray() @ F.toarray().T * 0.1
    np.fill_diagonal(W, 0)
    held = solver.held_out(F, np.ones(120))
    X = solver.typical_histories(np.ones(120), held, n=300)
    one_kind = np.zeros(30, dtype=np.int64)
    choice = solver.choose(F, solver.Sample(held, X, X @ W, 0.1), np.ones(120), one_kind)
    assert choice.direct > 0
    unlike = np.roll(F.toarray() @ F.toarray().T, 4, axis=0)
    other = solver.choose(F, solver.Sample(held, X, X @ unlike, 0.1), np.ones(120), one_kind)
    assert other.direct == 0  # here those like it say nothing, but those that lead to them do
    assert other.agreement > 0.9


def test_a_kind_of_feature_that_says_nothing_counts_less():
    rng = np.random.default_rng(5)
    useful, noise = features(rng, 300, 12, 0.2), features(rng, 300, 12, 0.2)
    F = sparse.csr_array(sparse.hstack([useful, noise], format="csr") * np.sqrt(0.5))
    some = sample(rng, useful, rng.random((60, 12)))
    kinds = np.repeat([0, 1], 12)
    apart, alike = (solver.choose(F, some, np.ones(300), one) for one in (kinds, kinds * 0))
    assert apart.kinds[1] < apart.kinds[0]
    assert apart.agreement > alike.agreement
    mirrored = sparse.csr_array(sparse.hstack([noise, useful], format="csr") * np.sqrt(0.5))
    swapped = solver.choose(mirrored, some, np.ones(300), kinds)
    assert swapped.kinds[0] < swapped.kinds[1]


def test_weights_of_kinds_are_those_of_a_sum_of_kernels():
    rng = np.random.default_rng(6)
    F, kinds = features(rng, 20, 9, 0.8), np.array([0, 0, 0, 1, 1, 1, 2, 2, 2])
    share = solver._shares(F, (1.0, 3.0, 0.25), kinds)
    K = sum(w * (F[:, kinds == one] @ F[:, kinds == one].T).toarray() for one, w in enumerate((1.0, 3.0, 0.25)))
    scaled = F.toarray() * share
    np.testing.assert_allclose(scaled @ scaled.T, K * F.power(2).sum() / np.trace(K), atol=1e-12)
    assert np.array_equal(solver._shares(F, (1.0, 1.0, 1.0), kinds), np.ones(9))


def test_a_few_items_or_none_with_features_are_placed_without_choices():
    S = np.ones((3, 4))
    nothing = solver.Sample(np.empty(0, dtype=np.int64), sparse.csr_array((3, 4)), S, 0.0)
    placed = solver.place(sparse.csr_array((4, 2)), sparse.csr_array(np.eye(2)), nothing)
    assert not placed.columns.nnz
    assert placed.choice == solver.Choice()
    one = solver.place(sparse.csr_array(np.eye(4)[:, :2]), sparse.csr_array(np.eye(2)), nothing)
    np.testing.assert_allclose(one.like.toarray(), np.eye(4)[:2] / 1.5)


def test_columns_have_the_lengths_of_the_items_they_are_mixed_of():
    like = sparse.csr_array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.5]])
    length = np.array([1.0, 2.0, 16.0])
    log = np.log(length)
    found = solver.with_lengths(like, length, solver._predicted(like, log)).toarray()
    predicted = np.exp(log.mean() + like @ (log - log.mean()))
    np.testing.assert_allclose(found, np.sqrt(predicted)[:, None] * like.toarray() / np.sqrt(length))
    np.testing.assert_allclose(found[0, 0], 1.0)


def test_histories_of_the_sample_do_not_hold_what_is_held_out():
    rng = np.random.default_rng(4)
    popularity = rng.integers(0, 50, 90).astype(float)
    F = features(rng, 90, 6)
    held = solver.held_out(F, popularity)
    assert len(held) == np.count_nonzero((popularity > 0) & (np.diff(F.indptr) > 0)) // 4
    assert (popularity[held] > 0).all()
    typical = solver.typical_histories(popularity, held, n=50)
    assert not np.isin(typical.indices, held).any()
    assert set(typical.data) == {1.0}
    assert not np.isin(typical.indices, np.flatnonzero(popularity == 0)).any()
    assert (typical != solver.typical_histories(popularity, held, n=50)).nnz == 0
    assert solver.typical_histories(np.zeros(3), held[:0], n=5).nnz > 0
