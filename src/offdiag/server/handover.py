"""Give the interpreter lock to waiting threads while the event loop is never idle.

A thread that wants the lock asks for it once it has waited for the switch interval, but an event loop that polls its
sockets more often than that releases and takes the lock again each time, which restarts the wait: with requests
that never leave the loop, ranking took a second instead of a millisecond. A shorter interval costs a fifth of the
throughput. So the loop itself sleeps for a moment when threads have finished nothing for a while.
"""

from __future__ import annotations

import asyncio
import time

PATIENCE = 0.02  # seconds without a result before the loop yields
ROOM = 0.001  # seconds of sleep, alternating with equally long turns of the loop


class Handover:
    """Use ``with handover:`` around waiting for a thread's work."""

    def __init__(self) -> None:
        self._working = self._finished = 0
        self._loop: asyncio.AbstractEventLoop | None = None  # the loop that is checking

    def __enter__(self) -> None:
        self._working += 1
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            loop.call_later(PATIENCE, self._look, loop, self._finished)

    def __exit__(self, *_: object) -> None:
        self._working -= 1
        self._finished += 1

    def _look(self, loop: asyncio.AbstractEventLoop, seen: int) -> None:
        if not self._working or self._loop is not loop:
            self._loop = None if self._loop is loop else self._loop
            return
        late = self._finished == seen
        if late:
            time.sleep(ROOM)
        loop.call_later(ROOM if late else PATIENCE, self._look, loop, self._finished)
