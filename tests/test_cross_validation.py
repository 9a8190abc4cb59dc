"""Cross-validation over users: every user once, the same for every model."""

import numpy as np
import polars as pl
import pytest
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit

import offdiag as od
from offdiag.data.hiding import hide


@pytest.fixture(scope="module")
def data():
    return od.synthetic.catalogue(300, 60, 4_000, communities=5, seed=1).interactions


def test_every_user_is_measured_once_by_a_model_that_did_not_see_them(data):
    folds = KFold(4, shuffle=True, random_state=0)
    result = od.cross_validate(od.EASE(l2=20.0), data, folds, "ndcg@10")
    expected = np.full(data.n_users, np.nan)
    for train, test in folds.split(data):
        model = od.EASE(l2=20.0).fit(data[train])
        part = hide(data.matrix[test])
        rows = np.flatnonzero(np.diff(part.targets.indptr))
        expected[test[rows]] = od.evaluate(model, part, "ndcg@10").per_user["ndcg@10"]
    known = ~np.isnan(expected)
    assert result.user_ids.tolist() == data.user_ids[known].tolist()
    assert np.array_equal(result.per_user["ndcg@10"], expected[known])
    assert result.mean["ndcg@10"] == pytest.approx(expected[known].mean())
    assert result.sem["ndcg@10"] == pytest.approx(expected[known].std(ddof=1) / np.sqrt(known.sum()))
    assert result.n_users + result.n_without_targets == data.n_users


def test_results_are_paired_across_models(data):
    ease, popular, again = (od.cross_validate(m, data, 3, "ndcg@10") for m in (od.EASE(), od.Popularity(), od.EASE()))
    test = ease.compare(popular)
    assert test.difference["ndcg@10"] > 0
    assert test.p_value["ndcg@10"] < 1e-3
    assert ease.compare(again).difference == {"ndcg@10": 0.0}


def test_the_seed_changes_the_folds_and_the_model_stays_unfitted(data):
    model = od.EASE(l2=20.0)
    one, other = (od.cross_validate(model, data, 3, "ndcg@10", seed=seed) for seed in (0, 1))
    assert one.mean != other.mean
    assert not hasattr(model, "weights_")


def test_coverage_is_the_mean_over_the_folds(data):
    result = od.cross_validate(od.Popularity(), data, 3, ["coverage@5", "hit@5", "novelty@5"])
    assert 5 / 60 <= result.mean["coverage@5"] < 0.5
    assert np.isnan(result.sem["coverage@5"])
    assert list(result.per_user) == ["hit@5", "novelty@5"]


def test_tables_and_matrices_are_data_too(data):
    table = pl.DataFrame({"user": [1, 1, 2, 2, 3, 3], "item": [1, 2, 1, 2, 1, 2]})
    assert od.cross_validate(od.Popularity(), table, 3, "hit@1").n_users == 3
    assert od.cross_validate(od.Popularity(), data.matrix, 2, "hit@1").n_users > 200


def test_progress_is_reported(data):
    seen = []
    od.cross_validate(od.Popularity(), data, 2, "hit@1", progress=lambda stage, done: seen.append((stage, done)))
    assert seen == [("cross-validation", 0.0), ("cross-validation", 0.5), ("cross-validation", 1.0)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"folds": 1}, "folds must be a whole number from 2 to 300"),
        ({"folds": 301}, "folds must be"),
        ({"folds": RepeatedKFold(n_splits=2, n_repeats=2)}, "each user at most once"),
        ({"folds": ShuffleSplit(5, test_size=0.5)}, "each user at most once"),
        ({"hidden": 1.0}, "hidden must be"),
        ({"metrics": "ndgc@10"}, "did you mean ndcg@10"),
    ],
)
def test_mistakes_are_named(data, words, message):
    with pytest.raises(od.OffdiagError, match=message):
        od.cross_validate(od.Popularity(), data, **words)


def test_only_models_are_validated(data):
    with pytest.raises(od.OffdiagError, match="a model with settings, fit and recommend"):
        od.cross_validate(od.Reranked(od.Popularity().fit(data), at_most=1, categories={}), data)
    with pytest.raises(od.OffdiagError, match="two items or more"):
        od.cross_validate(od.Popularity(), np.eye(4), 2)
