"""Progress of long-running work: a function that takes the name of the stage and the fraction done."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from typing import TextIO

from offdiag import notebook, wording
from offdiag.errors import OffdiagError

Progress = Callable[[str, float], None]

LOG = logging.getLogger("offdiag")
WIDTH = 30  # characters of the bar
SECONDS_BETWEEN = 0.1  # drawing more often would slow down the work


def of_tasks(
    progress: Progress | None, stage: str, tasks: int, begin: float = 0.0, share: float = 1.0
) -> Callable[[int], None] | None:
    """For parallel tasks: a function of the number finished; ``begin`` and ``share`` place them within the stage."""
    if progress is None:
        return None
    return lambda finished: progress(stage, begin + share * finished / tasks)


def reporter(progress: Progress | bool | None) -> Progress | None:
    """What a caller gave as ``progress``: a function, True for a bar on the screen, None or False for nothing.

    With nothing, the stages are still logged if the logger "offdiag" is enabled for INFO.
    """
    if progress is True:
        return Bar(sys.stdout if notebook.is_running() else sys.stderr)
    if progress is None or progress is False:
        return Stages() if LOG.isEnabledFor(logging.INFO) else None
    if not callable(progress):
        raise OffdiagError(
            f"progress takes True or a function of the stage and the fraction done, received {progress!r}"
        )
    return progress


class Stages:
    """Writes a line to the log when a stage begins and when it ends. Text after " · " belongs to the same stage."""

    def __init__(self) -> None:
        self._stage, self._begin = "", 0.0

    def __call__(self, stage: str, fraction: float) -> None:
        name = stage.partition(" · ")[0]
        if name != self._stage:
            self._stage, self._begin = name, time.perf_counter()
            LOG.info("%s", name)
        if fraction >= 1:
            LOG.info("%s: done after %s", name, wording.seconds(time.perf_counter() - self._begin))
            self._stage = ""


class Bar:
    """A line of text that is drawn again and again, in a terminal or below the cell of a notebook.

    A finished stage keeps its line. A stream that is neither gets one line per finished stage.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._alive = stream.isatty() or notebook.is_running()
        self._log = Stages()
        self._stage, self._begin, self._drawn, self._length = "", time.perf_counter(), 0.0, 0

    def __call__(self, stage: str, fraction: float) -> None:
        if LOG.isEnabledFor(logging.INFO):
            self._log(stage, fraction)
        name, now = stage.partition(" · ")[0], time.perf_counter()
        if name != self._stage:
            if self._stage:  # it ended without reaching 1
                self._begin = now
                self._stream.write("\n" if self._alive else "")
            self._stage, self._drawn, self._length = name, 0.0, 0
        done = fraction >= 1
        if done or (self._alive and now - self._drawn >= SECONDS_BETWEEN):
            self._draw(stage, min(max(fraction, 0.0), 1.0), now - self._begin)
            self._drawn = now
        if done:
            self._stage, self._begin = "", now
            self._stream.write("\n")
            self._stream.flush()

    def _draw(self, stage: str, fraction: float, passed: float) -> None:
        full = round(WIDTH * fraction)
        unicode = (getattr(self._stream, "encoding", None) or "").lower().startswith("utf")
        block, rest = ("█", "░") if unicode else ("#", ".")
        left = f"{wording.seconds(passed)}" if fraction >= 1 or not fraction else _left(fraction, passed)
        line = f"{stage}  {block * full}{rest * (WIDTH - full)} {fraction:4.0%}  {left}"
        self._stream.write(("\r" if self._alive else "") + line.ljust(self._length))
        self._length = len(line)
        self._stream.flush()


def _left(fraction: float, passed: float) -> str:
    return f"{wording.seconds(passed * (1 - fraction) / fraction)} left"
