"""Cleaning: each option against rows cleaned by hand, each drop counted, each error with its remedy."""

import logging

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from offdiag.cli import inputs
from offdiag.data import cleaning
from offdiag.data.columns import Cleaning
from tests.fixtures.tables import entries, refused, write

ROWS = {"user": ["a", None, "b", "a"], "item": ["x", "x", None, "y"], "n": [1.0, 2.0, 3.0, 4.0]}


def test_rows_without_ids_are_dropped_and_counted():
    refused(lambda: od.read(ROWS), "in row 2", "read with missing='drop'")
    inter = od.read(ROWS, missing="drop")
    assert entries(inter) == {("a", "x"): 1, ("a", "y"): 1}
    assert inter.notes == ("1 row without a user was dropped", "1 row without an item was dropped")


def test_missing_numbers_of_pandas_are_missing_ids():
    frame = pd.DataFrame({"user": [1.0, np.nan, 2.0], "item": [5, 6, 7]})
    inter = od.read(frame, missing="drop")
    assert inter.user_ids.tolist() == [1, 2]
    assert inter.notes == ("1 row without a user was dropped",)


def test_blank_ids_are_noted_and_dropped_on_request():
    rows = {"user": ["a", " ", "", "b"], "item": [1, 1, 2, 2]}
    (note,) = od.read(rows, normalise_users=False).notes[:1]
    assert note == "2 rows have a blank user id, which counts as one user; missing='drop' drops them"
    assert od.read(rows, missing="drop").user_ids.tolist() == ["a", "b"]


def test_notes_are_kept_by_selections_and_filters():
    inter = od.read(ROWS, missing="drop")
    for part in (
        inter.select_users(["a"]), inter.select_items(["x"]), inter.select_entries(inter.matrix.data > 0),
        od.prepare.binarize(inter), od.prepare.min_counts(inter),
    ):  # fmt: skip
        assert part.notes == inter.notes


def test_notes_are_logged_and_nothing_is_printed(caplog, capfd):
    with caplog.at_level(logging.INFO, logger="offdiag"):
        od.read(ROWS, missing="drop")
    assert "the table: 1 row without a user was dropped" in caplog.text
    assert capfd.readouterr() == ("", "")


values = st.integers(-3, 3).map(float)
rows = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), values, st.integers(0, 9)), min_size=1)


@given(rows)
def test_netting_equals_a_dictionary(table):
    frame = pl.DataFrame(table, schema=["user", "item", "n", "t"], orient="row")
    net, latest = {}, {}
    for user, item, n, t in table:
        net[user, item] = net.get((user, item), 0) + n
        if n > 0:
            latest[user, item] = max(latest.get((user, item), 0), t)
    left = {pair: n for pair, n in net.items() if n > 0}
    if not left and any(n < 0 for *_, n, _ in table):
        refused(lambda: od.read(frame, value="n", time="t", negative="net"), "add up to more than 0")
        return
    inter = od.read(frame, value="n", time="t", negative="net")
    assert entries(inter) == left
    if any(n < 0 for *_, n, _ in table):
        assert inter.times.tolist() == [latest[pair] for pair in entries(inter)]
        gone = sum(n <= 0 for n in net.values())
        assert f"; {gone} pair" in inter.notes[0]


def test_what_rounding_leaves_of_a_return_disappears():
    frame = pl.DataFrame({"user": [1, 1, 1, 2], "item": [7, 7, 7, 7], "n": [0.1, 0.2, -0.3, 1.0]})
    assert entries(od.read(frame, value="n", negative="net")) == {(2, 7): 1}
    refused(lambda: od.read(frame, value="n"), "negative='drop' or 'net'")
    assert od.read(frame, value="n", negative="drop").notes == ("1 row with negative values was dropped",)


@pytest.mark.parametrize(
    ("text", "number"), [("1,5", 1.5), ("1.234,50", 1234.5), ("1.234.567", 1234567), ("7", 7), (" 2,25 ", 2.25)]
)
def test_decimal_commas_are_read(tmp_path, text, number):
    path = write(tmp_path / "t.csv", f"user;item;n\n1;2;{text}\n")
    assert od.read(path, value="n", decimal=",").matrix.data.tolist() == [number]
    assert od.read({"user": [1], "item": [2], "n": [text]}, value="n", decimal=",").matrix.data.tolist() == [number]


