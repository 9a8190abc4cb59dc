"""Tables are read with the columns of an earlier table, where they have them."""

import io
import sys

import polars as pl
import pytest

import offdiag as od
from offdiag.data.columns import Roles
from offdiag.data.remembered import read_remembered

ROWS = {"customer": ["ann", "ann", "bob"], "sku": ["tea", "cup", "tea"], "qty": [2, 3, 4], "day": [3, 1, 2]}
FIT = Roles("customer", "sku", "qty", "day")
USUAL = {"customer": "user", "sku": "item"}


@pytest.mark.parametrize("left_out", [(), ("qty",), ("day",), ("qty", "day")])
@pytest.mark.parametrize("renamed", [{}, USUAL])
def test_what_is_there_is_used_and_what_is_missing_is_noted(left_out, renamed):
    table = pl.DataFrame(ROWS).drop(left_out).rename(renamed)
    inter = read_remembered(table, FIT)
    expected = od.read(
        table,
        renamed.get("customer", "customer"),
        renamed.get("sku", "sku"),
        value=None if "qty" in left_out else "qty",
        time=None if "day" in left_out else "day",
    )
    assert inter.to_dicts() == expected.to_dicts()
    notes = " ".join(inter.notes)
    assert ("no column 'qty' here" in notes) == ("qty" in left_out)
    assert ("no column 'day' here" in notes) == ("day" in left_out)
    assert ("user='customer'" in notes) == (not renamed)
    assert ("value='qty'" in notes) == ("qty" not in left_out)


def test_columns_that_are_named_are_used_whatever_was_remembered():
    table = pl.DataFrame(ROWS).with_columns(other=pl.Series(["x", "y", "z"]))
    inter = read_remembered(table, FIT, item="other", value=None, time=None)
    assert inter.item_ids.tolist() == ["x", "y", "z"]
    assert inter.matrix.data.tolist() == [1, 1, 1]
    assert inter.notes == ("columns as in the fit: user='customer'",)


def test_usual_names_are_not_worth_a_note():
    table = pl.DataFrame(ROWS).rename(USUAL)
    for columns in (None, Roles()):
        assert read_remembered(table, columns).notes == ()


def test_without_any_of_the_names_the_error_is_about_those_of_the_fit():
    with pytest.raises(od.OffdiagError, match="expected user='customer', item='sku'.* received a, b"):
        read_remembered(pl.DataFrame({"a": [1], "b": [2]}), FIT)


def test_mistakes_in_the_data_are_not_hidden_by_reading_less():
    table = pl.DataFrame(ROWS).with_columns(qty=pl.lit(-1))
    with pytest.raises(od.OffdiagError, match="values of 0 or more"):
        read_remembered(table, FIT)


def test_files_of_every_kind_are_read_alike(tmp_path):
    table = pl.DataFrame(ROWS)
    table.write_csv(tmp_path / "log.csv")
    table.write_parquet(tmp_path / "log.parquet")
    table.write_ndjson(tmp_path / "log.jsonl")
    (tmp_path / "bare.csv").write_text("1,2\n1,3\n4,2\n")
    one, *others = (read_remembered(tmp_path / f"log.{kind}", FIT) for kind in ("csv", "parquet", "jsonl"))
    for other in others:
        assert other.to_dicts() == one.to_dicts()
        assert other.columns == FIT
    assert read_remembered(tmp_path / "bare.csv", FIT).user_ids.tolist() == [1, 4]  # without a header, by position


def test_stdin_is_read_once(monkeypatch):
    text = pl.DataFrame(ROWS).rename(USUAL).write_csv()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    with pytest.raises(od.OffdiagError, match="expected user='customer'.* try user='user', item='item'"):
        read_remembered("-", FIT)
