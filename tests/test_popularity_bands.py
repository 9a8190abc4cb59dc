"""Accuracy, coverage and exposure by popularity, against loops over users and items."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from offdiag.popularity_bands import NAMES, band_of

METRICS = ["recall@5", "ndcg@10", "coverage@5", "novelty@10"]


@pytest.fixture(scope="module")
def split():
    return od.split.strong(od.synthetic.interactions(500, 60, 7_000, names=False, seed=0), held_out=0.3)


@pytest.fixture(scope="module")
def model(split):
    return od.EASE(l2=20.0).fit(split.train)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=40), st.booleans())
def test_bands_have_a_third_of_the_interactions_each(counts, halves):
    popularity = np.array(counts) * (0.5 if halves else 1.0)
    band = band_of(popularity)
    assert ((band == 3) == (popularity == 0)).all()
    total = popularity.sum()
    for i, own in enumerate(popularity):
        if own:  # what more popular items have decides, so ties share a band
            before = 3 * popularity[popularity > own].sum() / total
            assert band[i] == min(int(before + 1e-9), 2)


def test_one_item_has_all_and_nothing_is_popular():
    assert band_of(np.array([5.0])).tolist() == [0]
    assert band_of(np.zeros(3)).tolist() == [3, 3, 3]


def test_bands_are_what_a_loop_finds(split, model):
    result = od.evaluate(model, split.test, METRICS, bands=True, batch=7)
    band = band_of(model.popularity_)
    lists = model.recommend(split.test.histories, k=10).indices
    wanted = split.test.targets.toarray() > 0
    asked = wanted.any(axis=1)
    assert [row.name for row in result.bands.rows] == ["head", "middle", "tail"]
    for b, row in enumerate(result.bands.rows):
        mine = band == b
        users = np.flatnonzero((wanted & mine).any(axis=1))
        recalls = [
            sum(wanted[u, i] and mine[i] for i in lists[u][:5]) / min(5, (wanted[u] & mine).sum()) for u in users
        ]
        assert (row.items, row.n_users) == (mine.sum(), len(users))
        assert row.mean["recall@5"] == pytest.approx(np.mean(recalls))
        assert row.sem["recall@5"] == pytest.approx(np.std(recalls, ddof=1) / np.sqrt(len(users)))
        assert row.targets == pytest.approx((wanted & mine).sum() / wanted.sum())
        shown = lists[asked]
        assert row.exposure["exposure@5"] == pytest.approx(np.isin(shown[:, :5], np.flatnonzero(mine)).mean())
        assert row.exposure["exposure@10"] == pytest.approx(np.isin(shown, np.flatnonzero(mine)).mean())
        covered = np.isin(np.flatnonzero(mine), shown[:, :5])
        assert row.mean["coverage@5"] == pytest.approx(covered.mean())
    assert sum(row.targets for row in result.bands.rows) == pytest.approx(1)


def test_a_band_is_what_only_its_items_give(split, model):
    result = od.evaluate(model, split.test, METRICS, bands=True)
    for b, name in enumerate(NAMES[:3]):
        ids = model.item_ids_[band_of(model.popularity_) == b]
        alone = od.evaluate(model, split.test.only(ids), ["recall@5", "ndcg@10"])
        for metric in alone.mean:
            assert result.bands[name].mean[metric] == pytest.approx(alone.mean[metric])
            assert result.bands[name].sem[metric] == pytest.approx(alone.sem[metric])


def test_added_items_are_a_band_of_their_own():
    inter = od.synthetic.interactions(300, 50, 5_000, names=False, seed=1)
    split = od.split.cold_items(inter, share=0.2)
    features = od.read_features(
        {"item": inter.item_ids, "kind": [f"kind {i % 4}" for i in range(50)]}, categories="kind"
    )
    model = od.EASE(l2=20.0).fit(split.train).add_items(features, boost=2.0)
    found = od.evaluate(model, split.test, "recall@10", bands=True).bands
    assert found["new"].items == len(model.new_items_)
    assert found["new"].exposure["exposure@10"] > 0


def test_results_have_bands_only_if_asked_for(split, model):
    plain, banded = (od.evaluate(model, split.test, METRICS, bands=bands) for bands in (False, True))
    assert plain.bands is None
    assert "bands" not in plain.to_dict()
    assert plain.mean == banded.mean
    assert [row["band"] for row in banded.to_dict()["bands"]] == ["head", "middle", "tail"]
    table = banded.bands.to_polars()
    assert table.columns == [
        "band", "items", "targets", "n_users", "recall@5", "recall@5_sem", "ndcg@10", "ndcg@10_sem", "coverage@5",
        "exposure@5", "exposure@10",
    ]  # fmt: skip
    assert table.filter(pl.col("band") == "head")["recall@5"].item() == banded.bands["head"].mean["recall@5"]
    lines = str(banded.bands).splitlines()
    assert [line.split()[0] for line in lines] == ["band", "head", "middle", "tail"]
    assert len({len(line) for line in lines}) == 1
    assert "By popularity" in banded.bands._repr_html_()
    with pytest.raises(KeyError):
        _ = banded.bands["new"]


def test_a_model_without_popularity_has_no_bands(split, model):
    class Bare:
        def recommend(self, histories, k=10, *, exclude_seen=True):
            return model.recommend(histories, k=k, exclude_seen=exclude_seen)

    with pytest.raises(od.OffdiagError, match="bands need the model's popularity_"):
        od.evaluate(Bare(), split.test, bands=True)
