"""One connection: parses bytes into requests, one at a time, and writes the answers.

While a request is being answered, nothing more is read from its connection. A client that sends requests without
waiting for answers (pipelining) therefore fills its own buffers, not those of the service. Pipelined requests of all
clients take turns; clients that wait for their answers never queue behind them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from offdiag.server.http.exchange import Exchange
from offdiag.server.http.wire import BLANK_LINES, Malformed, check_beginning, parse_head
from offdiag.server.replies import json_bytes, status_line

if TYPE_CHECKING:
    from offdiag.server.http.hub import Hub

SCRATCH = memoryview(bytearray(64 << 10))  # shared by all reads, which never overlap
KEEP_ALIVE = 75.0  # seconds that an idle connection is kept
LINGER = 1.0  # seconds for a client to stop sending and read why it was refused
LINGER_BYTES = 1 << 20  # bytes it may still send in that time
HIGH_WATER = 64 << 10  # bytes of a body that may wait for the application
NEVER = float("inf")


class Connection(asyncio.BufferedProtocol):
    write: Callable[[bytes], None]  # of the transport, like ``abort``
    abort: Callable[[], None]

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._transport: Any = None
        self._buffer = bytearray()  # read, but not yet part of a request
        self._searched = 0  # bytes of it already searched for the end of a head
        self._exchange: Exchange | None = None
        self._reading = True
        self.drained: asyncio.Future[None] | None = None  # while the client does not read its answers
        self._has_turn = False
        self._discarded = -1  # bytes dropped after the last answer; -1: the connection is still in use
        self._on_deadline: Callable[[], None] | None = None
        self.deadline = NEVER
        self.address = ""
        self.client: tuple[str, int] | None = None
        self.server: tuple[str, int] | None = None

    # Called by the transport

    def connection_made(self, transport: Any) -> None:
        self._transport, self.write, self.abort = transport, transport.write, transport.abort
        peer, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        self.client = (peer[0], peer[1]) if peer else None
        self.server = (own[0], own[1]) if own else None
        if self._hub.enter(self):
            self._set_deadline(self._hub.limits.seconds, self._too_slow)
        elif self._hub.may_linger(self):
            self._refuse(503, "too many connections are open; try again in a moment", b"retry-after: 1\r\n")
        else:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._hub.leave(self)
        self._end_turn()
        if self._exchange is not None:
            self._exchange.disconnect()
        self.resume_writing()
        self.deadline = NEVER

    def get_buffer(self, sizehint: int) -> memoryview:
        return SCRATCH

    def buffer_updated(self, nbytes: int) -> None:
        if self._discarded >= 0:
            self._discarded += nbytes
            if self._discarded > LINGER_BYTES:
                self.abort()
            return
        self._buffer += SCRATCH[:nbytes]
        self._advance()

    def eof_received(self) -> bool:
        """A client may close its side after the last request and still read the answer."""
        if self._exchange is None or not self._exchange.body.done:
            return False
        self._exchange.keep_alive = False
        return True

    def pause_writing(self) -> None:
        self.drained = asyncio.get_running_loop().create_future()
        self._set_deadline(self._hub.limits.seconds, self.abort)

    def resume_writing(self) -> None:
        if self._discarded < 0:
            idle = self._exchange is None
            self._set_deadline(KEEP_ALIVE if idle else NEVER, self._transport.close if idle else None)
        if self.drained is not None:
            self.drained.set_result(None)
            self.drained = None

    # Requests

    def _advance(self) -> None:
        if self._exchange is None:
            self._begin()
        elif not self._exchange.body.done:
            self._receive(self._exchange)
        if self._buffer and self._exchange is not None and self._exchange.body.done:
            self._pause()  # pipelined: the rest stays with the client until this one is answered

    def _begin(self) -> None:
        """Start a request if its head has arrived."""
        buffer, most = self._buffer, self._hub.limits.headers
        for _ in range(BLANK_LINES):
            if buffer.startswith(b"\r\n"):
                del buffer[:2]
        if not buffer:
            return
        end = buffer.find(b"\r\n\r\n", max(self._searched - 3, 0))
        try:
            if (len(buffer) if end < 0 else end) > most:
                raise Malformed(400, f"the headers are too long: at most {most} bytes")
            if end < 0:
                self._searched = len(buffer)
                if self._on_deadline != self._too_slow:
                    self._set_deadline(self._hub.limits.seconds, self._too_slow)
                check_beginning(bytes(buffer))
                return
            head = parse_head(bytes(buffer[:end]))
        except Malformed as problem:
            self._refuse(problem.status, problem.text)
            return
        del buffer[: end + 4]
        self._searched = 0
        self._set_deadline(NEVER)
        self._exchange = Exchange(self, head, self._hub)
        self._receive(self._exchange)
        self._hub.start(self._exchange.run())

    def _receive(self, exchange: Exchange) -> None:
        """Pass the received part of a body to its request."""
        try:
            waiting = exchange.feed(self._buffer)
        except Malformed:
            self._buffer.clear()
            self._discarded = 0  # the start of the next request is unknown
            return
        if waiting > HIGH_WATER and not exchange.body.done:
            self._pause()

    def finish(self, exchange: Exchange) -> None:
        """The answer is complete: continue with the next request, or close."""
        self._exchange = None
        self._end_turn()
        if not (exchange.keep_alive and exchange.body.done) or self._hub.closing:
            self._close(linger=not exchange.body.done or bool(self._buffer))
        elif self._buffer:
            self._hub.queue(self)
        else:
            if self.drained is None:
                self._set_deadline(KEEP_ALIVE, self._transport.close)
            self.resume_reading()

    def take_turn(self) -> None:
        """The pipelined request of this connection may start now."""
        self._has_turn = True
        if not self._transport.is_closing():
            self.resume_reading()
            self._advance()
        if self._exchange is None:
            self._end_turn()  # the client has gone, or the request is still incomplete

    def _end_turn(self) -> None:
        if self._has_turn:
            self._has_turn = False
            self._hub.end_turn()

    def shutdown(self) -> None:
        """Accept no further request; one that has started is still answered."""
        if self._exchange is not None:
            self._exchange.keep_alive = False
        elif self._discarded < 0:
            self._close(linger=False)

    # Answers

    def _refuse(self, status: int, text: str, headers: bytes = b"") -> None:
        """Answer a request that never reaches the application, and close."""
        body = json_bytes({"error": text})
        head = b"%bdate: %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n%bconnection: close\r\n\r\n"
        self.write(head % (status_line(status), self._hub.date, len(body), headers) + body)
        self._hub.counters.begin()
        self._hub.counters.end("unknown", status, 0.0)
        self._close(linger=True)

    def _close(self, linger: bool) -> None:
        """Closing while the client still sends would destroy the answer in transit, so the rest is read and dropped."""
        self._discarded = 0
        self._set_deadline(LINGER if self.drained is None else self._hub.limits.seconds, self.abort)
        if linger and not self._transport.is_closing():
            self._buffer.clear()
            self._transport.write_eof()
            self.resume_reading()
        else:
            self._transport.close()

    # Time and flow

    def resume_reading(self) -> None:
        if not self._reading and not self._transport.is_closing():
            self._reading = True
            self._transport.resume_reading()

    def _pause(self) -> None:
        if self._reading and not self._transport.is_closing():
            self._reading = False
            self._transport.pause_reading()

    def _set_deadline(self, seconds: float, otherwise: Callable[[], None] | None = None) -> None:
        self._on_deadline = otherwise
        self.deadline = self._hub.now() + seconds

    def expire(self) -> None:
        """The deadline has passed."""
        act, self._on_deadline, self.deadline = self._on_deadline, None, NEVER
        if act is not None:
            act()

    def _too_slow(self) -> None:
        self._refuse(408, f"the headers arrived too slowly: at most {self._hub.limits.seconds:g} s")
