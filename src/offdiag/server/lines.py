"""Log lines for a reader that may stop reading: written by a separate thread, and dropped when too many wait."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

MOST = 10_000  # lines that wait; more are dropped and counted
AT_ONCE = 4096  # bytes of one write: up to here a write to a pipe is atomic, also with several processes
GATHER = 0.02  # seconds to collect lines: waking the thread for each would cost more than writing it


class Lines:
    """A full pipe or a hanging disk stops this thread and nothing else, not even the end of the process."""

    def __init__(self, write: Callable[[bytes], None], dropped: Callable[[], None] = lambda: None) -> None:
        self._write, self._dropped = write, dropped
        self._waiting: deque[bytes | Callable[[], None]] = deque()
        self._some, self._idle = threading.Event(), threading.Event()
        self._idle.set()
        threading.Thread(target=self._work, name="offdiag lines", daemon=True).start()

    def __call__(self, line: str) -> None:
        if len(self._waiting) >= MOST:
            self._dropped()
        else:
            self._put(line.encode("utf-8", "backslashreplace") + b"\n")

    def after(self, work: Callable[[], None]) -> None:
        """Call this once the lines before it are written."""
        self._put(work)

    def flush(self, seconds: float = 1.0) -> None:
        """Wait until all is written, but no longer than this."""
        end = time.monotonic() + seconds
        while (self._waiting or not self._idle.is_set()) and time.monotonic() < end:
            time.sleep(0.005)

    def _put(self, what: bytes | Callable[[], None]) -> None:
        self._waiting.append(what)
        if not self._some.is_set():
            self._some.set()

    def _work(self) -> None:
        while True:
            self._some.wait()
            self._idle.clear()
            time.sleep(GATHER)
            self._some.clear()
            while self._waiting:
                self._step()
            self._idle.set()

    def _step(self) -> None:
        """One write, of as many lines as fit, or one piece of work."""
        first = self._waiting.popleft()
        if not isinstance(first, bytes):
            first()
            return
        batch = bytearray(first)
        while self._waiting:
            more = self._waiting[0]
            if not isinstance(more, bytes) or len(batch) + len(more) > AT_ONCE:
                break
            batch += more
            self._waiting.popleft()
        with suppress(OSError):  # a full disk loses lines, not requests
            self._write(bytes(batch))


class Operator:
    """Messages of a running service on stderr.

    Not ``print``: a thread that hangs in it would hold a lock that the end of Python needs.
    """

    def __init__(self) -> None:
        self.lines = Lines(lambda data: write_all(2, data))
        self.flush = self.lines.flush

    def __call__(self, text: str) -> None:
        self.lines(f"offdiag: {' '.join(text.split())}")


def write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


class Handler(logging.Handler):
    """Sends what libraries log through the same thread."""

    def __init__(self, lines: Lines) -> None:
        super().__init__(logging.WARNING)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines(self.format(record))
