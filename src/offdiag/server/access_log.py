"""The access log: lines appended to a file, whole even when several processes write."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from offdiag.errors import OffdiagError


class AccessLog:
    """``-`` is stdout. A full disk loses lines, not requests."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = self._open()

    def __call__(self, line: str) -> None:
        with suppress(OSError):
            os.write(self._file, line.encode("ascii", "backslashreplace") + b"\n")

    def reopen(self) -> None:
        """After a rotation the old name belongs to another file."""
        if self._path == "-":
            return
        with suppress(OffdiagError):
            old, self._file = self._file, self._open()
            os.close(old)

    def _open(self) -> int:
        if self._path == "-":
            return sys.stdout.fileno()
        try:
            return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise OffdiagError(f"cannot write the access log to {self._path!r}: {error.strerror}") from None
