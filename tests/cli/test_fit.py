"""`offdiag fit`: the model of the library, saved whole or not at all, also after Ctrl-C or a kill."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

import offdiag as od
from offdiag.errors import InterruptedFitWarning
from tests.fixtures.tables import write_table

LOW_RANK = ["--model", "low-rank-edlae", "--rank", "4", "--dropout", "0.5", "--l2", "5"]
SPARSE = ["--model", "sparse", "--neighbours", "9"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--dropout", "0.3", "--l2", "20"], od.EDLAE(dropout=0.3, l2=20)),
        (
            ["--model", "low-rank-edlae", "--rank", 6, "--dropout", 0.3, "--l2", 20, "--iterations", 5],
            od.LowRankEDLAE(rank=6, dropout=0.3, l2=20, iterations=5),
        ),
        ([*SPARSE, "--l2", "5"], od.SparseEDLAE(neighbours=9, l2=5.0)),
    ],
    ids=["full rank", "low rank", "sparse"],
)
def test_fit_on_everyone_equals_the_library(json_of, text_of, folder, options, expected):
    found = json_of("fit", "train.csv", "-o", "same.od", *options)
    assert found["model"] == type(expected).__name__
    model = od.load(folder / "same.od")
    np.testing.assert_array_equal(
        model.weights_.toarray(), expected.fit(od.read(folder / "train.csv")).weights_.toarray()
    )
    history = ",".join(model.item_ids_[:3].tolist())
    assert "because of" in text_of("explain", "same.od", "--history", history, "--item", model.item_ids_[7])


@pytest.mark.parametrize("options", [["--dropout", 0.3], ["--model", "low-rank-dlae", "--rank", 5]])
def test_fit_validates_before_it_learns_from_everyone(json_of, options):
    found = json_of("fit", "train.csv", "--out", "new.od", "--validate", *options)
    assert options[-1] in found["settings"].values()
    assert 0 < found["metrics"]["mean"]["ndcg@100"] < 1
    assert found["users"] == od.load("new.od").n_users_ == 300


@pytest.mark.parametrize("model", ["edlae", "DLAE", "ease", "popularity"])
def test_fit_prints_what_it_did(text_of, model):
    out = text_of("fit", "train.csv", "--out", "shown.od", "--model", model)
    assert f"model         {type(od.load('shown.od')).__name__}" in out
    assert "300 users" in out


def test_a_sparse_model_fits_into_max_bytes(text_of, folder):
    assert "SparseEDLAE" in text_of("fit", "train.csv", "--model", "sparse", "--max-bytes", "4kB", "--out", "small.od")
    assert 3_800 < od.load(folder / "small.od").weights_.nbytes <= 4_000


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--metric", "ndcg@10"], "--validate"),
        (["--model", "sparse", "--checkpoint", "train.csv"], "checkpoint takes a folder"),
        (["--model", "edlae", "--checkpoint", "x"], "--checkpoint is for sparse models"),
        (["--model", "sparse", "--checkpoint", "."], "lies in the checkpoint folder"),
        (["--keep", "3"], "--keep is for full-rank models with --cluster"),
        (["--cluster", "local:1", "--validate"], "--cluster and --validate do not go together"),
        (["--cluster", "local:2", "--updatable"], "--cluster and --updatable do not go together"),
        (["--model", "sparse", "--cluster", "local:1", "--updatable"], "--cluster and --updatable"),
        (["--updatable", "--min-items", "3"], "--min-users and --min-items"),
        (["--updatable", "--min-users", "3"], "--min-users and --min-items"),
        (["--updatable", "--model", "item-knn"], "cannot be updated"),
        (["--updatable", "--value", "rating", "--duplicates", "maybe"], "duplicates"),
        (["--updatable", "--at-least", "3"], "--value"),
        (["--event", "rating"], "add --updatable"),
        (["--key-file", "keys"], "add --updatable"),
    ],
)
def test_options_that_do_not_go_together_are_one_line(untouched, options, words):
    assert words in untouched("fit", "train.csv", "--out", "model.od", *options)


def test_a_missing_argument_is_one_line(fails):
    assert "DATA" in fails("fit")
    assert "--out" in fails("fit", "train.csv")
    assert "nowhere.csv" in fails("fit", "nowhere.csv", "--out", "x.od")


# Ctrl-C


@pytest.fixture
def interrupted(monkeypatch):
    """Ctrl-C at the second progress report of the iterations of any fit; counts the fits."""
    fits = []
    fit = od.LowRankEDLAE.fit

    def stopped(self, X, *, progress=None):
        fits.append(X)
        reports = 0

        def report(stage, fraction):
            nonlocal reports
            reports += stage.startswith("minimising")
            if reports == 2:
                raise KeyboardInterrupt

        return fit(self, X, progress=report)

    monkeypatch.setattr(od.LowRankEDLAE, "fit", stopped)
    return fits


def test_an_interrupted_fit_is_saved_with_one_note(run, text_of, interrupted):
    code, out, err = run("fit", "train.csv", *LOW_RANK, "--out", "cut.od", "--json")
    assert code == 0
    assert err.startswith("offdiag: note: interrupted")
    assert "cut.od" in err
    assert err.count("\n") == 1
    assert json.loads(out)["stopped"] == "interrupted"
    model = od.load("cut.od")
    assert model.stopped_ == "interrupted"
    assert np.isfinite(model.recommend([[model.item_ids_[0]]]).scores).all()
    assert "interrupted after" in text_of("info", "cut.od")


def test_ctrl_c_while_validating_saves_nothing(run, folder, interrupted):
    code, out, err = run("fit", "train.csv", *LOW_RANK, "--out", "never.od", "--validate")
    assert (code, out) == (130, "")
    assert err == "offdiag: interrupted; what was there before is kept\n"
    assert not (folder / "never.od").exists()
    assert len(interrupted) == 1


def test_the_warning_of_the_library_is_not_printed_too(run, monkeypatch):
    def warn(self, X, *, progress=None):
        warnings.warn("the library's own words", InterruptedFitWarning, stacklevel=2)
        raise od.OffdiagError("end of the test")

    monkeypatch.setattr(od.LowRankEDLAE, "fit", warn)
    assert run("fit", "train.csv", *LOW_RANK, "--out", "never.od")[2] == "offdiag: end of the test\n"


WATCHED = """
import signal, sys, time
from pathlib import Path
from offdiag import cli
from offdiag.cli import console

