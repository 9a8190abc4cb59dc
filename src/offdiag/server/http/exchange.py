"""One request and its answer, as ASGI sees them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from starlette.types import Message

from offdiag.server.http.wire import Body, Head, Malformed
from offdiag.server.replies import status_line

if TYPE_CHECKING:
    from offdiag.server.http.connection import Connection
    from offdiag.server.http.hub import Hub

LOG = logging.getLogger("offdiag.server")
ASGI = {"version": "3.0", "spec_version": "2.3"}
NO_BODY = (204, 304)  # statuses of answers without a body


class Exchange:
    __slots__ = (
        "_arrived", "_connection", "_delivered", "_head", "_hub", "_left", "_lost", "_pending", "_problem",
        "_wakeup", "_wants_continue", "body", "complete", "keep_alive",
    )  # fmt: skip

    def __init__(self, connection: Connection, head: Head, hub: Hub) -> None:
        self._connection, self._head, self._hub = connection, head, hub
        self.keep_alive = head.keep_alive
        self.body = Body(head.length, hub.limits.body)
        self._arrived = bytearray()  # part of the body, not yet passed on
        self._delivered = False  # the body has been passed on to its end
        self._lost = False  # the client has gone
        self._problem: Malformed | None = None  # what is wrong with the body
        self._wants_continue = head.expects_continue
        self._wakeup: asyncio.Future[None] | None = None
        self._pending = b""  # the head of the answer, held back until its body is available
        self._left: int | None = None  # bytes of the answer still to be sent; None: until the connection closes
        self.complete = False

    def feed(self, buffer: bytearray) -> int:
        """Take a part of the body from the buffer; returns how many bytes wait for the application."""
        try:
            self._arrived += self.body.take(buffer)
        except Malformed as problem:
            self._problem = problem
            raise
        finally:
            self._wake()
        return len(self._arrived)

    def disconnect(self) -> None:
        self._lost = True
        self._wake()

    def _wake(self) -> None:
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)

    async def run(self) -> None:
        head, connection = self._head, self._connection
        scope = {
            "type": "http", "asgi": ASGI, "http_version": head.version, "method": head.method, "scheme": "http",
            "path": head.path, "raw_path": head.raw_path, "query_string": head.query, "root_path": "",
            "headers": head.headers, "client": connection.client, "server": connection.server,
        }  # fmt: skip
        try:
            await self._hub.app(scope, self.receive, self.send)
        except Exception:
            LOG.exception("a request failed")
        if not self.complete and not self._lost:
            connection.abort()  # only closing the connection shows the client that the answer is incomplete

    async def receive(self) -> Message:
        while not (self._lost or self.complete):
            if self._problem is not None:
                raise self._problem
            more = not self.body.done
            if self._arrived or not (more or self._delivered):
                data, self._arrived = bytes(self._arrived), bytearray()
                self._delivered = not more
                if more:
                    self._connection.resume_reading()
                return {"type": "http.request", "body": data, "more_body": more}
            if self._wants_continue:
                self._wants_continue = False
                self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._wakeup = asyncio.get_running_loop().create_future()
            await self._wakeup
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        while self._connection.drained is not None:
            await asyncio.shield(self._connection.drained)
        if self._lost or self.complete:
            return
        if message["type"] == "http.response.start":
            self._pending = self._start(message)
            return
        body = message.get("body", b"")
        if self._left is not None:
            body = body[: self._left]
            self._left -= len(body)
        if self._pending or body:  # head and body in one packet
            self._connection.write(self._pending + body)
            self._pending = b""
        if not message.get("more_body", False):
            if self._left:
                raise RuntimeError("an answer is shorter than its content-length")
            self.complete = True
            self._connection.finish(self)

    def _start(self, message: Message) -> bytes:
        status, headers = message["status"], message.get("headers", [])
        self._wants_continue = False
        lines = [status_line(status), b"date: ", self._hub.date, b"\r\n"]
        for name, value in headers:
            lines += (name, b": ", value, b"\r\n")
            if name == b"content-length":
                self._left = int(value)
            elif name == b"connection" and value == b"close":
                self.keep_alive = False
        if self._head.method == "HEAD" or status in NO_BODY:
            self._left = 0
        if self._left is None or not self.body.done:
            self.keep_alive = False  # the answer ends when the connection closes, or the body is not fully read
        unsaid = not self.keep_alive and (b"connection", b"close") not in headers
        lines.append(b"connection: close\r\n\r\n" if unsaid else b"\r\n")
        start = b"".join(lines)
        if start.count(b"\n") != len(headers) + 3 + unsaid:
            raise RuntimeError("a header of an answer holds a line end")
        return start
