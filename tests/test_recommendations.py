"""Lists as returned: the padding of a short list is never an item, and unknown ids are reported."""

import copy
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import offdiag as od
from offdiag import ranking
from offdiag.data.ids import positions
from tests.laws.strategies import interactions

ROWS = np.array([[1, 1, 0, 1], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1]], np.float32)
NUMBERS = np.array([0, 3, 5, 9])  # product 0 is a real one
NAMES = np.array(["", "bread", "cheese", "date"])  # and so is the one without a name


def fitted(item_ids):
    return od.EASE(l2=1.0).fit(od.Interactions(sparse.csr_array(ROWS), np.arange(4), item_ids))


@pytest.mark.parametrize("ids", [NUMBERS, NAMES, NUMBERS.astype(np.uint8)], ids=["numbers", "names", "uint8"])
def test_the_end_of_a_short_list_is_no_item(ids):
    model = fitted(ids)
    first, second = ids[0].item(), ids[1].item()
    lists = model.recommend([[first], [first, second], ids.tolist()], k=4)
    assert lists.lengths.tolist() == [3, 2, 0]
    assert lists.items.mask.tolist() == lists.scores.mask.tolist() == (lists.indices < 0).tolist()
    for row, scores, n in zip(lists.items.tolist(), lists.scores.tolist(), (3, 2, 0), strict=True):
        assert None not in row[:n] + scores[:n]
        assert row[n:] == scores[n:] == [None] * (4 - n)
        assert first not in row
    json.dumps(lists.items.tolist())
    assert [len(pairs) for pairs in lists] == [3, 2, 0]
    assert not np.isin(np.asarray(lists.items)[lists.items.mask], ids).any(), "also without the mask"
    assert not np.isin(lists.items.filled()[lists.items.mask], ids).any()
    assert np.isneginf(lists.scores.filled()[lists.scores.mask]).all()


@pytest.mark.parametrize("form", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "pickle"])
def test_copies_of_a_short_list_stay_short(form):
    lists = form(fitted(NUMBERS).recommend([[3]], k=9, block=[0]))
    assert lists.items.tolist() == [[5, 9, None, None]] or lists.items.tolist() == [[9, 5, None, None]]
    assert lists.lengths.tolist() == [2]


def test_tables_made_of_a_short_list_have_gaps():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    lists = fitted(NUMBERS).recommend([[3], [3, 5]], k=3)
    assert pd.DataFrame(lists.items).isna().to_numpy().tolist() == lists.items.mask.tolist()
    assert pl.DataFrame(lists.items).select(pl.all().is_null()).rows() == [(False,) * 3, (False, False, True)]


def test_similar_items_are_padded_the_same_way():
    model = od.EASE(l2=1.0).fit(od.Interactions(sparse.csr_array(ROWS[:, :2]), np.arange(4), NUMBERS[:2]))
    lists = model.similar([0, 3], k=5)
    assert lists.items.tolist() == [[3], [0]]
    assert lists.lengths.tolist() == [1, 1]


@given(interactions(max_items=8), st.integers(-5, 5))
def test_full_places_hold_what_the_kernel_found(X, lowest):
    m = X.shape[1]
    ids = np.arange(lowest, lowest + m)
    model = od.EASE(l2=0.5).fit(od.Interactions(X, np.arange(X.shape[0]), ids))
    histories = X[np.flatnonzero(np.diff(X.indptr))]
    lists = model.recommend(histories, k=m)
    columns, scores = ranking.top_k(model.weights_, histories, m)
    real = columns >= 0
    assert np.array_equal(lists.indices, columns)
    assert np.array_equal(lists.items.data[real], ids[columns[real]])
    assert lists.scores.data.tobytes() == scores.tobytes()
    assert np.array_equal(lists.items.mask, ~real)
    assert np.array_equal(lists.lengths, m - np.diff(histories.indptr))


def test_a_short_list_can_be_a_history_or_a_block_list():
    model = fitted(NUMBERS)
    short = model.recommend([[3, 5]], k=3).items[0]
    assert short.tolist().count(None) == 1
    assert set(model.recommend([short], k=2).items[0].tolist()) == {3, 5}
    assert model.recommend([[]], k=4, block=short).lengths.tolist() == [2]
    assert len(model.similar(short, k=1)) == 2


def test_unknown_ids_of_allow_and_block_are_ignored_and_reported():
    model = fitted(NUMBERS)
    with pytest.warns(od.UnknownItemsWarning, match="2 ids of allow and block .*77, '5'"):
        lists = model.recommend([[3], [5]], k=4, allow=[9, 77, 0, 77], block=["5", 0])
    assert lists.unknown == [[77, "5"], [77, "5"]]
    assert lists.unknown_in_filters == [77, "5"]
    assert lists.items[:, 0].tolist() == [9, 9]
    assert lists.lengths.tolist() == [1, 1]
    with pytest.warns(od.UnknownItemsWarning):
        nothing = model.recommend([[3], []], k=4, allow=[77])
    assert nothing.lengths.tolist() == [0, 0], "an allow list of unknown items allows nothing"


