"""Log lines for a reader that may stop reading: written by a separate thread, and dropped if too many are queued."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from offdiag.errors import OffdiagError

MOST = 10_000  # queued lines; more are dropped and counted
AT_ONCE = 4096  # bytes per write: up to this size a write to a pipe is atomic, even with several processes
GATHER = 0.02  # seconds to collect lines: waking the thread for each would cost more than writing it


class Lines:
    """A full pipe or a hanging disk blocks only this thread, not even the exit of the process."""

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

    def flush(self, seconds: float = 1.0) -> None:
        """Wait until everything is written, but no longer than this."""
        end = time.monotonic() + seconds
        while (self._waiting or not self._idle.is_set()) and time.monotonic() < end:
            time.sleep(0.005)

    def _put(self, what: bytes | Callable[[], None]) -> None:
        """Queue a line, or a function to call once the lines before it are written."""
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
        """One write of as many lines as fit, or one function call."""
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


class AccessLog(Lines):
    """Lines appended to a file, kept intact even when several processes write; ``-`` is stdout.

    If the log is not read, or the disk is full, lines are lost (``dropped``), not requests.
    """

    def __init__(self, path: str, dropped: Callable[[], None] = lambda: None) -> None:
        self._path = path
        self._file = self._open()
        super().__init__(lambda data: write_all(self._file, data), dropped)

    def reopen(self) -> None:
        """After a log rotation: earlier lines still go to the old file, later ones to a new file under its name."""
        if self._path != "-":
            self._put(self._switch)

    def _switch(self) -> None:
        with suppress(OffdiagError):
            old, self._file = self._file, self._open()
            os.close(old)

    def _open(self) -> int:
        if self._path == "-":
            return sys.stdout.fileno()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            file = os.open(self._path, flags | os.O_NONBLOCK, 0o640)  # a pipe without a reader is an error, not a wait
        except OSError as error:
            raise OffdiagError(f"cannot write the access log to {self._path!r}: {error.strerror}") from None
        os.set_blocking(file, True)
        return file


class OperatorLog(Lines):
    """Messages of a running service and log records of libraries, on stderr.

    Not ``print``: a thread that hangs in it would hold a lock that Python needs to exit.
    """

    def __init__(self) -> None:
        super().__init__(lambda data: write_all(2, data))

    def __call__(self, text: str) -> None:
        super().__call__(f"offdiag: {' '.join(text.split())}")

    def handler(self) -> logging.Handler:
        """For the loggers of libraries: warnings and errors, through the same thread."""
        lines = super().__call__

        class Handler(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                lines(self.format(record))

        return Handler(logging.WARNING)


def write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]
