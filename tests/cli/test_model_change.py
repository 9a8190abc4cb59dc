"""A saved model is changed completely or not at all, by one program at a time."""

import fcntl
import os
import stat
import subprocess
import sys

import numpy as np
import pytest

import offdiag as od
from offdiag.files import container, switch
from offdiag.living import past
from tests.fixtures.event_logs import N_USERS, SETTINGS, write_log


@pytest.fixture
def folder(log_folder):
    return log_folder


def test_with_out_the_old_model_stays(text_of, fit, folder):
    fit("half.csv", "model.od")
    before = (folder / "model.od").read_bytes()
    text_of("update", "model.od", "log.csv", "--out", "new.od")
    text_of("forget", "new.od", "--users", "three.csv", "--out", "newer.od")
    assert (folder / "model.od").read_bytes() == before
    assert [od.load(name).n_users_ for name in ("model.od", "new.od", "newer.od")] == [N_USERS, N_USERS, N_USERS - 3]


def test_links_and_permissions_of_the_file_stay(text_of, fit, folder):
    fit("half.csv", "model.od")
    os.chmod(folder / "model.od", 0o640)
    os.symlink("model.od", folder / "link.od")
    text_of("update", "link.od", "log.csv")
    assert os.path.islink(folder / "link.od")
    assert stat.S_IMODE(os.stat(folder / "model.od").st_mode) == 0o640


def test_wrong_files_are_one_line_and_change_nothing(text_of, fit, untouched):
    fit("log.csv", "model.od")
    text_of("fit", "half.csv", "--out", "plain.od", *SETTINGS)
    for args, words in (
        (["update", "model.od", "./model.od"], "as both; name the other one"),
        (["update", "log.csv", "log.csv"], "as both; name the other one"),
        (["update", "plain.od", "log.csv"], "fit it again with --updatable"),
        (["forget", "plain.od", "--users", "three.csv"], "fit it again with --updatable"),
        (["update", "nowhere.od", "log.csv"], "nowhere.od"),
        (["update", "model.od", "log.csv", "--out", "no/where.od"], "does not exist"),
    ):
        assert words in untouched(*args)


def test_a_second_program_is_refused_while_the_first_changes_the_file(fit, untouched):
    fit("half.csv", "model.od")
    with switch.changing("model.od"):
        for args in (["update", "model.od", "log.csv"], ["forget", "model.od", "--users", "three.csv"]):
            assert "another program is changing it" in untouched(*args)
    with switch.changing("model.od"):  # the lock is released with its holder
        pass


def test_a_file_that_another_program_replaced_is_not_overwritten(fit, fails, folder, monkeypatch):
    fit("half.csv", "model.od")
    fit("log.csv", "other.od")
    write_all = container.write

    def slow(file, *more):
        os.replace("other.od", "model.od")  # a program that ignores locks
        return write_all(file, *more)

    monkeypatch.setattr(container, "write", slow)
    assert "has replaced it in the meantime" in fails("update", "model.od", "log.csv")
    assert od.load("model.od", verify=True).n_users_ == N_USERS
    assert not [name for name in os.listdir(folder) if name.startswith(".offdiag")]


@pytest.mark.slow
def test_many_updates_at_once_lose_nothing(fit, folder, rows):
    """Processes, not threads: Python's warning filters are not thread-safe."""
    fit("half.csv", "model.od")
    for n in range(3):
        guest = f"guest {n}"
        write_log(folder / f"new{n}.csv", [(guest, rows[n][1]), (guest, rows[n + 9][1])], ("user", "item"))
    waiting, rounds = list(range(3)), 0
    while waiting:
        commands = {n: [sys.executable, "-m", "offdiag", "update", "model.od", f"new{n}.csv"] for n in waiting}
        running = {n: subprocess.Popen(c, cwd=folder, stderr=subprocess.PIPE, text=True) for n, c in commands.items()}
        for program in running.values():
            _, err = program.communicate(timeout=60)
            assert program.returncode in (0, 2), err
            assert program.returncode == 0 or "run this again" in err
        waiting = [n for n in waiting if running[n].returncode == 2]
        rounds += 1
        assert rounds <= 3  # of those that start together at least one succeeds
    model = od.load("model.od", verify=True)
    ids = np.array([f"guest {n}" for n in range(3)])
    assert (past.ledger_of(model).places(model._past.ledger.hashes.users(ids)) >= 0).all()


def test_files_left_by_killed_programs_are_removed(text_of, fit, folder):
    fit("half.csv", "model.od")
    names = (".offdiag-0a.tmp", ".offdiag-0b.tmp", ".offdiag-0c.tmp", "model.od.next")
    old, busy, young, half = (folder / name for name in names)
    for path in (old, busy, young, half):
        path.write_bytes(b"half")
    for path in (old, busy):
        os.utime(path, (1, 1))
    with open(busy, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        text_of("update", "model.od", "log.csv")
        assert busy.exists()
    assert not [path for path in (old, young, half) if path.exists()]
