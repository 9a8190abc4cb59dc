"""A file is written whole, for its owner alone, and replaces only a regular file: no device, pipe or socket."""

import os
import socket
import stat
import sys

import numpy as np
import pytest

import offdiag as od
from offdiag.files import atomic
from offdiag.report import writer

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no such files there")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "log.csv").write_text(
        "user,item\n" + "".join(f"{u},{(u * k) % 7}\n" for u in range(20) for k in (1, 2, 3))
    )
    (tmp_path / "gone.csv").write_text("user,item\n" + "".join(f"4,{(4 * k) % 7}\n" for k in (1, 2, 3)))
    return tmp_path


def make_pipe(path):
    os.mkfifo(path)
    return stat.S_ISFIFO


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
    return stat.S_ISSOCK


def make_link_to_pipe(path):
    os.mkfifo(path.with_suffix(".pipe"))
    path.symlink_to(path.with_suffix(".pipe"))
    return stat.S_ISFIFO


@pytest.mark.parametrize("make", [make_pipe, make_socket, make_link_to_pipe])
def test_nothing_but_an_ordinary_file_is_replaced(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    is_still = make(tmp_path.relative_to(tmp_path) / "out")
    model = od.EASE(l2=1.0).fit(np.eye(3))
    before = sorted(os.listdir())
    for write in (lambda: writer.replace_text(tmp_path / "out", "text"), lambda: model.save(tmp_path / "out")):
        with pytest.raises(od.OffdiagError, match="ordinary file"):
            write()
        assert is_still(os.stat("out").st_mode)
        assert sorted(os.listdir()) == before


def test_a_certificate_does_not_replace_a_pipe(run, fails, folder):
    fit = ["fit", "log.csv", "--out", "model.od", "--updatable", "--dropout", "0.3", "--l2", "1", "--user-power", "0"]
    assert run(*fit)[0] == 0
    os.mkfifo(folder / "pipe")
    before = (folder / "model.od").read_bytes()
    assert "ordinary file" in fails("forget", "model.od", "--users", "gone.csv", "--certificate", "pipe")
    assert stat.S_ISFIFO(os.stat(folder / "pipe").st_mode)
    assert (folder / "model.od").read_bytes() == before, "nobody is forgotten without the certificate"


@pytest.mark.parametrize("unnamed", [True, False])
def test_while_a_file_is_written_only_its_owner_can_read_it(tmp_path, monkeypatch, unnamed):
    """Also on systems without unnamed files."""
    if not unnamed:
        monkeypatch.setattr(atomic.Pending, "_unnamed", lambda self: None)
    target = tmp_path / "f"
    with atomic.replacing(target) as file:
        file.write(b"half")
        file.flush()
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
        assert len(os.listdir(tmp_path)) == (0 if unnamed and hasattr(os, "O_TMPFILE") else 1)
    assert target.read_bytes() == b"half"
    (tmp_path / "g").touch()
    assert stat.S_IMODE(target.stat().st_mode) == stat.S_IMODE((tmp_path / "g").stat().st_mode)
    (tmp_path / "g").unlink()
    target.chmod(0o640)
    with atomic.replacing(target) as file:
        file.write(b"whole")
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    with pytest.raises(KeyboardInterrupt), atomic.replacing(target) as file:
        raise KeyboardInterrupt
    assert target.read_bytes() == b"whole"
    assert os.listdir(tmp_path) == ["f"]


def test_a_folder_is_not_replaced(tmp_path):
    with pytest.raises(od.OffdiagError, match="expected the name of an ordinary file"), atomic.replacing(tmp_path):
        pass


def test_a_folder_appears_with_all_its_files_or_not_at_all(tmp_path):
    with atomic.new_folder(tmp_path / "lists") as folder:
        (folder / "a.csv").write_text("x")
        assert not (tmp_path / "lists").exists()
        atomic.sweep(tmp_path)
        assert folder.exists(), "its writer is alive"
    assert [path.name for path in (tmp_path / "lists").iterdir()] == ["a.csv"]
    with pytest.raises(od.OffdiagError, match="cannot save"), atomic.new_folder(tmp_path / "other") as folder:
        folder.write_text("x")  # fails
    assert [path.name for path in tmp_path.iterdir()] == ["lists"]
    for taken in ("lists", "lists/a.csv"):
        with pytest.raises(od.OffdiagError, match="not an empty folder"), atomic.new_folder(tmp_path / taken):
            pass
