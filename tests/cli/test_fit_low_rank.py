"""The low-rank models on the command line: chosen, described, compared in either space, kept after Ctrl-C."""

import json
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
from rich.progress import Progress

import offdiag as od
from offdiag import catalogue
from offdiag.cli import console
from offdiag.errors import InterruptedFitWarning
from tests.fixtures.tables import write_table

LOW_RANK = ["low-rank-edlae", "low-rank-dlae", "zero-diagonal", "weight-decay"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("cli")
    train = od.synthetic.catalogue(200, 40, 3000, communities=4, seed=1).interactions
    write_table(train, place / "train.csv")
    train = od.read(place / "train.csv")
    od.LowRankEDLAE(rank=6, dropout=0.3, l2=20, iterations=5).fit(train).save(place / "low.od")
    od.EASE(l2=50).fit(train).save(place / "ease.od")
    return place


# fit and info


@pytest.mark.parametrize("name", LOW_RANK)
def test_fit_tells_how_a_low_rank_model_ended(run, name):
    code, out, err = run("fit", "train.csv", "-o", "told.od", "--model", name, "--rank", 4, "--json")
    assert (code, err) == (0, "")
    said, model = json.loads(out), od.load("told.od")
    assert said["model"] == type(model).__name__ == catalogue.COMMANDS[name]
    assert said["objective"] == model.objective_ > 0
    assert said["stopped"] == model.stopped_
    assert said["iterations"] == len(model.objectives_) - 1
    assert said["settings"]["rank"] == 4
    assert said.get("kkt_residual") == getattr(model, "kkt_residual_", None)
    assert ("kkt_residual" in said) == (name == "zero-diagonal")
    code, out, _ = run("fit", "train.csv", "-o", "told.od", "--model", name.upper(), "--rank", 4)
    assert code == 0
    after = f"after {said['iterations']} iterations"
    words = {"closed form": "closed form", "converged": f"converged {after}", "iterations": f"stopped {after}"}
    ended = words[model.stopped_]
    assert f"objective     {model.objective_:.8g}, {ended}\n" in out
    assert f"objective     {model.objective_:.8g}, {ended}\n" in run("info", "told.od")[1]
    assert ("KKT residual" in out) == (name == "zero-diagonal")


def test_iterations_that_ran_out_and_a_rank_that_is_full_are_told_as_such(run):
    options = ["-o", "told.od", "--model", "low-rank-edlae", "--dropout", 0.5, "--l2", 5]
    assert ", stopped after 1 iterations\n" in run("fit", "train.csv", *options, "--rank", 3, "--iterations", 1)[1]
    assert ", full rank\n" in run("fit", "train.csv", *options, "--rank", 40)[1]


def test_full_rank_models_are_told_as_before(run):
    for name in ("ease", "popularity"):
        said = json.loads(run("fit", "train.csv", "-o", "told.od", "--model", name, "--json")[1])
        assert not {"objective", "stopped", "iterations", "kkt_residual"} & set(said)
        assert "objective" not in run("info", "told.od")[1]


def test_every_option_reaches_the_model(run):
    options = {"rank": 5, "iterations": 3, "starts": 2, "products": "data", "seed": 7, "kept-weight": 0.25, "l2": 9}
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    code, _, _ = run("fit", "train.csv", "-o", "told.od", "--model", "low-rank-edlae", "--dtype", "float64", *words)
    assert code == 0
    params = od.load("told.od").get_params()
    assert params["dtype"] == "float64"
    for name, value in options.items():
        assert params[name.replace("-", "_")] == value


def test_fit_on_everyone_equals_the_library(run, folder):
    options = ["--rank", 6, "--dropout", 0.3, "--l2", 20, "--iterations", 5]
    assert run("fit", "train.csv", "-o", "same.od", "--model", "low-rank-edlae", *options)[0] == 0
    here, there = od.load(folder / "same.od"), od.load(folder / "low.od")
    np.testing.assert_array_equal(here.weights_.U, there.weights_.U)
    np.testing.assert_array_equal(here.weights_.V, there.weights_.V)


def test_a_low_rank_model_is_validated_and_evaluated_like_any(run):
    code, out, _ = run(
        "fit", "train.csv", "-o", "v.od", "--model", "low-rank-dlae", "--rank", 5, "--validate", "--json"
    )
    assert code == 0
    assert 0 < json.loads(out)["metrics"]["mean"]["ndcg@100"] < 1
    assert run("evaluate", "train.csv", "v.od", "ease.od")[0] == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", "ease", "--rank", 5], "ease does not take --rank; it takes --l2"),
        (["--model", "low-rank-dlae", "--storage", "dense"], "does not take --storage"),
        (["--model", "weight-decay", "--starts", 2], "does not take --starts"),
        (["--model", "weight-decay", "--dropout", 0.5], "does not take --dropout"),
        (["--model", "low-rank-dlae", "--iterations", 2], "does not take --iterations"),
        (["--model", "low-rank"], "low-rank-edlae"),
        (["--model", "low-rank-edlae", "--rank", 0], "rank must be a whole number of at least 1, received 0"),
        (["--model", "low-rank-edlae", "--rank", "many"], "--rank"),
        (["--model", "low-rank-edlae", "--iterations", -1], "iterations"),
        (["--model", "low-rank-edlae", "--starts", 0], "starts"),
        (["--model", "low-rank-edlae", "--products", "magic"], "products"),
    ],
)
def test_a_wrong_setting_is_one_line(fails, folder, options, words):
    assert words in fails("fit", "train.csv", "-o", "never.od", *options)
    assert not (folder / "never.od").exists()


