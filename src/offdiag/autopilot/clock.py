"""The time budget of a race: progress that shows what is left, and stops what takes too long."""

from __future__ import annotations

import time
from collections.abc import Callable

from offdiag.progress import Progress

BEAT = 5.0  # seconds between two notes of the time that is spent


class OutOfTime(Exception):  # noqa: N818 - not an error of anybody
    """Raised by the progress of a fit whose time is up."""


class Clock:
    """Seconds since the start, seconds left, and progress for the stages in between.

    ``spent`` is what an earlier part of the same run took; ``beat`` is called every few seconds with all of it.
    """

    def __init__(
        self,
        seconds: float,
        progress: Progress | None,
        spent: float = 0.0,
        beat: Callable[[float], None] | None = None,
    ) -> None:
        self._begin, self.seconds, self._progress = time.perf_counter() - spent, seconds, progress
        self._reserved, self._beat, self._last_beat = 0.0, beat, spent
        self.best = ""  # shown with the progress

    def elapsed(self) -> float:
        return time.perf_counter() - self._begin

    def left(self) -> float:
        """Seconds that may be spent, without those reserved for the end."""
        return self.seconds - self._reserved - self.elapsed()

    def reserve(self, seconds: float) -> None:
        """Keep this much for the last fit, on everything; at most a quarter of the budget."""
        self._reserved = min(seconds, self.seconds / 4)

    def stage(self, what: str, most: float | None = None) -> Progress:
        """Progress of a stage, which is stopped after ``most`` seconds."""
        until = None if most is None else time.perf_counter() + most

        def progress(stage: str, fraction: float) -> None:
            now = self.elapsed()
            if self._beat is not None and now - self._last_beat > BEAT:
                self._last_beat = now
                self._beat(now)
            if until is not None and time.perf_counter() > until:
                raise OutOfTime
            if self._progress is not None:
                share = min(now / self.seconds, 0.99)
                self._progress(f"race · {what}{self.best}", share)

        return progress

    def done(self) -> None:
        if self._progress is not None:
            self._progress("race", 1.0)
