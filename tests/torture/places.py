"""Where files cannot be written, or only in part: full disks, folders without permission, disks over a network.

Every command that writes must then change nothing and say why in one line, or succeed where that is possible.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.torture import forks, shop
from tests.torture.found import Campaign

NOBODY = 65534


def campaign(start: Path, work: Path, rounds: int, seed: int) -> Campaign:
    found = Campaign("places", "full disks, folders without permission, read-only disks, disks over a network")
    draw = random.Random(seed)
    for writer in shop.WRITERS:
        old = forks.ask(writer.read, shop.fresh(start, work))
        ran = forks.command(writer.words, work)
        new = forks.ask(writer.read, work)
        largest = max(path.stat().st_size for path in work.rglob("*") if path.is_file())
        for limit in [0, *(draw.randrange(largest) for _ in range(rounds))]:
            shop.fresh(start, work)
            ran = forks.command(writer.words, work, before=_file_size(limit))
            _check(found, writer, work, ran, old, new, f"files of at most {limit:,} bytes")
        shop.fresh(start, work)
        ran = forks.command(writer.words, work, before=_over_a_network)
        _check(found, writer, work, ran, old, new, "a network disk", must=True)
        if os.getuid() == 0:
            shop.fresh(start, work)
            work.chmod(0o555)
            ran = forks.command(writer.words, work, before=_as_nobody)
            _check(found, writer, work, ran, old, new, "a folder without permission")
            work.chmod(0o755)
    for size in (40_000, 120_000, 400_000)[: max(1, rounds)]:
        _full_disk(found, start, work, size)
    return found


def _check(
    found: Campaign,
    writer: shop.Writer,
    work: Path,
    ran: forks.Ran,
    old: object,
    new: object,
    where: str,
    *,
    must: bool = False,
) -> None:
    name = f"{writer.name} with {where}"
    found.count(f"{where.split(' of at most')[0]}: {'done' if ran.code == 0 else 'refused in one line'}")
    if ran.broken:
        found.wrong(f"{name}: {ran.broken}")
    if must and ran.code != 0:
        found.wrong(f"{name}: expected it to succeed: {ran.err[-300:]}")
    try:
        state = forks.ask(writer.read, work)
    except RuntimeError as error:
        found.wrong(f"{name}: what is there cannot be used: {error}")
        return
    if state != (new if ran.code == 0 else old):
        found.wrong(f"{name}: exit code {ran.code}, but not the {'new' if ran.code == 0 else 'old'} state")
    if more := [path.name for path in work.iterdir() if path.name.startswith(".offdiag")]:
        found.wrong(f"{name}: left {more}")


def _file_size(limit: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))


def _as_nobody() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def _over_a_network() -> None:
    """No files without names, no locks and no links, as on some of them."""
    import errno
    import fcntl

    def refuse(number: int) -> Callable[..., None]:
        def call(*_: object, **__: object) -> None:
            raise OSError(number, os.strerror(number))

        return call

    opened = os.open

    def open_named(path: object, flags: int, *more: object, **names: object) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return opened(path, flags, *more, **names)  # type: ignore[arg-type]

    os.open = open_named  # type: ignore[assignment]
    os.link = refuse(errno.EPERM)  # type: ignore[assignment]
    fcntl.flock = refuse(errno.ENOLCK)  # type: ignore[assignment]


def _full_disk(found: Campaign, start: Path, work: Path, spare: int) -> None:
    """A small disk in memory with this much room for what a command writes; then the same disk, read-only."""
    import shutil

    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    used = sum(-(-path.stat().st_size // 4096) * 4096 for path in start.rglob("*") if path.is_file())
    with _disk(work, used + spare) as mounted:
        if not mounted:
            found.skipped.append("small and read-only disks: this user must not mount any")
            return
        for writer in shop.WRITERS:
            with contextlib.suppress(FileNotFoundError):
                for path in work.iterdir():
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            for path in start.iterdir():
                shutil.copy(path, work / path.name)
            old = forks.ask(writer.read, work)
            ran = forks.command(writer.words, work)
            new = forks.ask(writer.read, work) if ran.code == 0 else None
            _check(found, writer, work, ran, old, new, f"a disk with {spare:,} bytes left")
            subprocess.run(["mount", "-o", "remount,ro", str(work)], check=True)
            try:
                before = forks.ask(writer.read, work)
                again = forks.command(writer.words, work)
                if again.code != 0:  # an update that finds nothing new may succeed
                    _check(found, writer, work, again, before, None, "a read-only disk")
            finally:
                subprocess.run(["mount", "-o", "remount,rw", str(work)], check=True)


@contextlib.contextmanager
def _disk(place: Path, size: int) -> Iterator[bool]:
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], capture_output=True)
    try:
        yield made.returncode == 0
    finally:
        if made.returncode == 0:
            subprocess.run(["umount", "-l", str(place)], check=True)
