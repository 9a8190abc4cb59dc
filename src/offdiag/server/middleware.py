"""Checks and records for every request: host name, token, limits on size and time, counters and the access log."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import logging
import os
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import InitVar, dataclass

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from offdiag.server.batching import BATCH
from offdiag.server.limits import Limits, Refusal, Turns
from offdiag.server.metrics import PATHS, Counters
from offdiag.server.replies import error
from offdiag.server.store import Store

AT_ONCE = 2 * BATCH  # questions in progress: one batch is ranked while the next is parsed; others wait, bodies received
LOG = logging.getLogger("offdiag.server")
OPEN = ("/", "/static", "/health", "/docs", "/openapi.json")  # need no token: they reveal nothing about the data
_KNOWN = frozenset(PATHS) - {"unknown"}


@dataclass(eq=False)
class Middleware:
    """An ASGI application that wraps another."""

    app: ASGIApp
    counters: Counters
    limits: Limits
    token: InitVar[str | None]
    access_log: Callable[[str], None] | None
    store: Store
    hosts: frozenset[str] | None
    lifespan: Callable[[], AbstractAsyncContextManager[None]]  # for a server without the lifespan protocol of ASGI
    receiving: int = 0  # bytes of large bodies

    def __post_init__(self, token: str | None) -> None:
        self._token = None if token is None else b"bearer " + token.encode()
        self._turns = Turns(AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = time.perf_counter()
        path = _path_name(scope["path"])
        answer = _Answer(send, bodiless=scope["method"] == "HEAD")
        self.counters.begin()
        try:
            await self._forward(scope, path, receive, answer)
        finally:
            seconds = time.perf_counter() - begun
            status = answer.status or 499  # the client disconnected
            self.counters.end(path, status, seconds)
            if self.access_log is not None:
                self.access_log(_log_line(scope, path, status, seconds))

    async def _forward(self, scope: Scope, path: str, receive: Receive, answer: _Answer) -> None:
        body = _Body(receive, self)
        try:
            self._admit(scope, path)
            if scope["path"] == "*" and scope["method"] == "OPTIONS":  # [RFC 9110, 9.3.7]
                await Response(status_code=204, headers={"allow": "GET, HEAD, POST, OPTIONS"})(scope, receive, answer)
                return
            async with asyncio.timeout(self.limits.seconds):
                if scope["method"] == "POST":
                    await body.read()
                    async with self._turns:  # questions take time on the event loop; everything else must stay prompt
                        await self.app(scope, body, answer)
                else:
                    if answer.bodiless:  # HEAD: like GET, without the body [RFC 9110, 9.3.2]
                        scope = {**scope, "method": "GET"}
                    await self.app(scope, receive, answer)
        except Refusal as refusal:  # raised only outside the application, which handles its own errors
            problem = refusal
        except TimeoutError:
            whole = body.whole or scope["method"] != "POST"
            status, what = (504, "it took too long") if whole else (408, "the body arrived too slowly")
            problem = Refusal(status, f"{what}: at most {self.limits.seconds:g} s", connection="close")
        except Exception:
            LOG.exception("a request to %s failed", path)
            problem = Refusal(500, "something went wrong here; the log of the service says what")
        else:
            return
        finally:
            body.release()
        if answer.status is None:
            await error(problem.status, problem.text, **problem.headers)(scope, receive, answer)

    def _admit(self, scope: Scope, path: str) -> None:
        headers = dict(scope["headers"])
        if self.hosts is not None and not _is_own_host(headers.get(b"host"), self.hosts):
            raise Refusal(
                400, "this service does not answer to that host name; use localhost, or start it with --allow-host and "
                "the name that clients use", connection="close",
            )  # fmt: skip
        if self._token is not None and path not in OPEN:
            given = headers.get(b"authorization", b"")
            given = given[:7].lower() + given[7:].strip()
            if not hmac.compare_digest(given, self._token):
                raise Refusal(
                    401, "this service needs a token: send the header Authorization: Bearer TOKEN",
                    www_authenticate="Bearer",
                )  # fmt: skip
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self.limits.body:
            raise _too_large(self.limits.body)


class _Answer:
    """``send`` that records the status."""

    def __init__(self, send: Send, bodiless: bool) -> None:
        self._send = send
        self.status: int | None = None
        self.bodiless = bodiless

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif self.bodiless:
            message = {**message, "body": b""}
        await self._send(message)


class _Body:
    """The whole body of a question, within the limits, whether or not its length was announced.

    A small body is always received. Bytes beyond that count towards a limit on all requests together, so that many
    large bodies at once are bounded, too.
    """

    def __init__(self, receive: Receive, middleware: Middleware) -> None:
        self._receive, self._middleware = receive, middleware
        self._parts: list[bytes] = []
        self._large = 0
        self.whole = False

    async def read(self) -> None:
        limits, seen = self._middleware.limits, 0
        while not self.whole:
            message = await self._receive()
            if message["type"] != "http.request":
                raise Refusal(499, "the client went away")  # never sent, only counted
            part = message.get("body", b"")
            seen += len(part)
            if seen > limits.body:
                raise _too_large(limits.body)
            if seen > limits.SMALL:
                self._hold(seen - limits.SMALL)
            self._parts.append(part)
            self.whole = not message.get("more_body", False)

    async def __call__(self) -> Message:
        """What the application receives: the whole body at once."""
        if not self._parts:
            return await self._receive()
        body, self._parts = b"".join(self._parts), []
        return {"type": "http.request", "body": body, "more_body": False}

    def _hold(self, large: int) -> None:
        self._middleware.receiving += large - self._large
        self._large = large
        if self._middleware.receiving > self._middleware.limits.large:
            text = "too many large requests at once; try again in a moment"
            raise Refusal(503, text, retry_after="1", connection="close")

    def release(self) -> None:
        self._middleware.receiving -= self._large
        self._large = 0


def _is_own_host(host: bytes | None, names: frozenset[str]) -> bool:
    """Whether a browser that sends this means this machine, not a foreign name that resolves to it."""
    if host is None:
        return True  # not a browser
    text = host.decode("latin-1").strip().lower()
    name = text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0].rstrip(".")
    if name in names or name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _too_large(most: int) -> Refusal:
    return Refusal(413, f"the body is larger than {most} bytes; send less", connection="close")


def _path_name(path: str) -> str:
    """The path as it is counted and logged: never a path invented by a client."""
    if path in _KNOWN:
        return path
    return "/static" if path.startswith("/static/") else "unknown"


def _log_line(scope: Scope, path: str, status: int, seconds: float) -> str:
    """One request as JSON, without histories, ids, queries or tokens."""
    return json.dumps({
        "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime())}Z",
        "method": scope["method"] if scope["method"].isalpha() else "?",
        "path": path,
        "status": status,
        "ms": round(1000 * seconds, 2),
        "items": scope.get("offdiag.items"),
        "process": os.getpid(),
    })  # fmt: skip