# similar, recommend, explain


@pytest.mark.parametrize("space", ["score", "encoder", "decoder"])
def test_similar_gives_what_the_library_gives_in_each_space(run, space):
    model = od.load("low.od")
    a, b = model.item_ids_[[3, 7]].tolist()
    code, out, err = run("similar", "low.od", a, b, "-k", 4, "--space", space, "--json")
    assert (code, err) == (0, "")
    for said, expected in zip(json.loads(out), model.similar([a, b], k=4, space=space), strict=True):
        assert [(x["item"], pytest.approx(x["score"])) for x in said["similar"]] == expected
    assert run("similar", "low.od", a, "--space", space)[0] == 0
    assert (run("similar", "low.od", a) == run("similar", "low.od", a, "--space", space)) == (space == "score")


def test_similar_refuses_a_space_the_model_does_not_have(fails):
    item = od.load("low.od").item_ids_[0]
    assert "LowRankEDLAE" in fails("similar", "ease.od", item, "--space", "decoder")
    assert "'score', 'encoder', 'decoder'" in fails("similar", "low.od", item, "--space", "both")


def test_a_low_rank_model_recommends_and_explains(run):
    model = od.load("low.od")
    a, b, c = model.item_ids_[[3, 7, 9]].tolist()
    code, out, _ = run("recommend", "low.od", "--history", f"{a},{b}", "-k", 4, "--json")
    assert code == 0
    (expected,) = model.recommend([[a, b]], k=4)
    assert [x["item"] for x in json.loads(out)[0]["items"]] == [item for item, _ in expected]
    code, out, _ = run("explain", "low.od", "--history", f"{a},{b}", "--item", c, "--json")
    assert code == 0
    said = json.loads(out)
    assert sum(x["contribution"] for x in said["contributions"]) == said["score"]


# Ctrl-C


@pytest.fixture
def interrupted(monkeypatch):
    """Ctrl-C at the second progress report of the iterations of any fit; counts the fits."""
    fits = []
    fit = od.LowRankEDLAE.fit

    def stopped(self, X, *, progress=None):
        fits.append(X)
        told = 0

        def tell(stage, fraction):
            nonlocal told
            told += stage.startswith("minimising")
            if told == 2:
                raise KeyboardInterrupt

        return fit(self, X, progress=tell)

    monkeypatch.setattr(od.LowRankEDLAE, "fit", stopped)
    return fits