@pytest.mark.parametrize("text", ["12.50", "1.23,4", "1,2,3", "x"])
def test_a_point_is_never_mistaken_for_a_thousand(tmp_path, text):
    path = write(tmp_path / "t.csv", f"user;item;n\n1;2;{text}\n")
    refused(lambda: od.read(path, value="n", decimal=","), "numbers with a decimal comma", repr(text), "row 1")


def test_the_error_of_a_decimal_comma_names_the_option(tmp_path):
    path = write(tmp_path / "t.csv", "user;item;n\n1;2;1,5\n")
    refused(lambda: od.read(path, value="n"), "received '1,5' in row 1", "read with decimal=','")


@pytest.mark.parametrize(
    ("text", "form", "seconds"),
    [
        ("31.01.2024", "%d.%m.%Y", 1706659200),
        ("01/31/2024 10:30", "%m/%d/%Y %H:%M", 1706697000),
        ("20240131", "%Y%m%d", 1706659200),
        ("2024-01-31T10:30:00+0200", "%Y-%m-%dT%H:%M:%S%z", 1706689800),
    ],
)
def test_dates_in_a_format_of_their_own(tmp_path, text, form, seconds):
    path = write(tmp_path / "t.csv", f"user;item;t\n1;2;{text}\n")
    assert od.read(path, time="t", date_format=form).times.tolist() == [seconds]
    if text.isdigit():
        assert od.read({"user": [1], "item": [2], "t": [int(text)]}, time="t", date_format=form).times[0] == seconds


def test_a_date_that_does_not_fit_is_an_error(tmp_path):
    path = write(tmp_path / "t.csv", "user,item,t\n1,2,31.01.2024\n1,3,2024\n")
    refused(lambda: od.read(path, time="t"), "read with date_format='…'")
    refused(lambda: od.read(path, time="t", date_format="%d.%m.%Y"), "'2024' in row 2 (1 in all)")
    refused(lambda: od.read(path, date_format="%d.%m.%Y"), "add time=")


def test_user_ids_without_case_and_white_space():
    rows = {"user": ["Ann", "ann ", "STRASSE", "straße", "bob"], "item": [1, 2, 3, 4, 5]}
    inter = od.read(rows, normalise_users=True)
    assert inter.user_ids.tolist() == ["ann", "bob", "strasse"]
    assert inter.notes == ("2 user ids were merged with others that differ only by case or white space",)
    (hint,) = od.read(rows).notes
    assert hint.startswith("1 user id differs from another only by case or surrounding white space")
    assert hint.endswith("such as 'Ann' and 'ann '; normalise_users=True merges them")


CLICKS = pl.DataFrame(
    {
        "user": [1, 1, 2, 2], "item": [5, 6, 5, 7], "event": ["view", "buy", "buy", "view"], "price": [1, 20, 3, None],
        "day": ["2024-01-01", "2024-06-01", "2024-07-01", "2024-08-01"],
    }
)  # fmt: skip


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("event = 'buy'", {(1, 6), (2, 5)}),
        ("event = 'buy' AND price > 10", {(1, 6)}),
        ("price > 2", {(1, 6), (2, 5)}),
        ("day >= '2024-07-01'", {(2, 5), (2, 7)}),
        ("event IN ('view', 'like') OR price = 20", {(1, 5), (1, 6), (2, 7)}),
        ("item = 5", {(1, 5), (2, 5)}),
        ("price IS NULL -- a comment", {(2, 7)}),
    ],
)
def test_a_condition_keeps_the_same_rows_of_every_source(tmp_path, where, kept):
    CLICKS.write_csv(tmp_path / "t.csv")
    CLICKS.write_parquet(tmp_path / "t.parquet")
    CLICKS.write_ndjson(tmp_path / "t.jsonl")
    for source in (tmp_path / "t.csv", tmp_path / "t.parquet", tmp_path / "t.jsonl", CLICKS, CLICKS.to_pandas()):
        inter = od.read(source, where=where)
        assert set(entries(inter)) == kept
        assert inter.notes == (
            f"{4 - len(kept)} row{'s were' if len(kept) < 3 else ' was'} left out: {where} is not true of them",
        )


