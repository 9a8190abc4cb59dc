"""Leases and private copies of model files, so that weights cannot change while they are mapped.

When a file is replaced (``model.save``, ``mv``), processes that have mapped the old one keep it. When it is overwritten
(``cp``, a download), the weights would change under a running request, or the process would crash if the file shrinks.
Linux has file leases: it sends SIGIO to the holder of a lease when another process wants to write, and blocks the
writer until the lease is released, for at most /proc/sys/fs/lease-break-time seconds. Elsewhere, and for files of
other users, there are no leases, and the service reads from a copy instead.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a Unix
    fcntl = None  # type: ignore[assignment]

from offdiag import memory
from offdiag.errors import OffdiagError
from offdiag.server.model import Stamp, stamp_of

BLOCK = 1 << 24  # bytes read at once


class FileBusy(OffdiagError):  # noqa: N818 - what it is, not a mistake
    """The file is open for writing in another process."""


class Lease:
    """A lease on the file with this stamp, if one can be obtained."""

    def __init__(self, path: Path, wanted: Stamp | None) -> None:
        self.file = -1  # its descriptor
        if fcntl is None or not hasattr(fcntl, "F_SETLEASE"):
            return
        try:
            self.file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # never block on a pipe
            if stamp_of(os.fstat(self.file)) != wanted:
                raise OSError("another file by now")
            fcntl.fcntl(self.file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except OSError as error:
            self.release()
            if error.errno == errno.EAGAIN:
                raise FileBusy(f"{str(path)!r} is still being written; it is taken up when that has ended") from None

    @property
    def held(self) -> bool:
        return self.file >= 0

    @property
    def wanted_back(self) -> bool:
        """Whether a writer is waiting."""
        return self.held and fcntl.fcntl(self.file, fcntl.F_GETLEASE) != fcntl.F_RDLCK

    def release(self) -> None:
        if self.file >= 0:
            os.close(self.file)  # this releases the lease
            self.file = -1


@contextmanager
def private_copy(file: int, name: str) -> Iterator[Path]:
    """A copy of an open file under its own path, on disk or, if there is no space, in memory.

    The path is removed afterwards; mappings of it stay valid.
    """
    with ExitStack() as stack:
        try:
            path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="offdiag-"))) / name
            _fill(path, file)
        except OSError as error:  # no usable folder for temporary files, or no space in it
            stack.close()
            path = _copy_to_memory(file, name, error.strerror or str(error), stack)
        yield path


def _copy_to_memory(file: int, name: str, reason: str, stack: ExitStack) -> Path:
    if not hasattr(os, "memfd_create"):
        raise OffdiagError(f"no room for a copy of {name}: {reason}")
    instead = f"set TMPDIR to a folder with more room (now: {reason})"
    memory.require(os.fstat(file).st_size, f"a copy of {name}", instead)
    held = os.memfd_create("offdiag")
    stack.callback(os.close, held)
    path = Path(f"/proc/self/fd/{held}")
    try:
        _fill(path, file)
    except OSError as error:
        raise OffdiagError(f"no room for a copy of {name}, neither on disk nor in memory: {error}") from None
    return path


def _fill(path: Path, file: int) -> None:
    size = os.fstat(file).st_size
    with open(path, "wb") as copy, open(file, "rb", closefd=False) as source:
        source.seek(0)
        shutil.copyfileobj(source, copy, BLOCK)
        if copy.tell() < size:
            raise OSError("it became shorter while it was copied")


def is_read_only(path: Path) -> bool:
    """Whether the file cannot be written to because its file system is read-only."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False
