"""HTTP as the RFCs describe it: raw cases, smuggling, pipelined requests, limits on connections."""

import asyncio
import json
import re
import selectors
import shutil
import socket
import subprocess
import threading
from contextlib import ExitStack
from pathlib import Path

import h11
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import offdiag as od
from offdiag.server.http.connection import Connection
from offdiag.server.http.hub import SCRATCH, TURNS, Hub, source
from offdiag.server.http.wire import Body, Malformed, parse_head
from offdiag.server.limits import Limits, Turns
from offdiag.server.metrics import Counters
from offdiag.server.middleware import AT_ONCE
from tests.fixtures.http_cases import BODY, CASES, FIRST, HIDDEN, ask, case, get, read_answers, sized, without_line
from tests.fixtures.serving import Service, until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("http")
    inter = od.synthetic.interactions(200, 40, 3_000, seed=2)
    od.EASE(l2=50.0, storage="dense").fit(inter).save(place / "model.od")
    return place


@pytest.fixture(scope="module")
def service(folder):
    with Service(folder, "model.od", "--timeout", 5) as running:
        yield running
    assert "Traceback" not in running.log


@pytest.mark.parametrize("case", CASES, ids=str)
def test_raw_requests_are_read_as_the_rfc_says(service, case):
    answers, closed = ask(service.port, case)
    assert tuple(answer.status for answer in answers) == case.statuses, answers
    assert closed
    assert without_line(case, answers) == []
    assert all(answer.status == 100 or "date" in answer.headers for answer in answers)
    if case.headless:
        assert all(answer.body == b"" for answer in answers)


def test_head_says_how_long_the_body_would_be(service):
    for path in ("/", "/health", "/static/app.js"):
        head, whole = service.client.head(path), service.client.get(path)
        assert (head.status_code, head.content) == (200, b"")
        assert int(head.headers["content-length"]) == len(whole.content)


# Other programs


def test_curl_may_ask_for_http2(service):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    command = ["curl", "-sS", "--http2", "-d", BODY.decode(), f"{service.url}/recommend"]
    for more in ([], ["-H", "Expect: 100-continue"], ["-H", "Transfer-Encoding: chunked"]):
        said = subprocess.run([*command, *more], capture_output=True, text=True, timeout=30)
        assert len(json.loads(said.stdout)["items"]) == 1, said


NGINX = """
daemon off; worker_processes 1; error_log {0}/error.log; pid {0}/nginx.pid;
events {{ worker_connections 64; }}
http {{
  access_log off; client_body_temp_path {0}/a; proxy_temp_path {0}/b; fastcgi_temp_path {0}/c;
  uwsgi_temp_path {0}/d; scgi_temp_path {0}/e;
  upstream service {{ server 127.0.0.1:{1}; keepalive 4; }}
  server {{
    listen 127.0.0.1:{2};
    proxy_http_version 1.1; proxy_request_buffering off;
    proxy_set_header Host localhost; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade";
    location = /metrics {{ deny all; }}
    location / {{ proxy_pass http://service; }}
  }}
}}
"""


