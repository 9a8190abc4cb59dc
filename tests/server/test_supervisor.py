"""Several serving processes."""

import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.fixtures.serving import Service, metric, until

pytestmark = pytest.mark.slow


def test_several_processes_share_requests_model_and_counters(one_model, history):
    with Service(one_model, "model.od", "--workers", 2, "--access-log", "w.log") as service:

        def ask(_):
            with httpx.Client(base_url=service.url, timeout=60) as client:
                for _ in range(20):
                    assert client.post("/recommend", json={"history": history}).status_code == 200

        def both(turn=0):
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(ask, range(8)))
            until(lambda: (one_model / "w.log").read_text().count("\n") >= 160 * turn)  # written after the answers
            lines = [json.loads(line) for line in (one_model / "w.log").read_text().splitlines()]
            return lines, {line["process"] for line in lines}

        turn, workers = 0, set()
        while len(workers) < 2:
            turn += 1
            lines, workers = both(turn)
        for _ in range(3):  # whichever process answers
            assert metric(service, 'offdiag_requests_total{path="/recommend",status="200"}') == len(lines)
            assert metric(service, "offdiag_processes") == 2

        mapped = [
            re.search(r"([^\n]*model\.od)\n(?:.*\n)*?Shared_Clean:\s+(\d+)", Path(f"/proc/{pid}/smaps").read_text())
            for pid in workers
        ]
        assert all(found and int(found[2]) > 0 for found in mapped), "pages of the file belong to both"

        victim = min(workers)
        os.kill(victim, signal.SIGKILL)
        service.wait_for("ended with code -9; starting another")
        until(lambda: len(both()[1] - workers) >= 1, 60)
        assert service.stop() == 0


def children_of(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_a_signal_while_the_workers_start_is_handled_at_once(one_model):
    command = [sys.executable, "-m", "offdiag", "serve", "model.od", "--workers", "2", "--port", "0"]
    with subprocess.Popen(command, cwd=one_model, stderr=subprocess.PIPE, text=True) as ran:
        until(lambda: children_of(ran.pid))
        ran.send_signal(signal.SIGTERM)
        _, printed = ran.communicate(timeout=60)
    assert (ran.returncode, printed) == (0, "")


def test_workers_end_when_their_parent_is_killed(one_model):
    service = Service(one_model, "model.od", "--workers", 2)
    children = children_of(service.process.pid)
    assert service.stop(signal.SIGKILL) == -signal.SIGKILL
    until(lambda: not any(alive(pid) for pid in children))


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
