"""A reranked model: more varied lists, the same interface, and a cost that is measured."""

import numpy as np
import polars as pl
import pytest

import offdiag as od


@pytest.fixture(scope="module")
def split():
    inter = od.synthetic.catalogue(600, 80, 9_000, communities=6, seed=3).interactions
    return od.split.strong(inter, held_out=100)


@pytest.fixture(scope="module")
def model(split):
    return od.EASE(l2=20.0).fit(split.train)


def similarity_within(lists, W):
    """The mean weight between the items of a list."""
    return np.mean([W[np.ix_(row, row)].mean() for row in lists.indices])


def test_diversity_lowers_the_similarity_within_lists(model, split):
    W = model.weights_.toarray()
    W = np.maximum(W, W.T)
    within = [similarity_within(model.recommend(split.test.histories), W)]
    for diversity in (0.3, 0.7):
        varied = od.Reranked(model, diversity=diversity).recommend(split.test.histories)
        assert (varied.lengths == 10).all()
        within.append(similarity_within(varied, W))
    assert within[0] > within[1] > within[2]


def test_the_scores_are_still_those_of_the_model(model, split):
    varied = od.Reranked(model, diversity=0.5).recommend(split.test.histories, k=5)
    scores = model.predict(split.test.histories)
    assert np.allclose(np.take_along_axis(scores, varied.indices, axis=1), varied.scores, rtol=1e-5, atol=1e-6)
    seen = split.test.histories.toarray() > 0
    assert not np.take_along_axis(seen, varied.indices, axis=1).any()


def test_no_list_has_more_of_a_category_than_allowed(model, split):
    kinds = {item: n % 7 for n, item in enumerate(model.item_ids_.tolist())}
    lists = od.Reranked(model, at_most=2, categories=kinds).recommend(split.test.histories)
    table = lists.to_polars().with_columns(kind=pl.col("item").replace_strict(kinds))
    assert table.group_by("user", "kind").len()["len"].max() == 2
    assert (lists.lengths == 10).all()
    plain = model.recommend(split.test.histories, k=80)
    for row, full in zip(lists.items.tolist(), plain.items.tolist(), strict=True):
        kept, used = [], {}
        for item in [x for x in full if x is not None]:
            if used.setdefault(kinds[item], 0) < 2 and len(kept) < 10:
                kept.append(item)
                used[kinds[item]] += 1
        assert row == kept, "the best items that the quota allows"


def test_the_cost_is_the_paired_difference_to_the_model(model, split):
    varied = od.Reranked(model, diversity=0.9)
    cost = varied.cost(split.test, "ndcg@10")
    plain, ours = (od.evaluate(one, split.test, "ndcg@10") for one in (model, varied))
    assert cost.difference["ndcg@10"] == pytest.approx(ours.mean["ndcg@10"] - plain.mean["ndcg@10"])
    assert cost.difference["ndcg@10"] < 0


def test_diversity_by_categories_alternates_them(model, split):
    kinds = {item: n % 2 for n, item in enumerate(model.item_ids_.tolist())}
    lists = od.Reranked(model, diversity=1.0, categories=kinds, by="categories").recommend(split.test.histories, k=2)
    assert all(kinds[a] != kinds[b] for a, b in lists.items.tolist())


def test_filters_reasons_and_files_work_as_for_the_model(model, split, tmp_path):
    varied = od.Reranked(model, diversity=0.3)
    blocked = model.item_ids_[:40].tolist()
    lists = varied.recommend(split.test.histories, k=5, block=blocked, reasons=True)
    assert not np.isin(lists.items, blocked).any()
    varied.recommend_to(tmp_path / "top.parquet", split.test.histories, k=5, block=blocked, reasons=True)
    assert pl.read_parquet(tmp_path / "top.parquet").equals(lists.to_polars())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({}, "nothing to rerank by"),
        ({"diversity": 1.5}, "diversity must be"),
        ({"at_most": 2}, "give categories"),
        ({"at_most": 0, "categories": {}}, "at_most must be"),
        ({"diversity": 0.5, "by": "magic"}, "'weights' or 'categories'"),
    ],
)
def test_settings_that_make_no_sense_are_one_line(model, words, message):
    with pytest.raises(od.OffdiagError, match=message):
        od.Reranked(model, **words)


def test_a_model_without_weights_between_items_says_so(split):
    varied = od.Reranked(od.Popularity().fit(split.train), diversity=0.5)
    with pytest.raises(od.OffdiagError, match="needs a linear model"):
        varied.recommend(split.test.histories)