def test_no_request_is_smuggled_past_a_proxy(service, tmp_path):
    """With the usual configuration for WebSocket, a body reached the path that the proxy denies."""
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "nginx.conf").write_text(NGINX.format(tmp_path, service.port, port))
    command = ["nginx", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as proxy:
        try:
            until(lambda: listens(port))
            assert httpx.get(f"http://127.0.0.1:{port}/metrics").status_code == 403
            before = requests_to(service, "/metrics")
            hidden = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
            head = (
                b"POST /recommend HTTP/1.1\r\nHost: localhost\r\nUpgrade: x\r\nConnection: Upgrade\r\n"
                b"Content-Length: %d\r\n\r\n" % len(hidden)
            )
            for parts in ((head, hidden), (head + hidden,)):
                ask(port, case("smuggled", (*parts, get()), 400, 200), seconds=3.0)
            assert requests_to(service, "/metrics") == before + 1, "the one that asks for this number"
        finally:
            proxy.terminate()


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def requests_to(service, path):
    text = service.client.get("/metrics").text
    return sum(int(n) for n in re.findall(rf'requests_total{{path="{path}",status="\d+"}} (\d+)', text))


# Compared with another parser: h11 is strict, too, and nothing that it rejects may pass here


def by_h11(data):
    """(method, target, headers, body) of one request, or None if it is rejected or incomplete."""
    reader = h11.Connection(h11.SERVER)
    reader.receive_data(data)
    try:
        head = reader.next_event()
        if not isinstance(head, h11.Request):
            return None
        body = b""
        while not isinstance(event := reader.next_event(), h11.EndOfMessage):
            if not isinstance(event, h11.Data):
                return None
            body += bytes(event.data)
    except h11.RemoteProtocolError:
        return None
    return head.method, head.target, [(bytes(n), bytes(v)) for n, v in head.headers], body, reader.trailing_data[0]


def by_us(data):
    head, end, rest = data.partition(b"\r\n\r\n")
    if not end:
        return None
    try:
        parsed = parse_head(head)
        body, buffer = Body(parsed.length, 1 << 20), bytearray(rest)
        content = body.take(buffer)
    except Malformed:
        return None
    if not body.done:
        return None
    target = parsed.raw_path + (b"?" + parsed.query if b"?" in head.partition(b"\r\n")[0] else b"")
    return parsed.method.encode(), target, parsed.headers, content, bytes(buffer)


seeds = [
    part
    for one in CASES
    for part in [b"".join(one.parts)]
    if len(part) < 2_000 and b"://" not in part.partition(b"\r")[0] and b"HTTP/1.2" not in part and part[:1] != b"\r"
]


@given(st.sampled_from(seeds), st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=3), st.integers(0, 2))))
def test_what_is_read_here_is_read_the_same_by_h11(data, changes):
    """Requests of the table, damaged at random."""
    for at, new, gone in changes:
        at %= len(data) + 1
        data = data[:at] + new + data[at + gone :]
    ours = by_us(data)
    line = data.partition(b"\r")[0]
    if ours is None or b"://" in line or line[-3:] not in (b"1.0", b"1.1"):
        return  # h11 leaves absolute targets and other minor versions to its user
    theirs = by_h11(data)
    assert theirs is not None, data
    assert ours[:2] == theirs[:2]
    assert [(name, value.lower()) for name, value in ours[2]] == [(name, value.lower()) for name, value in theirs[2]]
    assert ours[3:] == theirs[3:]


@given(st.sampled_from([sized(then=HIDDEN), *(b"".join(one.parts) for one in CASES if "chunk" in one.name)]), st.data())
def test_how_a_body_is_cut_into_packets_does_not_matter(data, draw):
    head, _, rest = data[:3000].partition(b"\r\n\r\n")
    try:
        length = parse_head(head).length
    except Malformed:
        return

    def read(pieces):
        body, buffer, content = Body(length, 1 << 20), bytearray(), b""
        try:
            for piece in pieces:
                buffer += piece
                content += body.take(buffer)
        except Malformed:
            return None
        return content, bytes(buffer), body.done

    cuts = sorted(draw.draw(st.lists(st.integers(0, len(rest)), max_size=6)))
    pieces = [rest[a:b] for a, b in zip([0, *cuts], [*cuts, len(rest)], strict=True)]
    assert read(pieces) == read([rest])


# Pipelined requests


def memory(pid):
    status = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"^Pss_Anon:\s+(\d+)", status, re.M)[1]) / 1024


@pytest.mark.parametrize("line", [FIRST, sized(then=b"")], ids=["GET", "POST"])
def test_a_flood_of_requests_sent_ahead_stays_with_its_clients(service, line):
    """200 connections send 60 MB and read nothing: the service keeps its size and answers others."""
    service.client.get("/health")
    before = memory(service.process.pid)
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
        assert memory(service.process.pid) - before < 100, "MB"
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


class Wire:
    """A transport that records what is written, and whether it is read from."""

    def __init__(self, address="192.0.2.1"):
        self.written, self.reading, self.closed, self.address = b"", True, False, address

    def get_extra_info(self, name):
        return (self.address, 1234)

    def write(self, data):
        self.written += data

    def is_closing(self):
        return self.closed

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def write_eof(self):
        pass

    def close(self):
        self.closed = True

    abort = close


def connected(hub, **words):
    connection, wire = Connection(hub), Wire(**words)
    connection.connection_made(wire)
    return connection, wire


def arrive(connection, data):
    SCRATCH[: len(data)] = data
    connection.buffer_updated(len(data))


class Application:
    """Answers when the test allows it."""

    def __init__(self):
        self.begun, self.go = [], asyncio.Event()

    async def __call__(self, scope, receive, send):
        self.begun.append(scope["path"])
        await self.go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})


async def rounds(n=10):
    for _ in range(n):
        await asyncio.sleep(0)


