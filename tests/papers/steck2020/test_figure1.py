"""Figure 1 of Steck (2020) from the command line: its numbers, its files, mistakes, and the verdicts."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import offdiag as od
from offdiag.papers.claims import read_expected
from offdiag.papers.steck2020 import figure1, figure1_page
from tests.fixtures.html import Page

pytestmark = pytest.mark.slow

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
    assert sorted(os.listdir("here")) == ["figure1.html", "figure1.json"]
    assert said["files"] == [str(Path("here", name)) for name in ("figure1.html", "figure1.json")]
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
    assert set(said["median_cosines"]) == {f"{name} {side}" for name in models for side in ("encoder", "decoder")}
    assert set(said["median_cosines_as_fitted"]) == set(said["diagonal"]) == set(models)
    for spread in (*said["median_cosines"].values(), *said["diagonal"].values()):
        assert sum(spread["counts"]) == 40
        assert len(spread["edges"]) == len(spread["counts"]) + 1
    assert said["settings"]["user_power"] == 0
    assert set(said["settings"]) == {"dropout", "l2", "user_power"}


def test_the_numbers_are_those_of_the_library(run, table):
    options = ["--ranks", "6", "--dropout", "0.4", "--l2", "5", "--seed", "3", "--metric", "recall@5", "--json"]
    code, out, _ = run("steck2020", "figure1", table, "--held-out", "0.2", *options)
    assert code == 0
    said = json.loads(out)
    split = od.split.strong(od.read(table), held_out=0.2, seed=3)
    words = {"dropout": 0.4, "l2": 5.0, "user_power": 0.0}
    full = od.EDLAE(**words).fit(split.train)
    assert said["full_rank"]["mean"] == od.evaluate(full, split.test, ["recall@5"]).mean["recall@5"]
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
        for side, E in sides.items():
            unit = E / np.linalg.norm(E, axis=1, keepdims=True)
            medians = [np.median((unit[group] @ unit[group].T)[np.triu_indices(10, 1)]) for group in groups]
            assert said["median_cosines"][f"{name} {side}"]["mean"] == pytest.approx(np.mean(medians), abs=1e-3)


def test_the_page_is_self_contained_and_the_terminal_shows_tables(run):
    code, out, err = run("steck2020", "figure1", "--users", "200", "--items", "30", "--ranks", "2,9", "--rank", "5")
    assert (code, err) == (0, "")
    for words in ("EDLAE", "zero diagonal", "full", "synthetic catalogue", "median cosine", "figure1.html"):
        assert words in out
    text = Path("steck2020/figure1.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.tags.count("svg") == 5
    assert "script" not in page.tags
    assert "http" not in text.replace("http-equiv", "")
    assert "prefers-color-scheme: dark" in text
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


def test_every_claim_of_the_paper_gets_a_verdict(run, table):
    said = json.loads(run("steck2020", "figure1", table, "--ranks", "4,12", "--json")[1])
    expected = read_expected("steck2020")["figure1"]["claims"]
    assert [claim["name"] for claim in said["claims"]] == list(expected)
    assert {claim["verdict"] for claim in said["claims"]} <= {"holds", "within error", "barely", "does not hold"}
    assert all(claim["evidence"] for claim in said["claims"])


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["steck2019"], "steck2020; received"),
        (["steck2020", "figure2"], "knows figure1"),
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


def test_the_script_of_the_paper_runs_on_a_table(table, tmp_path):
    options = ["--data", table, "--name", "a table", "--rank", "3", "--iterations", "12", "--ranks", "3,6", "--tune"]
    command = [sys.executable, ROOT / "benchmarks" / "steck2020.py", *options, "--out", tmp_path / "out"]
    ran = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    figures = {f"figure1-{name}.svg" for name in ("accuracy", "edlae", "zero-diagonal", "dlae", "diagonal")}
    assert set(os.listdir(tmp_path / "out")) == {"admm.json", "figure1.json", *figures}
    found = json.loads((tmp_path / "out" / "admm.json").read_text())
    assert found["data"]["source"] == "a table"
    assert found["excess_of_the_best_admm_over_ours"] > 1
    assert {len(run["objectives"]) for run in found["published"]} == {12}
    assert "the best ADMM ends" in ran.stdout
    drawn = json.loads((tmp_path / "out" / "figure1.json").read_text())
    settings = [(p["settings"]["dropout"], p["settings"]["l2"]) for p in drawn["accuracy"]]
    assert len(set(settings)) > 1  # each model at each rank has its own


def figure(edlae, zero, dlae, ranks=(10, 100), n=400, spread=0.05):
    """A curve whose models have these means, on the same users."""
    rng = np.random.default_rng(0)
    base = rng.normal(0, 0.1, n)
    points = []
    for name, means in (("EDLAE", edlae), ("zero diagonal", zero), ("DLAE", dlae)):
        for rank, mean in zip(ranks, means, strict=True):
            noise = rng.normal(size=n)
            values = mean + base - base.mean() + spread * (noise - noise.mean())
            sem = float(values.std(ddof=1) / np.sqrt(n))
            result = od.Result({"ndcg@100": float(values.mean())}, {"ndcg@100": sem}, {"ndcg@100": values}, n, 0, 0.0)
            points.append(figure1.diagnostics.RankPoint(name, rank, mean, sem, 1, 0.0, 0.0, {}, result))
    return figure1.diagnostics.RankCurve("ndcg@100", points)


def verdicts(curve, low=0.05, high=0.6):
    values = {"EDLAE": low, "zero diagonal": low, "DLAE": high}
    cosines = {name: (np.full(5, value), np.full(5, value)) for name, value in values.items()}
    return {claim.where: claim.verdict for claim in figure1.claims(curve, cosines)}


def test_the_papers_own_picture_passes_every_claim():
    assert set(verdicts(figure((0.3, 0.4), (0.25, 0.399), (0.299, 0.38))).values()) == {"holds"}


def test_each_claim_can_fail():
    seen = verdicts(figure((0.3, 0.4), (0.25, 0.42), (0.2, 0.45)), low=0.7)
    assert set(seen.values()) == {"does not hold"}
    seen = verdicts(figure((0.3, 0.4), (0.25, 0.402), (0.3, 0.4)))
    assert seen["edlae_best"] == "within error"
    assert seen["large_rank_dlae_behind"] == "within error"
    assert verdicts(figure((0.3, 0.4), (0.25, 0.4), (0.3, 0.3)), low=0.55)["smaller_cosines_encoder"] == "barely"


def test_without_any_pair_of_similar_items_nothing_is_claimed_for_them():
    cosines = {name: (np.full(2, np.nan), np.full(2, np.nan)) for name in ("EDLAE", "zero diagonal", "DLAE")}
    found = {c.where: c.verdict for c in figure1.claims(figure((0.3, 0.4), (0.2, 0.4), (0.3, 0.3)), cosines)}
    assert found["near_orthogonal_encoder"] == found["smaller_cosines_decoder"] == "does not hold"
    assert figure1_page.middle(np.array([np.nan])) != figure1_page.middle(np.array([np.nan]))
