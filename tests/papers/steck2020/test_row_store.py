"""Finished rows on disk: none is computed twice, none survives damage."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from offdiag.papers.steck2020 import fits, row_store

pytestmark = pytest.mark.slow


def test_a_finished_row_is_not_computed_again(table1, table1_lines, counted):
    one = table1_lines("--rows", "dlae,ease-full", "--trials", "0")
    assert counted == ["LowRankDLAE", "EASE"]
    other = table1_lines("--rows", "dlae,ease-full,edlae-full", "--trials", "0")
    assert counted == ["LowRankDLAE", "EASE", "EDLAE"]
    for key in one:
        for name in ("mean", "settings", "fit_seconds"):
            assert one[key][name] == other[key][name]
    table1("--rows", "ease-full", "--trials", "0", "--seed", "4")  # other data
    table1("--rows", "dlae", "--trials", "0", "--rank", "5")  # another rank
    assert counted[3:] == ["EASE", "LowRankDLAE"]


def test_an_interrupted_run_keeps_its_rows_and_resumes(table1, counted, monkeypatch):
    real = fits._fit

    def stop(model, data, progress):
        if type(model).__name__ == "EASE":
            raise KeyboardInterrupt
        return real(model, data, progress)

    monkeypatch.setattr(fits, "_fit", stop)
    args = ("--rows", "dlae,ease-full,popularity", "--trials", "0")
    code, out, err = table1(*args)
    assert (code, out) == (130, "")
    assert "1 finished rows are kept in steck2020" in err
    assert os.listdir("steck2020") == ["rows"]  # no table for a partial run
    monkeypatch.setattr(fits, "_fit", real)
    assert table1(*args)[0] == 0
    assert counted == ["LowRankDLAE", "EASE", "Popularity"]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"fingerprint": "other"}'])
def test_a_damaged_record_is_computed_again(damage, table1, counted):
    table1("--rows", "popularity", "--trials", "0")
    (record,) = Path("steck2020/rows").glob("*.json")
    whole = json.loads(record.read_text())
    record.write_text(damage)
    assert table1("--rows", "popularity", "--trials", "0")[0] == 0
    assert counted == ["Popularity"] * 2
    assert json.loads(record.read_text())["mean"] == whole["mean"]


def test_a_fingerprint_knows_the_data_and_not_its_order_of_facts(invented):
    one, other = invented(0).split, invented(1).split
    assert row_store.digest(one) == row_store.digest(invented(0).split) != row_store.digest(other)
    swapped = replace(one, test=one.validation, validation=one.test)
    assert row_store.digest(swapped) != row_store.digest(one)
    assert row_store.fingerprint(a=1, b=2) == row_store.fingerprint(b=2, a=1) != row_store.fingerprint(a=1, b=3)
