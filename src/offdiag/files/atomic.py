"""Files that appear whole or not at all; a killed program leaves nothing behind that others can read."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from offdiag.errors import OffdiagError
from offdiag.wording import one_line

try:
    import fcntl
except ImportError:  # Windows: no locks, so nothing is swept
    fcntl = None  # type: ignore[assignment]

STALE_SECONDS = 60.0  # without locks, a temporary file not written to for this long counts as abandoned


@contextmanager
def replacing(target: Path, ready: Callable[[], None] | None = None, *, mode: int | None = None) -> Iterator[IO[bytes]]:
    """A new file that replaces `target` at the end, or is removed if anything goes wrong.

    `ready` is called just before, and may still stop it by raising. The file gets the permissions of the one it
    replaces, or `mode`; while it is written, only its owner can read it.
    """
    sweep(target.parent)
    check_replaceable(target)
    with explained(target), pending(target, mode) as new:
        yield new.file
        new.finish()
        if ready is not None:
            ready()
        new.move(target)
    sync_folder(target.parent)


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder to fill, which appears as `target` at the end, or is removed if anything goes wrong.

    The target must not exist yet, or be an empty folder: files of an earlier run would mix with the new ones.
    """
    sweep(target.parent)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise OffdiagError(
            f"expected the name of a new folder, received {str(target)!r}, which exists and is not an empty folder; "
            "remove it or choose another (nothing was changed)"
        )
    with explained(target):
        folder = target.parent / f".offdiag-{secrets.token_hex(6)}.tmp"
        folder.mkdir()
        lock = os.open(folder, os.O_RDONLY) if fcntl is not None else None
        try:
            if lock is not None:
                try_lock(lock)
            yield folder
            sync_folder(folder)
            os.replace(folder, target)
        finally:
            if lock is not None:
                os.close(lock)
            shutil.rmtree(folder, ignore_errors=True)
    sync_folder(target.parent)


class Pending:
    """A file that is being written. Where the system supports it, it has no name until it is complete."""

    def __init__(self, target: Path, mode: int | None) -> None:
        self._folder, self._mode = target.parent, _mode_for(target) if mode is None else mode
        self._name: Path | None = None
        descriptor = self._unnamed()
        if descriptor is None:
            self._name = self._folder / f".offdiag-{secrets.token_hex(6)}.tmp"
            descriptor = os.open(self._name, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        self.file: IO[bytes] = os.fdopen(descriptor, "w+b")
        try_lock(descriptor)  # held until it is closed, wherever it has been moved to: the writer is alive

    def _unnamed(self) -> int | None:
        if not hasattr(os, "O_TMPFILE") or not os.path.isdir("/proc/self/fd"):
            return None
        try:
            return os.open(self._folder, os.O_TMPFILE | os.O_RDWR, 0o600)
        except OSError as error:
            if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT, errno.EPERM):
                return None  # not supported here; other problems show up with a named file
            raise

    def finish(self) -> None:
        """Flush everything to disk and set the permissions."""
        self.file.flush()
        os.fsync(self.file.fileno())
        if hasattr(os, "fchmod"):
            os.fchmod(self.file.fileno(), self._mode)

    def move(self, target: Path) -> None:
        """Give the file this name, replacing any file that has it."""
        if self._name is None:
            name = self._folder / f".offdiag-{secrets.token_hex(6)}.tmp"
            # A link cannot replace an existing file, so the file first gets a temporary name.
            folder = os.open(self._folder, os.O_RDONLY)
            try:
                os.link(f"/proc/self/fd/{self.file.fileno()}", name, src_dir_fd=folder, follow_symlinks=True)
            finally:
                os.close(folder)
            self._name = name
        if os.name == "nt":  # an open file cannot be renamed there
            self.file.close()
        os.replace(self._name, target)
        self._name = None

    def close(self) -> None:
        self.file.close()
        if self._name is not None:
            with suppress(OSError):
                self._name.unlink()


@contextmanager
def pending(target: Path, mode: int | None = None) -> Iterator[Pending]:
    """A file that will become `target`, with its permissions; removed at the end if not moved there."""
    new = Pending(target, mode)
    try:
        yield new
    finally:  # on Ctrl-C too: never leave half a model behind
        new.close()


def _mode_for(target: Path) -> int:
    """The permissions of the file that is replaced, or the default ones of a new file."""
    with suppress(OSError):
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0o077)  # the only way to read it; meanwhile files of other threads can only be too private
    os.umask(mask)
    return 0o666 & ~mask


def check_replaceable(target: Path) -> None:
    """Refuse to replace a device, a pipe, a socket or a folder."""
    if target.exists() and not target.is_file():
        raise OffdiagError(
            f"expected the name of an ordinary file, received {str(target)!r}, which is a device, a pipe, a socket or "
            "a folder; choose another path (nothing was changed)"
        )


def sweep(folder: Path) -> None:
    """Remove half-written files and folders of killed programs: those that no running program has locked."""
    for left in folder.glob(".offdiag-*.tmp") if fcntl is not None else ():
        with suppress(OSError):
            descriptor = os.open(left, os.O_RDONLY)
            try:
                locked = try_lock(descriptor)
                if locked or (locked is None and time.time() - os.fstat(descriptor).st_mtime > STALE_SECONDS):
                    shutil.rmtree(left) if left.is_dir() else left.unlink()
            finally:
                os.close(descriptor)


def try_lock(descriptor: int) -> bool | None:
    """Lock an open file until it is closed; False if another program has, None where locks are not supported."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems have no locks
        return None
    return True


def sync_folder(folder: Path) -> None:
    """Make renames durable, where the system supports it."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def explained(target: Path) -> Iterator[None]:
    """Turn an OSError into a message with advice."""
    try:
        yield
    except OSError as error:
        raise OffdiagError(f"cannot save to {str(target)!r}: {_advice(error, target)}") from error


def _advice(error: OSError, target: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "the disk is full; free some space or choose another disk (nothing was changed)"
    if error.errno == errno.ENOENT:
        return f"the folder {str(target.parent)!r} does not exist; create it first"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "no permission to write there; choose another folder"
    return f"{error.strerror or one_line(error)} (nothing was changed)"
