"""Any source as one table with all of its columns."""

import gzip
import zipfile

import pytest

from offdiag.data.columns import Options
from offdiag.data.whole_table import read_whole
from tests.fixtures.mistakes import refused

CSV = "id;title\n1;a\n\n2;\n"


def rows_of(source, **options):
    frame, _, _ = read_whole(source, Options(**options))
    return frame.to_dicts()


def test_packed_files_folders_and_patterns_are_one_table(tmp_path):
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"id;title;price\n3;c;4\n"))
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as packed:
        packed.write(tmp_path / "a.csv", "a.csv")
    first = [{"id": "1", "title": "a"}, {"id": "2", "title": None}]
    assert rows_of(tmp_path / "a.csv") == rows_of(tmp_path / "z.zip") == first
    (tmp_path / "z.zip").unlink()
    together = [row | {"price": None} for row in first] + [{"id": "3", "title": "c", "price": "4"}]
    assert rows_of(tmp_path) == rows_of(str(tmp_path / "*.csv*")) == together


def test_files_that_are_not_read_are_noted(tmp_path):
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "read.me").write_text("x")
    _, where, notes = read_whole(tmp_path, Options())
    assert where == "a.csv"
    assert notes == [f"1 other file was not read in {tmp_path.name}: 'read.me'"]


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("", {}, "empty file"),
        ("id,title\n1,a,b\n", {}, "2 columns"),
        ("id,id\n1,a\n", {}, "'id' twice"),
        ("id\n", {}, "columns divided by"),
        (CSV, {"format": "adjacency"}, "lines of ids"),
        (CSV, {"format": "word"}, "format to be one of"),
        (CSV, {"table": "x"}, "table= only with"),
    ],
)
def test_bad_files_are_explained(tmp_path, content, options, words):
    (tmp_path / "a.csv").write_text(content)
    with refused(words):
        rows_of(tmp_path / "a.csv", **options)


def test_bad_sources_are_explained():
    for source in ("nowhere.csv", None, [], [1]):
        with refused("expected"):
            rows_of(source)
    pd = pytest.importorskip("pandas")
    with refused("'a' twice"):
        rows_of(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with refused("format"):
        rows_of("duckdb:", format="csv", query="select 1")
