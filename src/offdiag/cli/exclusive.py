"""One program at a time may change a model file, and nobody undoes unseen what another has done meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from offdiag.errors import OffdiagError

try:
    import fcntl
except ImportError:  # Windows: only the comparison at the end
    fcntl = None  # type: ignore[assignment]


@contextmanager
def changing(path: str) -> Iterator[Callable[[], None]]:
    """Hold the file, if there is one; yields a check that it is still the same, to be made before it is replaced.

    The lock is on the file itself, so it goes with the program that holds it, however that ends.
    """
    target = os.path.realpath(path)
    held = _held(target, path)
    try:
        before = _state(target)

        def unchanged() -> None:
            if _state(target) != before:
                raise OffdiagError(
                    f"expected {path!r} as it was at the start, received another file there: a program has replaced it "
                    "meanwhile; run this again (nothing was changed)"
                )

        yield unchanged
    finally:
        if held is not None:
            os.close(held)


def _held(target: str, path: str) -> int | None:
    """An open, locked file; None where there is no file yet, or no locks."""
    while fcntl is not None:
        try:
            descriptor = os.open(target, os.O_RDONLY)
        except OSError:
            return None  # whoever reads it says what is wrong
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise OffdiagError(
                f"expected to be alone with {path!r}, but another program is changing it; run this again when that has "
                "finished (nothing was changed)"
            ) from None
        except OSError:  # a disk without locks
            os.close(descriptor)
            return None
        with suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), os.stat(target)):
                return descriptor
        os.close(descriptor)  # replaced between opening and locking: take the new one
    return None


def _state(target: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(target)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
