"""Table 1 of Steck (2020) from the command line: its numbers, its files, what is left out, and mistakes."""

import json
import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import offdiag as od
from offdiag.data import datasets
from offdiag.papers.steck2020 import fits, rows, sources
from tests.fixtures.html import Page

pytestmark = pytest.mark.slow

QUICK = "weight-decay,l2-product,dlae,zero-diagonal,ease-full,edlae-full,popularity"


def test_a_line_is_what_the_library_finds_by_hand(table1_lines, invented):
    found = table1_lines("--rows", "l2-product,edlae,edlae-full,popularity", "--trials", "0", "--rank", "7")
    split = invented().split
    by_hand = {
        "l2-product": od.LowRankDLAE(rank=7, dropout=0.0, user_power=0.0, seed=0),
        "edlae": od.LowRankEDLAE(rank=7, user_power=0.0, seed=0),
        "edlae-full": od.EDLAE(user_power=0.0),
        "popularity": od.Popularity(),
    }
    assert [key for key, _ in found] == list(by_hand)
    for key, model in by_hand.items():
        line = found[key, fits.AUTOMATIC]
        result = od.evaluate(model.fit(split.train), split.test)
        assert line["mean"] == pytest.approx(result.mean)
        assert line["sem"] == pytest.approx(result.sem)
        validation = od.evaluate(model, split.validation, ["ndcg@100"]).mean["ndcg@100"]
        assert line["validation"] == pytest.approx(validation)
        assert line["n_bytes"] == model.weights_.nbytes
        assert line["settings"] == model.settings_
    best = max(("edlae", "edlae-full"), key=lambda key: found[key, fits.AUTOMATIC]["validation"])
    ours = od.evaluate(by_hand[best], split.test)
    for key, model in by_hand.items():
        test = od.evaluate(model, split.test).compare(ours)
        line = found[key, fits.AUTOMATIC]
        assert line["difference"] == pytest.approx(test.difference["ndcg@100"], abs=1e-12)
        assert line["is_reference"] == (key == best)
        assert line["difference_sem"] == pytest.approx(test.sem["ndcg@100"], abs=1e-12)


def test_the_same_seed_gives_the_same_table_and_another_seed_another(table1_lines):
    def means(seed, out):
        found = table1_lines("--rows", "edlae,ease-full", "--trials", "2", "--seed", seed, "--out", out)
        return [line["mean"] for line in found.values()]

    assert means(1, "a") == means(1, "b") != means(2, "c")


def test_all_three_files_hold_every_row_and_claim(table1):
    code, out, err = table1("--rows", QUICK, "--trials", "0", "--rank", "8", "--out", "here")
    assert (code, err) == (0, "")
    assert sorted(os.listdir("here")) == ["rows", "table1.html", "table1.json", "table1.md"]
    said = json.loads(Path("here/table1.json").read_text())
    (part,) = said["data"]
    assert [r["row"] for r in part["rows"]] == QUICK.split(",")
    assert not any("per_user" in r for r in part["rows"])
    assert [claim["name"] for claim in part["claims"]] == list(rows.expected()["claims"])
    text, page = Path("here/table1.md").read_text(), Path("here/table1.html").read_text()
    for row in part["rows"]:
        for form in (text, page, out):
            assert f"{row['mean']['ndcg@100']:.4f}" in form
            assert row["kind"] in form
    for claim in part["claims"]:
        assert f"| {claim['verdict']} | {claim['text']} | {claim['evidence']} |" in text
        assert claim["text"] in out
    parsed = Page(page)
    assert "script" not in parsed.tags
    assert "http" not in page
    assert "published" not in text.split("| settings |")[1].split("\n")[0]  # nothing was, on synthetic data
    for table in text.split("\n\n"):
        if table.startswith("|"):
            assert len({line.replace("\\|", "").count("|") for line in table.strip().splitlines()}) == 1


def test_a_row_without_its_library_is_left_out_with_what_to_install(table1, table1_json, monkeypatch):
    monkeypatch.setattr(rows, "find_spec", lambda name: None)
    (part,) = table1_json("--rows", "popularity,sampled,dlae,mult-vae", "--trials", "0")["data"]
    assert [r["row"] for r in part["rows"]] == ["dlae", "popularity"]
    assert set(part["left_out"]) == {"sampled", "mult-vae"}
    assert part["left_out"]["mult-vae"] == "needs torch, which is not installed; pip install 'offdiag[neural]'"
    assert "offdiag[neural]" in Path("steck2020/table1.md").read_text()
    code, _, err = table1("--rows", "mult-vae", "--trials", "0")
    assert code == 2
    assert "needs torch" in err