def test_one_request_at_a_time_is_begun_and_the_rest_not_read():
    async def run():
        app = Application()
        hub = Hub(app, Limits(), Counters())
        connection, wire = connected(hub)
        lines = [b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % n for n in range(3)]
        arrive(connection, b"".join(lines))
        await rounds()
        assert app.begun == ["/0"]
        assert not wire.reading
        app.go.set()
        await rounds(30)
        assert app.begun == ["/0", "/1", "/2"]
        assert wire.reading
        assert [answer.status for answer in read_answers(wire.written)] == [200, 200, 200]

    asyncio.run(run())


def test_requests_sent_ahead_take_turns_and_others_do_not_wait():
    async def run():
        app = Application()
        hub = Hub(app, Limits(), Counters())
        line = b"GET /ahead HTTP/1.1\r\nHost: a\r\n\r\n"
        ahead = [connected(hub)[0] for _ in range(5 * TURNS)]
        for one in ahead:
            arrive(one, line * 3)
        await rounds()
        app.begun.clear()
        app.go.set()
        await rounds(1)
        app.go.clear()  # the first of each are answered; only some of the second may begin
        await rounds()
        assert app.begun.count("/ahead") == TURNS
        other, _ = connected(hub)
        arrive(other, b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n")
        await rounds(2)
        assert "/other" in app.begun
        app.go.set()
        await rounds(200)
        assert app.begun.count("/ahead") == 2 * len(ahead)

    asyncio.run(run())


def test_a_large_body_waits_with_the_client_until_it_is_asked_for():
    async def run():
        app = Application()  # never asks for the body
        hub = Hub(app, Limits(), Counters())
        connection, wire = connected(hub)
        arrive(connection, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")
        sent = 0
        while wire.reading and sent < 1_000_000:
            arrive(connection, b"x" * 50_000)
            sent += 50_000
        assert sent <= 150_000

    asyncio.run(run())


# Limits on connections


def test_connections_are_limited_in_total_and_per_address(folder):
    with Service(folder, "model.od", "--max-connections", 6, "--max-per-address", 4) as service, ExitStack() as stack:
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
        until(lambda: httpx.get(f"{service.url}/health").status_code == 200)
        text = httpx.get(f"{service.url}/metrics").text
        assert int(re.search(r"offdiag_connections_refused_total (\d+)", text)[1]) >= 2


def test_addresses_of_one_customer_count_as_one():
    assert source("192.0.2.7") == source("::ffff:192.0.2.7") == "192.0.2.7"
    assert source("2001:db8:1:2::3") == source("2001:db8:1:2:ffff::1%eth0") != source("2001:db8:1:3::3")


def test_who_is_turned_away_without_end_gets_no_reason():
    async def run():
        hub = Hub(Application(), Limits(connections=1), Counters())
        connected(hub)
        wires = [connected(hub)[1] for _ in range(100)]
        assert wires[0].written.startswith(b"HTTP/1.1 503 ")
        assert wires[-1].written == b""
        assert wires[-1].closed

    asyncio.run(run())


def test_newcomers_do_not_wait_behind_busy_connections(service):
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


def test_without_free_files_accepting_is_tried_again_later():
    async def run():
        hub = Hub(Application(), Limits(), Counters())
        with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()):
            listener.setblocking(False)
            full = Full(listener)
            hub.listen(full, lambda: Connection(hub))
            await asyncio.sleep(0.05)
            assert full.calls == 1, "no busy waiting"
            for _ in range(100):
                await asyncio.sleep(0.02)
                if hub.connections:
                    break
            assert len(hub.connections) == 1
            asyncio.get_running_loop().remove_reader(listener.fileno())
        await hub.close(0)

    asyncio.run(run())


def test_an_answer_that_is_too_short_ends_the_connection():
    async def short(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
        await send({"type": "http.response.body", "body": b"half"})

    async def run():
        hub = Hub(short, Limits(), Counters())
        connection, wire = connected(hub)
        arrive(connection, FIRST)
        await rounds()
        assert wire.closed

    asyncio.run(run())


# Turns


def test_turns_are_taken_in_order_and_given_back_by_who_gives_up():
    async def run():
        turns, order = Turns(2), []

        async def work(name, wait):
            async with turns:
                order.append(name)
                await wait.wait()

        go = asyncio.Event()
        tasks = [asyncio.create_task(work(n, go)) for n in range(6)]
        await rounds()
        assert order == [0, 1]
        tasks[2].cancel()
        go.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert order == [0, 1, 3, 4, 5]
        async with turns, turns:
            pass

    asyncio.run(run())
    assert AT_ONCE > TURNS, "requests sent ahead never take all places"
