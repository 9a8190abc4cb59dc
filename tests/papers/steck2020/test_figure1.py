"""Figure 1 of Steck (2020) from the command line: its numbers, its files and mistakes."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import offdiag as od
from offdiag.papers.steck2020 import figure1

pytestmark = pytest.mark.slow

pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def run(run):
    return partial(run, "reproduce")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    place = tmp_path_factory.mktemp("data") / "train.csv"
    inter = od.synthetic.interactions(260, 40, 3200, communities=4, names=False, seed=2)
    rows = np.repeat(inter.user_ids, np.diff(inter.matrix.indptr))
    lines = [f"{u},{i}" for u, i in zip(rows, inter.matrix.indices, strict=True)]
    place.write_text("user,item\n" + "\n".join(lines) + "\n")
    return place


def test_figure_1_is_drawn_from_a_table(run, table, tmp_path):
    code, out, err = run("steck2020", "figure1", table, "--ranks", "3,20,8", "--out", "here", "--json")
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert sorted(os.listdir("here")) == ["figure1.json", "figures", "index.html", "numbers.json"]
    assert [Path(file).name for file in said["files"] if "figures" not in file] == [
        "index.html", "numbers.json", "figure1.json",
    ]  # fmt: skip
    saved = json.loads(Path("here/figure1.json").read_text())
    assert {k: v for k, v in said.items() if k != "files"} == saved

    assert said["data"]["users"] == 260 - 2 * 26
    assert said["data"]["test_users"] == 26
    assert [(p["model"], p["rank"]) for p in said["accuracy"]] == [
        (model, rank) for rank in (3, 8, 20) for model in ("EDLAE", "zero diagonal", "DLAE")
    ]
    for point in said["accuracy"]:
        assert 0 < point["mean"] < 1
        assert 0 < point["sem"] < 0.2
        assert point["n_bytes"] == 2 * 40 * point["rank"] * 4
        assert point["objective"] > 0
    assert said["rank"] == 20
    models = ("EDLAE", "zero diagonal", "DLAE")
    sides = {f"{name} {side}" for name in models for side in ("encoder", "decoder")}
    assert set(said["median_cosines"]) == {"balanced", "as fitted"}
    assert all(set(found) == sides for found in said["median_cosines"].values())
    assert set(said["diagonal"]) == set(said["full_rank"]) == set(models)
    cosines = [spread for found in said["median_cosines"].values() for spread in found.values()]
    for spread in (*cosines, *said["diagonal"].values()):
        assert sum(spread["counts"]) == 40
        assert len(spread["edges"]) == len(spread["counts"]) + 1
    assert said["settings"]["user_power"] == 0
    assert set(said["settings"]) == {"dropout", "l2", "user_power"}
    assert said["tuned"]
    assert {p["settings"]["dropout"] for p in said["accuracy"] if p["model"] != "EDLAE"} == {0}  # the scalar penalty
    assert len({p["settings"]["l2"] for p in said["accuracy"]}) > 1  # each model has its own


def test_the_numbers_are_those_of_the_library(run, table):
    options = ["--ranks", "6", "--dropout", "0.4", "--l2", "5", "--seed", "3", "--metric", "recall@5", "--json"]
    code, out, _ = run("steck2020", "figure1", table, "--held-out", "0.2", *options)
    assert code == 0
    said = json.loads(out)
    split = od.split.strong(od.read(table), held_out=0.2, seed=3)
    words = {"dropout": 0.4, "l2": 5.0, "user_power": 0.0}
    full = od.EDLAE(**words).fit(split.train)
    assert not said["tuned"]
    assert said["full_rank"]["EDLAE"]["mean"] == od.evaluate(full, split.test, ["recall@5"]).mean["recall@5"]
    for name, model in (("EDLAE", od.LowRankEDLAE), ("zero diagonal", od.ZeroDiagonalLAE), ("DLAE", od.LowRankDLAE)):
        fitted = model(rank=6, seed=3, **words).fit(split.train)
        point = next(p for p in said["accuracy"] if p["model"] == name)
        assert point["mean"] == pytest.approx(od.evaluate(fitted, split.test, ["recall@5"]).mean["recall@5"])
        low = fitted.weights_.toarray()
        assert said["diagonal"][name]["mean"] == pytest.approx(np.diag(low).mean(), rel=1e-3, abs=1e-5)
        B = full.weights_.toarray()
        np.fill_diagonal(B, -np.inf)
        groups = np.argsort(-B, axis=0, kind="stable")[:10].T
        left, values, right = np.linalg.svd(low.astype(float))
        sides = {"encoder": left[:, :6] * np.sqrt(values[:6]), "decoder": right[:6].T * np.sqrt(values[:6])}
        given = {"encoder": fitted.weights_.U, "decoder": fitted.weights_.V}
        for gauge, pair in (("balanced", sides), ("as fitted", given)):
            for side, E in pair.items():
                unit = E / np.linalg.norm(E, axis=1, keepdims=True)
                medians = [np.median((unit[group] @ unit[group].T)[np.triu_indices(10, 1)]) for group in groups]
                found = said["median_cosines"][gauge][f"{name} {side}"]["mean"]
                assert found == pytest.approx(np.mean(medians), abs=1e-3)


def test_each_model_is_tuned_on_validation_users_alone(table):
    inter = od.read(table)
    found = figure1.run(inter, "a table", ranks=[6], seed=3)
    split = od.split.strong(inter, held_out=0.1, seed=3)

    def score(l2):
        model = od.ZeroDiagonalLAE(rank=6, dropout=0.0, l2=l2, user_power=0.0, seed=3).fit(split.train)
        return od.evaluate(model, split.validation, ["ndcg@100"]).mean["ndcg@100"]

    l2 = found.curve.at("zero diagonal", 6).settings["l2"]
    assert score(l2) >= max(score(3 * l2), score(l2 / 3))
    ease = od.EASE(l2=found.full_rank["zero diagonal"].settings["l2"], user_power=0.0).fit(split.train)
    mean = od.evaluate(ease, split.test, ["ndcg@100"]).mean["ndcg@100"]
    assert found.full_rank["zero diagonal"].mean == pytest.approx(mean)


@pytest.mark.parametrize(
    ("size", "items", "ranks"),
    [
        ("paper", 3706, [10, 20, 50, 100, 200, 500, 1235]),
        ("paper", 40, [13]),
        ("small", 3706, [5, 20, 1235]),
        ("small", 2, [1]),
    ],
)
def test_the_largest_rank_is_a_third_of_the_items(size, items, ranks):
    assert figure1.choose_ranks(None, None, items, size) == (ranks, ranks[-1])
    assert figure1.choose_ranks([1, items], None, items, size) == ([1], 1)


def test_the_page_is_self_contained_and_the_terminal_shows_tables(run):
    code, out, err = run("steck2020", "figure1", "--users", "200", "--items", "30", "--ranks", "2,9", "--rank", "5")
    assert (code, err) == (0, "")
    for words in ("EDLAE", "zero diagonal", "full", "synthetic catalogue", "median cosine", "as fitted", "index.html"):
        assert words in out
    text = Path("steck2020/index.html").read_text(encoding="utf-8")
    assert text.count('<img alt="') == text.count('src="data:image/png') == 2
    assert "<script" not in text
    assert "offdiag reproduce steck2020 figure1 --size paper" in text
    said = json.loads(Path("steck2020/figure1.json").read_text())
    assert said["rank"] == 5
    assert sorted({p["rank"] for p in said["accuracy"]}) == [2, 5, 9]  # the histograms' rank is on the curve too


def test_the_same_seed_gives_the_same_figure(run, table):
    outs = [
        json.loads(run("steck2020", "figure1", table, "--ranks", "4", "--seed", seed, "--json")[1])
        for seed in (1, 1, 2)
    ]
    means = [[p["mean"] for p in out["accuracy"]] for out in outs]
    assert means[0] == means[1] != means[2]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["steck2019"], "steck2020; received"),
        (["steck2020", "figure2"], "knows figure1"),
        (["steck2020", "figure1", "--size", "large"], "small or paper"),
        (["steck2020", "figure1", "--ranks", "ten"], "10,20,50"),
        (["steck2020", "figure1", "--ranks", "0,5"], "from 1"),
        (["steck2020", "figure1", "--users", "50", "--items", "30", "--ranks", "30,40"], "below the 30 items"),
        (["steck2020", "figure1", "--users", "50", "--items", "30", "--rank", "31"], "below the 30 items"),
        (["steck2020", "figure1", "--users", "50", "--items", "30", "--metric", "ndgc@10"], "ndcg@10"),
        (["steck2020", "figure1", "--users", "50", "--items", "30", "--held-out", "0.5"], "held_out"),
        (["steck2020", "figure1", "--users", "50", "--items", "30", "--dropout", "1"], "dropout"),
        (["steck2020", "figure1", "--l2", "much"], "auto"),
        (["steck2020", "figure1", "nowhere.csv"], "nowhere.csv"),
        (["steck2020", "figure1", "--nonsense"], "--nonsense"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(fails, tmp_path, args, words):
    assert words in fails(*args)
    assert os.listdir(tmp_path) == []


def test_out_must_be_a_folder(fails, tmp_path):
    (tmp_path / "file").write_text("mine")
    assert "is a file" in fails("steck2020", "figure1", "--out", "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_without_a_name_the_papers_and_figures_are_listed(run):
    code, out, err = run()
    assert (code, err) == (0, "")
    assert "steck2020" in out
    assert "figure1" in run("steck2020")[1]


def test_the_script_of_the_admm_runs_on_a_table(table, tmp_path):
    options = ["--data", table, "--name", "a table", "--rank", "3", "--iterations", "12"]
    command = [sys.executable, ROOT / "benchmarks" / "steck2020.py", *options, "--out", tmp_path / "out"]
    ran = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = json.loads((tmp_path / "out" / "admm.json").read_text())
    assert found["data"]["source"] == "a table"
    assert found["excess_of_the_best_admm_over_ours"] > 1
    assert {len(run["objectives"]) for run in found["published"]} == {12}
    assert "the best ADMM ends" in ran.stdout