def test_a_row_that_cannot_be_fitted_does_not_stop_the_others(table1, table1_json, monkeypatch):
    def too_big(self, X, **words):
        raise od.NotEnoughMemory("a model of 60 items needs 1 TB of memory")

    monkeypatch.setattr(od.EASE, "fit", too_big)
    (part,) = table1_json("--rows", "popularity,ease-full", "--trials", "0")["data"]
    assert part["left_out"] == {"ease-full": "a model of 60 items needs 1 TB of memory"}
    assert "1 TB" in table1("--rows", "popularity,ease-full", "--trials", "0")[1]


def test_a_row_without_time_for_one_trial_gets_one_fit(table1_lines):
    found = table1_lines("--rows", "popularity,edlae-full", "--trials", "3", "--seconds-per-row", "1e-9")
    line = found["edlae-full", fits.AUTOMATIC]
    assert line["trials"] == 0
    assert line["tune_stopped"] == "seconds"
    untuned = table1_lines("--rows", "edlae-full", "--trials", "0")["edlae-full", fits.AUTOMATIC]
    assert line["mean"] == untuned["mean"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--data", "ml-2om=x"], "did you mean ml-20m=x?"),
        (["--data", "films.csv"], "write NAME=PATH"),
        (["--data", "ml-20m="], "expected a path after --data ml-20m="),
        (["--data", "ml-20m=nowhere.zip"], "does not exist"),
        (["--data", "ml-100k=.", "--data", "ml-100k=."], "ml-100k twice"),
        (["--data", "lastfm"], "lastfm=PATH"),
        (["--data", "lastfm=."], "user_artists.dat"),
        (["--data", "citeulike-a=."], "users.dat"),
        (["--rows", "edlea"], "did you mean edlae?"),
        (["--rows", ","], "one row or more"),
        (["--trials", "-1"], "0 trials or more"),
        (["--seconds-per-row", "0"], "positive time"),
        (["--rank", "60"], "below the 60 items"),
        (["--rank", "0"], "from 1"),
        (["--users", "20"], "50 users and items or more"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(fails, tmp_path, args, words):
    size = [] if {"--data", "--users"} & set(args) else ["--users", 160, "--items", 60]
    assert words in fails("reproduce", "steck2020", "table1", *args, *size)
    assert os.listdir(tmp_path) == []


def ratings(n_users=90, n_items=40, seed=0):
    rng = np.random.default_rng(seed)
    taste = rng.normal(size=(n_users, 3)) @ rng.normal(size=(3, n_items)) + rng.normal(size=(n_users, n_items))
    users, items = np.nonzero(taste > 0.2)
    values = np.where(taste[users, items] > 0.6, 5.0, 3.0)
    rows = [f"{u},{i},{v},{k}" for k, (u, i, v) in enumerate(zip(users, items, values, strict=True))]
    return "userId,movieId,rating,timestamp\n" + "\n".join(rows) + "\n", len(rows), len(set(items.tolist()))


@pytest.fixture
def small_ml_20m(monkeypatch, tmp_path):
    """ml-20m as it would be with 90 users."""
    text, n, n_items = ratings()
    folder = tmp_path / "films"
    folder.mkdir()
    (folder / "ratings.csv").write_text(text)
    small = replace(
        datasets.DATASETS["ml-20m"], counts=datasets.Counts(n, 90, n_items), protocol=datasets.Protocol(4, 5, 0, 15)
    )
    monkeypatch.setitem(datasets.DATASETS, "ml-20m", small)
    return folder


def test_a_published_set_gets_its_protocol_settings_and_figures(table1_json, small_ml_20m):
    args = ("--data", f"ml-20m={small_ml_20m}", "--rank", "5", "--trials", "2")
    (part,) = table1_json("--rows", "l2-product,dlae,edlae-full,slim", *args, small=False)["data"]
    found = {(row["row"], row["kind"]): row for row in part["rows"]}
    assert [key for key in found if key[1] == fits.PUBLISHED] == [
        (row, fits.PUBLISHED) for row in ("l2-product", "dlae", "edlae-full")
    ]
    split = datasets.published("ml-20m", small_ml_20m)
    by_hand = {
        "l2-product": od.LowRankDLAE(rank=5, dropout=0.0, l2=1e4, user_power=0.0),
        "dlae": od.LowRankDLAE(rank=5, dropout=0.67, l2=200.0, user_power=0.0),
        "edlae-full": od.EDLAE(dropout=0.33, l2=300.0, user_power=0.0),
    }
    for row, model in by_hand.items():
        mean = od.evaluate(model.fit(split.train), split.test).mean
        assert found[row, fits.PUBLISHED]["mean"] == pytest.approx(mean)
    assert found["dlae", fits.TUNED]["published"] == [0.382, 0.516, 0.417]
    assert found["edlae-full", fits.TUNED]["published"] == [0.393, 0.523, 0.424]
    text = Path("steck2020/table1.md").read_text()
    assert "0.382 / 0.516 / 0.417" in text
    assert "– / 0.511 / 0.407" in text
    assert "Liang" in part["protocol"]
    assert any("published are 136,677 and 20,108" in note for note in part["notes"])
    assert any("no target" in note for note in part["notes"]) == bool(part["without_targets"])


def test_an_incomplete_file_is_an_error_that_names_both_counts(table1, small_ml_20m):
    file = small_ml_20m / "ratings.csv"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-10]))
    code, out, err = table1("--data", f"ml-20m={small_ml_20m}", "--rows", "popularity", small=False)
    assert (code, out) == (2, "")
    expected = datasets.DATASETS["ml-20m"].counts.interactions
    assert f"expected {expected:,} interactions" in err
    assert f"received {expected - 10:,} interactions" in err
    assert "cut short" in err