def test_unknown_ids_of_histories_precede_those_of_the_lists():
    with pytest.warns(od.UnknownItemsWarning):
        lists = fitted(NUMBERS).recommend([[3, 44], [5]], k=1, block=[77])
    assert lists.unknown == [[44, 77], [77]]
    assert lists.unknown_in_histories == [(44,), ()]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"allow": [9, 77]}, "allow holds .*77"),
        ({"block": [77, 78]}, "block holds .*77, 78"),
        ({"histories": [[3], [44, "x"]]}, "histories hold .*44, 'x'"),
    ],
)
def test_strict_makes_unknown_ids_an_error(words, message):
    words = {"histories": [[3]]} | words
    with pytest.raises(od.OffdiagError, match=message):
        fitted(NUMBERS).recommend(**words, strict=True)
    assert fitted(NUMBERS).recommend([[3]], k=2, allow=[5, 9], block=[0], strict=True).lengths.tolist() == [2]


def test_predict_warns_about_ids_it_leaves_out():
    model = fitted(NUMBERS)
    with pytest.warns(od.UnknownItemsWarning, match="1 id is unknown .*44"):
        scores = model.predict([[3, 44]])
    assert np.array_equal(scores, model.predict([[3]]))


def test_odd_ids_are_unknown_not_a_crash():
    odd = [None, 3.0, True, "3", {"id": 3}, 2**70, "bread\0", "x" * 2_000_000, b"bread", float("nan"), ("a",)]
    for ids in (NUMBERS, NAMES):
        with pytest.warns(od.UnknownItemsWarning):
            lists = fitted(ids).recommend([[*odd[:-1], ids[1]]], k=2)
        assert len(lists.unknown[0]) == len(odd) - 1
        assert positions(odd, ids).tolist() == [-1] * len(odd)


def products():
    return od.Catalogue.of([0, 3, 9], {"title": ["Zero", "Three", None], "price": [1.0, None, 9.0]})


@pytest.mark.parametrize("ids", [NUMBERS, NUMBERS.astype(np.uint8), NUMBERS.astype(np.str_)], ids=str)
def test_cells_of_the_catalogue_stand_next_to_their_items(ids):
    lists = (
        fitted(ids).recommend([[ids[1].item()], [], ids.tolist()], k=4).with_catalogue(products(), ("price", "title"))
    )
    table = lists.to_polars()
    assert table.columns == ["user", "rank", "item", "price", "title", "score"]
    for row in table.to_dicts():
        expected = products().row(row["item"])
        assert (row["title"], row["price"]) == (expected.get("title"), expected.get("price"))
    assert lists.to_polars("wide").columns == ["user", "item_1", "item_2", "item_3", "item_4"]
    with pytest.raises(od.OffdiagError, match="'colour'"):
        lists.with_catalogue(products(), ("colour",))


def test_reasons_have_titles_too():
    model = fitted(NUMBERS).with_catalogue(products())
    table = model.recommend([[3], [5], []], k=2, reasons=True).to_polars()
    assert table.columns == ["user", "rank", "item", "title", "score", "reason", "reason_title", "reason_share"]
    for row in table.to_dicts():
        assert row["reason_title"] == (None if row["reason"] is None else products().title(row["reason"]))


def test_titles_that_are_given_come_before_the_catalogue():
    lists = fitted(NUMBERS).with_catalogue(products()).recommend([[]], k=4).with_titles({"3": "Drei", 9: "Neun"})
    assert dict(zip(lists.items.data[0].tolist(), lists.to_polars()["title"].to_list(), strict=True)) == {
        0: "Zero", 3: "Drei", 5: None, 9: "Neun",
    }  # fmt: skip


def test_columns_have_one_type_whatever_the_items():
    model = fitted(NUMBERS).with_catalogue(products())
    some, none, empty = (
        model.recommend(histories, k=4, allow=allow).with_catalogue(products(), ("title", "price")).to_polars().schema
        for histories, allow in (([[]], None), ([[]], [5]), ([NUMBERS.tolist()], None))
    )
    assert some == none == empty


def test_printed_lists_are_a_table():
    lists = fitted(NAMES).recommend([["bread"], ["date"]], k=2)
    assert str(lists).startswith("2 lists of up to 2 items\n")
    assert all(word in str(lists) for word in ("user", "rank", "cheese", "score"))
