"""What the connections of one process share: the application, limits on their number, deadlines and turns."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections import Counter, deque
from collections.abc import Coroutine
from contextlib import suppress
from email.utils import formatdate
from typing import Any

from starlette.types import ASGIApp

from offdiag.server.http.connection import Connection
from offdiag.server.limits import Limits
from offdiag.server.metrics import Counters

NEW_AT_ONCE = 32  # connections accepted in one round of the event loop
TURNS = 8  # pipelined requests in progress on all connections together
LINGERING = 64  # refused connections that may be sent a reason at the same time; others are just closed
LOOK = 0.25  # most seconds between two checks of the deadlines


class Hub:
    def __init__(self, app: ASGIApp, limits: Limits, counters: Counters) -> None:
        self.app, self.limits, self.counters = app, limits, counters
        self.connections: set[Connection] = set()
        self.closing = False
        self._refused: set[Connection] = set()
        self._per_address: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._pipelined: deque[Connection] = deque()  # connections whose next request was pipelined
        self._turns = 0
        self._loop = asyncio.get_running_loop()
        self.now = self._loop.time
        self.date = b""
        self._every = min(LOOK, limits.seconds / 4)
        self._look()

    # Connections

    def listen(self, listener: socket.socket) -> None:
        if not self.closing:
            self._loop.add_reader(listener.fileno(), self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        """Accept all waiting connections, up to a limit that leaves some for other processes.

        Not ``loop.create_server``: uvloop accepts one per round, and with many busy clients a round is long.
        """
        for _ in range(NEW_AT_ONCE):
            try:
                plain, _ = listener.accept()
            except BlockingIOError:  # no more are waiting
                return
            except ConnectionError:  # the client has already gone
                continue
            except OSError:  # too many open files: try again later, without spinning
                self._loop.remove_reader(listener.fileno())
                self._loop.call_later(LOOK, self.listen, listener)
                return
            plain.setblocking(False)
            self.start(self._connect(plain))

    async def _connect(self, plain: socket.socket) -> None:
        with suppress(OSError):
            await self._loop.connect_accepted_socket(lambda: Connection(self), plain)

    def enter(self, connection: Connection) -> bool:
        """Register a connection; False if it cannot be accepted."""
        address = source(connection.client[0]) if connection.client else ""
        full = len(self.connections) >= self.limits.connections
        if self.closing or full or (address and self._per_address[address] >= self.limits.per_address):
            self.counters.turn_away()
            return False
        connection.address = address
        self._per_address[address] += 1
        self.connections.add(connection)
        self.counters.set_connections(len(self.connections))
        return True

    def may_linger(self, connection: Connection) -> bool:
        """Whether a refused connection gets an answer with the reason."""
        if len(self._refused) >= LINGERING:
            return False
        self._refused.add(connection)
        return True

    def leave(self, connection: Connection) -> None:
        self._refused.discard(connection)
        if connection in self.connections:
            self.connections.remove(connection)
            self._per_address[connection.address] -= 1
            if not self._per_address[connection.address]:
                del self._per_address[connection.address]
            self.counters.set_connections(len(self.connections))

    # Requests

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it as a task, and hold on to that: the event loop itself does not."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def queue(self, connection: Connection) -> None:
        """Its next request was pipelined: it waits for its turn."""
        self._pipelined.append(connection)
        self._hand_out()

    def end_turn(self) -> None:
        self._turns -= 1
        self._hand_out()

    def _hand_out(self) -> None:
        while self._pipelined and self._turns < TURNS:
            self._turns += 1
            self._loop.call_soon(self._pipelined.popleft().take_turn)

    # Time

    def _look(self) -> None:
        now = self.now()
        self.date = formatdate(usegmt=True).encode()
        for connection in [one for one in (*self.connections, *self._refused) if one.deadline <= now]:
            connection.expire()
        self._looking = self._loop.call_later(self._every, self._look)

    async def close(self, patience: float) -> None:
        """Finish the requests in progress, waiting at most this many seconds."""
        self.closing = True
        for connection in list(self.connections):
            connection.shutdown()
        end = self.now() + patience
        while (self.connections or self._tasks) and self.now() < end:
            await asyncio.sleep(0.02)
        for task in self._tasks:
            task.cancel()
        for connection in [*self.connections, *self._refused]:
            connection.abort()
        await asyncio.sleep(0)
        self._looking.cancel()


def source(address: str) -> str:
    """The key by which connections are counted: an IPv4 address, or the /64 network that one customer usually has."""
    found = ipaddress.ip_address(address.partition("%")[0])
    found = getattr(found, "ipv4_mapped", None) or found
    return str(found) if found.version == 4 else str(ipaddress.ip_network((found, 64), strict=False))
