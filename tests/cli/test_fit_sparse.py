"""`offdiag fit --model sparse`: size, checkpoints, kills, and one line for every mistake."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import offdiag as od


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("sparse")
    inter = od.synthetic.catalogue(300, 80, 6000, communities=5, seed=1).interactions
    rows = np.repeat(np.arange(inter.n_users), np.diff(inter.matrix.indptr))
    lines = [f"{inter.user_ids[u]},{i}" for u, i in zip(rows, inter.matrix.indices, strict=True)]
    (place / "train.csv").write_text("\n".join(["user,item", *lines]) + "\n")
    return place


def test_a_sparse_model_is_fitted_saved_and_used(run, folder):
    words = ["fit", "train.csv", "--model", "sparse", "--neighbours", "20", "--l2", "5", "--out", "s.od", "--json"]
    out = json.loads(run(*words)[1])
    assert out["model"] == "SparseEDLAE"
    assert out["settings"]["neighbours"] == 20
    model = od.load(folder / "s.od")
    again = od.SparseEDLAE(neighbours=20, l2=5.0).fit(od.read(folder / "train.csv"))
    assert np.array_equal(model.weights_.toarray(), again.weights_.toarray())
    assert "because of" in run("explain", "s.od", "--history", "1,2,3", "--item", "7")[1]


def test_it_fits_into_the_bytes_that_it_may_take(run, folder):
    code, text, _ = run("fit", "train.csv", "--model", "sparse", "--max-bytes", "4kB", "--out", "small.od")
    assert code == 0
    assert "SparseEDLAE" in text
    assert 3_800 < od.load(folder / "small.od").weights_.nbytes <= 4_000


def test_a_checkpoint_is_removed_once_the_model_is_saved(run, folder):
    run("fit", "train.csv", "--model", "sparse", "--neighbours", "9", "--checkpoint", "run", "--out", "a.od")
    assert not (folder / "run").exists()
    run("fit", "train.csv", "--model", "sparse", "--neighbours", "9", "--out", "b.od")
    one, other = od.load(folder / "a.od").weights_, od.load(folder / "b.od").weights_
    assert np.array_equal(one.data, other.data)


SLOW = """
import sys, time
from offdiag.cli import main
from offdiag.solvers import gram_rows, support
gram_rows.plan.__defaults__ = (4,)
real = support.solve_block
def slow(*a, **k):
    time.sleep(0.05)
    return real(*a, **k)
support.solve_block = slow
sys.exit(main(sys.argv[1:]))
"""


def test_a_killed_command_goes_on_and_the_old_model_stays_until_the_new_one_is_there(run, fails, folder):
    words = ["fit", "train.csv", "--model", "sparse", "--neighbours", "9", "--checkpoint", "killed", "--out", "k.od"]
    (folder / "k.od").write_bytes(b"the old one")
    process = subprocess.Popen([sys.executable, "-c", SLOW, *words], cwd=folder, env=os.environ)
    deadline = time.monotonic() + 120
    while len(list((folder / "killed").glob("*-block-*"))) < 3 and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (folder / "k.od").read_bytes() == b"the old one"
    assert "neighbours=9 instead of 8" in fails(*[word.replace("9", "8") for word in words])
    assert run(*words)[0] == 0
    run(*words[:-3], "fresh", "--out", "f.od")
    assert np.array_equal(od.load(folder / "k.od").weights_.data, od.load(folder / "f.od").weights_.data)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--model", "sparse", "--neighbours", "0"], "neighbours must be a whole number of at least 1"),
        (["--model", "sparse", "--max-bytes", "lots"], "--max-bytes takes a size"),
        (["--model", "sparse", "--max-bytes", "10"], "max_bytes must be at least"),
        (["--model", "sparse", "--checkpoint", "train.csv"], "checkpoint takes a folder"),
        (["--model", "edlae", "--checkpoint", "x"], "--checkpoint is for sparse models"),
        (["--model", "edlae", "--neighbours", "3"], "edlae does not take --neighbours"),
        (["--model", "sparse", "--checkpoint", "."], "lies in the checkpoint folder"),
        (["--keep", "3"], "--keep is for full-rank models with --cluster"),
        (["--cluster", "local:1", "--validate"], "--cluster and --validate do not go together"),
        (["--model", "sparse", "--cluster", "local:1", "--checkpoint", "x"], "--cluster and --checkpoint"),
    ],
)
def test_a_mistake_is_one_line(fails, words, told):
    assert told in fails("fit", "train.csv", "--out", "x.od", *words)
