"""Private copies of model files, so that weights cannot change while they are mapped."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from offdiag import memory
from offdiag.errors import OffdiagError

BLOCK = 1 << 24  # bytes read at once


@contextmanager
def private_copy(file: int, name: str) -> Iterator[Path]:
    """A copy of an open file under its own path, on disk or, if there is no space, in memory.

    The path is removed afterwards; mappings of it stay valid.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="offdiag-") as folder:
            path = Path(folder) / name
            try:
                _fill(path, file)
            except OSError as error:
                reason = error.strerror or str(error)
            else:
                yield path
                return
    except FileNotFoundError as error:  # no usable folder for temporary files
        reason = error.strerror or str(error)
    with _in_memory(file, name, reason) as path:
        yield path


@contextmanager
def _in_memory(file: int, name: str, reason: str) -> Iterator[Path]:
    if not hasattr(os, "memfd_create"):
        raise OffdiagError(f"no room for a copy of {name}: {reason}")
    instead = f"set TMPDIR to a folder with more room (now: {reason})"
    memory.require(os.fstat(file).st_size, f"a copy of {name}", instead)
    held = os.memfd_create("offdiag")
    try:
        path = Path(f"/proc/self/fd/{held}")
        try:
            _fill(path, file)
        except OSError as error:
            raise OffdiagError(f"no room for a copy of {name}, neither on disk nor in memory: {error}") from None
        yield path
    finally:
        os.close(held)


def _fill(path: Path, file: int) -> None:
    size, at = os.fstat(file).st_size, 0
    with open(path, "wb") as copy:
        while at < size:
            block = os.pread(file, min(size - at, BLOCK), at)
            if not block:
                raise OSError("it became shorter while it was copied")
            copy.write(block)
            at += len(block)


def is_read_only(path: Path) -> bool:
    """Whether the file cannot be written to because its file system is read-only."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False
