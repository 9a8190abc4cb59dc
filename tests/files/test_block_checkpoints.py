"""A killed fit resumes from its finished blocks, to the same bytes; what is not of this fit is refused or ignored."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from scipy import sparse

import offdiag as od
from offdiag.files.block_checkpoints import BlockCheckpoints
from offdiag.solvers import gram_rows, support
from tests.fixtures.sparse_catalogue import example, same_bytes


def fit(X, folder=None, progress=None, **words):
    settings = {"neighbours": 10, "dropout": 0.4, "l2": 3.0} | words
    return od.SparseEDLAE(**settings).fit(X, checkpoint=folder, progress=progress)


class _Stop(Exception):  # noqa: N818 - no error
    pass


def stop_halfway(stage, fraction):
    if stage.startswith(support.SOLVING) and fraction >= 0.5:
        raise _Stop


@pytest.mark.parametrize("max_bytes", [None, 3_000])
def test_a_fit_resumes_from_its_last_finished_block(tmp_path, monkeypatch, max_bytes):
    monkeypatch.setattr(gram_rows.plan, "__defaults__", (7,))
    X, words, folder = example(), {"l2": "auto", "max_bytes": max_bytes}, tmp_path / "run"
    whole = fit(X, **words)
    with pytest.raises(_Stop):
        fit(X, folder, stop_halfway, **words)
    finished = sorted(folder.glob("*-block-*.od"))
    assert 3 <= len(finished) < 13
    stamps = [path.stat().st_mtime_ns for path in finished]
    solved = []
    real = support.solve_block
    monkeypatch.setattr(support, "solve_block", lambda *a, **k: (solved.append(1), real(*a, **k))[1])
    again = fit(X, folder, **words)
    assert same_bytes(whole, again)
    assert again.objective_ == whole.objective_
    assert [path.stat().st_mtime_ns for path in finished] == stamps, "finished blocks are not solved again"
    assert len(solved) == (13 if max_bytes is None else 26) - len(finished)


KILLED = """
import sys, time
import offdiag as od
from offdiag.solvers import gram_rows, support
from tests.fixtures.sparse_catalogue import example
gram_rows.plan.__defaults__ = (4,)
real = support.solve_block
solved = []
def slow(*a, **k):
    solved.append(1)
    if len(solved) > 5:
        time.sleep(600)  # until it is killed
    return real(*a, **k)
support.solve_block = slow
od.SparseEDLAE(neighbours=10, dropout=0.4, l2=3.0).fit(example(), checkpoint=sys.argv[1])
"""


def test_a_killed_fit_leaves_only_whole_blocks(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], cwd=os.getcwd())
    deadline = time.monotonic() + 120
    while len(list(folder.glob("*-block-*.od"))) < 3 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.returncode == -signal.SIGKILL
    assert 3 <= len(list(folder.glob("*-block-*.od"))) < 23
    monkeypatch.setattr(gram_rows.plan, "__defaults__", (4,))
    assert same_bytes(fit(example(), folder), fit(example()))


def test_a_checkpoint_of_another_fit_is_refused_with_the_difference(tmp_path):
    X, folder = example(), tmp_path / "run"
    fit(X, folder)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    swapped = sparse.csr_array(X.toarray()[:, np.r_[1, 0, 2 : X.shape[1]]])
    ids = np.array([f"item {i}" for i in range(X.shape[1])])
    for data, words, message in [
        (X, {"neighbours": 11}, "another fit: neighbours=10 instead of 11; give the same"),
        (X, {"dtype": "float64"}, "dtype='float32' instead of 'float64'"),
        (X[:399], {}, "users=400 instead of 399, interactions="),
        (swapped, {}, "another fit: contents="),
        (X * np.float32(2), {}, "contents="),
        (od.Interactions(X, np.arange(X.shape[0]), ids), {}, "contents="),
    ]:
        with pytest.raises(od.OffdiagError, match=message):
            fit(data, folder, **words)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    assert same_bytes(fit(X, folder, block_bytes=5), fit(X)), "block_bytes changes only how it is computed"


def test_files_and_folders_that_hold_no_checkpoint_are_left_alone(tmp_path):
    (tmp_path / "file").write_text("mine")
    for place, message in [
        (tmp_path / "file", "checkpoint takes a folder, received the file"),
        (tmp_path, "holds other files and no checkpoint"),
        (tmp_path / "file" / "run", "cannot keep a checkpoint in"),
    ]:
        with pytest.raises(od.OffdiagError, match=message):
            fit(example(), place)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("damage", [lambda whole: whole[:-10], lambda whole: whole[:-1] + bytes([whole[-1] ^ 1])])
def test_a_damaged_block_is_solved_again(tmp_path, damage):
    X, folder = example(), tmp_path / "run"
    fit(X, folder)
    block = next(folder.glob("*-block-*.od"))
    whole = block.read_bytes()
    block.write_bytes(damage(whole))
    assert same_bytes(fit(X, folder), fit(X))
    assert block.read_bytes() == whole


def test_a_block_of_another_fit_in_the_same_folder_is_not_taken(tmp_path):
    """l2 so close that both have the same supports, cut into the same blocks: only the mark distinguishes them."""
    X, one, other = example(), tmp_path / "one", tmp_path / "other"
    fit(X, one, l2=3.0)
    fit(X, other, l2=3.001)
    for block in one.glob("*-block-*.od"):
        (other / block.name).write_bytes(block.read_bytes())
    assert same_bytes(fit(X, other, l2=3.001), fit(X, l2=3.001))


def test_an_unfinished_file_does_not_stop_the_next_fit(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / ".offdiag-0123456789ab.tmp").write_bytes(b"half")
    fit(example(), folder)
    (folder / "mine.od").write_text("not of the fit")
    BlockCheckpoints.clear(folder)
    assert [path.name for path in folder.iterdir()] == ["mine.od"]
