"""All connections of a process: their number, their turns, and how they are accepted."""

import asyncio
import json
import selectors
import socket
import threading
from contextlib import ExitStack

import httpx
import pytest

from offdiag.server.http.hub import TURNS, source
from tests.fixtures.connections import Application, arrive, connect, make_hub, rounds
from tests.fixtures.http_cases import FIRST, read_answers, sized
from tests.fixtures.serving import Service, metric, until

pytestmark = pytest.mark.slow


async def test_pipelined_requests_take_turns_and_others_do_not_wait():
    app = Application()
    hub = make_hub(app)
    line = b"GET /ahead HTTP/1.1\r\nHost: a\r\n\r\n"
    ahead = [connect(hub)[0] for _ in range(5 * TURNS)]
    for one in ahead:
        arrive(one, line * 3)
    await rounds()
    app.begun.clear()
    app.go.set()
    await rounds(1)
    app.go.clear()  # the first of each are answered; only some of the second may begin
    await rounds()
    assert app.begun.count("/ahead") == TURNS
    other, _ = connect(hub)
    arrive(other, b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n")
    await rounds(2)
    assert "/other" in app.begun
    app.go.set()
    await rounds(200)
    assert app.begun.count("/ahead") == 2 * len(ahead)


def test_connections_are_limited_in_total_and_per_address(one_model):
    with (
        Service(one_model, "model.od", "--max-connections", 6, "--max-per-address", 4) as service,
        ExitStack() as stack,
    ):
        service.client.close()

        def connect(address="127.0.0.1"):
            plain = stack.enter_context(
                socket.create_connection(("127.0.0.1", service.port), source_address=(address, 0), timeout=20)
            )
            plain.sendall(FIRST)
            (answer,) = read_answers(plain.recv(1 << 16))
            return plain, answer

        held = [connect() for _ in range(4)]
        assert {answer.status for _, answer in held} == {200}
        _, refused = connect()
        assert refused.status == 503
        assert refused.headers["retry-after"] == "1"
        assert refused.headers["connection"] == "close"
        assert list(json.loads(refused.body)) == ["error"]
        held += [connect("127.0.0.2") for _ in range(2)]
        assert {answer.status for _, answer in held} == {200}, "another address has room"
        assert connect("127.0.0.3")[1].status == 503, "until all is taken"
        for plain, _ in held[:2]:
            plain.close()
        until(lambda: httpx.get(f"{service.url}/health", timeout=60).status_code == 200)
        assert metric(service, "offdiag_connections_refused_total") >= 2


def test_addresses_of_one_customer_count_as_one():
    assert source("192.0.2.7") == source("::ffff:192.0.2.7") == "192.0.2.7"
    assert source("2001:db8:1:2::3") == source("2001:db8:1:2:ffff::1%eth0") != source("2001:db8:1:3::3")


async def test_too_many_refused_connections_are_closed_silently():
    hub = make_hub(Application(), connections=1)
    connect(hub)
    wires = [connect(hub)[1] for _ in range(100)]
    assert wires[0].written.startswith(b"HTTP/1.1 503 ")
    assert wires[-1].written == b""
    assert wires[-1].closed


def test_new_connections_do_not_wait_behind_busy_ones(service):
    """Measured in answers that others get meanwhile, which does not depend on the speed of the machine."""
    chosen, answers, stop = selectors.DefaultSelector(), [0], threading.Event()
    line = sized(then=b"")

    def keep_busy():
        while not stop.is_set():
            for key, _ in chosen.select(0.1):
                if key.fileobj.recv(1 << 16):
                    answers[0] += 1
                    key.fileobj.sendall(line)

    opened = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(256)]
    for plain in opened:
        plain.sendall(line)
        chosen.register(plain, selectors.EVENT_READ)
    worker = threading.Thread(target=keep_busy)
    worker.start()
    waited = []
    try:
        for _ in range(5):
            before = answers[0]
            assert httpx.get(f"{service.url}/health", timeout=60).status_code == 200
            waited.append(answers[0] - before)
    finally:
        stop.set()
        worker.join()
        for plain in opened:
            plain.close()
    assert max(waited) < 10 * 256, waited


class Full:
    """A listener that at first has no free file descriptors."""

    def __init__(self, listener):
        self.fileno, self._accept, self.calls = listener.fileno, listener.accept, 0

    def accept(self):
        self.calls += 1
        if self.calls == 1:
            raise OSError(24, "Too many open files")
        return self._accept()


async def test_without_free_descriptors_accepting_is_retried():
    hub = make_hub(Application())
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()):
        listener.setblocking(False)
        full = Full(listener)
        hub.listen(full)
        await asyncio.sleep(0.05)
        assert full.calls == 1, "no busy waiting"
        for _ in range(100):
            await asyncio.sleep(0.02)
            if hub.connections:
                break
        assert len(hub.connections) == 1
        asyncio.get_running_loop().remove_reader(listener.fileno())
    await hub.close(0)
