"""The registry of file formats: one entry is all that a new format needs."""

from dataclasses import fields, replace
from typing import get_args

import polars as pl
import pytest

import offdiag as od
from offdiag.cli import inputs, log_inputs
from offdiag.cluster import sources
from offdiag.data import formats
from offdiag.data.columns import Roles
from offdiag.server import titles
from tests.fixtures.tables import entries, refused


def test_types_documentation_and_help_list_every_format():
    assert get_args(formats.Name) == tuple(formats.FORMATS)
    assert formats.documentation() in od.read.__doc__
    for columns in (inputs.Columns, log_inputs.LogColumns):
        (form,) = (field for field in fields(columns) if field.name == "form")
        assert form.metadata["option"].help == formats.listing()


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [
        ("a.csv", None, "csv"), ("a", None, "csv"), ("a.tsv.gz", None, "csv"), ("a.PQ", None, "parquet"),
        ("a.parquet.gz", None, "parquet"), ("a.parquet", "csv", "csv"),
        ("a.ndjson.zst", None, "jsonl"), ("a.feather", None, "arrow"),
        ("ml.inter", None, "recbole"), ("a.txt", "baskets", "baskets"),
    ],
)  # fmt: skip
def test_a_format_is_found_by_its_name_or_by_that_of_the_file(path, name, expected):
    assert formats.find(path, name) is formats.FORMATS[expected]


def test_unknown_formats_are_refused(tmp_path):
    refused(lambda: od.read(tmp_path / "missing.csv", format="xml"), "one of csv, parquet", "'xml'")
    (tmp_path / "t.xls").write_text("user,item\n1,2\n")
    refused(lambda: od.read(tmp_path / "t.xls"), "t.xls", "convert it first")
    assert od.read(tmp_path / "t.xls", format="csv").nnz == 1


@pytest.mark.parametrize("option", [{"separator": ";"}, {"header": True}, {"encoding": "latin-1"}, {"table": "x"}])
def test_an_option_that_a_format_does_not_use_is_refused(tmp_path, option):
    (name,) = option
    pl.DataFrame({"user": [1], "item": [2]}).write_parquet(tmp_path / "t.parquet")
    said = refused(lambda: od.read(tmp_path / "t.parquet", **option), f"{name}= only with", "t.parquet; leave it out")
    assert ("csv" in said) == (name != "table")


@pytest.fixture
def toy(monkeypatch):
    """A format of a foreign file name, registered by one entry: Arrow files called .toy."""

    def frame(path, columns=None, name=None):
        return pl.read_ipc(path, columns=columns)

    def schema(path, name):
        whole = frame(path)
        return {column: str(dtype) for column, dtype in whole.schema.items()}, whole.height

    entry = formats.typed(frame, "Arrow files", ".toy")
    monkeypatch.setitem(formats.FORMATS, "toy", replace(entry, schema=schema))


@pytest.fixture
def folder(tmp_path):
    table = pl.DataFrame({"user": [1, 1, 2, 3], "title": ["A", "B", "B", "A"], "item": ["007", "b", "b", "007"]})
    table.write_ipc(tmp_path / "t.toy")
    table.write_csv(tmp_path / "t.csv")
    return tmp_path


def test_a_new_format_is_read_and_documented_by_its_entry(toy, folder):
    assert entries(od.read(folder / "t.toy")) == entries(od.read(folder / "t.csv"))
    assert entries(od.read(folder / "t.toy", user=0, item=2, format="toy")) == entries(od.read(folder / "t.toy"))
    assert formats.listing().endswith(" counted (n item item …) or toy.")
    assert "- toy: Arrow files" in formats.documentation()
    refused(lambda: od.read(folder / "t.csv", format="xml"), "adjacency, sequence, baskets, counted, toy")
    assert titles.read(folder / "t.toy") == {"007": "A", "b": "B"}


def test_the_workers_of_a_cluster_read_a_new_format_by_its_entry(toy, folder):
    (path,) = sources.files(folder)
    assert path == str(folder / "t.toy")
    refused(lambda: sources.files(folder / "t.csv"), "parquet or toy files (.parquet, .pq, .toy)")
    wanted = sources.Wanted(Roles("title", "item"), verify=True)
    assert sources.check_layouts([sources.describe(path, "t")], ["t"], wanted) == [4]
    assert sources.load(path, "t", wanted).item.to_list() == ["007", "b", "b", "007"]


def test_event_logs_and_the_command_line_read_a_new_format(toy, folder, run, fails):
    settings = ["--model", "ease", "--l2", "1", "--user-power", "0", "--updatable"]
    assert run("fit", "t.toy", "--out", "m.od", *settings)[0] == 0
    assert "nothing new" in run("update", "m.od", "t.toy")[1]
    pl.DataFrame({"user": [2]}).write_ipc(folder / "leaving.toy")
    assert run("forget", "m.od", "--users", "leaving.toy", "--events", "t.toy")[0] == 0
    assert od.load(folder / "m.od").n_users_ == 2
    pl.DataFrame({"user": ["x"], "item": ["b"]}).write_ipc(folder / "t.toy")  # its types are those of the file
    assert "received text in t.toy" in fails("update", "m.od", "t.toy")
