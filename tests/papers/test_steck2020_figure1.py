"""Steck (2020) again: what the published ADMM and alternation really do, and Figure 1 from the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import offdiag as od
from benchmarks.peers import admm, zero_diagonal
from offdiag import cli
from offdiag.papers.steck2020 import figure1, figure1_page
from tests.fixtures.html import Page
from tests.laws import oracles

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "src" / "offdiag" / "papers" / "steck2020" / "expected.json"
DROPOUT, L2 = 0.3, 2.0


def data(n=150, m=20, seed=0):
    """0/1 data with a few hidden tastes."""
    rng = np.random.default_rng(seed)
    taste = rng.normal(size=(n, 4)) @ rng.normal(size=(4, m))
    return (taste + rng.normal(size=(n, m)) > 1.0).astype(np.float64)


def gram(**words):
    X = data(**words)
    return X.T @ X


def stationarity(G, U, V, dropout, l2):
    """How far U and V are from a stationary point of Eq. 10, relative to the two parts that must cancel."""
    D = oracles.gradient(G, U @ V.T, dropout, l2, 0.0)
    size = 2 * G
    return max(np.linalg.norm(D @ V) / np.linalg.norm(size @ V), np.linalg.norm(D.T @ U) / np.linalg.norm(size.T @ U))


def doubled(omega):
    """dropout and l2 whose Λ is 2Λ + ω."""
    odds = 2 * DROPOUT / (1 - DROPOUT)
    return odds / (1 + odds), 2 * L2 + omega


# The published ADMM


def printed(G, V, omega, iterations):
    """The update equations of the supplement with full matrices, symbol by symbol."""
    g, Lam = np.diag(G), np.diag(oracles.penalty(G, DROPOUT, L2))
    Om = Lam + omega * np.eye(len(G))
    beta, gamma = np.zeros(len(G)), np.zeros(len(G))
    for _ in range(iterations):
        R = G @ np.diag(1 + beta) + Om @ np.diag(beta - gamma)
        U = np.linalg.inv(G + Lam + Om) @ R @ V @ np.linalg.inv(V.T @ V)
        V = (np.linalg.inv(U.T @ (G + Lam + Om) @ U) @ U.T @ R).T
        B = U @ V.T
        beta = (np.diag(G @ B) - g + np.diag(Om) * (np.diag(B) + gamma)) / (g + np.diag(Om - Lam))
        gamma = gamma + np.diag(B) - beta
    return U, V, beta, gamma


@pytest.mark.parametrize("diagonal", ["product", "rows"])
@pytest.mark.parametrize("rank", [1, 4])
def test_the_iterations_are_those_of_the_supplement(rank, diagonal):
    G = gram()
    start = np.random.default_rng(1).normal(size=(len(G), rank))
    found = admm.minimise(G, rank, dropout=DROPOUT, l2=L2, omega=7.0, iterations=4, start=start, diagonal=diagonal)
    for here, there in zip((found.U, found.V, found.beta, found.gamma), printed(G, start, 7.0, 4), strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_both_ways_to_the_diagonal_agree(dtype):
    G = gram(m=25, seed=3).astype(dtype)
    words = {"dropout": DROPOUT, "l2": L2, "omega": 20.0, "iterations": 6, "seed": 5}
    rows = admm.minimise(G, 6, diagonal="rows", **words)
    product = admm.minimise(G, 6, diagonal="product", **words)
    assert rows.U.dtype == product.V.dtype == dtype
    np.testing.assert_allclose(rows.U @ rows.V.T, product.U @ product.V.T, atol=100 * oracles.TOLERANCE[dtype])
    np.testing.assert_allclose(rows.objectives, product.objectives, rtol=oracles.TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_objective_from_one_product_is_eq_10(dtype):
    G = gram(m=9).astype(dtype)
    rng = np.random.default_rng(2)
    U, V = (rng.normal(size=(9, 3)).astype(dtype) for _ in range(2))
    expected = oracles.objective(G.astype(float), (U @ V.T).astype(float), DROPOUT, L2, 0.0)
    lam = admm.penalty(G, DROPOUT, L2)
    assert admm.objective(G, lam, U, V) == pytest.approx(expected, rel=oracles.TOLERANCE[dtype])
    assert admm.objective(G, lam, U, V, G @ U) == pytest.approx(expected, rel=oracles.TOLERANCE[dtype])
    found = admm.minimise(G, 3, dropout=DROPOUT, l2=L2, omega=5.0, iterations=3)
    last = oracles.objective(G.astype(float), (found.U @ found.V.T).astype(float), DROPOUT, L2, 0.0)
    assert found.objectives[-1] == pytest.approx(last, rel=oracles.TOLERANCE[dtype])


def test_the_multiplier_of_the_updates_has_the_other_sign_than_the_printed_lagrangian():
    """The β step is where the derivative of the augmented Lagrangian vanishes, for one of the two signs only."""
    G = gram()
    words = {"dropout": DROPOUT, "l2": L2, "omega": 10.0, "start": np.random.default_rng(0).normal(size=(20, 3))}
    gamma = admm.minimise(G, 3, iterations=1, **words).gamma
    after = admm.minimise(G, 3, iterations=2, **words)
    g, lam = np.diag(G), admm.penalty(G, DROPOUT, L2)
    Omega = lam + 10.0
    B = after.U @ after.V.T
    without = g + g * after.beta - np.diag(G @ B) - lam * after.beta + Omega * (after.beta - np.diag(B))
    assert np.abs(without - gamma * Omega).max() < 1e-9 * np.abs(g).max()  # +2γᵀΩ(diag(UVᵀ) − β)
    assert np.abs(without + gamma * Omega).max() > 1e-2 * np.abs(gamma * Omega).max()  # as printed


@pytest.mark.parametrize(("m", "rank", "omega"), [(20, 2, 1.0), (20, 3, 50.0), (30, 3, 200.0)])
def test_the_admm_rests_where_the_penalty_is_twice_what_was_asked(m, rank, omega):
    G = gram(m=m, seed=m + rank)
    found = admm.minimise(G, rank, dropout=DROPOUT, l2=L2, omega=omega, iterations=4000)
    assert found.gap < 1e-9
    assert stationarity(G, found.U, found.V, *doubled(omega)) < 1e-8
    assert stationarity(G, found.U, found.V, DROPOUT, L2) > 1e-2


def test_a_run_without_tracking_is_the_same_run():
    G = gram()
    words = {"dropout": DROPOUT, "l2": L2, "omega": 5.0, "iterations": 3, "seed": 1}
    tracked, bare = admm.minimise(G, 3, **words), admm.minimise(G, 3, track=False, **words)
    np.testing.assert_array_equal(tracked.U, bare.U)
    assert (len(tracked.objectives), bare.objectives) == (3, [])
    with pytest.raises(ValueError, match="product"):
        admm.minimise(G, 3, diagonal="fast", **words)


def test_the_gram_of_a_sparse_matrix_is_dense_and_of_the_asked_type():
    X = data(n=9, m=4)
    for given in (X, sparse.csr_array(X)):
        G = admm.gram(given)
        assert isinstance(G, np.ndarray)
        assert G.dtype == np.float32
        np.testing.assert_array_equal(G, X.T @ X)


# The published alternation for Eq. 11


def eq_11(G, B):
    lam = oracles.penalty(G, DROPOUT, L2)
    return np.trace(G) - 2 * np.trace(G @ B) + np.trace(B.T @ (G + np.diag(lam)) @ B)


@pytest.mark.parametrize("rank", [2, 3, 8])
def test_the_published_alternation_keeps_a_zero_diagonal_and_never_rises(rank):
    G = gram()
    found = zero_diagonal.minimise(G, rank, dropout=DROPOUT, l2=L2, iterations=25, seed=rank)
    B = found.U @ found.V.T
    assert np.abs(np.diag(B)).max() < 1e-12
    assert len(found.objectives) == 50
    assert (np.diff(found.objectives) <= 1e-9 * found.objectives[0]).all()
    assert found.objectives[-1] == pytest.approx(eq_11(G, B), rel=1e-12)
    # U is the best one for its V: the derivative is a multiple of the constraints.
    H = G + np.diag(oracles.penalty(G, DROPOUT, L2))
    rest = (H @ B - G + np.diag(found.eta_u)) @ found.V
    assert np.abs(rest).max() < 1e-9 * np.abs(G @ found.V).max()


def test_the_decoder_is_the_best_one_for_its_encoder():
    """Eq. 29 and 30 against a constrained least-squares solve of each column."""
    G = gram(m=8)
    H = G + np.diag(oracles.penalty(G, DROPOUT, L2))
    start = np.random.default_rng(0).normal(size=(8, 3))
    found = zero_diagonal.minimise(G, 3, dropout=DROPOUT, l2=L2, iterations=1, start=start)
    for i in range(8):
        K = np.block([[start.T @ H @ start, start[i][:, None]], [start[i], 0]])
        v = np.linalg.solve(K, np.append(start.T @ G[:, i], 0.0))[:3]
        np.testing.assert_allclose(found.V[i], v, atol=1e-10)


def test_at_a_small_rank_the_alternation_stops_short_of_a_stationary_point():
    """The multipliers of the two half steps belong to the same constraint, yet differ at convergence."""
    found = zero_diagonal.minimise(gram(m=12, seed=1), 2, dropout=DROPOUT, l2=L2, iterations=3000)
    assert abs(found.objectives[-1] - found.objectives[-100]) < 1e-6 * found.objectives[-1]
    assert np.abs(found.eta_u - found.eta_v).max() > 1.0


def test_items_without_users_or_embeddings_do_no_harm():
    G = gram(m=10)
    G[3], G[:, 3] = 0, 0
    start = np.random.default_rng(0).normal(size=(10, 3))
    start[5] = 0
    found = zero_diagonal.minimise(G, 3, dropout=DROPOUT, l2=L2, iterations=5, start=start)
    assert np.isfinite(found.U).all()
    assert np.isfinite(found.V).all()
    assert np.abs(np.diag(found.U @ found.V.T)).max() < 1e-12
    assert zero_diagonal.minimise(G, 3, dropout=DROPOUT, l2=L2, iterations=1, track=False).objectives == []
    with pytest.raises(ValueError, match="rank 1"):
        zero_diagonal.minimise(G, 1, dropout=DROPOUT, l2=L2, iterations=1)


# Our solver compared with them


@pytest.mark.parametrize(("m", "rank", "seed"), [(20, 2, 0), (30, 3, 1), (30, 8, 2), (40, 5, 3)])
def test_our_solver_reaches_a_lower_eq_10_than_the_admm(m, rank, seed):
    X = data(n=200, m=m, seed=seed)
    G = X.T @ X
    ours = od.LowRankEDLAE(rank=rank, dropout=DROPOUT, l2=L2, user_power=0.0, dtype="float64").fit(X)
    reached = oracles.objective(G, ours.weights_.toarray(), DROPOUT, L2, 0.0)
    assert ours.objective_ == pytest.approx(reached, rel=1e-9)
    for omega in (1.0, 10.0, 100.0):
        found = admm.minimise(G, rank, dropout=DROPOUT, l2=L2, omega=omega, iterations=300)
        assert reached < min(found.objectives) - 1e-4 * reached, omega


def test_with_the_doubled_penalty_our_solver_ends_no_higher_than_the_admm():
    X = data(n=200, m=30, seed=1)
    G = X.T @ X
    found = admm.minimise(G, 3, dropout=DROPOUT, l2=L2, omega=50.0, iterations=3000)
    dropout, l2 = doubled(50.0)
    ours = od.LowRankEDLAE(rank=3, dropout=dropout, l2=l2, user_power=0.0, dtype="float64", iterations=200).fit(X)
    there = oracles.objective(G, found.U @ found.V.T, dropout, l2, 0.0)
    assert ours.objective_ == pytest.approx(there, rel=1e-3)


# Published values


def test_the_published_table_is_whole_and_edlae_leads_it():
    table = json.loads(PUBLISHED.read_text())["table1"]
    assert [row["row"] for row in table["rows"]] == [1, 2, 3, 4, 5]
    for name in table["data"]:
        values = np.array([row[name] for row in table["rows"]], dtype=float)  # None becomes nan
        assert values.shape == (5, len(table["metrics"]))
        known = values[~np.isnan(values)]
        assert ((known > 0.1) & (known < 0.6)).all()
        assert (np.nanargmax(values, axis=0) == 4).all()
        assert (np.nanargmin(values[:, 1:], axis=0) == 0).all()


# Figure 1 from the command line


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    place = tmp_path_factory.mktemp("data") / "train.csv"
    inter = od.synthetic.interactions(260, 40, 3200, communities=4, names=False, seed=2)
    rows = np.repeat(inter.user_ids, np.diff(inter.matrix.indptr))
    lines = [f"{u},{i}" for u, i in zip(rows, inter.matrix.indices, strict=True)]
    place.write_text("user,item\n" + "\n".join(lines) + "\n")
    return place


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(*args):
        capsys.readouterr()
        code = cli.main(["reproduce", *map(str, args)])
        return code, *capsys.readouterr()

    return call


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


def test_the_page_stands_alone_and_a_person_gets_tables(run):
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
    expected = json.loads(PUBLISHED.read_text())["figure1"]["claims"]
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
def test_a_mistake_is_one_line_and_writes_nothing(run, tmp_path, args, words):
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert err.startswith("offdiag: ")
    assert err.count("\n") == 1, err
    assert words in err
    assert os.listdir(tmp_path) == []


def test_out_must_be_a_folder(run, tmp_path):
    (tmp_path / "file").write_text("mine")
    code, _, err = run("steck2020", "figure1", "--out", "file")
    assert code == 2
    assert "is a file" in err
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


# The verdicts


def figure(edlae, zero, dlae, ranks=(10, 100), n=400, spread=0.05):
    """A curve whose models have these means, on the same users."""
    rng = np.random.default_rng(0)
    base = rng.normal(0, 0.1, n)
    points = []
    for name, means in (("EDLAE", edlae), ("zero diagonal", zero), ("DLAE", dlae)):
        for rank, mean in zip(ranks, means, strict=True):
            values = mean + base - base.mean() + spread * _centred(rng, n)
            sem = float(values.std(ddof=1) / np.sqrt(n))
            result = od.Result({"ndcg@100": float(values.mean())}, {"ndcg@100": sem}, {"ndcg@100": values}, n, 0, 0.0)
            points.append(figure1.diagnostics.RankPoint(name, rank, mean, sem, 1, 0.0, 0.0, {}, result))
    return figure1.diagnostics.RankCurve("ndcg@100", points)


def _centred(rng, n):
    noise = rng.normal(size=n)
    return noise - noise.mean()


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
