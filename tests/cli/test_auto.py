"""`offdiag auto`: a table in, a model and a verdict out."""

import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import offdiag as od
from tests.fixtures.tables import write_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("auto")
    write_table(od.synthetic.catalogue(300, 50, 4500, communities=4, seed=1).interactions, place / "train.csv")
    return place


def test_auto_saves_the_model_it_names(json_of):
    said = json_of("auto", "train.csv", "--minutes", 0.05, "--out", "best.od", "--plot", "race.svg", "--seed", 1)
    model = od.load("best.od")
    assert type(model).__name__ == said["model"]
    assert model.settings_ == said["settings"]
    assert model.n_users_ == 300
    assert said["test"]["chosen"]["n_users"] == said["gain"]["n_users"] > 100
    assert said["rows"][0]["state"] == "complete"
    assert ET.parse("race.svg").getroot().tag.endswith("svg")


def test_auto_says_what_it_saw_and_chose(text_of):
    said = text_of("auto", "train.csv", "--minutes", 0.02, "--serve", "new")
    for words in ("300 users", "30 users are held out", "chosen", "test users", "offdiag fit DATA"):
        assert words in said


def test_a_budget_of_nothing_or_a_strange_question_is_refused(fails):
    assert "--minutes above 0" in fails("auto", "train.csv", "--minutes", 0)
    assert "serve" in fails("auto", "train.csv", "--serve", "all")
    assert "order" in fails("auto", "train.csv", "--serve", "next", "--minutes", 0.01)
    assert "needs times" in fails("auto", "train.csv", "--at", "2024-01-01")


def test_features_and_groups_are_read_and_must_match(folder, run, json_of):
    items = od.read("train.csv").item_ids.tolist()
    rows = [f'"{item}",{"ab"[number % 2]}' for number, item in enumerate(items)]
    Path("products.csv").write_text("\n".join(["item,kind", *rows]))
    words = ("auto", "train.csv", "--minutes", 0.05, "--features", "products.csv")
    said = json_of(*words, notes=True)
    assert any("features describe 50 of 50 items" in one for one in said["seen"])
    Path("others.csv").write_text("item,kind\nx,a\ny,b\n")
    code, _, err = run(*words[:-1], "others.csv")
    assert code == 2
    assert "none of them but 'x', 'y'; name another column with --feature-columns item=COLUMN" in err
    said = json_of(
        "auto", "train.csv", "--minutes", 0.02, "--groups", "products.csv", "--group-column", "kind", notes=True
    )
    assert "groups=groups" in said["again"]


def begin(folder, *words):
    """The command in a process of its own, once it has measured some models; the journal is there then."""
    command = [sys.executable, "-m", "offdiag", "auto", "train.csv", *words, "--seed", "1"]
    process = subprocess.Popen(
        command, cwd=folder, env=os.environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    journal, deadline = folder / "best.od.race", time.monotonic() + 120
    while not (journal.exists() and journal.read_text().count('"row"') >= 3):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process


def test_a_killed_run_leaves_the_old_model_and_continues(folder, text_of):
    old = folder / "best.od"
    od.Popularity().fit(od.read(folder / "train.csv")).save(old)
    before = old.read_bytes()
    process = begin(folder, "--minutes", "1", "--out", "best.od")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert old.read_bytes() == before
    measured = (folder / "best.od.race").read_text().count('"row"')
    said = text_of("auto", "train.csv", "--minutes", 0.1, "--out", "best.od", "--seed", 1)
    assert f"{measured} models were measured before" in " ".join(said.split())
    assert type(od.load(old)).__name__ in said
    assert not list(folder.glob("best.od.race*")), "nothing is left of the journal once the model is saved"


def test_ctrl_c_saves_the_best_so_far(folder):
    process = begin(folder, "--minutes", "5", "--out", "best.od")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "interrupted; continuing with the best model so far" in err
    assert "saved to" in out
    assert od.load(folder / "best.od").n_users_ == 300
    assert (folder / "best.od.race").exists(), "the same command continues"


def test_a_journal_of_other_data_is_refused(folder, fails):
    assert "train.csv" in fails("auto", "train.csv", "--resume", "train.csv", "--minutes", 0.01)