def test_users_without_targets_are_reported(monkeypatch, tmp_path):
    text, n, n_items = ratings()
    extra = "".join(f"{u},{i},5.0,0\n" for u in range(90, 120) for i in range(4))
    (tmp_path / "ratings.csv").write_text(text + extra)
    small = replace(
        datasets.DATASETS["ml-20m"], counts=datasets.Counts(n + 120, 120, n_items),
        protocol=datasets.Protocol(4, 0, 0, 30),
    )  # fmt: skip
    monkeypatch.setitem(datasets.DATASETS, "ml-20m", small)
    data = sources.load(sources.Source("ml-20m", tmp_path), 0)
    reported = [int(note.split()[0]) for note in data.notes if note.endswith("no target and are left out")]
    parts = (data.split.validation, data.split.test)
    assert reported == [int((np.diff(part.targets.indptr) == 0).sum()) for part in parts]
    assert min(reported) > 0


def test_published_settings_are_tried_first(table1, small_ml_20m):
    table1(
        "--rows", "dlae,zero-diagonal", "--data", f"ml-20m={small_ml_20m}", "--rank", "5", "--trials", "3", small=False
    )
    for row, settings in (("dlae", (0.67, 200.0)), ("zero-diagonal", (0.0, 500.0))):
        (study,) = Path("steck2020/rows").glob(f"*-{row}-*.study.jsonl")
        trials = [json.loads(line) for line in study.read_text().splitlines()[1:]]
        assert settings in [(t["settings"]["dropout"], t["settings"]["l2"]) for t in trials[:2]]


def test_a_run_at_the_papers_scale_measures_cost_and_judges_nothing(run, monkeypatch):
    small = sources.Source(sources.STAND_IN, users=300, items=60, interactions=4000)
    monkeypatch.setattr(sources, "stand_in", lambda: small)
    code, out, _ = run("reproduce", "steck2020", "table1", "--size", "paper", "--rank", "5", "--json")
    assert code == 0
    (part,) = json.loads(out)["data"]
    wanted = set(rows.OWN_ROWS) - (set() if find_spec("torch") else {"sampled"})
    assert {row["row"] for row in part["rows"]} == wanted
    assert {row["number"] for row in part["rows"]} >= {1, 2, 3, 5}
    assert all(row["fit_seconds"] > 0 and row["trials"] == 0 for row in part["rows"])
    assert part["claims"] == part["by_rank"] == []
    assert [row["settings"]["epochs"] for row in part["rows"] if row["row"] == "sampled"] in ([], [1])
    assert "accuracies mean nothing" in Path("steck2020/table1.md").read_text()
