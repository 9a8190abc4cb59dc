import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag import ranking
from offdiag.weights import Dense, tiles
from tests.laws import oracles
from tests.laws.strategies import interactions


def fitted(X, **settings):
    return od.EDLAE(**{"dropout": 0.3, "l2": 1.0, "user_power": 0.0} | settings).fit(X)


@given(interactions(max_items=12), st.integers(1, 14), st.booleans(), st.sampled_from(["packed", "dense"]), st.data())
def test_ranked_lists_equal_a_stable_sort_of_the_dense_scores(X, k, exclude_seen, storage, data):
    model = fitted(X, storage=storage)
    m = X.shape[1]
    allowed = np.array(data.draw(st.lists(st.booleans(), min_size=m, max_size=m)))
    indices, scores = ranking.top_k(model.weights_, X, min(k, m), exclude_seen=exclude_seen, allowed=allowed)
    dense = model.predict(X)
    expected = oracles.top_k(dense, (X.toarray() > 0) & exclude_seen, min(k, m), allowed)
    assert np.array_equal(indices, expected)
    assert np.array_equal(scores[indices >= 0], np.take_along_axis(dense, np.maximum(indices, 0), 1)[indices >= 0])
    assert (scores[indices < 0] == -np.inf).all()


@given(interactions(max_items=10))
def test_no_list_holds_a_seen_item_and_all_unseen_ones_are_listed(X):
    m = X.shape[1]
    found = fitted(X).recommend(X, k=m)
    for u, seen in enumerate(X.toarray() > 0):
        listed = found.indices[u][found.indices[u] >= 0]
        assert not seen[listed].any()
        assert len(set(listed)) == len(listed) == m - seen.sum()


@given(interactions(max_users=20, max_items=12))
def test_a_batch_gives_the_same_lists_as_one_by_one(X):
    model = fitted(X)
    together = model.recommend(X, k=5)
    for u in range(X.shape[0]):
        alone = model.recommend(X[[u]], k=5)
        assert np.array_equal(alone.indices[0], together.indices[u])
        assert np.array_equal(alone.scores[0], together.scores[u])


def test_tiles_and_threads_do_not_change_a_list(monkeypatch):
    """Enough users and items for several tiles, passes and threads, against one plain product and sort."""
    rng = np.random.default_rng(0)
    X = sparse.csr_array((rng.random((700, 500)) < 0.05).astype(np.float32))
    model = fitted(X)
    whole = model.recommend(X, k=20)
    expected = oracles.top_k(model.predict(X), X.toarray() > 0, 20)
    assert np.array_equal(whole.indices, expected)
    monkeypatch.setattr(tiles, "TILE_BYTES", 1 << 12)
    monkeypatch.setattr(ranking, "USERS_PER_PASS", 300)
    assert np.array_equal(model.recommend(X, k=20).indices, expected)
    assert np.array_equal(model.predict(X), X @ model.weights_)
    np.testing.assert_allclose(model.predict(X), X @ model.weights_.toarray(), atol=1e-5)


def test_equal_scores_go_to_the_earlier_item():
    W = Dense(np.zeros((300, 300), dtype=np.float32))
    X = sparse.csr_array(np.eye(1, 300, dtype=np.float32))
    indices, _ = ranking.top_k(W, X, 5)
    assert indices.tolist() == [[1, 2, 3, 4, 5]]


def named():
    inter = od.Interactions(
        matrix=sparse.csr_array(np.array([[1, 1, 0, 1], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1]], np.float32)),
        user_ids=np.array(["u1", "u2", "u3", "u4"]),
        item_ids=np.array(["apple", "bread", "cheese", "date"]),
    )
    return inter, fitted(inter)


def test_histories_may_be_rows_interactions_or_lists_of_ids():
    inter, model = named()
    rows = model.recommend(inter.matrix, k=2)
    assert np.array_equal(model.recommend(inter, k=2).items, rows.items)
    lists = [inter.item_ids[inter.matrix[[u]].indices].tolist() for u in range(4)]
    assert np.array_equal(model.recommend(lists, k=2).items, rows.items)
    assert np.array_equal(model.recommend(lists[0], k=2).items[0], rows.items[0])
    assert np.array_equal(model.recommend([tuple(lists[0]), set(lists[1])], k=2).items, rows.items[:2])
    assert np.array_equal(model.recommend([np.array(lists[0])], k=2).items[0], rows.items[0])
    assert np.array_equal(model.recommend(inter.matrix.toarray(), k=2).items, rows.items)


def test_interactions_with_other_columns_are_matched_by_id():
    inter, model = named()
    order = np.array([2, 0, 1])
    other = od.Interactions(
        matrix=sparse.csr_array(inter.matrix.toarray()[:, order]),
        user_ids=inter.user_ids,
        item_ids=inter.item_ids[order],
    )
    without_date = inter.matrix.toarray()
    without_date[:, 3] = 0
    assert np.array_equal(model.recommend(other, k=2).items, model.recommend(without_date, k=2).items)


