import logging

import numpy as np
import pandas as pd
import polars as pl
import pytest

import offdiag as od
from offdiag.data.groups import group_numbers, read_groups

ITEMS = np.array(["a", "b", "c", "d"])
FORMS = {
    "dict": {"a": "cup", "c": "cup"},
    "numbers": {"a": 7, "c": 7},
    "mixed numbers": {"a": 7.0, "c": "7", "b": None},
    "list": ["cup", None, "cup", None],
    "array with gaps": np.array([1.0, np.nan, 1.0, np.nan]),
    "series of polars": pl.Series(["cup", None, "cup", ""]),
    "series of pandas": pd.Series(["cup", "cup"], index=["c", "a"]),
    "dict of columns": {"item": ["a", "c"], "group": ["cup", "cup"]},
    "frame": pd.DataFrame({"sku": ["c", "a", "b"], "parent_sku": [5.0, 5.0, np.nan]}),
    "rows that agree": pl.DataFrame({"item": ["a", "c", "a"], "group": ["cup", "cup", "cup"]}),
    "catalogue": od.read_catalogue({"item": ["a", "c"], "title": ["x", "y"], "group": ["cup", "cup"]}),
    "of one": {"a": 1, "c": 1, "b": 2, "d": 3},
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_groups(form):
    found = read_groups(FORMS[form], ITEMS)
    assert found.columns == ("group",)
    assert group_numbers(found, ITEMS).tolist() == [0, 1, 0, 2]


def test_a_file_is_read_as_a_table(tmp_path):
    path = tmp_path / "products.csv"
    path.write_text("sku,name,group\n1,Cup,9\n2,Jar,\n3,Big cup,9\n")
    assert group_numbers(read_groups(path, np.array([1, 2, 3])), np.array([1, 2, 3])).tolist() == [0, 1, 0]
    assert group_numbers(read_groups(str(path), np.array(["3", "2", "1"])), np.array([2, 1, 3])).tolist() == [0, 1, 1]


def test_ids_and_their_text_are_the_same_items():
    assert group_numbers(read_groups({"1": "x", 2: "x"}, np.array([1, 2, 3])), np.array([1, 2, 3])).tolist() == [
        0,
        0,
        1,
    ]


def test_groups_of_unknown_items_are_kept_for_an_update(caplog):
    with caplog.at_level(logging.INFO, "offdiag"):
        found = read_groups({"a": 1, "b": 1, "z": 1}, ITEMS)
    assert "1 items of the groups are not in the data" in caplog.text
    assert group_numbers(found, np.array(["z", "b", "c"])).tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"x": 1, "y": 1}, r"groups of the items of the data, such as .*'a'.*received .*'x'"),
        ({}, "no item in any group"),
        ({"a": None}, "no item in any group"),
        (["cup"] * 4, "one with all 4 items: no item could explain another"),
        (["cup"] * 3, "a group for each of the 4 items, None for none, received 3"),
        ({"a": ["x", "y"]}, "an item can be in one group only"),
        ({"1": "x", 1: "y"}, "received 1 in 'x' and in 'y'"),
        ({"item": ["a", "b", "a"], "group": [1, 1, 2]}, "received 'a' in '1' and in '2'"),
        ({float("nan"): "x"}, "ids that are whole numbers or text, received nan"),
        ({True: "x"}, "ids that are whole numbers or text, received True"),
        ({"a": "x" * 501}, "at most 500 printable characters"),
        (pl.DataFrame({"item": ["a"], "title": ["x"]}), "a column of groups"),
        (od.read_catalogue({"item": ["a"], "title": ["x"]}), "a catalogue with groups, received one with title"),
        ({"a", "b"}, "a dict of item id to group.*received set"),
        (5, "received int"),
    ],
)
def test_what_cannot_be_groups_is_refused_with_advice(groups, message):
    with pytest.raises(od.OffdiagError, match=message):
        read_groups(groups, ITEMS)


def test_one_item_alone_may_have_a_group():
    assert len(read_groups({"a": 1}, np.array(["a"]))) == 1
