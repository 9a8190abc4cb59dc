"""JSON and JSON lines, in the layouts that people write."""

import json

import polars as pl
import pytest

import offdiag as od
from tests.fixtures.tables import entries, outcome, refused, write

RECORDS = [{"user": "a", "item": 1, "n": 2}, {"user": "b", "item": 2, "n": 0.5, "more": {"x": [1]}}]
TRUTH = {("a", 1): 2.0, ("b", 2): 0.5}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.jsonl", "\n".join(map(json.dumps, RECORDS))),
        ("t.ndjson", "\ufeff" + "\n\n".join(map(json.dumps, RECORDS)) + "\n"),
        ("t.json", json.dumps(RECORDS, indent=2)),
        ("t.json", json.dumps({"user": ["a", "b"], "item": [1, 2], "n": [2, 0.5]})),
        ("t.json", json.dumps({"user": {"0": "a", "1": "b"}, "item": {"0": 1, "1": 2}, "n": {"0": 2, "1": 0.5}})),
        ("t.json.gz", json.dumps(RECORDS)),
    ],
)
def test_layouts_give_the_same_interactions(tmp_path, name, text):
    assert entries(od.read(write(tmp_path / name, text), value="n")) == TRUTH


def test_a_field_that_some_lines_lack_is_missing(tmp_path):
    late = [{"item": 1}] * 300 + RECORDS  # seen only by reading every line
    path = write(tmp_path / "t.jsonl", "\n".join(map(json.dumps, late)))
    refused(lambda: od.read(path), "a user id in every row", "(300 in all)")
    assert len(entries(od.read(path, missing="drop"))) == 2


def test_other_json_is_refused(tmp_path):
    for text, words in (
        ('{"user": 1}', "an object of something else"), ("[1, 2]", "an array of something else"), ("3", "one value"),
        ("[", "an array of records"), ('{"user": 1}\n{"user": 2}\n', "read with format='jsonl'"),
    ):  # fmt: skip
        refused(lambda text=text: od.read(write(tmp_path / "t.json", text)), words, "t.json")
    refused(lambda: od.read(write(tmp_path / "t.json", '{"user": [1, 2], "item": [1]}')), "columns of one length")
    refused(lambda: od.read(write(tmp_path / "t.jsonl", "[1]\n")), "one JSON object on each line")


def test_damage_is_a_one_line_error(tmp_path):
    whole = "\n".join(map(json.dumps, RECORDS)).encode()
    for at in range(0, len(whole), 3):
        for name in ("t.jsonl", "t.json"):
            (tmp_path / name).write_bytes(whole[:at] + b"\xff" + whole[at + 1 :])
            assert "\n" not in (outcome(lambda name=name: od.read(tmp_path / name)) or "")


def test_positions_choose_columns(tmp_path):
    from offdiag.data.json_files import read_json, read_json_lines

    pl.DataFrame(RECORDS).select("user", "item", "n").write_ndjson(tmp_path / "t.jsonl")
    pl.DataFrame(RECORDS).select("user", "item", "n").write_json(tmp_path / "t.json")
    assert read_json_lines(tmp_path / "t.jsonl", [0, 2]).columns == ["user", "n"]
    assert read_json(tmp_path / "t.json", [1]).columns == ["item"]