def test_a_condition_on_dates_of_a_frame():
    dated = CLICKS.with_columns(pl.col("day").str.to_date())
    assert set(entries(od.read(dated, where="day >= '2024-07-01'"))) == {(2, 5), (2, 7)}


def test_wrong_conditions_are_refused():
    refused(lambda: od.read(CLICKS, where="event ="), "a condition", "event = 'purchase'")
    refused(lambda: od.read(CLICKS, where="1 = 1"), "name a column")
    refused(lambda: od.read(CLICKS, where=3), "where to be text")
    refused(lambda: od.read(CLICKS, where="kind = 'buy'"), "the column 'kind'", "received user, item")
    refused(lambda: od.read(CLICKS, where="price"), "compare it")
    refused(lambda: od.read(CLICKS, where="event = 'sale'"), "received none among 4", "'buy', 'view'")
    refused(lambda: od.read(CLICKS, where="event = 'buy') from rows; drop table x --"), "a condition")


def test_actions_have_weights_that_multiply_values():
    weights = {"view": 1, "buy": 5}
    inter = od.read(CLICKS, action="event", weights=weights)
    assert entries(inter) == {(1, 5): 1, (1, 6): 5, (2, 5): 5, (2, 7): 1}
    priced = od.read(CLICKS.head(3), value="price", action="event", weights=weights)
    assert entries(priced) == {(1, 5): 1, (1, 6): 100, (2, 5): 15}
    bought = od.read(CLICKS, action="event", weights={"view": 0, "buy": 5})
    assert entries(bought) == {(1, 6): 5, (2, 5): 5}
    assert bought.notes == ("2 rows were dropped: 'view' has weight 0",)
    undone = od.read(CLICKS, action="event", weights={"view": -1, "buy": 5}, negative="net")
    assert entries(undone) == {(1, 6): 5, (2, 5): 5}


def test_an_action_without_a_weight_is_an_error_with_counts():
    words = ("none for 'view'", "'buy' (2)", "'view' (2)", "add to weights=")
    refused(lambda: od.read(CLICKS, action="event", weights={"buy": 1}), *words)
    refused(lambda: od.read(CLICKS, action="event"), "action= needs weights=")
    refused(lambda: od.read(CLICKS, weights={"buy": 1}), "weights= needs action=")
    refused(lambda: od.read(CLICKS, action="event", weights={"buy": "x"}), "the weight of 'buy'")


def test_options_that_do_not_fit_are_refused():
    refused(lambda: od.read(ROWS, missing="ignore"), "missing must be 'error' or 'drop', received 'ignore'")
    refused(lambda: od.read(ROWS, negative="net"), "add value=")
    refused(lambda: od.read(ROWS, value="n", negative="net", duplicates="once"), "leave one out")
    refused(lambda: od.read(ROWS, decimal=";"), "decimal must be")
    refused(lambda: od.read(ROWS, normalise_users="yes"), "normalise_users must be")


def test_the_command_line_has_an_option_for_each_way_of_cleaning():
    columns = inputs.Columns(missing="drop", action="3", weights="view=1, add to cart=2.5", decimal=",")
    assert inputs.cleaning(columns) == Cleaning(
        missing="drop", decimal=",", action=3, weights={"view": 1.0, "add to cart": 2.5}
    )
    assert inputs.cleaning(inputs.Columns(), Cleaning(where="a = 1")) == Cleaning(where="a = 1")
    refused(lambda: inputs.parse_weights("view"), "ACTION=NUMBER", "'view'")
    refused(lambda: inputs.parse_weights("view=1,view=2"), "'view' twice")


def test_only_the_columns_of_a_condition_are_read_besides_the_roles(tmp_path, monkeypatch):
    CLICKS.write_parquet(tmp_path / "t.parquet")
    found = []
    read = pl.read_parquet
    monkeypatch.setattr(pl, "read_parquet", lambda *a, **k: found.append(k["columns"]) or read(*a, **k))
    od.read(tmp_path / "t.parquet", where="event = 'buy'")
    assert found == [[0, 1, 2]]
    assert cleaning.where_columns("price > 1 AND \"Event\" = 'x'") == ["price", "Event"]
