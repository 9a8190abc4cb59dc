"""The service as a process: how it starts and stops."""

import json
import signal
import socket
import subprocess
import sys

import pytest

from offdiag.server import process
from tests.fixtures.serving import Service, has_read, receive_all, until

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(one_model):
    return one_model


def refused(folder, *args):
    command = [sys.executable, "-m", "offdiag", "serve", *map(str, args)]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert len(ran.stderr.splitlines()) == 1, ran.stderr
    return ran.stderr


@pytest.mark.parametrize("workers", [1, 2])
def test_an_invalid_model_file_is_one_clear_line(folder, workers):
    (folder / "rubbish.od").write_bytes(b"rubbish" * 100)
    assert "no model file" in refused(folder, "missing.od", "--workers", workers)
    assert "not an offdiag model" in refused(folder, "model.od", "rubbish.od", "--workers", workers)
    twice = refused(folder, "model.od", f"../{folder.name}/model.od", "--workers", workers)
    assert "expected different model files, received" in twice
    assert "serving process" not in twice


def test_an_invalid_option_is_one_clear_line(folder, fails):
    assert "NO_SUCH" in fails("serve", "model.od", "--token-env", "NO_SUCH")
    assert "choose another" in fails("serve", "model.od", "--host", "no.such.host.invalid")
    assert "does not exist" in refused(folder, "model.od", "--titles", "missing.csv")
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
def test_a_public_address_without_a_token_is_noted(host, noted, monkeypatch):
    printed = []
    monkeypatch.setattr(process, "work", lambda *_: None)
    process.serve(process.Service(("model.od",), host, 0, token="x"), printed.append)
    assert printed == []
    process.serve(process.Service(("model.od",), host, 0), printed.append)
    assert ("--token-env" in " ".join(printed)) == noted


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
    except ConnectionResetError:  # it closes at this moment
        return False
    return False


@pytest.mark.parametrize(("how", "workers"), [(signal.SIGTERM, 1), (signal.SIGINT, 1), (signal.SIGTERM, 2)])
def test_a_request_in_flight_is_finished_before_the_exit(folder, history, how, workers):
    with Service(folder, "model.od", "--workers", workers) as service:
        assert service.client.get("/health").status_code == 200  # a connection that stays open, and must not matter
        body = json.dumps({"history": history, "k": 3}).encode()
        with half_sent(service, body) as plain:
            service.process.send_signal(how)
            until(lambda: closed(service))
            assert service.process.poll() is None
            plain.sendall(body[10:])
            answer = receive_all(plain)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert len(json.loads(answer.partition(b"\r\n\r\n")[2])["items"]) == 3
        assert service.process.wait(60) == 0
        assert "Traceback" not in service.log
