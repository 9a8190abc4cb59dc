"""SparseGram against dense NumPy: counting, replacing a part, another catalogue, products."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag import memory
from offdiag.gramian import sparse as gramian_sparse
from offdiag.gramian.packed import gram
from offdiag.gramian.sparse import SparseGram, sparse_gram
from offdiag.gramian.user_weights import add_histograms
from tests.laws import oracles
from tests.laws.strategies import interactions, powers

kinds = st.sampled_from(["binary", "counts", "ratings"])
seeds = st.integers(0, 2**32 - 1)


def same_arrays(G, other):
    assert G.arrays().keys() == other.arrays().keys()
    for name, array in G.arrays().items():
        assert array.dtype == other.arrays()[name].dtype, name
        np.testing.assert_array_equal(array, other.arrays()[name], err_msg=name)


def same_pairs(G, other, rtol):
    np.testing.assert_array_equal(G.indptr, other.indptr)
    np.testing.assert_array_equal(G.indices, other.indices)
    np.testing.assert_allclose(G.values, other.values, rtol=rtol)


def changed(G, X, sign, whole=False):
    """G after the users X are added (+1) or removed (−1), as the caller of ``put`` does it, or by ``summed``."""
    X = sparse.csr_array(X)
    other = sparse_gram(X, G.user_power)
    items = np.flatnonzero(other.item_counts)
    facts = {
        "activity": add_histograms(G.activity, sign * other.activity),
        "item_counts": G.item_counts + sign * other.item_counts,
        "item_sums": G.item_sums + sign * other.item_sums,
    }
    facts["item_sums"][facts["item_counts"] == 0] = 0
    if whole:
        return G.summed(X, sign, facts)
    return G.put(items, G.part(items) + sign * other.part(items), facts)


@given(st.data(), kinds, powers)
def test_it_holds_the_numbers_of_the_dense_gram_and_no_zero(data, kind, power):
    X = data.draw(interactions(values=kind))
    G, dense = sparse_gram(X, power), gram(X, power, dtype=np.float64)
    expected = oracles.gram(X.toarray(), power)
    np.testing.assert_allclose(G.toarray(), expected, rtol=1e-12)
    assert np.count_nonzero(G.toarray()) == len(G.values) == np.count_nonzero(expected)
    np.testing.assert_allclose(G.diagonal(), np.diag(expected), rtol=1e-12)
    np.testing.assert_array_equal(G.toarray(), G.toarray().T)
    for name in ("n_items", "n_users", "n_interactions", "scale", "user_power"):
        assert getattr(G, name) == getattr(dense, name)
    for name in ("activity", "item_counts", "item_sums"):
        np.testing.assert_array_equal(getattr(G, name), getattr(dense, name))
    own = expected / G.scale
    for i in range(G.n_items):
        np.testing.assert_allclose(G.row(i), own[i], rtol=1e-12)
    some = np.arange(0, G.n_items, 2)
    np.testing.assert_allclose(G.part(some), own[np.ix_(some, some)], rtol=1e-12)
    assert G.part(some).dtype == np.float64


@given(interactions())
def test_counts_of_zeros_and_ones_are_exact_and_small(X):
    G = sparse_gram(X)
    assert G.dtype == np.float32
    np.testing.assert_array_equal(G.toarray(), (X.T @ X).toarray())


def test_counts_beyond_single_precision_are_kept_in_double_and_come_back(monkeypatch):
    X = sparse.csr_array(np.ones((5, 3), dtype=np.float32))
    monkeypatch.setattr(gramian_sparse, "EXACT_FLOAT32", 4)
    G = sparse_gram(X)
    assert G.dtype == np.float64
    less = changed(G, X[:1], -1)
    same_arrays(less, sparse_gram(X[1:]))
    assert less.dtype == np.float32
    same_arrays(changed(less, X[:1], +1), G)


def with_changes(X, power, seed, whole):
    """A Gram after random users have left and returned, next to a new one of those who are there."""
    rng = np.random.default_rng(seed)
    there = np.ones(X.shape[0], dtype=bool)
    G = sparse_gram(X, power)
    for _ in range(6):
        move = rng.random(X.shape[0]) < 0.4
        G = changed(changed(G, X[move & there], -1, whole), X[move & ~there], +1, whole)
        there ^= move
        yield G, sparse_gram(X[there], power)


@given(st.data(), kinds, seeds, st.booleans())
def test_users_come_and_go_without_a_trace(data, kind, seed, whole):
    X = data.draw(interactions(values=kind, max_users=16))
    for G, fresh in with_changes(X, 0.0, seed, whole):
        same_arrays(G, fresh)  # integers and halves: no sum is rounded


@given(st.data(), kinds, st.sampled_from([0.5, 1.0, -0.3]), seeds, st.booleans())
def test_weighted_pairs_that_no_user_shares_any_more_are_removed(data, kind, power, seed, whole):
    X = data.draw(interactions(values=kind, max_users=16))
    for G, fresh in with_changes(X, power, seed, whole):
        same_pairs(G, fresh, rtol=1e-9)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("values", [1.0, 0.7])
def test_what_rounding_leaves_of_a_pair_is_not_kept(whole, values):
    X = np.zeros((12, 14))
    for user in range(10):  # histories of different lengths, so the weights do not add up without rounding
        X[user, : user + 2] = values
    X[10, 0] = X[11, 1] = values  # both items stay
    G = sparse_gram(X, 0.5)
    order = [3, 8, 0, 6, 1, 9, 4, 7, 2, 5]
    pair = 0.0
    for n in range(2, 12):
        pair += n**-0.5 * values**2
    for user in order:
        pair -= (user + 2) ** -0.5 * values**2
        G = changed(G, X[[user]], -1, whole)
    assert pair != 0  # plain sums would leave this
    same_pairs(G, sparse_gram(X[10:], 0.5), rtol=1e-12)


def test_values_of_a_half_are_not_taken_for_traces():
    X = np.array([[0.5, 0.5, 0.0], [1.5, 1.5, 0.0], [0.0, 0.0, 1.0]])  # sums equal counts, yet not 0/1
    for power in (0.0, 0.5):
        G = changed(sparse_gram(X, power), X[1:2], -1)
        np.testing.assert_allclose(G.toarray() / G.scale, sparse_gram(X[[0, 2]], power).tocsr().toarray(), rtol=1e-12)


def test_what_would_drown_in_rounding_is_refused():
    X = np.array([[1e12, 1.0], [1e-3, 1.0]])
    for whole in (False, True):
        with pytest.raises(od.OffdiagError, match="lost in the rounding"):
            changed(sparse_gram(X), X[:1], -1, whole)


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_users_who_were_never_added_cannot_be_subtracted(power):
    X = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 1]])
    with pytest.raises(od.OffdiagError, match="cannot all have been"):
        changed(sparse_gram(X, power), np.array([[0, 1, 1, 0]]), -1, whole=True)


@given(st.data(), kinds, powers)
def test_a_packed_gram_becomes_one_by_rows(data, kind, power):
    X = data.draw(interactions(values=kind))
    same_pairs(gramian_sparse.of_packed(gram(X, power, dtype=np.float64)), sparse_gram(X, power), rtol=1e-13)


@given(st.data(), kinds, powers)
def test_another_catalogue_drops_adds_and_reorders(data, kind, power):
    X = data.draw(interactions(values=kind))
    G = sparse_gram(X, power)
    m = G.n_items
    at = np.array(data.draw(st.permutations([*range(m), -1, -1])))[: data.draw(st.integers(1, m + 2))]
    own = G.toarray().astype(np.float64) / G.scale
    expected = np.where((at[:, None] < 0) | (at[None] < 0), 0, own[np.ix_(at, at)])
    new = G.moved(at)
    np.testing.assert_allclose(new.tocsr().toarray(), expected, rtol=1e-12)
    assert all((np.diff(new.indices[a:b]) > 0).all() for a, b in zip(new.indptr, new.indptr[1:], strict=False))
    np.testing.assert_array_equal(new.item_counts, np.where(at < 0, 0, G.item_counts[at]))
    np.testing.assert_array_equal(new.item_sums, np.where(at < 0, 0, G.item_sums[at]))
    same_arrays(G, sparse_gram(X, power))  # the old one is unchanged


@given(interactions(values="ratings"), powers)
def test_its_arrays_restore_it_and_wrong_ones_are_refused(X, power):
    G = sparse_gram(X, power)
    about = {"user_power": power}
    same_arrays(SparseGram.from_arrays(G.arrays(), about), G)
    wrong = G.arrays() | {"indptr": G.indptr + 1}
    with pytest.raises(ValueError, match="rows"):
        SparseGram.from_arrays(wrong, about)
    with pytest.raises((ValueError, TypeError)):
        SparseGram.from_arrays(G.arrays() | {"item_counts": G.item_counts[:-1]}, about)


def test_too_little_memory_is_an_error_before_any_is_allocated(monkeypatch):
    X = sparse.csr_array(np.ones((3, 200), dtype=np.float32))
    monkeypatch.setattr(memory, "available", lambda: 100_000)
    with pytest.raises(od.NotEnoughMemory, match=r"40,000 pairs.*322 kB.*100 kB"):
        sparse_gram(X)


def test_progress_runs_to_one_and_a_strange_power_is_refused():
    reported = []
    X = sparse.random_array((50, 700), density=0.05, rng=np.random.default_rng(0), format="csr")
    sparse_gram(X, progress=lambda *report: reported.append(report))
    assert reported == sorted(reported)
    assert reported[-1] == ("counting pairs", 1.0)
    with pytest.raises(od.OffdiagError, match="user_power"):
        sparse_gram(X, np.inf)


def test_it_says_what_it_is():
    assert "3 items from 5 users, 9 pairs" in repr(sparse_gram(np.ones((5, 3))))
