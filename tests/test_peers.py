"""The comparison with other packages: what it proposes, how it judges, and that its page is made from its results."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import offdiag as od

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def load():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield importlib.import_module


@pytest.fixture(scope="module")
def found(load):
    return load("peers_page").results()


def test_the_committed_comparison_is_made_from_the_committed_results(load, found):
    page = load("peers_page")
    if not found["data"]:
        pytest.skip("the comparison has not been run yet: make bench-peers")
    assert (ROOT / "docs" / "comparison.md").read_text() == page.page(found), "run python benchmarks/peers_page.py"
    for name, figure in page.figures(found).items():
        assert (ROOT / "docs" / name).read_text() == figure.svg(), "run python benchmarks/peers_page.py"


def test_a_row_without_quiet_shows_processor_time_and_its_failure(load):
    """A page from invented rows: what could not be run, what decides, and which times count."""
    page = load("peers_page")
    mean = {"ndcg@100": 0.5, "recall@20": 0.4}
    row = {
        "package": "offdiag", "new_users": True, "note": "", "settings": {"l2": 3.0}, "validation": 0.5, "trials": 2,
        "default_won": False, "tune_seconds": 3.0, "seconds": 99.0, "processor_seconds": 7.0, "alone": False,
        "extra_peak_bytes": 5e6, "many_seconds": 1.0, "one_seconds": 0.001, "bytes": 1000, "mean": mean,
        "sem": {"ndcg@100": 0.01, "recall@20": 0.01}, "is_reference": True, "check": {"residual": 1e-7},
    }  # fmt: skip
    peer = row | {"package": "irspack", "new_users": False, "alone": True, "is_reference": False}
    peer |= {"difference": -0.03, "difference_sem": 0.01, "check": {"residual": 0.1, "residual_transposed": 1e-8}}
    rows = {"ours": row, "theirs": peer, "other": {"package": "sansa", "failed": "no wheel"}}
    part = {"users": 9, "items": 9, "interactions": 9, "test_users": 9, "budget": {"trials": 2, "minutes": 1.0}}
    made = {
        "metric": "ndcg@100", "data": {"invented": part | {"rows": rows}}, "environments": {"sansa": {"reason": "x"}},
        "machine": {"cores": 2, "processor": "some processor", "memory_bytes": 8e9},
    }  # fmt: skip
    text = page.page(made)
    assert "| 7.0 s * |" in text
    assert "-0.0300 ± 0.0100, worse" in text
    assert "ranks with the transpose of the optimum" in text
    assert "| other | invented | no wheel |" in text
    assert "could not be installed: x" in text
    assert page.figures(made)["comparison-time.svg"].svg().count("<title>") == 2


def test_every_model_has_a_figure_or_a_reason_on_every_data_set(load, found):
    page, models = load("peers_page"), load("peers.registry").ADAPTER_OF
    named = {(name, data) for name, data, _ in page.failures(found)}
    for data, part in found["data"].items():
        named |= {(name, data) for name, _ in page.measured(part, found["metric"])}
        for row in part["rows"].values():
            assert ("mean" in row) != ("failed" in row)
            assert row.get("trials", 1) <= part["budget"]["trials"]
    assert named == {(name, data) for name in models for data in found["data"]}


def test_models_with_the_same_space_try_the_same_points(load):
    bench = load("bench_peers")
    ours, theirs = (
        list(bench.proposals(bench.ADAPTER_OF[name].MODELS[name], 6)) for name in ("offdiag EDLAE", "irspack EDLAE")
    )
    assert len(ours) == len(theirs) == 6
    assert theirs[0] == {"reg": 1.0, "dropout_p": 0.1}  # what its user gets without a choice
    assert ours[0] == {"user_power": 0.0}
    assert [(s["l2"], s["dropout"]) for s in ours[1:]] == [(s["reg"], s["dropout_p"]) for s in theirs[1:]]


def test_a_proposal_is_within_its_range_and_keeps_whole_numbers(load):
    between = load("peers.adapter").Between
    assert between(32, 256).at(0.0) == 32
    assert isinstance(between(32, 256).at(0.37), int)
    assert between(3.0, 3000.0).at(2 / 3) == pytest.approx(300)
    assert between(0.0, 0.9, linear=True).at(0.5) == pytest.approx(0.45)


@pytest.fixture(scope="module")
def data():
    return od.synthetic.interactions(300, 40, 3_000, seed=0, names=False).matrix


def test_our_weights_and_those_of_the_formula_satisfy_the_condition(load, data):
    verdicts = load("peers.verdicts")
    G = (data.T.astype(np.float64) @ data).toarray()
    assert verdicts.residual(G, verdicts.exact(G, 20.0, 0.3), 20.0, 0.3) < 1e-12
    model = od.EDLAE(l2=20.0, dropout=0.3, user_power=0.0).fit(data)
    assert verdicts.checked(data, model.weights_.toarray(), 20.0, 0.3)["residual"] < 1e-5


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda B: B.T, "ranks with the transpose of the optimum"),
        (lambda B: np.maximum(B, 0), "not the optimum"),
        (lambda B: B + 0.1 * np.eye(len(B)), "not the optimum"),
        (lambda B: B, "the optimum, up to rounding"),
    ],
)
def test_damaged_weights_are_seen(load, data, damage, words):
    verdicts = load("peers.verdicts")
    G = (data.T.astype(np.float64) @ data).toarray()
    check = verdicts.checked(data, damage(verdicts.exact(G, 20.0, 0.0)), 20.0, 0.0)
    assert load("peers_page").verdict(check) == words


def test_lists_of_scores_leave_out_the_history_and_fall(load):
    adapter = load("peers.adapter")
    scores = np.array([[5.0, 4.0, 3.0, 2.0], [1.0, 2.0, 3.0, -np.inf]])
    histories = sparse.csr_matrix([[1, 0, 0, 0], [0, 0, 1, 0]])
    assert adapter.best(scores, histories, 3).tolist() == [[1, 2, 3], [1, 0, -1]]
    assert adapter.padded([[3, 1], []], 3).tolist() == [[3, 1, -1], [-1, -1, -1]]


def test_our_adapter_runs_through_the_worker(load, data, tmp_path, monkeypatch):
    bench = load("bench_peers")
    job = {
        "trials": [{"l2": 20.0, "user_power": 0.0}, {"l2": -1.0}], "out": str(tmp_path / "lists"), "budget": 100.0,
        "limit": 300, "timed": False,
        "arrays": str(bench.write(tmp_path / "data.npz", sparse.csr_matrix(data[50:]), sparse.csr_matrix(data[:50]))),
    }  # fmt: skip
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    bench.run("offdiag EASE", sys.executable, job, 1)
    with np.load(tmp_path / "lists.0.npz") as found:
        model = od.EASE(l2=20.0, user_power=0.0).fit(data[50:])
        np.testing.assert_array_equal(found["items"], model.recommend(data[:50], k=100).indices)
    with np.load(tmp_path / "lists.1.npz") as found:
        assert "l2" in str(found["error"])


@pytest.mark.slow
def test_a_row_timed_again_keeps_its_accuracy_and_records_the_load(load, tmp_path, monkeypatch):
    bench = load("bench_peers")
    split = od.split.strong(od.synthetic.interactions(400, 60, 3_000, seed=0, names=False))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    row = {"settings": {"l2": 20.0, "user_power": 0.0}, "mean": {"ndcg@100": 0.3}, "seconds": 99.0, "alone": True}
    words = SimpleNamespace(minutes=1.0)
    again = bench.timed_again("offdiag EASE", sys.executable, row, split, tmp_path, words)
    assert again["mean"] == row["mean"]
    assert again["seconds"] < 99
    assert again["fits"] > 1  # a short fit is timed several times
    assert again["alone"] == (again["others"] <= bench.QUIET)


def test_other_programs_are_seen_and_this_one_is_not(load):
    """A busy process of our own counts as another program; our own work does not."""
    measure = load("measure")
    clock, busy, own = measure.moment()
    assert measure.others((clock - 10, busy - 8, own - 8)) == pytest.approx(0, abs=0.05)
    assert measure.others((clock - 10, busy - 8, own - 3)) == pytest.approx(0.5, abs=0.05)


def test_labels_of_a_figure_touch_neither_dots_nor_lines_nor_each_other(load):
    figures = load("peers_figures")
    rng = np.random.default_rng(0)
    dots = [(200 + 12 * x, 150 + 12 * y) for x, y in rng.standard_normal((18, 2))]
    lines = [(x, y - 20, x, y + 20) for x, y in dots[:4]] + [(50.0, 150.0, 390.0, 150.0)]
    labels = figures.label_places(dots, [14.0] * 18, lines, figures.Frame(x=(0, 1), y=(0, 1)))
    boxes = [(x - 7, y + 1 - figures.HEIGHT, x + 7, y + 1) for x, y in labels]
    others = [(x - figures.DOT, y - figures.DOT, x + figures.DOT, y + figures.DOT) for x, y in dots]
    others += lines
    for n, box in enumerate(boxes):
        assert not any(figures._touch(box, other) for other in [*boxes[:n], *others])


@pytest.mark.parametrize(("longest", "columns"), [("offdiag EDLAE, users weighted", 2), ("a model " * 7, 1)])
def test_the_list_below_a_figure_holds_whole_names(load, longest, columns):
    figures = load("peers_figures")
    models = [(longest, True), ("irspack iALS", False), ("offdiag EASE", True), ("SANSA", False)]
    drawn, height = figures.names(models)
    assert all(name.strip() in drawn for name, _ in models)
    assert height == figures.LINE * (4 // columns)


def test_the_readme_compares_the_same_exact_model_with_the_best_peers(load, found):
    page = load("peers_page")
    mean = lambda value: {"mean": {"ndcg@100": value}, "alone": True, "processor_seconds": 9.0}  # noqa: E731
    rows = {
        "offdiag EASE": mean(0.4) | {"package": "offdiag", "seconds": 1.0, "check": {"residual": 1e-7}},
        "offdiag EDLAE": mean(0.5) | {"package": "offdiag", "is_reference": True},
        "fast EASE": mean(0.4) | {"package": "a", "seconds": 2.0, "extra_peak_bytes": 9, "check": {"residual": 1e-7}},
        "lean EASE": mean(0.4) | {"package": "b", "seconds": 3.0, "extra_peak_bytes": 4, "check": {"residual": 1e-7}},
        "wrong EASE": mean(0.45) | {"package": "c", "seconds": 0.1, "extra_peak_bytes": 1, "check": {"residual": 0.1}},
    }
    why = page.summary({"metric": "ndcg@100", "data": {"ml-1m": {"rows": rows, "interactions": 1}}})
    names = {key: why[key][0] for key in ("ours", "best", "fastest", "leanest")}
    assert names == {"ours": "offdiag EDLAE", "best": "wrong EASE", "fastest": "fast EASE", "leanest": "lean EASE"}
    assert why["title"] == "MovieLens 1M"


def test_our_fastest_model_that_is_not_worse_is_named_with_the_best_peer(load):
    row = {"alone": True, "extra_peak_bytes": 5, "package": "offdiag", "mean": {"ndcg@100": 0.5}}
    rows = {
        "quick": row | {"seconds": 1.0, "minus_best_peer": {"peer": "theirs", "difference": -0.03, "sem": 0.01}},
        "good": row | {"seconds": 2.0, "minus_best_peer": {"peer": "theirs", "difference": -0.01, "sem": 0.01}},
        "slow": row | {"seconds": 9.0, "minus_best_peer": {"peer": "theirs", "difference": 0.01, "sem": 0.01}},
        "theirs": row | {"seconds": 8.0, "package": "irspack"},
    }
    found = load("peers_page").as_accurate({"rows": rows}, "ndcg@100")
    assert (found["name"], found["peer"], found["seconds"]) == ("good", "theirs", (2.0, 8.0))
    assert load("peers_page").as_accurate({"rows": {"quick": rows["quick"]}}, "ndcg@100") is None


def test_lists_are_measured_like_the_model_that_made_them(load):
    """Also where users of a split have no target: a user with one item keeps it as history."""
    bench = load("bench_peers")
    X = od.synthetic.interactions(400, 60, 1_200, seed=0, names=False)
    split = od.split.strong(X, held_out=0.3)
    assert (np.diff(split.test.targets.indptr) == 0).any()
    model = od.EASE(l2=20.0).fit(split.train)
    items = model.recommend(split.test.histories, k=60).indices
    expected = od.evaluate(model, split.test, bench.METRICS)
    assert bench.measure(items, split.test).mean == expected.mean


def test_errors_of_other_programs_lose_their_folders(load):
    clean = load("bench_peers").without_folders
    assert clean("No such file: '/some/where/venvs/x/lib/a.py', 1/2 done") == "No such file: 'a.py', 1/2 done"


def test_a_package_that_cannot_be_installed_is_a_reason(load, tmp_path, monkeypatch):
    environments = load("peers.environments")
    monkeypatch.setattr(environments, "_install", lambda package, folder: folder.mkdir(parents=True) or "no wheel")
    assert environments.python("sansa", tmp_path) == (None, {"reason": "no wheel"})
    lines = ["ERROR: Failed building wheel", "a/b.c:1:10: fatal error: cholmod.h: No such file or directory"]
    assert environments._reason(lines).endswith("could not be compiled: cholmod.h: No such file or directory")
    assert environments._reason(lines[:1]) == "Failed building wheel"


def test_the_verdict_on_seconds_reads_well(load):
    page = load("peers_page")
    assert [page.seconds(value) for value in (12.34, 0.25, 0.0042)] == ["12.3 s", "250 ms", "4.2 ms"]
