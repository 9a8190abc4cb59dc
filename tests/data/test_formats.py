"""The registry of file formats: one entry is all that a new format needs."""

from typing import get_args

import polars as pl
import pytest

import offdiag as od
from offdiag.data import formats
from offdiag.data.frames import columns_of_frame
from offdiag.server import titles
from tests.fixtures.tables import entries, refused


def test_the_type_of_the_argument_lists_every_format():
    assert get_args(formats.Name) == tuple(formats.FORMATS)
    assert formats.documentation() in od.read.__doc__


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [
        ("a.csv", None, "csv"), ("a", None, "csv"), ("a.tsv.gz", None, "csv"), ("a.PQ", None, "parquet"),
        ("a.parquet.gz", None, "parquet"), ("a.parquet", "csv", "csv"), ("a.txt", "baskets", "baskets"),
    ],
)  # fmt: skip
def test_a_format_is_found_by_its_name_or_by_that_of_the_file(path, name, expected):
    assert formats.find(path, name) is formats.FORMATS[expected]


def test_unknown_formats_are_refused(tmp_path):
    refused(lambda: od.read(tmp_path / "missing.csv", format="xml"), "one of csv, parquet", "'xml'")
    (tmp_path / "t.xlsx").write_text("user,item\n1,2\n")
    refused(lambda: od.read(tmp_path / "t.xlsx"), "t.xlsx", "convert it first")
    assert od.read(tmp_path / "t.xlsx", format="csv").nnz == 1


def test_a_new_format_is_one_entry(monkeypatch, tmp_path):
    def read(path, roles, options):
        return columns_of_frame(pl.read_ipc(path), roles, options.text_ids, path.name)

    entry = formats.Format(read, "Arrow files", (".arrow",), frozenset({"text_ids"}), frame=pl.read_ipc)
    monkeypatch.setitem(formats.FORMATS, "arrow", entry)
    pl.DataFrame({"user": [1, 2], "item": ["a", "b"], "title": ["A", "B"]}).write_ipc(tmp_path / "t.arrow")
    assert entries(od.read(tmp_path / "t.arrow")) == {(1, "a"): 1, (2, "b"): 1}
    assert titles.read(tmp_path / "t.arrow") == {"a": "A", "b": "B"}
    assert formats.listing(layouts=False) == "csv, parquet, adjacency, baskets, counted or arrow."
    assert "- arrow: Arrow files" in formats.documentation()
