"""Replace a model and its living state together: two files, one atomic change.

Two files cannot be renamed at once. So both are written next to the old ones (``.next``), then a small sealed note
(``.change``) is put in place: the change takes effect at that moment, not before. Renaming the files, writing a
certificate and destroying an old key follow from the note, and any later command can repeat them if a program is killed
midway. Only one program at a time may change a model, and none silently overwrites a change made in the meantime.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from offdiag.errors import OffdiagError
from offdiag.files import atomic, sealed
from offdiag.files.keys import Key, Keys


@dataclass(frozen=True)
class Note:
    """What remains to be done once a change has taken effect, apart from the renames."""

    certificate: str | None = None  # its text
    certificate_path: str | None = None
    request: str | None = None  # keyed digest of the request, so that the same command recognises its own work
    retire: str | None = None  # id of the key to destroy


def living_path(target: Path) -> Path:
    return target.with_name(target.name + ".living")


def _note_path(target: Path) -> Path:
    return target.with_name(target.name + ".change")


def _next(path: Path) -> Path:
    return path.with_name(path.name + ".next")


def commit(
    target: Path,
    serving: Callable[[IO[bytes]], str],
    living: Callable[[IO[bytes], str], None],
    *,
    key: Key,
    keys: Keys,
    note: Note,
    ready: Callable[[], None] | None = None,
) -> None:
    """Write both files and switch to them. `serving` returns its fingerprint, which is passed to `living`."""
    living_file = living_path(target)
    atomic.sweep(target.parent)
    atomic.check_replaceable(target)
    if not _note_path(target).exists():
        discard(target)
    certificate = None if note.certificate_path is None else Path(note.certificate_path)
    with ExitStack() as stack:
        paper = None
        if certificate is not None:  # complete on disk before anything is changed: only a rename remains
            stack.enter_context(atomic.explained(certificate))
            atomic.check_replaceable(certificate)
            paper = stack.enter_context(atomic.pending(certificate))
            paper.file.write(_encoded(note))
            paper.finish()
        stack.enter_context(atomic.explained(target))
        new = stack.enter_context(atomic.pending(target))
        new_living = stack.enter_context(atomic.pending(living_file, 0o600))
        new_note = stack.enter_context(atomic.pending(_note_path(target), 0o600))
        fingerprint = serving(new.file)
        new.finish()
        living(new_living.file, fingerprint)
        new_living.finish()
        writer = sealed.Writer(new_note.file, key)
        writer.write(json.dumps(asdict(note)).encode())
        writer.close()
        new_note.finish()
        if ready is not None:
            ready()
        keys.keep(key)  # only now, so that a run that is stopped earlier leaves no unused key behind
        try:
            new_living.move(_next(living_file))
            new.move(_next(target))
            atomic.sync_folder(target.parent)
            new_note.move(_note_path(target))
        except BaseException:
            if not _note_path(target).exists():
                discard(target)
            raise
        atomic.sync_folder(target.parent)
        _rename(target)
        if paper is not None and certificate is not None:
            paper.move(certificate)
            atomic.sync_folder(certificate.parent)
        _finish(target, note, keys)


def complete(target: Path, keys: Keys) -> Note | None:
    """Finish a change that took effect but was interrupted; None if there is none. The caller holds the lock."""
    path = _note_path(target)
    if not path.exists():
        return None
    plain, _ = sealed.unseal(path, keys, f"the note of an unfinished change {str(path)!r}")
    try:
        note = Note(**json.loads(bytes(plain)))
    except (ValueError, TypeError) as error:
        raise OffdiagError(f"{str(path)!r} is whole but makes no sense: remove it and fit again") from error
    with atomic.explained(target):
        _rename(target)
        if note.certificate_path is not None:
            with atomic.replacing(Path(note.certificate_path)) as file:
                file.write(_encoded(note))
        _finish(target, note, keys)
    return note


def settle(target: Path, keys: Callable[[], Keys]) -> None:
    """Like ``complete``, for readers: as far as keys and permissions allow, and not while a program is changing it."""
    if not _note_path(target).exists():
        return
    with _idle(target, _next(target), _next(living_path(target))) as free, suppress(OSError):
        if free:
            try:
                complete(target, keys())
            except OffdiagError:  # the renames need no key
                _rename(target)


def discard(target: Path) -> None:
    """Remove the leftovers of a change that never took effect."""
    for path in (_note_path(target), _next(target), _next(living_path(target))):
        with suppress(OSError):
            path.unlink()


def drop_living(target: Path) -> None:
    """Remove the living state of the previous model: the one saved now is not updatable."""
    discard(target)
    with suppress(FileNotFoundError):
        living_path(target).unlink()


def _rename(target: Path) -> None:
    for path in (living_path(target), target):
        with suppress(FileNotFoundError):  # already done
            os.replace(_next(path), path)
    atomic.sync_folder(target.parent)


def _encoded(note: Note) -> bytes:
    return (note.certificate or "").encode("utf-8", errors="backslashreplace")


def _finish(target: Path, note: Note, keys: Keys) -> None:
    if note.retire is not None:
        keys.retire(note.retire)
    with suppress(FileNotFoundError):
        _note_path(target).unlink()
    atomic.sync_folder(target.parent)


@contextmanager
def changing(path: str) -> Iterator[Callable[[], None]]:
    """Lock the model file, if it exists; yields a check that it is unchanged, to be called before it is replaced.

    The lock is on the file itself, so it is released when its program ends, for whatever reason.
    """
    target = os.path.realpath(path)
    held = _held(target, path)
    try:
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
def _idle(*paths: Path) -> Iterator[bool]:
    """Whether no program is changing these files; if so, none can until the context ends."""
    held: list[int] = []
    try:
        for path in paths:
            with suppress(FileNotFoundError):
                held.append(os.open(path, os.O_RDONLY))
        yield os.name == "posix" and all(atomic.try_lock(descriptor) for descriptor in held)
    finally:
        for descriptor in held:
            os.close(descriptor)


def _held(target: str, path: str) -> int | None:
    """An open, locked file; None if there is no file yet, or locks are not supported."""
    while True:
        try:
            descriptor = os.open(target, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        except OSError:
            return None  # the reader reports the problem
        locked = atomic.try_lock(descriptor)
        with suppress(OSError):
            if locked and os.path.samestat(os.fstat(descriptor), os.stat(target)):
                return descriptor
        os.close(descriptor)
        if locked is False:
            raise OffdiagError(
                f"expected to be alone with {path!r}, but another program is changing it; run this again when that has "
                "finished (nothing was changed)"
            )
        if locked is None:
            return None
        # Replaced between opening and locking: take the new one.


def _state(target: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(target)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
