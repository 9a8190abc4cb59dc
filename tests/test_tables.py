"""Results as tables: the same rows in every library, gaps as nulls, ids never rounded."""

import sys

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from offdiag import tables

ROWS = np.array([[1, 1, 0, 1], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1]], np.float32)
LARGE = np.array([0, 2**53 + 1, 2**60 + 3, 2**62 + 5])  # doubles cannot hold these


@pytest.fixture(scope="module")
def lists():
    inter = od.read(ROWS, user_ids=["ann", "bob", "eve", "joe"], item_ids=LARGE)
    return od.EASE(l2=1.0).fit(inter).recommend(inter, k=3)


def test_a_long_table_has_a_row_for_each_recommendation(lists):
    expected = [
        (user, rank, item, score)
        for user, pairs in zip(["ann", "bob", "eve", "joe"], lists, strict=True)
        for rank, (item, score) in enumerate(pairs, 1)
    ]
    table = lists.to_polars()
    assert table.columns == ["user", "rank", "item", "score"]
    assert table.rows() == expected
    assert len(expected) == lists.lengths.sum() < 12, "some lists are short"


def test_every_library_gets_the_same_rows(lists):
    table = lists.to_polars()
    assert pl.from_arrow(lists.to_arrow()).equals(table)
    assert pl.from_pandas(lists.to_pandas()).equals(table)
    assert lists.to_dicts() == table.to_dicts()


def test_a_place_after_the_end_is_null_in_a_wide_table(lists):
    table = lists.to_polars("wide")
    assert table.columns == ["user", "item_1", "item_2", "item_3"]
    assert table.select(pl.exclude("user")).rows() == [tuple(row) for row in lists.items.tolist()]
    frame = lists.to_pandas("wide")
    assert frame["item_3"].isna().all()
    assert frame["item_2"].dtype == "Int64"
    assert set(frame["item_1"]) <= set(LARGE.tolist()), "no id passed through a double"


def test_lists_of_ids_have_positions_as_users(lists):
    model = od.EASE(l2=1.0).fit(ROWS)
    assert model.recommend([[0], [1], [2]], k=1).to_polars()["user"].to_list() == [0, 1, 2]


def test_interactions_as_a_table_read_back_as_they_were():
    inter = od.synthetic.interactions(30, 20, 150, seed=1, times=True)
    table = inter.to_polars()
    assert table.columns == ["user", "item", "value", "time"]
    again = od.read(table, value="value", time="time")
    kept = inter.select_items(np.isin(inter.item_ids, again.item_ids)).select_users(ids=again.user_ids)
    kept = kept.select_items(ids=again.item_ids)
    assert np.array_equal(again.matrix.toarray(), kept.matrix.toarray())


def test_a_split_lists_every_interaction_once():
    inter = od.synthetic.interactions(100, 30, 900, seed=0)
    split = od.split.strong(inter, held_out=20)
    table = split.to_polars()
    assert table.height == inter.nnz
    whole = inter.to_polars().select("user", "item").sort("user", "item")
    assert table.select("user", "item").sort("user", "item").equals(whole)
    counts = {(part, role): n for part, role, n in table.group_by("part", "role").len().rows()}
    assert counts["test", "target"] == split.test.targets.nnz
    assert counts["validation", "history"] == split.validation.histories.nnz
    assert counts["train", "train"] == split.train.nnz
    assert split.test.to_polars().height == split.test.histories.nnz + split.test.targets.nnz


def test_results_are_a_table_of_metrics_or_of_users():
    split = od.split.strong(od.synthetic.interactions(100, 30, 900, seed=0), held_out=20)
    result = od.evaluate(od.Popularity().fit(split.train), split.test, ["ndcg@5", "coverage@5"])
    assert result.to_dicts() == [
        {"metric": "ndcg@5", "mean": result.mean["ndcg@5"], "sem": result.sem["ndcg@5"], "n_users": 18},
        {"metric": "coverage@5", "mean": result.mean["coverage@5"], "sem": None, "n_users": 18},
    ]
    users = result.to_polars("users")
    assert users.columns == ["user", "ndcg@5"]
    assert users["user"].to_list() == split.test.user_ids[np.diff(split.test.targets.indptr) > 0].tolist()
    assert users["ndcg@5"].mean() == pytest.approx(result.mean["ndcg@5"])
    assert result.compare(result).to_polars()["difference"].to_list() == [0.0, 0.0]


def test_an_explanation_is_a_table_that_adds_up():
    model = od.EASE(l2=1.0).fit(ROWS)
    why = model.explain([0, 1], 2)
    table = why.to_polars()
    assert table.columns == ["item", "contribution", "rank_without"]
    assert table["contribution"].sum() == why.score
    assert model.explain([0, 1], 1).to_polars()["rank_without"].null_count() > 0, "it is in the history"


def test_an_unknown_form_is_one_line(lists):
    with pytest.raises(od.OffdiagError, match="'long', 'wide'; received 'tall'"):
        lists.to_polars("tall")


@pytest.mark.parametrize(("package", "method"), [("pandas", "to_pandas"), ("pyarrow", "to_arrow")])
def test_a_missing_library_is_named_with_its_extra(lists, monkeypatch, package, method):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(od.OffdiagError, match=rf"needs {package}.*offdiag\[tables\]"):
        getattr(lists, method)()


def test_nan_and_masked_places_are_null_and_words_stay_words():
    made = tables.frame(
        {
            "number": np.array([1.0, np.nan]),
            "masked": np.ma.MaskedArray([7, 8], mask=[True, False]),
            "word": np.array(["1", "x"]),
            "day": np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]"),
        }
    )
    assert made.drop("day").rows() == [(1.0, None, "1"), (None, 8, "x")]
    assert str(made["day"][0]) == "2024-01-01 00:00:00"


def test_settings_of_two_types_become_text():
    assert tables.alike([1.5, None, 2]) == [1.5, None, 2]
    assert tables.alike(["auto", 0.5, None]) == ["auto", "0.5", None]


@given(st.lists(st.integers(0, 9), max_size=30))
def test_values_of_distinct_codes_give_the_column_back(codes):
    column = np.array(codes, dtype=np.int64)
    places, at = tables.distinct(column)
    assert column[places].tolist() == sorted(set(codes))
    assert column[places][at].tolist() == codes
