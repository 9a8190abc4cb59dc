"""Item-kNN: the nearest neighbours of every item match the full similarity matrix, which is never formed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag import memory
from offdiag.baselines.item_knn import near_part
from tests.fixtures.mistakes import rejects
from tests.laws import oracles
from tests.laws.strategies import dtypes, interactions, powers

balances = st.sampled_from([0.0, 0.3, 0.5, 1.0])


def similarity(X, balance, shrink, user_power):
    """The twin: every pair of items at once."""
    G = oracles.gram(X.toarray(), user_power)
    g = np.diag(G)
    below = np.outer(g**balance, g ** (1 - balance)) + shrink
    S = np.divide(G, below, out=np.zeros_like(G), where=G > 0)
    np.fill_diagonal(S, 0)
    return S


def check(B, S, k, dtype):
    """Each column holds k of its largest similarities, or all nonzero ones if there are fewer, and nothing else."""
    close = oracles.TOLERANCE[dtype] * max(1.0, S.max())
    for i in range(len(S)):
        kept = np.flatnonzero(B[:, i])
        assert len(kept) == min(k, (S[:, i] > 0).sum())
        np.testing.assert_allclose(B[kept, i], S[kept, i], rtol=0, atol=close)
        left = np.delete(S[:, i], kept)
        assert not len(kept) or not len(left) or S[kept, i].min() >= left.max() - close


@given(interactions(values="ratings"), balances, st.sampled_from([0.0, 3.0]), powers, st.integers(1, 9), dtypes)
def test_neighbours_are_the_largest_similarities_of_each_column(X, balance, shrink, user_power, k, dtype):
    model = od.ItemKNN(neighbours=k, balance=balance, shrink=shrink, user_power=user_power, dtype=dtype).fit(X)
    S = similarity(X, balance, shrink, user_power)
    check(model.weights_.toarray(), S, k, dtype)
    G = od.gram(X, user_power, dtype="float64")
    check(od.ItemKNN(**model.get_params()).fit_gram(G).weights_.toarray(), S, k, dtype)


def test_the_cosine_is_that_of_scikit_learn():
    from sklearn.metrics.pairwise import cosine_similarity

    X = (np.random.default_rng(0).random((50, 20)) < 0.3).astype(np.float64)
    model = od.ItemKNN(neighbours=99, balance=0.5, user_power=0.0, dtype="float64").fit(X)
    expected = cosine_similarity(X.T)
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(model.weights_.toarray(), expected, atol=1e-12)


def test_equal_similarities_keep_the_earlier_item():
    X = np.ones((3, 5), dtype=np.float32)
    model = od.ItemKNN(neighbours=2, balance=0.5).fit(X)
    assert model.settings_["user_power"] == 1.0
    B = model.weights_.toarray()
    assert [np.flatnonzero(B[:, i]).tolist() for i in range(5)] == [[1, 2], [0, 2], [0, 1], [0, 1], [0, 1]]


def test_both_ways_of_fitting_agree_on_larger_data_and_leave_the_gram():
    inter = od.synthetic.interactions(800, 300, 12_000, seed=0)
    G = od.gram(inter, 0.5)
    before = G.values.copy()
    model = od.ItemKNN(neighbours=20, user_power=0.5).fit(inter)
    again = od.ItemKNN(neighbours=20).fit_gram(G, item_ids=inter.item_ids)
    assert again.settings_ == model.settings_
    assert np.array_equal(G.values, before)
    assert np.array_equal(again.popularity_, model.popularity_)
    check(again.weights_.toarray(), similarity(inter.matrix, 0.7, 0.0, 0.5), 20, "float32")
    check(model.weights_.toarray(), similarity(inter.matrix, 0.7, 0.0, 0.5), 20, "float32")


def test_a_catalogue_too_large_for_an_m_by_m_matrix_is_no_problem():
    """100,000 items: m² numbers would take 40 GB."""
    m, rng = 100_000, np.random.default_rng(0)
    X = sparse.csr_array((np.ones(60_000, np.float32), (rng.integers(0, 3_000, 60_000), rng.integers(0, m, 60_000))),
                         shape=(3_000, m))  # fmt: skip
    X.data[:] = 1
    model = od.ItemKNN(neighbours=5).fit(X)
    assert model.weights_.nbytes < 10_000_000
    assert (model.recommend(X[:20], k=5).indices >= 0).all()


def reject_fit(message, **settings):
    return lambda: od.ItemKNN(**settings).fit(np.eye(3)), message


test_mistakes_are_errors = rejects(
    reject_fit("neighbours must be a whole number of at least 1, received 0", neighbours=0),
    reject_fit("neighbours must be a whole number", neighbours=2.5),
    reject_fit(r"balance must be a number in \[0, 1\]", balance=1.5),
    reject_fit("shrink must be", shrink=-1),
    reject_fit("shrink must be", shrink="auto"),
    reject_fit("user_power must be", user_power=9),
    (lambda: od.ItemKNN().fit(np.full((4, 3), 1e200)), "overflow"),
)


def test_a_failed_fit_keeps_the_earlier_one(monkeypatch):
    X = np.array([[1, 1, 0], [0, 1, 1]], dtype=np.float32)
    model = od.ItemKNN().fit(X)
    before = model.predict(X)
    with pytest.raises(od.OffdiagError, match="user_power=0.5 but the model asks for 2"):
        model.set_params(user_power=2.0).fit_gram(od.gram(X, 0.5))
    monkeypatch.setattr(memory, "available", lambda: 10)
    with pytest.raises(od.NotEnoughMemory, match="100 neighbours of each of 3 items"):
        model.fit(X)
    assert np.array_equal(model.predict(X), before)


@given(interactions(values="ratings"), balances, st.sampled_from([0.0, 3.0]), powers, st.integers(1, 9))
def test_neighbours_of_the_chosen_are_the_largest_of_each_row(X, balance, shrink, user_power, k):
    settings = {"neighbours": k, "balance": balance, "shrink": shrink, "user_power": user_power, "dtype": "float64"}
    model = od.ItemKNN(**settings, neighbours_of="chosen").fit(X)
    check(model.weights_.toarray().T, similarity(X, balance, shrink, user_power).T, k, "float64")


def test_a_near_part_is_propagation_over_users_and_back():
    X = od.synthetic.interactions(200, 30, 2_000, seed=0).matrix.toarray().astype(np.float64)
    rows = X / np.sqrt(X.sum(axis=1, keepdims=True))
    d = np.sqrt((rows**2).sum(axis=0))
    R = rows / d
    expected = X / d @ (R.T @ R) * d  # every item is its own neighbour there, with similarity 1
    B = near_part().fit(X).weights_.toarray()
    np.testing.assert_allclose(X @ (B + np.eye(30)), expected, rtol=1e-4)
