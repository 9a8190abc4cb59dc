"""How bytes become requests: uvicorn's parser, with bounds on headers and one form of error."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from offdiag.server.limits import Limits
from offdiag.server.replies import json_bytes


def bounded(limits: Limits) -> type[HttpToolsProtocol]:
    """A protocol that does not wait for ever for the headers of a request, nor read any number of them."""

    class Bounded(HttpToolsProtocol):
        _waiting: asyncio.TimerHandle | None = None
        _header_bytes = 0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._expect()

        def connection_lost(self, exc: Exception | None) -> None:
            self._expected()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._waiting is None and (self.cycle is None or self.cycle.response_complete):
                self._expect()  # the next request on a connection that is kept
            super().data_received(data)

        def on_message_begin(self) -> None:
            self._header_bytes = 0
            super().on_message_begin()

        def on_url(self, url: bytes) -> None:
            super().on_url(url)
            self._count(len(url))

        def on_header(self, name: bytes, value: bytes) -> None:
            super().on_header(name, value)
            self._count(len(name) + len(value))

        def on_headers_complete(self) -> None:
            self._expected()
            super().on_headers_complete()

        def send_400_response(self, msg: str) -> None:
            self._refuse(400, "this is no HTTP request; check the client")

        def _count(self, size: int) -> None:
            self._header_bytes += size
            if self._header_bytes > limits.headers:
                raise ValueError("too many headers")  # the parser stops and asks for send_400_response

        def _expect(self) -> None:
            self._waiting = self.loop.call_later(limits.seconds, self._too_slow)

        def _expected(self) -> None:
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None

        def _too_slow(self) -> None:
            self._waiting = None
            if not self.transport.is_closing():
                self._refuse(408, f"the headers came too slowly: at most {limits.seconds:g} s")

        def _refuse(self, status: int, text: str) -> None:
            body = json_bytes({"error": text})
            head = [
                STATUS_LINE[status],
                b"content-type: application/json\r\nconnection: close\r\n",
                b"content-length: %d\r\n\r\n" % len(body),
            ]
            self.transport.write(b"".join([*head, body]))
            self.transport.close()

    return Bounded