FIT = ["fit", "train.csv", "--model", "low-rank-edlae", "--rank", "4", "--dropout", "0.5", "--l2", "5"]


def test_an_interrupted_fit_is_saved_and_says_so_in_one_line(run, interrupted):
    code, out, err = run(*FIT, "--out", "cut.od", "--json")
    assert code == 0
    assert err.startswith("offdiag: note: interrupted")
    assert "cut.od" in err
    assert err.count("\n") == 1
    assert json.loads(out)["stopped"] == "interrupted"
    model = od.load("cut.od")
    assert model.stopped_ == "interrupted"
    assert np.isfinite(model.recommend([[model.item_ids_[0]]]).scores).all()
    assert "interrupted after" in run("info", "cut.od")[1]


def test_ctrl_c_while_validating_saves_nothing(run, folder, interrupted):
    code, out, err = run(*FIT, "--out", "never.od", "--validate")
    assert (code, out) == (130, "")
    assert err == "offdiag: interrupted; what was there before is kept\n"
    assert not (folder / "never.od").exists()
    assert len(interrupted) == 1


WATCHED = """
import signal, sys
from pathlib import Path
from offdiag import cli
from offdiag.cli import console

tell = console.Work.__call__


def watched(self, stage, fraction):
    if "minimising" in stage:
        Path("started").touch()
    tell(self, stage, fraction)


console.Work.__call__ = watched
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background programs without one
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_signal_during_the_iterations_of_a_process_saves_the_best_model(tmp_path):
    write_table(od.synthetic.interactions(1500, 1500, 60_000, names=False, seed=0), tmp_path / "train.csv")
    command = [sys.executable, "-c", WATCHED, *FIT, "--iterations", "100000", "--out", "cut.od", "--starts", "50"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as ran:  # fmt: skip
        deadline = time.monotonic() + 60
        while not (tmp_path / "started").exists():
            assert ran.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        ran.send_signal(signal.SIGINT)
        out, err = ran.communicate(timeout=60)
    assert ran.returncode == 0
    assert err == "offdiag: note: interrupted; the best model found by then is saved to cut.od\n"
    assert "interrupted after" in out
    assert od.load(tmp_path / "cut.od").stopped_ == "interrupted"


def test_the_command_line_says_it_itself_so_the_warning_is_not_printed_too(run, monkeypatch):
    def warn(self, X, *, progress=None):
        warnings.warn("the library's own words", InterruptedFitWarning, stacklevel=2)
        raise od.OffdiagError("end of the test")

    monkeypatch.setattr(od.LowRankEDLAE, "fit", warn)
    assert run(*FIT, "--out", "never.od")[2] == "offdiag: end of the test\n"


# Progress


def test_a_detail_is_shown_and_the_bar_goes_on():
    bars = Progress(disable=True)
    work = console.Work(bars)
    work.begin("fitting · all")
    shown = []
    for stage, done in [("minimising · objective 9.5", 0.25), ("minimising · objective 9.1", 0.5), ("save", 0.1)]:
        work(stage, done)
        (task,) = bars.tasks
        shown.append((task.id, task.description, task.completed))
    first, second, last = shown
    assert first[1:] == ("fitting · all: minimising · objective 9.5", 0.25)
    assert second == (first[0], "fitting · all: minimising · objective 9.1", 0.5)
    assert last[0] != first[0]
    assert last[1:] == ("fitting · all: save", 0.1)
    work.begin("fitting again")
    work("save", 0.2)
    (task,) = bars.tasks
    assert (task.description, task.total) == ("fitting again: save", 1.0), (
        "the same stage of other work has its own bar"
    )
