"""Tables and models that the tests of several commands use, and calls that must succeed."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import offdiag as od
from tests.fixtures.event_logs import N_USERS, SETTINGS, THREE, write_log
from tests.fixtures.tables import write_table


@pytest.fixture(scope="session")
def originals(tmp_path_factory):
    """A table with titles and one with whole numbers, a table of new users, and models of each."""
    place = tmp_path_factory.mktemp("originals")
    inter = od.synthetic.catalogue(360, 60, 5400, communities=5, seed=1).interactions
    write_table(inter.select_users(np.arange(300)), place / "train.csv", ratings=True)
    write_table(inter.select_users(np.arange(300, 360)), place / "new.csv", ratings=True)
    numbers = od.Interactions(inter.matrix, inter.user_ids, np.arange(100, 160))
    write_table(numbers, place / "numbers.csv", ratings=True)
    train = od.read(place / "train.csv")
    od.EDLAE(dropout=0.3, l2=20).fit(train).save(place / "model.od")
    od.EASE(l2=50).fit(train).save(place / "ease.od")
    od.Popularity().fit(train).save(place / "popular.od")
    od.LowRankEDLAE(rank=6, dropout=0.3, l2=20, iterations=5).fit(train).save(place / "low.od")
    od.EASE(l2=50).fit(od.read(place / "numbers.csv")).save(place / "numbers.od")
    return place


@pytest.fixture(scope="module")
def folder(originals, tmp_path_factory):
    """A copy of them, which the tests of a file may change."""
    return Path(shutil.copytree(originals, tmp_path_factory.mktemp("cli"), dirs_exist_ok=True))


@pytest.fixture
def text_of(run):
    """Run a command that must succeed; return its text."""

    def call(*args, notes=False):
        code, out, err = run(*args)
        assert (code, err if not notes else "") == (0, ""), err
        return out

    return call


@pytest.fixture
def json_of(text_of):
    """Run a command that must succeed with --json; return its result."""
    return lambda *args, notes=False: json.loads(text_of(*args, "--json", notes=notes))


@pytest.fixture
def untouched(fails, folder):
    """Run a command that must fail and must not touch any file; return its error line."""

    def contents():
        return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}

    def call(*args):
        before = contents()
        line = fails(*args)
        assert contents() == before
        return line

    return call


@pytest.fixture(scope="module")
def rows():
    """A log: text users, text items, a rating, a time, an event id; several events for many pairs."""
    inter = od.synthetic.catalogue(N_USERS, 30, 900, communities=3, seed=4).interactions
    users = np.repeat(np.arange(N_USERS), np.diff(inter.matrix.indptr))
    rng = np.random.default_rng(0)
    log = [
        (f"user {u}", str(inter.item_ids[i]), int(rng.integers(1, 6)), int(t), f"e{n}")
        for n, (u, i, t) in enumerate(zip(users, inter.matrix.indices, rng.permutation(len(users)), strict=True))
    ]
    log += [(*log[n][:2], 5, len(log) + n, f"again{n}") for n in range(0, len(log), 40)]
    return sorted(log, key=lambda row: row[3])


@pytest.fixture
def log_folder(rows, tmp_path):
    """The first half of the log, all of it, and the rows of three users and of the others."""
    write_log(tmp_path / "half.csv", rows[: len(rows) // 2])
    write_log(tmp_path / "log.csv", rows)
    write_log(tmp_path / "three.csv", [row for row in rows if row[0] in THREE])
    write_log(tmp_path / "others.csv", [row for row in rows if row[0] not in THREE])
    (tmp_path / "ids.txt").write_text("user 3\nuser 8\n\nuser 9\nuser 3\n")
    return tmp_path


@pytest.fixture
def fit(text_of):
    return lambda data, out, *more: text_of("fit", data, "--out", out, "--updatable", *SETTINGS, *more)