wanted, seconds, *command = sys.argv[1:]
report = console.Work.__call__


def watched(self, stage, fraction):
    if wanted in stage and fraction > 0 and not Path("started").exists():
        Path("started").touch()
        for _ in range(10 * int(seconds)):  # a fast machine must not be done before the signal arrives
            time.sleep(0.1)
    report(self, stage, fraction)


console.Work.__call__ = watched
signal.signal(signal.SIGINT, signal.default_int_handler)  # a program started in the background ignores it
sys.exit(cli.main(command))
"""


def interrupt(folder, *command):
    """Run a command in a process and send Ctrl-C when it has started: exit code, stdout, stderr."""
    with subprocess.Popen(
        [sys.executable, "-c", WATCHED, *command],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as ran:  # fmt: skip
        deadline = time.monotonic() + 60
        while not (folder / "started").exists():
            assert ran.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        ran.send_signal(signal.SIGINT)
        out, err = ran.communicate(timeout=60)
    return ran.returncode, out, err


@pytest.mark.slow
def test_ctrl_c_during_a_fit_leaves_the_old_model(folder, tmp_path):
    write_table(od.synthetic.interactions(400, 600, 10_000, names=False, seed=0), tmp_path / "big.csv")
    model = tmp_path / "model.od"
    model.write_bytes((folder / "model.od").read_bytes())
    settings = ["--dropout", "0.5", "--l2", "10", "--user-power", "0"]
    code, out, err = interrupt(tmp_path, "", "60", "fit", "big.csv", "--out", str(model), *settings)
    assert (code, out) == (130, "")
    assert err == "offdiag: interrupted; what was there before is kept\n"
    assert model.read_bytes() == (folder / "model.od").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["big.csv", "model.od", "started"]


@pytest.mark.slow
def test_ctrl_c_during_the_iterations_saves_the_best_model(tmp_path):
    write_table(od.synthetic.interactions(1500, 1500, 60_000, names=False, seed=0), tmp_path / "train.csv")
    more = ["--iterations", "100000", "--out", "cut.od", "--starts", "50"]
    code, out, err = interrupt(tmp_path, "minimising", "0", "fit", "train.csv", *LOW_RANK, *more)
    assert code == 0
    assert err == "offdiag: note: interrupted; the best model found by then is saved to cut.od\n"
    assert "interrupted after" in out
    assert od.load(tmp_path / "cut.od").stopped_ == "interrupted"


# Checkpoints


def test_a_checkpoint_is_removed_once_the_model_is_saved(text_of, folder):
    text_of("fit", "train.csv", *SPARSE, "--checkpoint", "run", "--out", "a.od")
    assert not (folder / "run").exists()
    text_of("fit", "train.csv", *SPARSE, "--out", "b.od")
    assert np.array_equal(od.load(folder / "a.od").weights_.data, od.load(folder / "b.od").weights_.data)


SLOW = """
import sys, time
from offdiag.cli import main
from offdiag.solvers import gram_rows, support
gram_rows.plan.__defaults__ = (4,)
real = support.solve_block
solved = []
def slow(*a, **k):
    solved.append(1)
    if len(solved) > 5:
        time.sleep(600)  # until it is killed
    return real(*a, **k)
support.solve_block = slow
sys.exit(main(sys.argv[1:]))
"""


def test_a_killed_fit_resumes_and_the_old_model_stays_until_the_end(text_of, fails, folder):
    words = ["fit", "train.csv", *SPARSE, "--checkpoint", "killed", "--out", "k.od"]
    (folder / "k.od").write_bytes(b"the old one")
    process = subprocess.Popen([sys.executable, "-c", SLOW, *words], cwd=folder, env=os.environ)
    deadline = time.monotonic() + 120
    while len(list((folder / "killed").glob("*-block-*"))) < 3 and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.005)
    process.kill()
    process.wait()
    assert (folder / "k.od").read_bytes() == b"the old one"
    assert "neighbours=9 instead of 8" in fails(*[word.replace("9", "8") for word in words])
    text_of(*words)
    text_of(*words[:-3], "fresh", "--out", "f.od")
    assert np.array_equal(od.load(folder / "k.od").weights_.data, od.load(folder / "f.od").weights_.data)
