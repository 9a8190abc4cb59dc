"""Ranks with and without each item of a history, against recommend itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag import ranking, reasons
from offdiag.weights import LowRank
from tests.laws.strategies import dtypes, interactions


def place(model, row, item):
    """The position of the item in the whole list of recommend, 0 if it is not listed."""
    listed = model.recommend(row, k=row.shape[1]).indices[0].tolist()
    return listed.index(item) + 1 if item in listed else 0


def lacking(X, at):
    """The one row of X without its entry ``at``."""
    dense = X.toarray()
    dense[0, X.indices[at]] = 0
    return sparse.csr_array(dense)


MODELS = {
    "packed": lambda dtype: od.EDLAE(dropout=0.3, l2=1.0, user_power=0.5, dtype=dtype),
    "dense": lambda dtype: od.EDLAE(dropout=0.3, l2=1.0, user_power=0.0, storage="dense", dtype=dtype),
    "diagonal": lambda dtype: od.DLAE(dropout=0.3, l2=1.0, user_power=0.0, dtype=dtype),
    "sparse": lambda dtype: od.SparseEDLAE(neighbours=2, dropout=0.3, l2=1.0, user_power=0.0, dtype=dtype),
    "smoothed": lambda dtype: od.SparseEDLAE(neighbours=2, l2=1.0, user_power=0.0, rank=2, dtype=dtype),
    "low rank": lambda dtype: od.LowRankEDLAE(rank=2, dropout=0.3, l2=1.0, user_power=0.0, dtype=dtype),
    "spectral": lambda dtype: od.Spectral(rank=2, shrink="hard", dtype=dtype),
}


@pytest.mark.filterwarnings("ignore::offdiag.NoMinimiserWarning")  # on tiny data; the lists stay exact
@settings(max_examples=60)
@given(interactions(values="counts", min_items=2), st.sampled_from(sorted(MODELS)), dtypes, st.data())
def test_ranks_are_those_of_recommend_with_and_without_each_item(X, name, dtype, data):
    model = MODELS[name](dtype).fit(X)
    user = data.draw(st.integers(0, X.shape[0] - 1))
    item = data.draw(st.integers(0, X.shape[1] - 1))
    row = X[[user]]
    answer = model.explain(row, item)
    assert (answer.rank or 0) == place(model, row, item)
    at = {int(i): n for n, i in enumerate(row.indices)}
    assert answer.rank_without.tolist() == [place(model, lacking(row, at[int(i)]), item) for i in answer.items]
    if item in row.indices:  # only the history without the item itself can recommend it
        assert answer.rank is None
        assert np.flatnonzero(answer.rank_without).tolist() == np.flatnonzero(answer.items == item).tolist()


def test_compressed_weights_answer_as_they_recommend():
    X = od.synthetic.interactions(300, 60, 5_000, seed=2)
    small = od.compress(od.EDLAE(l2=5.0).fit(X), keep=12)
    for user in range(5):
        row = X.matrix[[user]]
        for item in (0, 17, 59):
            answer = small.explain(row, X.item_ids[item].item())
            at = {X.item_ids[i].item(): n for n, i in enumerate(row.indices)}
            assert (answer.rank or 0) == place(small, row, item)
            assert answer.rank_without.tolist() == [
                place(small, lacking(row, at[i]), item) for i in answer.items.tolist()
            ]


def test_ranks_follow_ties_and_the_popularity_of_an_empty_rest():
    X = np.array([[1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 1, 0, 0], [0, 0, 1, 0, 1]])
    model = od.EASE(l2=1.0, user_power=0.0).fit(X)
    answer = model.explain([0], 4)
    assert answer.score == 0
    assert answer.rank == 4  # behind 1 (which 0 supports), then 2 and 3 at the same score of 0
    assert answer.rank_without.tolist() == [5]  # nothing is left: by popularity, and all but item 2 are equal
    assert model.explain([], 2).rank == 1
    assert model.explain([], 4).rank == 5
    assert model.explain([], 4).rank_without.tolist() == []
    assert model.explain([3], 3).rank is None
    assert model.explain([3], 3).rank_without.tolist() == [4]


def test_products_of_blas_are_made_row_by_row_as_for_one_person():
    """Equal items tie for one history, and need not in a batch, where the last bits may be rounded differently."""
    rng = np.random.default_rng(3)
    U, V = (rng.standard_normal((403, 37)).astype(np.float32) for _ in range(2))
    V[202:] = V[:201]  # nearly every item twice
    W = LowRank(U, V)
    history = np.sort(rng.choice(403, 25, replace=False))
    row = sparse.csr_array((np.ones(25, np.float32), history, [0, 25]), shape=(1, 403))

    def alone(X, item):
        return ranking.top_k(W, X, 403)[0][0].tolist().index(item) + 1

    for item in np.setdiff1d(np.arange(403), history)[:40].tolist():
        places = reasons.places(W, np.ones(403), row, item, 0, 26)
        assert places[0] == alone(row, item)
        assert places[1:].tolist() == [alone(lacking(row, at), item) for at in range(25)]


def test_rows_are_scored_in_portions_that_change_nothing(monkeypatch):
    inter = od.synthetic.interactions(300, 50, 6_000, seed=1)
    model = od.EDLAE(l2=5.0).fit(inter)
    row = inter.matrix[[int(np.diff(inter.matrix.indptr).argmax())]]
    unseen = np.setdiff1d(np.arange(50), row.indices)[3]
    whole = model.explain(row, inter.item_ids[unseen].item())
    monkeypatch.setattr(reasons, "SCORES_AT_ONCE", 150)
    parts = model.explain(row, inter.item_ids[unseen].item())
    assert parts.rank == whole.rank
    assert np.array_equal(parts.rank_without, whole.rank_without)
    assert len(set(whole.rank_without.tolist())) > 1


def test_ranks_are_found_only_when_read_and_only_once(monkeypatch):
    model = od.EASE(l2=1.0, user_power=0.0).fit(np.eye(4) + np.eye(4, k=1))
    asked = []
    found = reasons.places
    monkeypatch.setattr(reasons, "places", lambda *args: asked.append(1) or found(*args))
    answer = model.explain([0, 1], 3)
    assert not asked
    assert answer.rank is answer.rank is not None
    assert len(asked) == 1  # the place itself, which costs one row
    assert len(answer.rank_without) == len(answer.rank_without) == 2
    assert len(asked) == 2


def test_an_explanation_without_a_model_has_no_ranks():
    answer = ranking.Explanation("t", 1.0, np.array(["a"]), np.array([1.0]), [])
    with pytest.raises(od.OffdiagError, match=r"model\.explain"):
        _ = answer.rank


@pytest.mark.parametrize("model", [od.EASE(l2=5.0), od.SparseEDLAE(neighbours=10), od.LowRankDLAE(rank=4)])
def test_the_reason_of_each_item_is_its_largest_contribution(model):
    inter = od.synthetic.interactions(40, 20, 240, seed=4)
    model.fit(inter)
    empty = od.Interactions(inter.matrix[:1] * 0, inter.user_ids[:1], inter.item_ids)
    lists = model.recommend(inter, k=4, reasons=True)
    for row, user in enumerate(inter.user_ids.tolist()):
        one = inter.select_users(ids=[user])
        for place in range(int(lists.lengths[row])):
            why = model.explain(one, lists.items[row, place])
            parts = zip(why.items.tolist(), why.contributions, strict=True)
            positive = {item: part for item, part in parts if part > 0}
            item, share = lists.reasons.items[row, place], lists.reasons.shares[row, place]
            if not positive:
                assert item is np.ma.masked
                assert share is np.ma.masked
                continue
            assert positive[item] == pytest.approx(max(positive.values()), rel=1e-5)
            assert share == pytest.approx(max(positive.values()) / sum(positive.values()), rel=1e-5)
    nothing = model.recommend(empty, k=3, reasons=True)
    assert nothing.to_polars()["reason"].null_count() == 3


def test_a_model_whose_parts_do_not_add_up_has_no_reasons():
    inter = od.synthetic.interactions(40, 20, 240, seed=4)
    with pytest.raises(od.OffdiagError, match="reasons need a linear model"):
        od.Popularity().fit(inter).recommend(inter, reasons=True)
