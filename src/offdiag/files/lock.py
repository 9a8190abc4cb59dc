"""Only one program at a time may change a model, and none silently overwrites a change made in the meantime."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from offdiag.errors import OffdiagError

try:
    import fcntl
except ImportError:  # Windows: no lock, only the final check
    fcntl = None  # type: ignore[assignment]


@contextmanager
def changing(path: str, settle: Callable[[], None] = lambda: None) -> Iterator[Callable[[], None]]:
    """Lock the model file, if it exists; yields a check that it is unchanged, to be called before it is replaced.

    `settle` may replace the file once it is locked, to finish what a killed program left. The lock is on the file
    itself, so it is released when its program ends, for whatever reason.
    """
    target = os.path.realpath(path)
    held = _held(target, path)
    try:
        settle()
        if held is not None and not _is_at(held, target):
            again = _held(target, path)
            os.close(held)
            held = again
        before = _state(target)

        def unchanged() -> None:
            if _state(target) != before:
                raise OffdiagError(
                    f"expected {path!r} as it was at the start, received another file there: a program has replaced it "
                    "in the meantime; run this again (nothing was changed)"
                )

        yield unchanged
    finally:
        if held is not None:
            os.close(held)


@contextmanager
def idle(*paths: Path) -> Iterator[bool]:
    """Whether no program is changing these files; if so, none can until the context ends."""
    held: list[int] = []
    try:
        free = fcntl is not None
        for path in paths if free else ():
            with suppress(FileNotFoundError):
                held.append(os.open(path, os.O_RDONLY))
                try:
                    fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    free = False
        yield free
    finally:
        for descriptor in held:
            os.close(descriptor)


def _held(target: str, path: str) -> int | None:
    """An open, locked file; None if there is no file yet, or locks are not supported."""
    while fcntl is not None:
        try:
            descriptor = os.open(target, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return None  # the reader reports the problem
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise OffdiagError(
                f"expected to be alone with {path!r}, but another program is changing it; run this again when that has "
                "finished (nothing was changed)"
            ) from None
        except OSError:  # a file system without locks
            os.close(descriptor)
            return None
        if _is_at(descriptor, target):
            return descriptor
        os.close(descriptor)  # replaced between opening and locking: take the new one
    return None


def _is_at(descriptor: int, target: str) -> bool:
    with suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), os.stat(target))
    return False


def _state(target: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(target)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