def test_unknown_ids_are_reported_and_warned_about():
    _, model = named()
    with pytest.warns(od.UnknownItemsWarning, match="2 ids .*7, 'eel'"):
        found = model.recommend([["apple", "eel", 7], ["bread"]], k=2)
    assert found.unknown == [["eel", 7], []]
    assert np.array_equal(found.items[0], model.recommend([["apple"]], k=2).items[0])


def test_an_empty_history_gets_the_popular_items():
    inter, model = named()
    found = model.recommend([[]], k=4)
    assert found.items[0].tolist() == ["bread", "apple", "cheese", "date"]
    assert found.scores[0, 0] == pytest.approx(3 / inter.matrix.sum())
    assert model.recommend([[]], k=4, block=["bread"]).items[0].tolist() == ["apple", "cheese", "date", None]
    with pytest.warns(od.UnknownItemsWarning):
        assert model.recommend([["nothing known"]], k=1).items.tolist() == [["bread"]]


def test_allow_and_block_lists_hold():
    _, model = named()
    found = model.recommend([["apple"]], k=3, allow=["date", "cheese"])
    assert set(found.items[0].tolist()) == {"date", "cheese", None}
    assert found.indices[0].tolist().count(-1) == 1
    assert "date" not in model.recommend([["apple"]], k=4, block=["date"]).items[0]
    assert model.recommend([["apple"]], k=4, allow=[]).indices.tolist() == [[-1] * 4]


@pytest.mark.parametrize("ids", [[["date"]], "date", 3, iter(["date"])])
def test_a_block_list_of_another_form_is_refused_rather_than_half_obeyed(ids):
    _, model = named()
    with pytest.raises(od.OffdiagError, match="block takes"):
        model.recommend([["apple"]], block=ids)


@pytest.mark.parametrize("k", [0, -1, 2.5, "3", True])
def test_k_must_be_a_positive_whole_number(k):
    _, model = named()
    with pytest.raises(od.OffdiagError, match="k must be"):
        model.recommend([["apple"]], k=k)


def test_k_beyond_the_catalogue_gives_every_item_once():
    _, model = named()
    found = model.recommend([["apple"]], k=1000)
    assert found.items.shape == (1, 4)
    assert sorted(found.items[0, :3].tolist()) == ["bread", "cheese", "date"]
    assert found.items[0, 3] is np.ma.masked
    assert [len(pairs) for pairs in found] == [3]


@pytest.mark.parametrize("histories", ["apple", 3, [["apple"], "bread"], np.ones((2, 3))])
def test_histories_of_another_form_are_refused(histories):
    _, model = named()
    with pytest.raises(od.OffdiagError):
        model.recommend(histories)


@given(interactions(min_items=2), st.integers(0, 100))
def test_contributions_sum_to_the_score_exactly_in_any_order(X, seed):
    model = fitted(X)
    user = int(np.argmax(np.diff(X.indptr)))
    item = seed % X.shape[1]
    reasons = model.explain(X[[user]], item)
    parts = reasons.contributions
    assert parts.sum() == reasons.score == sum(parts.tolist()) == sum(sorted(parts.tolist()))
    assert reasons.score == pytest.approx(float(model.predict(X[[user]])[0, item]), abs=1e-5)
    dense = model.weights_.toarray()
    np.testing.assert_allclose(parts, dense[reasons.items, item], atol=1e-7)
    assert (np.diff(np.abs(parts)) <= 0).all()


def test_contributions_of_long_histories_sum_exactly_in_float64():
    """Without the common grid, sums of 150 doubles depend on their order."""
    rng = np.random.default_rng(0)
    X = (rng.random((400, 160)) < 0.3).astype(np.float64) * rng.random((400, 160))
    model = fitted(X, dtype="float64")
    for item in range(150, 160):
        reasons = model.explain((rng.random((1, 160)) + 0.1) * (np.arange(160) < 150), item)
        parts = reasons.contributions
        assert parts.sum() == reasons.score == sum(parts.tolist()) == sum(parts[::-1].tolist()) == math.fsum(parts)


def test_explain_asks_for_one_history_and_a_known_item():
    _, model = named()
    with pytest.raises(od.OffdiagError, match="one history, received 2"):
        model.explain([["apple"], ["bread"]], "date")
    with pytest.raises(od.OffdiagError, match="no item 'eel'"):
        model.explain(["apple"], "eel")
    assert model.explain(["apple", "eel"], "date").unknown == ["eel"]


def test_similar_items_are_what_a_history_of_that_item_leads_to():
    _, model = named()
    found = model.similar(["apple", "cheese"], k=2)
    assert np.array_equal(found.items, model.recommend([["apple"], ["cheese"]], k=2).items)
    assert model.similar("apple", k=9).items.shape == (1, 3)
    with pytest.raises(od.OffdiagError, match="no item 'eel'"):
        model.similar("eel")


@pytest.mark.parametrize("storage", ["packed", "dense"])
@pytest.mark.parametrize("shape", [(1, 3), (1, 9), (4,)])
def test_a_product_with_weights_of_another_width_is_refused(storage, shape):
    model = fitted(np.eye(4), storage=storage)
    with pytest.raises(od.OffdiagError, match="users × 4 items"):
        np.ones(shape) @ model.weights_
