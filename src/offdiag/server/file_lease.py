"""Warning before a model file is overwritten in place, so that its mapped contents can be saved first.

When a file is replaced (``model.save``, ``mv``), processes that have mapped the old one keep it. When it is overwritten
(``cp``, a download), the weights would change under a running request, or the process would crash if the file shrinks.
Linux has file leases: it sends SIGIO to the holder of a lease when another process wants to write, and blocks the
writer until the lease is released, for at most /proc/sys/fs/lease-break-time seconds. Elsewhere, and for files of
other users, there are no leases, and the service reads from a copy instead (`copies.py`).
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
    """The file is open for writing in another process."""


class Lease:
    """A lease on the file with this stamp, if one can be obtained."""

    def __init__(self, path: Path, wanted: Stamp | None) -> None:
        self._file = -1
        if fcntl is None or not hasattr(fcntl, "F_SETLEASE"):
            return
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # never block on a pipe
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
        """Whether a writer is waiting."""
        return self.held and fcntl.fcntl(self._file, fcntl.F_GETLEASE) != fcntl.F_RDLCK

    @property
    def file(self) -> int:
        """The descriptor of the leased file."""
        return self._file

    def release(self) -> None:
        if self._file >= 0:
            os.close(self._file)  # this releases the lease
            self._file = -1
