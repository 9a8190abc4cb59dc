"""The service as a process: how it starts, stops, asks for a token, and works in several processes."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

import offdiag as od
from offdiag.server import middleware, process
from tests.fixtures.serving import Service, has_read, until

pytestmark = pytest.mark.slow

TOKEN = "correct horse battery staple"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("process")
    inter = od.synthetic.interactions(400, 80, 8_000, seed=2)
    od.EASE(l2=50.0, storage="dense").fit(inter).save(place / "model.od")
    return place


@pytest.fixture(scope="module")
def history(folder):
    return od.load(folder / "model.od").item_ids_[:5].tolist()


# Host names


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("localhost:8000", True),
        ("LOCALHOST.", True),
        ("films.localhost:8000", True),
        ("127.0.0.1:8000", True),
        ("127.8.9.1", True),
        ("[::1]:8000", True),
        ("proxy.example.org", True),
        ("Proxy.Example.ORG.:443", True),
        ("evil.example.org:8000", False),
        ("localhost.example.org", False),
        ("evillocalhost:8000", False),
        ("127.0.0.1.example.org", False),
        ("192.168.1.7:8000", False),
        ("[::2]:8000", False),
        ("[::1", True),
        ("", False),
        ("\xff\xfe", False),
        (None, True),
    ],
)
def test_only_names_of_this_machine_are_ours(host, ours):
    given = None if host is None else host.encode("latin-1")
    assert middleware._is_own_host(given, frozenset({"proxy.example.org"})) == ours


def test_a_foreign_name_that_leads_here_gets_nothing(folder, history):
    foreign = {"Host": "evil.example.org"}
    with Service(folder, "model.od") as service:
        for path in ("/", "/model", "/health", "/static/app.js"):
            answer = httpx.get(service.url + path, headers=foreign)
            assert answer.status_code == 400
            assert "--allow-host" in answer.json()["error"]
        assert service.post("/recommend", history=history).status_code == 200
    with Service(folder, "model.od", "--allow-host", "Evil.example.org") as service:
        assert httpx.get(service.url + "/model", headers=foreign).status_code == 200
        assert httpx.get(service.url + "/model", headers={"Host": "other.example.org"}).status_code == 400
    with Service(folder, "model.od", "--token-env", "SECRET", env={"SECRET": TOKEN}) as service:
        assert httpx.get(service.url + "/health", headers=foreign).status_code == 200


# The token


def test_with_a_token_only_those_who_have_it_are_answered(folder, history):
    with Service(
        folder, "model.od", "--token-env", "SECRET", "--access-log", "t.log", env={"SECRET": TOKEN}
    ) as service:
        ask = {"history": history}
        for given in ({}, {"Authorization": "Bearer nope"}, {"Authorization": TOKEN}, {"Authorization": "Basic x"}):
            answer = service.client.post("/recommend", json=ask, headers=given)
            assert answer.status_code == 401
            assert list(answer.json()) == ["error"]
            assert answer.headers["www-authenticate"] == "Bearer"
        for path in ("/metrics", "/model", "/items", "/nope"):
            assert service.client.get(path).status_code == 401
        for path in ("/", "/health", "/docs", "/openapi.json"):
            assert service.client.get(path).status_code == 200
        for kind in ("Bearer", "bearer"):
            good = {"Authorization": f"{kind} {TOKEN}"}
            assert service.client.post("/recommend", json=ask, headers=good).status_code == 200
        assert service.client.get("/metrics", headers=good).status_code == 200
        assert TOKEN not in service.log + (folder / "t.log").read_text()
        assert TOKEN not in Path(f"/proc/{service.process.pid}/cmdline").read_text()


# Startup


def refused(folder, *args, env=None):
    ran = subprocess.run(
        [sys.executable, "-m", "offdiag", "serve", *map(str, args)],
        cwd=folder, capture_output=True, text=True, timeout=60, env=os.environ | (env or {}),
    )  # fmt: skip
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert len(ran.stderr.splitlines()) == 1, ran.stderr
    return ran.stderr


@pytest.mark.parametrize("workers", [1, 2])
def test_a_wrong_model_file_is_one_clear_line(folder, workers):
    (folder / "rubbish.od").write_bytes(b"rubbish" * 100)
    assert "no model file" in refused(folder, "missing.od", "--workers", workers)
    assert "not an offdiag model" in refused(folder, "model.od", "rubbish.od", "--workers", workers)
    twice = refused(folder, "model.od", f"../{folder.name}/model.od", "--workers", workers)
    assert "expected different model files, received" in twice
    assert "serving process" not in twice


def test_wrong_options_are_one_clear_line(folder, fails):
    assert "NO_SUCH" in fails("serve", "model.od", "--token-env", "NO_SUCH")
    assert "choose another" in fails("serve", "model.od", "--host", "no.such.host.invalid")
    assert "not a file" in refused(folder, "model.od", "--titles", "missing.csv")
    assert "access log" in refused(folder, "model.od", "--access-log", "no/such/folder.log", "--port", 0)
    before = (folder / "model.od").read_bytes()
    assert "choose another name" in fails("serve", "model.od", "--access-log", "./model.od")
    assert (folder / "model.od").read_bytes() == before
    for name in ("shop.example.org:80", "https://shop.example.org", "*", "", "a..b"):
        assert "without a port" in fails("serve", "model.od", "--allow-host", name)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "choose another" in fails("serve", "model.od", "--port", taken.getsockname()[1])


@pytest.mark.parametrize(
    ("host", "noted"), [("0.0.0.0", True), ("::", True), ("127.0.0.2", False), ("localhost", False)]
)
def test_listening_to_everybody_without_a_token_is_noted(host, noted, monkeypatch):
    said = []
    monkeypatch.setattr(process, "work", lambda *_: None)
    process.serve(process.Service(("model.od",), host, 0), said.append)
    assert ("--token-env" in " ".join(said)) == noted
    said.clear()
    process.serve(process.Service(("model.od",), host, 0, token="x"), said.append)
    assert said == []


# Shutdown


def half_sent(service, body):
    """A request of which half was received."""
    plain = socket.create_connection(("127.0.0.1", service.port), timeout=20)
    head = f"POST /recommend HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    plain.sendall(head + body[:10])
    until(lambda: has_read(plain))
    return plain


def closed(service):
    try:
        socket.create_connection(("127.0.0.1", service.port), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize(("how", "workers"), [(signal.SIGTERM, 1), (signal.SIGINT, 1), (signal.SIGTERM, 2)])
def test_a_request_in_flight_is_finished_before_the_end(folder, history, how, workers):
    with Service(folder, "model.od", "--workers", workers) as service:
        assert service.client.get("/health").status_code == 200  # a connection that stays open, and must not matter
        body = json.dumps({"history": history, "k": 3}).encode()
        with half_sent(service, body) as plain:
            service.process.send_signal(how)
            until(lambda: closed(service))
            assert service.process.poll() is None
            plain.sendall(body[10:])
            answer = b""
            while more := plain.recv(1 << 16):
                answer += more
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert len(json.loads(answer.partition(b"\r\n\r\n")[2])["items"]) == 3
        assert service.process.wait(20) == 0
        assert "Traceback" not in service.log


# Several processes


def test_several_processes_answer_share_the_model_and_count_together(folder, history):
    with Service(folder, "model.od", "--workers", 2, "--access-log", "w.log") as service:

        def ask():
            with httpx.Client(base_url=service.url) as client:
                for _ in range(20):
                    assert client.post("/recommend", json={"history": history}).status_code == 200

        def both(turn=0):
            threads = [threading.Thread(target=ask) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            until(lambda: (folder / "w.log").read_text().count("\n") >= 160 * turn)  # written after the answers
            lines = [json.loads(line) for line in (folder / "w.log").read_text().splitlines()]
            return lines, {line["process"] for line in lines}

        turn = 1
        lines, workers = both(turn)
        while len(workers) < 2:
            turn += 1
            lines, workers = both(turn)
        for _ in range(3):  # whichever process answers
            text = httpx.get(f"{service.url}/metrics").text
            count = int(re.search(r'requests_total\{path="/recommend",status="200"\} (\d+)', text)[1])
            assert count == len(lines)
            assert "offdiag_processes 2" in text

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


def test_a_signal_while_the_workers_start_is_not_kept_waiting(folder):
    command = [sys.executable, "-m", "offdiag", "serve", "model.od", "--workers", "2", "--port", "0"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as ran:
        until(lambda: children_of(ran.pid))
        ran.send_signal(signal.SIGTERM)
        _, said = ran.communicate(timeout=60)
    assert (ran.returncode, said) == (0, "")


def test_a_worker_follows_a_parent_that_is_killed(folder):
    service = Service(folder, "model.od", "--workers", 2)
    children = children_of(service.process.pid)
    assert service.stop(signal.SIGKILL) == -signal.SIGKILL
    until(lambda: not any(alive(pid) for pid in children))


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
