import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from tests.laws import oracles
from tests.laws.examples import close
from tests.laws.strategies import dropouts, dtypes


def data(seed, n=12, m=6):
    """Likes and dislikes of few users; some like everything, some nothing, an item is never disliked."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, (n, m))  # 0: nothing, 1: like, 2: dislike
    kind[0], kind[:, 0] = 0, np.minimum(kind[:, 0], 1)
    kind[1, :2] = 1, 2
    likes, dislikes = (sparse.csr_array((kind == one).astype(np.float32)) for one in (1, 2))
    return od.Interactions(likes, np.arange(n), np.arange(m), dislikes=dislikes)


def expected(X, dropout, l2, weight, user_power, groups=None):
    """By the oracle of groups: the like and the dislike of an item are inputs of one group."""
    m = X.n_items
    own = np.arange(m) if groups is None else np.asarray(groups)
    stacked = np.hstack([X.matrix.toarray(), weight * X.dislikes.toarray()])
    B = oracles.grouped_weights(oracles.gram(stacked, user_power), np.concatenate([own, own]), dropout, l2)
    B[m:] *= weight
    return B[:, :m]


@given(
    st.integers(0, 10_000), dropouts, st.sampled_from([0.5, 3.0]), st.sampled_from([0.5, 1.0, 2.0]),
    st.sampled_from([0.0, 0.5]), dtypes, st.booleans(),
)  # fmt: skip
def test_each_item_is_regressed_on_all_likes_and_dislikes_but_its_own(seed, dropout, l2, weight, power, dtype, grouped):
    X, groups = data(seed), [0, 0, 1, 2, 2, 3] if grouped else None
    model = od.EDLAE(dropout=dropout, l2=l2, dislike_weight=weight, user_power=power, dtype=dtype).fit(X, groups=groups)
    B = expected(X, dropout, l2, weight, power, groups)
    W = model.weights_
    close(W.toarray(), B[: X.n_items], dtype)
    close(W.B[X.n_items :], B[X.n_items :][W.disliked], dtype)
    scores = X.matrix.toarray() @ B[: X.n_items] + X.dislikes.toarray() @ B[X.n_items :]
    close(model.predict(X), scores, dtype)


def test_without_a_weight_dislikes_change_nothing_but_the_lists():
    X = data(3)
    likes = od.Interactions(X.matrix, X.user_ids, X.item_ids)
    plain, also = od.EDLAE(l2=1.0).fit(likes), od.EDLAE(l2=1.0).fit(X)
    np.testing.assert_array_equal(plain.weights_.toarray(), also.weights_.toarray())
    tiny = od.EDLAE(l2=1.0, dislike_weight=1e-4, user_power=0.0, dtype="float64").fit(X)
    same = od.EDLAE(l2=1.0, user_power=0.0, dtype="float64").fit(likes)
    close(tiny.weights_.toarray(), same.weights_.toarray(), "float32")
    assert tiny.objective_ == pytest.approx(same.objective_, rel=1e-5)


def test_the_objective_is_that_of_the_likes():
    X, l2, dropout = data(4), 2.0, 0.4
    model = od.EDLAE(dropout=dropout, l2=l2, dislike_weight=1.5, user_power=0.0, dtype="float64").fit(X)
    stacked = np.hstack([X.matrix.toarray(), X.dislikes.toarray()])
    inputs = np.concatenate([np.arange(6), 6 + model.weights_.disliked])
    Z, B = stacked[:, inputs], model.weights_.B.astype(float)
    Z[:, 6:] *= 1.5
    B[6:] /= 1.5
    fit = ((X.matrix.toarray() - Z @ B) ** 2).sum()
    assert model.objective_ == pytest.approx(fit + dropout / (1 - dropout) * ((Z**2).sum(0)[:, None] * B**2).sum()
                                             + l2 * (B**2).sum())  # fmt: skip


def test_disliked_items_are_in_no_list_of_any_model():
    X = od.synthetic.interactions(50, 20, 400, seed=1, names=False)
    for model in (od.Popularity(), od.EASE(l2=1.0), od.LowRankEDLAE(rank=3), od.WMF(rank=2), od.ItemKNN()):
        model.fit(X)
        best = model.recommend([[0, 1], []], k=3)
        refused = [best.items[0, :2].tolist(), best.items[1, :1].tolist()]
        lists = model.recommend([[0, 1], []], k=20, disliked=refused, exclude_seen=False)
        for items, gone in zip(lists, refused, strict=True):
            assert not {item for item, _ in items} & set(gone)
            assert len(items) == 20 - len(gone)
        longer = model.recommend([[0, 1], []], k=19, exclude_seen=False, block=[])
        assert lists.items[0, 0] == next(i for i in longer.items[0].tolist() if i not in refused[0])


def test_dislikes_of_unknown_items_are_named_and_change_nothing():
    X = data(5)
    for model in (od.EASE(l2=1.0).fit(X), od.EDLAE(l2=1.0, dislike_weight=1.0).fit(X)):
        with pytest.warns(od.UnknownItemsWarning, match="99"):
            found = model.recommend([[0, 1]], k=3, disliked=[[2, 99]])
        np.testing.assert_array_equal(found.items, model.recommend([[0, 1]], k=3, disliked=[[2]]).items)


def test_a_model_that_learned_them_is_told_of_dislikes_by_list_or_by_data():
    X = data(5)
    model = od.EDLAE(l2=1.0, dislike_weight=1.0).fit(X)
    of_data = model.recommend(X, k=3)
    disliked = [X.dislikes[[u]].indices.tolist() for u in range(X.n_users)]
    likes = [X.matrix[[u]].indices.tolist() for u in range(X.n_users)]
    np.testing.assert_array_equal(of_data.items, model.recommend(likes, k=3, disliked=disliked).items)
    for u in range(X.n_users):
        alone = model.recommend([likes[u]], k=3, disliked=[disliked[u]])
        np.testing.assert_array_equal(alone.indices[0], of_data.indices[u])


def test_lists_written_to_a_file_leave_out_dislikes_too(tmp_path):
    X = data(6)
    model = od.EDLAE(l2=1.0, dislike_weight=1.0).fit(X)
    written = model.recommend_to(tmp_path / "top.csv", [[0], [1]], k=6, disliked=[[1, 2], []])
    assert written.n_rows == 3 + 5


def test_contributions_of_likes_and_dislikes_add_up_to_the_score():
    X = data(7)
    model = od.EDLAE(l2=1.0, dislike_weight=1.0, dtype="float64").fit(X)
    reasons = model.explain([1, 2], 4, disliked=[[3]])
    m = X.n_items
    places = {int(item): m + n for n, item in enumerate(model.weights_.disliked)}
    B = model.weights_.B
    wanted = {1: B[1, 4], 2: B[2, 4], 3: B[places[3], 4]}
    assert dict(zip(reasons.items.tolist(), reasons.contributions, strict=True)) == pytest.approx(wanted, abs=1e-9)
    with pytest.raises(od.OffdiagError, match="did not learn from dislikes"):
        od.EASE(l2=1.0).fit(X).explain([1, 2], 4, disliked=[[3]])


def test_files_keep_the_weights_of_dislikes(tmp_path):
    X = data(8)
    model = od.EASE(l2=1.0, dislike_weight=0.5).fit(X)
    model.save(tmp_path / "model.od")
    np.testing.assert_array_equal(od.load(tmp_path / "model.od").predict(X), model.predict(X))


def test_evaluation_and_tuning_use_the_dislikes_of_held_out_users():
    rng = np.random.default_rng(0)
    X = od.synthetic.interactions(300, 40, 3_000, seed=0)
    other = sparse.csr_array(((rng.random(X.shape) < 0.1) & (X.matrix.toarray() == 0)).astype(np.float32))
    X = od.Interactions(X.matrix, X.user_ids, X.item_ids, dislikes=other)
    split = od.split.strong(X, held_out=0.2)
    tuned = od.tune(od.EDLAE, split, "ndcg@10", trials=2, fixed={"dislike_weight": 1.0})
    model = tuned.model.fit(split.train)
    assert model.weights_.kind == "signed"
    assert od.evaluate(model, split.validation, "ndcg@10").mean["ndcg@10"] == pytest.approx(tuned.value)
    plain = od.EASE(l2=5.0).fit(split.train)
    blocked = plain.recommend(split.test.ordered, k=40)
    hidden = split.test.ordered.dislikes.toarray() > 0
    assert not any(hidden[u, row[row >= 0]].any() for u, row in enumerate(blocked.indices))


def test_what_does_not_go_with_dislikes_says_so():
    X, model = data(9), od.EDLAE(l2=1.0, dislike_weight=1.0)
    with pytest.raises(od.OffdiagError, match="expects data with dislikes, received none"):
        model.fit(X.matrix)
    with pytest.raises(od.OffdiagError, match="expects data with dislikes, received none"):
        model.fit_gram(od.gram(X))
    with pytest.raises(od.OffdiagError, match="kept_weight=0"):
        od.EDLAE(l2=1.0, dislike_weight=1.0, kept_weight=0.3).fit(X)
    model.fit(X)
    for change in (model.update, model.forget):
        with pytest.raises(od.OffdiagError, match="with dislike_weight cannot be updated or made to forget"):
            change(X.matrix[:2])
    with pytest.raises(od.OffdiagError, match="cannot be compressed"):
        od.compress(model, keep=2)
    with pytest.raises(od.OffdiagError, match="explain_pair"):
        model.explain_pair(0, 1)
    with pytest.raises(od.OffdiagError, match="for each of 2 histories, received 1 lists"):
        model.recommend([[0], [1]], disliked=[[2]])
    with pytest.warns(od.UnknownItemsWarning):
        assert model.recommend([[0]], disliked=[["nothing"]]).unknown == [["nothing"]]
