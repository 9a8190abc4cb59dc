"""`offdiag demo`: everything it writes, from synthetic data or from a table."""

import os
import sys

import pytest


def test_the_demo_compares_explains_and_writes_everything(text_of, folder):
    out = text_of("demo", "--users", "400", "--items", "60", "--out", "shown")
    for words in ("Popularity", "EASE", "DLAE", "EDLAE", " ± ", "recommends", "% from", "report.html"):
        assert words in out
    assert set(os.listdir(folder / "shown")) == {"report.html", "model.od", "train.csv", "new-users.csv"}
    text_of("evaluate", "shown/new-users.csv", "shown/model.od", notes=True)


def test_the_demo_takes_a_file_and_is_reproducible(json_of, folder):
    studies = []
    for place in ("one", "two"):
        studies.append(json_of("demo", "train.csv", "--out", place, "--seed", "3"))
        assert set(os.listdir(folder / place)) == {"report.html", "model.od"}  # the user's data is not copied
    first, second = studies
    assert [m["mean"] for m in first["models"]] == [m["mean"] for m in second["models"]]
    assert first["samples"] == second["samples"]
    assert first["best"] in {"EASE", "DLAE", "EDLAE", "Popularity"}


def test_a_wrong_call_is_one_line(fails, folder):
    assert "20 users" in fails("demo", "--users", "3")
    assert "is a file" in fails("demo", "--out", "train.csv")
    assert "is a file" in fails("demo", "--out", "train.csv/below")
    assert (folder / "train.csv").read_text().startswith("user,item")


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes there")
def test_the_files_of_the_demo_replace_ordinary_files_only(fails, tmp_path):
    os.mkfifo(tmp_path / "report.html")
    assert "ordinary file" in fails("demo", "--out", tmp_path)
