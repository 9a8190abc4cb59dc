"""Items by id or title: ids come first, titles may have typing errors, and doubt is an error that offers titles."""

import numpy as np
import pytest

import offdiag as od
from offdiag.cli.item_lookup import Lookup
from tests.fixtures.mistakes import refused

FILMS = {
    7: "Alien", 8: "Aliens", 9: "Brazil", 10: "Crouching Tiger, Hidden Dragon", 11: "1984", 12: "Emma", 13: "Emma",
    14: "Fullmetal Alchemist: Brotherhood", 15: None, 16: "Bitter Ship 1 (romance)", 17: "Bitter Ship 2 (romance)",
}  # fmt: skip


def model_of(ids):
    n = len(ids)
    rows = np.vstack([np.eye(n), np.ones((1, n)), np.arange(n) % 2])
    return od.EASE(l2=1.0).fit(od.read(rows, item_ids=ids))


@pytest.fixture(scope="module")
def lookup():
    shop = od.Catalogue.of([*FILMS, 99], {"title": [*FILMS.values(), "Unsold"]})
    return Lookup(model_of(list(FILMS)).with_catalogue(shop))


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("7", [7]), ("Alien", [7]), (" aliens ", [8]), ("7,brazil", [7, 9]), ("brasil", [9]),
        ("Crouching Tiger, Hidden Dragon", [10]), ('"Crouching Tiger, Hidden Dragon", 7', [10, 7]),
        ("1984", [11]), ("fulmetal alchemst", [14]), ("12", [12]), ("", []), (" , ", []), ("biter ship 2", [17]),
        ("hidden dragon", [10]), ("bitter ship 1", [16]), ("ROMANCE 2", [17]),
    ],
)  # fmt: skip
def test_items_are_found_by_id_or_title(lookup, text, items):
    assert lookup.history(text) == items


def test_what_was_found_is_printed_unless_it_is_an_id(lookup, capsys):
    lookup.history("7")
    assert capsys.readouterr().err == ""
    assert lookup.items(["fulmetal alchemst"]) == [14]
    assert capsys.readouterr().err == ("offdiag: note: 'fulmetal alchemst' → 14 Fullmetal Alchemist: Brotherhood\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("alein", r"did you mean 'Alien' \(id 7\), 'Aliens' \(id 8\)"),
        ("bitter ship", r"did you mean .*\(id 16\).*\(id 17\)"),
        ("Emma", "2 items have the title 'Emma'.*: 12, 13"),
        ("xyzxyz", "no item has the id 'xyzxyz' or a title like it"),
        ("Unsold", "no item has"),
    ],
)
def test_doubt_is_an_error(lookup, text, words):
    for ask in (lookup.history, lambda text: lookup.items([text])):
        with refused(words):
            ask(text)


def test_an_unknown_number_is_an_unknown_id(lookup):
    assert lookup.history("7,4711") == [7, 4711]
    with refused("does not know the item '4711'; its ids are whole numbers such as 7, 8, 9"):
        lookup.items(["4711"])


def test_an_id_comes_before_a_title():
    shop = od.Catalogue.of(["a", "b"], {"title": ["b", "a"]})
    names = Lookup(model_of(["a", "b", "c"]).with_catalogue(shop))
    assert names.history("a,b,c") == ["a", "b", "c"]


def test_ids_are_never_matched_approximately():
    without = Lookup(model_of(["A-1001", "A-1002", "Good, the Bad"]))
    assert without.history("A-1003") == ["A-1003"]
    with refused("does not know the item 'A-1003'; did you mean"):
        without.items(["A-1003"])
    assert without.history('"Good, the Bad", A-1001') == ["Good, the Bad", "A-1001"]
    assert without.history("Good, the Bad") == ["Good, the Bad"]
    shop = od.Catalogue.of(["A-1001"], {"title": ["Chair"]})
    with refused("no item has the id 'A-1003'"):
        Lookup(model_of(["A-1001", "A-1002"]), shop).history("A-1003")


def test_popular_items_are_offered_first():
    rows = np.array([[1, 1, 0], [0, 1, 0], [0, 1, 1]])
    shop = od.Catalogue.of([0, 1, 2], {"title": ["Star One", "Star Two", "Star Ten"]})
    model = od.EASE(l2=1.0).fit(rows).with_catalogue(shop)
    with refused(r"did you mean 'Star Two' \(id 1\)"):
        Lookup(model).items(["star"])


def test_words_that_only_one_title_has_are_enough():
    titles = ["The Amber Castle 1 (space opera)", "The Amber Castle 2 (space opera)", "The Amber River 1 (mystery)"]
    lookup = Lookup(model_of([1, 2, 3]).with_catalogue(od.Catalogue.of([1, 2, 3], {"title": titles})))
    assert lookup.items(["amber castle 1", "castle 2"]) == [1, 2]
    with refused("did you mean"):
        lookup.items(["amber castle"])
