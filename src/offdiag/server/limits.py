"""Limits on requests and on how many are in progress at once, and the error for requests beyond them."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Limits:
    """Limits on one request and on all connections of a process; most are options of ``offdiag serve``."""

    k: int = 1000  # items in one list
    history: int = 5000  # ids in one history
    histories: int = 256  # histories in one batch
    items: int = 20_000  # items in all lists of a batch together
    filter: int = 20_000  # ids in `allow` or `block`
    body: int = 1 << 20  # bytes
    seconds: float = 10.0  # from the first byte of the body to the answer
    waiting: int = 2000  # requests that may wait for the scorer; more are turned away at once
    headers: int = 32 << 10  # bytes of the request line and all headers
    connections: int = 1024  # open at once
    per_address: int = 512  # of these from one address, so that no single client can take all
    large: int = 64 << 20  # bytes of all bodies being received together, not counting the first SMALL of each

    SMALL = 64 << 10  # bytes of a body that are always received

    @property
    def bounds(self) -> dict[str, tuple[int, str]]:
        """The largest value of each bounded field of a body, and its unit."""
        ids, filters = (self.history, " ids"), (self.filter, " ids")
        histories = (self.histories, " histories")
        times = (self.history, " times")
        bounds = {"history": ids, "histories": histories, "times": times, "k": (self.k, "")}
        return bounds | {"block": filters, "allow": filters}

    def check(self, asked: Any) -> None:
        """Refuse the body of a question that is beyond these limits."""
        for name, (most, unit) in self.bounds.items():
            value = getattr(asked, name, None)
            number = len(value or ()) if unit else value
            if number is not None and number > most:
                raise Refusal(422, f"{name}: at most {most}{unit}, received {number}")
        histories = getattr(asked, "histories", ())
        for at, history in enumerate(histories):
            if len(history) > self.history:
                raise Refusal(422, f"histories.{at}: at most {self.history} ids, received {len(history)}")
        if histories and len(histories) * asked.k > self.items:
            wanted = f"{len(histories)} histories of k = {asked.k}"
            raise Refusal(422, f"at most {self.items} items in one batch, received {wanted}; send several batches")


class Refusal(Exception):  # noqa: N818 - an answer, not a failure
    """An answer other than 200: its status and one line for the client."""

    def __init__(self, status: int, text: str, **headers: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = headers


class Turns:
    """``async with turns:`` admits ``most`` at once; the others wait in order of arrival.

    Unlike an asyncio semaphore, it is not bound to one event loop: an application may be used from several in turn.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():  # the turn was granted too late
                self._pass_on()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        """Pass the turn to the longest waiter; no newcomer can take it in between."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
