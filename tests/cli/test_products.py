"""The catalogue on the command line: what is shown, and which titles come first."""

import numpy as np
import pytest

import offdiag as od
from offdiag.cli import products
from tests.fixtures.mistakes import refused

SHOP = od.Catalogue.of([0, 1, 2], {"title": ["Alien", None, "2"], "price": [9.5, 1.0, None]})


@pytest.fixture
def model():
    return od.EASE(l2=1.0).fit(np.array([[1, 1, 0], [1, 0, 1]])).with_catalogue(SHOP)


def test_given_titles_come_before_those_of_the_model(model, tmp_path, capsys):
    (tmp_path / "titles.csv").write_text("item,title\n1,Brazil\n2,\n")
    found, columns = products.shown(model, str(tmp_path / "titles.csv"), "price")
    assert columns == ("title", "price")
    assert found.to_dicts() == [
        {"item": 0, "title": "Alien", "price": 9.5},
        {"item": 1, "title": "Brazil", "price": 1.0},
        {"item": 2, "title": "2", "price": None},
    ]
    assert capsys.readouterr().err == "", "nothing was guessed that could be doubted"
    (tmp_path / "titles.csv").write_text("item,title\nx,Other\n")
    products.shown(model, str(tmp_path / "titles.csv"), None)
    assert "is of an item of the model, such as 0" in capsys.readouterr().err
    assert products.shown(model.with_catalogue(None), None, None) == (None, ("title",))


def test_columns_that_are_not_there_are_explained(model, tmp_path):
    with refused("--with takes columns of a catalogue.*'colour'"):
        products.shown(model, None, "price,colour")
    with refused("--with link needs that column.*only title, price"):
        products.shown(model, None, "link")
    with refused("which has none"):
        products.shown(model.with_catalogue(None), None, "price")
    (tmp_path / "p.csv").write_text("item,price\n1,2\n")
    with refused("a column of titles"):
        products.shown(model, str(tmp_path / "p.csv"), None)


def test_a_hint_names_the_option_of_the_command(tmp_path):
    (tmp_path / "p.csv").write_text("a,b\n1,2\n")
    with refused("name it with --catalogue-columns 'item=…'"):
        products.read(str(tmp_path / "p.csv"), None, "--catalogue-columns")


def test_labels_have_the_title_and_the_id():
    assert [products.label(item, SHOP) for item in (0, 1, 2, 3)] == ["Alien (0)", "1", "2", "3"]
    assert products.label("x", None) == "x"


def test_a_catalogue_of_other_items_does_not_lose_a_fit(model, capsys):
    other = od.Catalogue.of(["a"], {"title": ["A"]})
    products.attach(model, other)
    assert model.catalogue_ is SHOP
    assert "saved without a catalogue" in capsys.readouterr().err


def test_facts_count_the_rows_of_the_items(model):
    model.catalogue_ = od.Catalogue.of([0, 7], {"title": ["Alien", "Seven"]})
    facts = products.facts(model)
    assert facts["columns"] == ["title"]
    assert (facts["rows"], facts["items"], facts["covered"]) == (2, 3, 1)
    assert products.facts_text(facts).startswith("title of 1 of 3 items; 2 rows, ")
    assert products.facts(model.with_catalogue(None)) is None
