"""HTTP as the RFCs describe it: raw cases, smuggling, and comparison with another parser."""

import json
import re
import shutil
import socket
import subprocess

import h11
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offdiag.server.http.wire import Body, Malformed, parse_head
from tests.fixtures.http_cases import BODY, CASES, HIDDEN, ask, case, get, sized, without_line
from tests.fixtures.serving import until

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", CASES, ids=str)
def test_raw_requests_are_parsed_as_the_rfc_requires(service, case):
    answers, closed = ask(service.port, case)
    assert tuple(answer.status for answer in answers) == case.statuses, answers
    assert closed
    assert without_line(case, answers) == []
    assert all(answer.status == 100 or "date" in answer.headers for answer in answers)
    if case.headless:
        assert all(answer.body == b"" for answer in answers)


def test_head_gives_the_length_of_the_body(service):
    for path in ("/", "/health", "/static/app.js"):
        head, whole = service.client.head(path), service.client.get(path)
        assert (head.status_code, head.content) == (200, b"")
        assert int(head.headers["content-length"]) == len(whole.content)


def test_curl_may_offer_http2(service):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    command = ["curl", "-sS", "--http2", "-d", BODY.decode(), f"{service.url}/recommend"]
    for more in ([], ["-H", "Expect: 100-continue"], ["-H", "Transfer-Encoding: chunked"]):
        ran = subprocess.run([*command, *more], capture_output=True, text=True, timeout=30)
        assert len(json.loads(ran.stdout)["items"]) == 1, ran


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
            assert httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=60).status_code == 403
            before = asked_for_metrics(service)
            hidden = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
            head = (
                b"POST /recommend HTTP/1.1\r\nHost: localhost\r\nUpgrade: x\r\nConnection: Upgrade\r\n"
                b"Content-Length: %d\r\n\r\n" % len(hidden)
            )
            for parts in ((head, hidden), (head + hidden,)):
                ask(port, case("smuggled", (*parts, get()), 400, 200), seconds=3.0)
            assert asked_for_metrics(service) == before + 1, "the one that asks for this number"
        finally:
            proxy.terminate()


def asked_for_metrics(service):
    """How often /metrics was asked for, whatever the answer."""
    text = httpx.get(f"{service.url}/metrics", timeout=60).text
    return sum(map(int, re.findall(r'^offdiag_requests_total{path="/metrics",status="\d+"} (\d+)', text, re.M)))


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


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
def test_accepted_requests_are_parsed_the_same_by_h11(data, changes):
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
def test_the_division_of_a_body_into_packets_does_not_matter(data, draw):
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
