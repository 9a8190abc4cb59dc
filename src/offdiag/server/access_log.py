"""The access log: lines appended to a file, whole even when several processes write."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress

from offdiag.errors import OffdiagError
from offdiag.server.lines import Lines, write_all


class AccessLog:
    """``-`` is stdout. If it is not read, or the disk is full, lines are lost (``dropped``), not requests."""

    def __init__(self, path: str, dropped: Callable[[], None] = lambda: None) -> None:
        self._path = path
        self._file = self._open()
        self._lines = Lines(lambda data: write_all(self._file, data), dropped)
        self.flush = self._lines.flush

    def __call__(self, line: str) -> None:
        self._lines(line)

    def reopen(self) -> None:
        """After a rotation the old name belongs to another file; what was logged before still goes there."""
        if self._path != "-":
            self._lines.after(self._switch)

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
