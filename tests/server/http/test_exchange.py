"""One request and its answer: neither is held in memory while the other side does not read it."""

from tests.fixtures.connections import Application, arrive, connect, make_hub, rounds
from tests.fixtures.http_cases import FIRST


async def test_a_large_body_stays_with_the_client_until_it_is_read():
    connection, wire = connect(make_hub(Application()))  # never asks for the body
    arrive(connection, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")
    sent = 0
    while wire.reading and sent < 1_000_000:
        arrive(connection, b"x" * 50_000)
        sent += 50_000
    assert sent <= 150_000


async def test_an_answer_waits_for_a_client_that_does_not_read():
    app = Application()
    connection, wire = connect(make_hub(app))
    arrive(connection, FIRST)
    connection.pause_writing()
    app.go.set()
    await rounds()
    assert wire.written == b""
    connection.resume_writing()
    await rounds()
    assert wire.written.startswith(b"HTTP/1.1 200 ")


async def test_an_answer_that_is_too_short_closes_the_connection():
    async def short(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
        await send({"type": "http.response.body", "body": b"half"})

    connection, wire = connect(make_hub(short))
    arrive(connection, FIRST)
    await rounds()
    assert wire.closed
