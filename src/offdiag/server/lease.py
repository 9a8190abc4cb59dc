"""Notice before somebody overwrites a model file in place, so that what is mapped from it can be saved first.

A file that is replaced (``model.save``, ``mv``) leaves the old one to those who have mapped it. One that is overwritten
(``cp``, a download) would change the weights under a running request, or end the process when it becomes shorter. Linux
lends out files: it tells the holder of a lease by SIGIO when somebody wants to write, and lets the writer wait until
the lease is given back, for at most /proc/sys/fs/lease-break-time seconds. Elsewhere, and for files of other
users, there is no lease, and files must be replaced, not overwritten.
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
from offdiag.server.served import Stamp, stamp_of


class BeingWritten(OffdiagError):  # noqa: N818 - what it is, not a mistake
    """Somebody has the file open for writing."""


class Lease:
    """A lease on the file with this stamp, if it can be had."""

    def __init__(self, path: Path, wanted: Stamp) -> None:
        self._file = -1
        if fcntl is None or not hasattr(fcntl, "F_SETLEASE"):
            return
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            if stamp_of(os.fstat(self._file)) != wanted:
                raise OSError("another file by now")
            fcntl.fcntl(self._file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except OSError as error:
            self.release()
            if error.errno == errno.EAGAIN:
                raise BeingWritten(
                    f"{str(path)!r} is still being written; it is taken up when that has ended"
                ) from None

    @property
    def held(self) -> bool:
        return self._file >= 0

    @property
    def wanted_back(self) -> bool:
        """Whether a writer waits."""
        return self.held and fcntl.fcntl(self._file, fcntl.F_GETLEASE) != fcntl.F_RDLCK

    def copy(self, target: Path) -> None:
        """The file as it was lent, under another name."""
        os.lseek(self._file, 0, os.SEEK_SET)
        with open(target, "xb") as copy:
            while os.sendfile(copy.fileno(), self._file, None, 1 << 26):
                pass

    def release(self) -> None:
        if self._file >= 0:
            os.close(self._file)  # this gives it back
            self._file = -1
