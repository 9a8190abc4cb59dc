"""Notice before somebody overwrites a model file in place, so that what is mapped from it can be saved first.

A file that is replaced (``model.save``, ``mv``) leaves the old one to those who have mapped it. One that is overwritten
(``cp``, a download) would change the weights under a running request, or end the process when it becomes shorter. Linux
lends out files: it tells the holder of a lease by SIGIO when somebody wants to write, and lets the writer wait until
the lease is given back, for at most /proc/sys/fs/lease-break-time seconds. Elsewhere, and for files of other
users, there is no lease, and the service reads from a copy instead (`copies.py`).
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a Unix
    fcntl = None  # type: ignore[assignment]

from offdiag.errors import OffdiagError
from offdiag.server.model import Stamp, stamp_of


class FileBusy(OffdiagError):  # noqa: N818 - what it is, not a mistake
    """Somebody has the file open for writing."""


class Lease:
    """A lease on the file with this stamp, if it can be had."""

    def __init__(self, path: Path, wanted: Stamp | None) -> None:
        self._file = -1
        if fcntl is None or not hasattr(fcntl, "F_SETLEASE"):
            return
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # never wait for a pipe
            if stamp_of(os.fstat(self._file)) != wanted:
                raise OSError("another file by now")
            fcntl.fcntl(self._file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except OSError as error:
            self.release()
            if error.errno == errno.EAGAIN:
                raise FileBusy(f"{str(path)!r} is still being written; it is taken up when that has ended") from None

    @property
    def held(self) -> bool:
        return self._file >= 0

    @property
    def wanted_back(self) -> bool:
        """Whether a writer waits."""
        return self.held and fcntl.fcntl(self._file, fcntl.F_GETLEASE) != fcntl.F_RDLCK

    @property
    def file(self) -> int:
        """The file as it was lent."""
        return self._file

    def release(self) -> None:
        if self._file >= 0:
            os.close(self._file)  # this gives it back
            self._file = -1
