"""From a source to files: folders, patterns, archives, stdin; what is not read is noted."""

import gzip
import io
import sys
import zipfile

import polars as pl
import pytest

import offdiag as od
from offdiag.data import places
from tests.fixtures.tables import entries, refused, write, zipped

FRAME = pl.DataFrame({"user": [1, 1, 2, 3], "item": [5, 6, 6, 7]})
TEXT = "user,item\n1,5\n1,6\n2,6\n3,7\n"
TRUTH = {(1, 5): 1, (1, 6): 1, (2, 6): 1, (3, 7): 1}


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (lambda: TEXT.encode(), None),
        (lambda: gzip.compress(TEXT.encode()), None),
        (lambda: FRAME.write_ndjson().encode(), None),
        (lambda: FRAME.write_json().encode(), None),
        (lambda: in_memory(FRAME.write_parquet), None),
        (lambda: in_memory(FRAME.write_ipc), None),
        (lambda: in_memory(FRAME.write_ipc_stream), None),
        (lambda: in_memory(FRAME.write_excel), None),
        (lambda: in_memory(lambda file: zipped(file, {"a.csv": TEXT})), None),
        (lambda: b"1 5 6\n2 6\n3 7\n", "adjacency"),
    ],
)
def test_the_format_of_stdin_is_found_in_its_first_bytes(content, form, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content())))
    assert entries(od.read("-", format=form)) == TRUTH


def in_memory(save):
    file = io.BytesIO()
    save(file)
    return file.getvalue()


def test_an_empty_stdin_is_an_error(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    refused(lambda: od.read("-"), "a table on stdin, received nothing")


def test_files_of_a_folder_are_one_table_and_others_are_noted(tmp_path):
    logs = tmp_path / "logs"
    (logs / "deep").mkdir(parents=True)
    write(logs / "a.csv", "user,item\n1,5\n1,6\n")
    write(logs / "deep" / "b.csv.gz", "user,item\n2,6\n3,7\n")
    write(logs / "_SUCCESS", "")
    write(logs / ".part.csv", "broken")
    write(logs / "README.md", "hello")
    inter = od.read(logs)
    assert entries(inter) == TRUTH
    assert inter.notes == ("1 other file was not read in logs: 'README.md'",)
    assert entries(od.read(f"{tmp_path}/logs/**/*.csv*")) == TRUTH
    assert entries(od.read(logs, table="a.csv")) == {(1, 5): 1, (1, 6): 1}


def test_folders_of_several_formats_or_of_none_are_refused(tmp_path):
    write(tmp_path / "a.csv", TEXT)
    FRAME.write_parquet(tmp_path / "b.parquet")
    refused(lambda: od.read(tmp_path), "one format", "csv and parquet", "format=")
    assert entries(od.read(tmp_path, format="parquet")) == TRUTH
    (tmp_path / "none").mkdir()
    refused(lambda: od.read(tmp_path / "none"), "tables in none, received nothing")
    refused(lambda: od.read(str(tmp_path / "*.tsv")), "which matches none")
    refused(lambda: od.read(tmp_path / "x.csv"), "does not exist")


def test_the_names_of_folders_are_columns(tmp_path):
    for day, country in (("2024-01-02", "de"), ("2024-01-01", "__HIVE_DEFAULT_PARTITION__")):
        place = tmp_path / f"date={day}" / f"land={country}"
        place.mkdir(parents=True)
        write(place / "part.csv", "user,item\n1,5\n" if country == "de" else "user,item\n1,6\n")
    inter = od.read(tmp_path, time="date")
    assert inter.history(1) == [6, 5]
    assert inter.times.tolist() == [1704153600, 1704067200]
    assert entries(od.read(tmp_path, where="land = 'de'")) == {(1, 5): 1}
    assert entries(od.read(tmp_path, where="land IS NULL")) == {(1, 6): 1}
    refused(lambda: od.read(tmp_path, user="land"), "as names of folders")


def test_partitions_equal_those_of_polars(tmp_path):
    frame = FRAME.with_columns(n=pl.Series([1, 2, 3, 4]), hour=pl.Series([1, 1, 2, 2]))
    frame.write_parquet(tmp_path / "lake", partition_by="hour")
    hive = pl.read_parquet(tmp_path / "lake", hive_partitioning=True)
    assert entries(od.read(tmp_path / "lake", value="n", time="hour")) == entries(od.read(hive, value="n", time="hour"))
    assert sorted(od.read(tmp_path / "lake", time="hour").times.tolist()) == [1, 1, 2, 2]


def test_files_of_an_archive(tmp_path):
    archive = zipped(tmp_path / "t.zip", {"in/a.csv": "user,item\n1,5\n1,6\n", "in/b.csv": "user,item\n2,6\n3,7\n"})
    assert entries(od.read(archive)) == TRUTH
    assert entries(od.read(archive, table="a.csv")) == {(1, 5): 1, (1, 6): 1}
    refused(lambda: od.read(archive, table="c.csv"), "the file 'c.csv' in t.zip", "'in/a.csv', 'in/b.csv'")
    mixed = zipped(tmp_path / "m.zip", {"a.csv": TEXT, "movies.csv": "item,title\n5,Alien\n"})
    refused(lambda: od.read(mixed), "among the columns of movies.csv")
    assert entries(od.read(mixed, table="a.csv")) == TRUTH


def test_a_member_never_leaves_the_temporary_folder(tmp_path):
    archive = zipped(tmp_path / "t.zip", {"../../evil.csv": TEXT})
    assert entries(od.read(archive)) == TRUTH
    assert not (tmp_path / "evil.csv").exists()
    assert not (tmp_path.parent / "evil.csv").exists()


def test_damaged_archives_are_refused(tmp_path):
    whole = zipped(tmp_path / "t.zip", {"a.csv": TEXT * 50}).read_bytes()
    for damaged in (whole[:-9], whole[:60], whole[:70] + b"\xff\xff\xff" + whole[73:]):
        (tmp_path / "d.zip").write_bytes(damaged)
        refused(lambda: od.read(tmp_path / "d.zip"), "a complete zip file without a password, received d.zip")


def test_temporary_folders_are_removed(tmp_path, monkeypatch):
    archive = zipped(tmp_path / "t.zip", {"a.csv": TEXT})
    with places.local_files(archive) as found:
        (place,) = found.files
        assert place.path.is_file()
        assert place.name == "a.csv"
    assert not place.path.exists()
    assert zipfile.is_zipfile(archive)


def test_an_archive_larger_than_the_disk_is_refused(tmp_path, monkeypatch):
    archive = zipped(tmp_path / "t.zip", {"a.csv": TEXT})
    monkeypatch.setattr(places.shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 3}))
    refused(lambda: od.read(archive), "room for", "TMPDIR")


def test_sources_have_names_without_secrets():
    assert places.name_of("-") == "stdin"
    assert places.name_of("logs/a.csv") == "a.csv"
    assert places.name_of("https://me:pw@host/x/a.csv?token=1") == "a.csv"
    assert places.is_several("-")
    assert not places.is_several("a.csv")
