import linecache

import numpy as np
import pytest

import offdiag as od
from offdiag.ranking.unknown_ids import distinct
from tests.fixtures.groceries import groceries


def test_unknown_ids_are_reported_and_warned_about():
    _, model = groceries()
    with pytest.warns(od.UnknownItemsWarning, match="2 ids .*7, 'eel'"):
        found = model.recommend([["apple", "eel", 7], ["bread"]], k=2)
    assert found.unknown == [["eel", 7], []]
    assert np.array_equal(found.items[0], model.recommend([["apple"]], k=2).items[0])


def test_a_warning_names_the_line_of_the_caller():
    _, model = groceries()
    calls = [
        lambda: model.recommend([["eel"]]),
        lambda: model.recommend([["apple"]], block=["eel"]),
        lambda: model.similar("apple", block=["eel"]),
        lambda: model.predict([["eel"]]),
    ]
    for call in calls:
        with pytest.warns(od.UnknownItemsWarning) as caught:
            call()
        line = linecache.getline(caught[0].filename, caught[0].lineno)
        assert line.lstrip().startswith("lambda: model."), line


def test_ids_that_are_equal_but_of_another_type_are_distinct():
    assert distinct([1, True, 1.0, "1", 1]) == [1, True, 1.0, "1"]
