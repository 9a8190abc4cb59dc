"""kill -9 at random instants of every command that writes a file.

After each: the old file or the new one, whole; nothing else in the folder that another program could take for a file.
After every third the command runs again, and must then succeed and leave nothing behind.
"""

from __future__ import annotations

import random
import signal
from pathlib import Path
from typing import Any

from tests.torture import forks, shop
from tests.torture.found import Campaign

AGAIN = 3
LEFTOVERS = (".tmp", ".next", ".change")  # removed by the next command that writes there


def campaign(
    start: Path, work: Path, kills: int, seed: int, writers: tuple[shop.Writer, ...] = shop.WRITERS
) -> Campaign:
    found = Campaign("kill -9", "in every command that writes a file, at random instants")
    each = -(-kills // len(writers))
    for writer in writers:
        _kill(found, writer, start, work, each, random.Random(f"{seed} {writer.name}"))
    return found


def _kill(found: Campaign, writer: shop.Writer, start: Path, work: Path, times: int, draw: random.Random) -> None:
    old = forks.ask(writer.read, shop.fresh(start, work))
    whole = forks.command(writer.words, work)
    if whole.code != 0:
        found.wrong(f"{writer.name}: not killed, and yet {whole.broken or whole.err}")
        return
    new, expected = forks.ask(writer.read, work), _names(work)
    for n in range(times):
        shop.fresh(start, work)
        ran = forks.command(writer.words, work, kill_after=draw.uniform(0, 1.05) * whole.seconds)
        where = f"{writer.name}, kill {n} after {ran.seconds:.3f} of {whole.seconds:.3f} s"
        found.count(f"{writer.name}: {'killed' if ran.code == -signal.SIGKILL else 'ended before'}")
        if ran.broken:
            found.wrong(f"{where}: {ran.broken}")
        unknown = [name for name in _names(work) - expected if name not in writer.kept and not name.endswith(LEFTOVERS)]
        if unknown:
            found.wrong(f"{where}: left {unknown}")
        state = _state(found, writer, work, where)
        if state not in (old, new):
            found.wrong(f"{where}: neither the old state nor the new one")
        found.count("found in the old state" if state == old else "found in the new state", trial=False)
        if n % AGAIN == 0:
            _again(found, writer, work, where, state, new, expected)


def _again(
    found: Campaign, writer: shop.Writer, work: Path, where: str, state: Any, new: Any, expected: set[str]
) -> None:
    ran = forks.command(writer.words, work)
    if state == new and ran.code == 2 and not ran.broken:
        found.count("run again and refused as done", trial=False)  # a folder that is full, products that are known
        return
    if ran.code != 0:
        found.wrong(f"{where}, run again: {ran.broken or ran.err}")
        return
    if _state(found, writer, work, f"{where}, run again") != new:
        found.wrong(f"{where}, run again: not the new state")
    if more := _names(work) - expected:
        found.wrong(f"{where}, run again: left {sorted(more)}")
    found.count("run again to the end", trial=False)


def _state(found: Campaign, writer: shop.Writer, work: Path, where: str) -> Any:
    try:
        return forks.ask(writer.read, work)
    except RuntimeError as error:
        found.wrong(f"{where}: what is there cannot be used: {error}")
        return "unusable"


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}
