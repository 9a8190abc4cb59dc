"""A catalogue answers by item id, whatever the type of the id, and shows no address that could run code."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from offdiag.data.catalogue import Catalogue, with_titles
from offdiag.data.ids import FEW
from offdiag.data.product_cells import NAMES
from offdiag.data.texts import Texts

SHOP = Catalogue.of(
    [30, 7, 8],
    {"title": ["Cube", "Alien", None], "price": [None, 9.5, 4.0], "link": ["/30", "https://shop.example/7", None]},
)


def test_cells_are_found_by_item():
    assert SHOP.items.tolist() == [7, 8, 30]
    assert SHOP.columns == ("title", "price", "link")
    assert SHOP.row(7) == {"title": "Alien", "price": 9.5, "link": "https://shop.example/7"}
    assert SHOP.row(8) == {"price": 4.0}
    assert SHOP.row(9) == SHOP.row(None) == SHOP.row(7.0) == SHOP.row(True) == {}
    assert (SHOP.title(30), SHOP.title(8), SHOP.title(9)) == ("Cube", None, None)
    assert SHOP.column("category", [7, 8]) == [None, None]
    with pytest.raises(od.OffdiagError, match="columns title, category"):
        SHOP.column("colour", [7])


def test_a_number_and_its_text_are_the_same_item():
    assert SHOP.title("7") == SHOP.title(np.int32(7)) == SHOP.title(np.str_("7")) == "Alien"
    assert SHOP.title("007") is SHOP.title(" 7") is None
    words = Catalogue.of(["7", "007", "a"], {"title": ["seven", "Bond", "A"]})
    assert [words.title(x) for x in (7, "7", "007", "a", "b", 2**70)] == ["seven", "seven", "Bond", "A", None, None]


IDS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, max_size=5),
    st.lists(st.text(st.characters(exclude_characters="\0"), max_size=4), unique=True, max_size=5),
)


@given(ids=IDS, asked=st.lists(st.one_of(st.integers(-5, 5), st.text(max_size=2), st.none()), max_size=5))
def test_one_by_one_and_all_at_once_find_the_same_rows(ids, asked):
    shop = Catalogue.of(ids, {"title": [f"title of {item}" for item in ids]})
    wanted = [*ids, *asked]
    few = shop.places(wanted)
    assert few[: len(ids)].tolist() == [shop.items.tolist().index(item) for item in ids]
    assert (shop.places(wanted * FEW)[: len(wanted)] == few).all()
    known = set(map(str, ids))
    for item, place in zip(asked, few[len(ids) :], strict=True):
        assert (place >= 0) == (item is not None and str(item) in known)


def test_given_titles_come_first_and_others_stay():
    assert SHOP.with_titles({}).to_dicts() == SHOP.to_dicts()
    both = SHOP.with_titles({"7": "Alien 1", 9: "Nine"})
    assert both.items.tolist() == [7, 8, 9, 30]
    assert both.column("title", both.items) == ["Alien 1", None, "Nine", "Cube"]
    assert both.row(7)["price"] == 9.5
    mixed = SHOP.with_titles({"x": "X"})
    assert mixed.items.tolist() == ["30", "7", "8", "x"]
    assert mixed.title(7) == "Alien"
    assert with_titles(None, {"x": "X"}).to_dicts() == [{"item": "x", "title": "X"}]
    assert with_titles(SHOP, None) is SHOP
    assert with_titles(None, None) is None


def test_control_characters_of_a_file_are_not_shown():
    column = Texts.of(["\x1b[31mred\x07", "\n", "zero\u200bwidth"])
    shop = Catalogue(np.array([7, 8, 9]), {"title": column})
    assert shop.column("title", [7, 8, 9]) == ["[31mred", None, "zero\u200bwidth"]


def test_a_table_keeps_the_type_of_an_empty_column():
    empty = Catalogue.of([7], {"title": [None], "price": [None], "image": [None]})
    assert {name: str(kind) for name, kind in empty.to_polars().schema.items()} == {
        "item": "Int64", "title": "String", "image": "String", "price": "Float64",
    }  # fmt: skip
    assert Catalogue.of([], {}).to_polars().height == 0


def test_a_card_shows_the_beginning_and_escapes_it():
    shop = Catalogue.of(list(range(100)), {"title": [f"<b>{n}" for n in range(100)], "price": [1.0] * 100}, ["a note"])
    card = shop._repr_html_()
    assert "Catalogue of 100 items" in card
    assert "&lt;b&gt;9" in card
    assert "<b>" not in card
    assert "90 more rows" in card
    assert "a note" in card
    assert repr(shop) == "Catalogue(100 items: title, price)"


def test_the_names_are_in_the_order_in_which_they_are_shown():
    cells = {name: ["x"] for name in reversed(NAMES)}
    assert Catalogue.of(["a"], cells).columns == NAMES


def fitted():
    return od.EASE(l2=1.0).fit(od.read(np.array([[1, 1, 0], [1, 0, 1]]), item_ids=[7, 8, 9]))


def test_a_catalogue_of_other_items_is_refused():
    model = fitted()
    other = od.read_catalogue({"sku": ["a", "b"], "title": ["A", "B"]})
    with pytest.raises(od.OffdiagError, match=r"such as 7, 8, 9.*column 'sku', which has 'a', 'b'.*item="):
        model.catalogue_ = other
    with pytest.raises(od.OffdiagError, match=r"received dict.*read_catalogue"):
        model.catalogue_ = {"item": [7]}
    long = Catalogue.of([7], {"title": ["x" * 5000]})
    with pytest.raises(od.OffdiagError, match="at most 500 characters in the column 'title'"):
        model.catalogue_ = long
    assert model.catalogue_ is None
    with pytest.raises(od.OffdiagError, match="not fitted"):
        od.EASE().catalogue_ = SHOP


def test_a_model_with_a_catalogue_leaves_the_other_as_it_was(caplog):
    model = fitted()
    with caplog.at_level("INFO", logger="offdiag"):
        titled = model.with_catalogue(SHOP)
    assert (model.catalogue_, titled.catalogue_) == (None, SHOP)
    assert "1 of 3 items has no row in the catalogue: 9" in caplog.text
    assert titled.with_catalogue(None).catalogue_ is None
    assert titled.recommend([[9]], k=2).to_dicts()[0]["title"] == "Alien"
    assert titled.similar([9], k=3).to_polars().columns == ["item", "rank", "similar", "title", "score"]
    assert "title" not in model.recommend([[9]]).to_polars().columns


def test_a_new_fit_begins_without_a_catalogue():
    model = fitted().with_catalogue(SHOP)
    model.fit(np.eye(9))
    assert model.catalogue_ is None, "item 7 is another one now"


def test_a_catalogue_follows_the_users_of_a_model():
    first = od.read({"user": ["a", "a", "b", "b", "c"], "item": [7, 8, 7, 9, 9]})
    model = od.EASE(l2=1.0).fit(first).with_catalogue(SHOP)
    model.update(od.read({"user": ["d", "d"], "item": [7, 30]}))
    assert model.catalogue_.title(30) == "Cube"
    assert model.recommend([[7]], k=3).to_polars().filter(item=9)["title"].to_list() == [None]
    model.forget(od.read({"user": ["d", "d"], "item": [7, 30]}))
    assert 30 not in model.item_ids_.tolist()
    assert model.catalogue_.title(30) == "Cube", "a product without buyers stays a product"
    assert od.compress(model, keep=1).catalogue_ is model.catalogue_
