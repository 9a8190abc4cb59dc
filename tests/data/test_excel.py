"""Workbooks: which sheet, which types, and what happens without fastexcel."""

import gzip
import sys

import polars as pl
import pytest
import xlsxwriter

import offdiag as od
from offdiag.data.excel import read_excel
from offdiag.server import titles
from tests.fixtures.tables import entries, refused

FRAME = pl.DataFrame({"user": ["007", "8"], "item": [5, 6], "n": [1.5, 2.0]})


@pytest.fixture
def book(tmp_path):
    with xlsxwriter.Workbook(tmp_path / "t.xlsx") as made:
        FRAME.write_excel(made, worksheet="Orders")
        pl.DataFrame({"item": [5, 6], "title": ["Tea", "Jam"]}).write_excel(made, worksheet="Products")
        made.add_worksheet("Empty")
    return tmp_path / "t.xlsx"


def test_a_sheet_is_named_if_there_are_several(book):
    assert entries(od.read(book, value="n", table="Orders")) == {("007", 5): 1.5, ("8", 6): 2.0}
    refused(lambda: od.read(book), "one sheet with rows", "Orders, Products", "table=")
    refused(lambda: od.read(book, table="orders"), "a sheet 'orders' in t.xlsx", "Orders, Products, Empty")


def test_the_only_filled_sheet_is_read_also_packed_and_for_titles(tmp_path):
    FRAME.write_excel(tmp_path / "t.xlsx")
    assert entries(od.read(tmp_path / "t.xlsx")) == {("007", 5): 1, ("8", 6): 1}
    (tmp_path / "t.xlsx.gz").write_bytes(gzip.compress((tmp_path / "t.xlsx").read_bytes()))
    assert entries(od.read(tmp_path / "t.xlsx.gz")) == {("007", 5): 1, ("8", 6): 1}
    assert titles.read(tmp_path / "t.xlsx", "item", "user") == {"5": "007", "6": "8"}
    assert read_excel(tmp_path / "t.xlsx", [1]).columns == ["item"]


def test_other_files_are_refused(tmp_path):
    (tmp_path / "t.xlsx").write_text("user,item\n1,2\n")
    refused(lambda: od.read(tmp_path / "t.xlsx"), "an Excel workbook, received 't.xlsx'")
    refused(lambda: od.read(tmp_path / "t.xlsx", separator=","), "separator= only with csv", "t.xlsx")


def test_without_fastexcel_the_error_names_the_extra(book, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastexcel", None)
    refused(lambda: od.read(book), "fastexcel to read t.xlsx", "pip install 'offdiag[excel]'")
