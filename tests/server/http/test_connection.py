"""One connection: pipelined requests, slow headers."""

import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.fixtures.connections import Application, arrive, connect, make_hub, rounds
from tests.fixtures.http_cases import BODY, FIRST, read_answers, sized
from tests.fixtures.serving import Service, private_memory, raw, until

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("line", [FIRST, sized(then=b"")], ids=["GET", "POST"])
def test_a_flood_of_pipelined_requests_stays_with_its_clients(service, line):
    """200 connections send 60 MB and read nothing: the service keeps its size and answers others."""
    service.client.get("/health")
    before = private_memory(service)
    share = line * (300_000 // len(line))
    flood = []
    try:
        for _ in range(200):
            plain = socket.create_connection(("127.0.0.1", service.port))
            plain.setblocking(False)
            flood.append([plain, memoryview(share)])
        for _ in range(8):
            send_some(flood)
            answer = httpx.post(f"{service.url}/recommend", content=BODY, timeout=60)  # a new connection
            assert answer.status_code == 200
            assert httpx.get(f"{service.url}/health", timeout=60).status_code == 200
        assert private_memory(service) - before < 100 << 10, "kB"
    finally:
        for plain, _ in flood:
            plain.close()
    until(lambda: "offdiag_connections 1.0\n" in service.client.get("/metrics").text)


def send_some(flood):
    for one in flood:
        plain, rest = one
        try:
            while len(rest):
                rest = one[1] = rest[plain.send(rest) :]
        except BlockingIOError:
            continue


async def test_pipelined_requests_are_started_one_at_a_time():
    app = Application()
    connection, wire = connect(make_hub(app))
    arrive(connection, b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % n for n in range(3)))
    await rounds()
    assert app.begun == ["/0"]
    assert not wire.reading
    app.go.set()
    await rounds(30)
    assert app.begun == ["/0", "/1", "/2"]
    assert wire.reading
    assert [answer.status for answer in read_answers(wire.written)] == [200, 200, 200]


def test_slow_headers_time_out(one_model):
    begins = (b"", b"POST /recom", b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: ")
    with Service(one_model, "model.od", "--timeout", 1.5) as service, ThreadPoolExecutor() as pool:
        for answer in pool.map(lambda begin: raw(service, begin), begins):
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert b'"error"' in answer
