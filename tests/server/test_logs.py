"""Log lines whose reader may stop reading."""

import os
import signal
import subprocess
import threading

import pytest

import offdiag as od
from offdiag.server import logs
from offdiag.server.metrics import Counters
from tests.fixtures.serving import Service, until

pytestmark = pytest.mark.slow


def test_an_unread_log_does_not_block_the_service(model):
    """A pipe holds 64 KB: some 400 lines."""
    with Service(model.parent, model, "--access-log", "-", stdout=subprocess.PIPE) as service:
        service.client.timeout = 20
        for _ in range(1000):
            assert service.client.get("/health").status_code == 200
        assert service.stop(signal.SIGTERM) == 0
        service.process.stdout.close()


def test_unread_lines_are_dropped_and_counted(monkeypatch):
    monkeypatch.setattr(logs, "MOST", 100)
    free, counters, written = threading.Event(), Counters(), []

    def write(data):
        free.wait()
        written.append(data)

    slow = logs.Lines(write, counters.drop_line)
    slow("first")
    until(lambda: not slow._waiting)  # the thread hangs in write
    for n in range(250):
        slow(f"line {n}")
    slow.flush(0.01)  # does not wait forever
    assert "offdiag_log_lines_dropped_total 150.0\n" in counters.text([]).decode()
    free.set()
    slow.flush()
    assert b"".join(written).decode().splitlines() == ["first", *(f"line {n}" for n in range(100))]
    assert max(map(len, written)) <= logs.AT_ONCE


def test_after_a_rotation_only_later_lines_are_in_the_new_file(tmp_path):
    log = logs.AccessLog(str(tmp_path / "a.log"))
    log("before")
    os.replace(tmp_path / "a.log", tmp_path / "a.log.1")
    log.reopen()
    log("after")
    log.flush()
    assert (tmp_path / "a.log.1").read_text() == "before\n"
    assert (tmp_path / "a.log").read_text() == "after\n"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(od.OffdiagError, match="access log"):
        logs.AccessLog(str(tmp_path / "pipe"))
