"""Host names, the token, limits on bodies, and the access log."""

import asyncio
import json
import socket
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from offdiag.server import middleware
from offdiag.server.app import create
from offdiag.server.limits import Limits
from offdiag.server.metrics import PATHS
from tests.fixtures.serving import Service, has_read, one_error, raw, until

pytestmark = pytest.mark.slow


TOKEN = "correct horse battery staple"


OWN = "localhost:8000 LOCALHOST. films.localhost:8000 127.0.0.1:8000 127.8.9.1 [::1]:8000 [::1 proxy.example.org"
FOREIGN = (
    "evil.example.org:8000 localhost.example.org evillocalhost:8000 127.0.0.1.example.org 192.168.1.7:8000 [::2]:8000"
)


@pytest.mark.parametrize("host", [*OWN.split(), "Proxy.Example.ORG.:443", None])
def test_names_of_this_machine_are_accepted(host):
    assert middleware._is_own_host(host and host.encode(), frozenset({"proxy.example.org"}))


@pytest.mark.parametrize("host", [*FOREIGN.split(), "", "\xff\xfe"])
def test_other_names_are_not_accepted(host):
    assert not middleware._is_own_host(host.encode("latin-1"), frozenset({"proxy.example.org"}))


def test_a_foreign_host_name_is_refused(one_model, history):
    foreign = {"Host": "evil.example.org"}
    with Service(one_model, "model.od") as service:
        for path in ("/", "/model", "/health", "/static/app.js"):
            answer = httpx.get(service.url + path, headers=foreign, timeout=60)
            assert answer.status_code == 400
            assert "--allow-host" in answer.json()["error"]
        assert service.post("/recommend", history=history).status_code == 200
    with Service(one_model, "model.od", "--allow-host", "Evil.example.org") as service:
        assert httpx.get(service.url + "/model", headers=foreign, timeout=60).status_code == 200
        assert httpx.get(service.url + "/model", headers={"Host": "other.example.org"}, timeout=60).status_code == 400
    with Service(one_model, "model.od", "--token-env", "SECRET", env={"SECRET": TOKEN}) as service:
        assert httpx.get(service.url + "/health", headers=foreign, timeout=60).status_code == 200


def test_with_a_token_only_its_holders_are_answered(one_model, history):
    options = ("--token-env", "SECRET", "--access-log", "t.log")
    with Service(one_model, "model.od", *options, env={"SECRET": TOKEN}) as service:
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
        assert TOKEN not in service.log + (one_model / "t.log").read_text()
        assert TOKEN not in Path(f"/proc/{service.process.pid}/cmdline").read_text()


def test_a_body_with_a_too_large_length_is_refused_unread(service):
    answer = raw(service, b"POST /recommend HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b'{"error":"the body is larger than 20000 bytes; send less"}' in answer


def test_a_body_of_unknown_length_is_cut_off(service):
    def endless():
        for _ in range(1000):
            yield b'{"history": [' + b"1," * 500

    with suppress(httpx.TransportError):  # the connection was closed while we were still sending: an answer too
        one_error(service.client.post("/recommend", content=endless()), 413)
    assert service.client.get("/health").status_code == 200


def test_a_slow_body_times_out(service):
    begun = time.monotonic()
    answer = raw(service, b"POST /recommend HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n", b'{"hist')
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"too slowly" in answer
    assert time.monotonic() - begun < 15


def test_a_client_that_disconnects_is_not_an_error(service):
    for begin in (b"", b'{"history": ['):
        with socket.create_connection(("127.0.0.1", service.port)) as plain:
            plain.sendall(b"POST /recommend HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90\r\n\r\n" + begin)
            until(lambda plain=plain: has_read(plain))
    gone = 'offdiag_requests_total{path="/recommend",status="499"} 2'
    until(lambda: gone in service.client.get("/metrics").text)
    assert 'status="500"' not in service.client.get("/metrics").text


def test_the_access_log_has_a_line_per_request_and_no_ids(service, folder, models):
    secret = models["exact"].item_ids_[17]
    service.post("/recommend", history=[secret, "very-secret"], k=3)
    service.client.get("/items", params={"q": "very-secret"})
    service.client.get("/very-secret")
    service.client.get("/health", headers={"X-Very-Secret": "very-secret"})
    asked = ["/recommend", "/items", "unknown", "/health"]

    def written():  # a line is written after its answer
        whole = [line for line in (folder / "access.log").read_text().splitlines(keepends=True) if line[-1] == "\n"]
        return whole if [json.loads(line)["path"] for line in whole[-4:]] == asked else None

    text = "".join(until(written))
    assert "secret" not in text
    assert secret not in text
    lines = [json.loads(line) for line in text.splitlines()]
    assert set(lines[-4]) == {"time", "method", "path", "status", "ms", "items", "process"}
    assert (lines[-4]["path"], lines[-4]["status"], lines[-4]["items"]) == ("/recommend", 200, 2)
    assert (lines[-2]["path"], lines[-2]["status"]) == ("unknown", 404)
    assert {line["path"] for line in lines} <= set(PATHS)


async def test_large_bodies_are_limited_together(model):
    """Each is within its limit and slow; their sum is bounded, and small ones pass."""
    gate = create([model], limits=Limits(body=1 << 20, large=300_000))
    scope = {
        "type": "http", "method": "POST", "path": "/recommend", "headers": [], "query_string": b"",
        "http_version": "1.1",
    }  # fmt: skip

    async def post(parts, answers):
        async def receive():
            return await parts.get()

        async def send(message):
            answers.append(message.get("status", message.get("body")))

        await gate(dict(scope), receive, send)

    slow, answers = [asyncio.Queue() for _ in range(3)], [[] for _ in range(4)]
    tasks = [asyncio.create_task(post(*one)) for one in zip(slow, answers, strict=False)]
    for queue in slow:
        queue.put_nowait({"type": "http.request", "body": b" " * 200_000, "more_body": True})
        await asyncio.sleep(0.02)
    assert [one[:1] for one in answers] == [[], [], [503], []]
    small = asyncio.Queue()
    small.put_nowait({"type": "http.request", "body": b'{"history": []}', "more_body": False})
    await post(small, answers[3])
    assert answers[3][0] == 200
    for queue in slow[:2]:
        queue.put_nowait({"type": "http.request", "body": json.dumps({"history": []}).encode(), "more_body": False})
    await asyncio.gather(*tasks)
    assert [one[0] for one in answers] == [200, 200, 503, 200]
    assert gate.receiving == 0
