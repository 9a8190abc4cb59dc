"""Titles are read from tables."""

import gzip

import pytest

import offdiag as od
from offdiag.server import titles as titling


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("a.csv", 'item,title\n1,"One, or ""more"""\n2,Deux\n', ("item", "title")),
        ("a.tsv", 'name\tmovie\nOne, or "more"\t1\nDeux\t2\n', ("movie", "name")),
        ("movies.dat", '1::One, or "more"::x\n2::Deux::y\n', ("0", "1")),
        ("b.csv", "\ufeffitem;title\n1;One, or more\n2;Deux\n3;\n", ("item", "title")),
    ],
)
def test_titles_are_read_from_tables(tmp_path, name, text, columns):
    (tmp_path / name).write_text(text, encoding="utf-8")
    read = titling.read(tmp_path / name, *columns)
    assert read["2"] == "Deux"
    assert read["1"].startswith("One, or ")
    assert set(read) == {"1", "2"}


def test_titles_are_read_from_parquet(tmp_path):
    import polars as pl

    pl.DataFrame({"item": [1, 2], "title": ["One", None]}).write_parquet(tmp_path / "t.parquet")
    assert titling.read(tmp_path / "t.parquet") == {"1": "One"}


def test_titles_are_read_from_every_format_and_packing(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress("item,title\n1,Été\n".encode()))
    (tmp_path / "t.jsonl").write_text('{"item": 1, "title": "Été"}\n', encoding="utf-8")
    for name in ("t.csv.gz", "t.jsonl"):
        assert titling.read(tmp_path / name) == {"1": "Été"}


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("none.csv", None, "does not exist"),
        ("empty.csv", b"", "empty"),
        ("other.csv", b"a,b\n1,2\n", "received a, b"),
        ("wrong.parquet", b"no parquet", "wrong.parquet"),
    ],
)
def test_an_invalid_table_of_titles_is_one_clear_line(tmp_path, name, content, problem):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(od.OffdiagError, match=problem) as error:
        titling.read(tmp_path / name)
    assert "\n" not in str(error.value)
