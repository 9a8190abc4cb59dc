"""The time budget of a race: progress that shows what is left, and stops what takes too long."""

from __future__ import annotations

import time

from offdiag.progress import Progress


class OutOfTime(Exception):  # noqa: N818 - not an error of anybody
    """Raised by the progress of a fit whose time is up."""


class Clock:
    """Seconds since the start, seconds left, and progress for the stages in between."""

    def __init__(self, seconds: float, progress: Progress | None) -> None:
        self._begin, self._seconds, self._progress = time.perf_counter(), seconds, progress
        self._reserved = 0.0
        self.best = ""  # shown with the progress

    def elapsed(self) -> float:
        return time.perf_counter() - self._begin

    def left(self) -> float:
        """Seconds that may be spent, without those reserved for the end."""
        return self._seconds - self._reserved - self.elapsed()

    def reserve(self, seconds: float) -> None:
        """Keep this much for the last fit, on everything; at most a quarter of the budget."""
        self._reserved = max(self._reserved, min(seconds, self._seconds / 4))

    def stage(self, what: str, most: float | None = None) -> Progress:
        """Progress of a stage, which is stopped after ``most`` seconds."""
        until = None if most is None else time.perf_counter() + most

        def progress(stage: str, fraction: float) -> None:
            if until is not None and time.perf_counter() > until:
                raise OutOfTime
            if self._progress is not None:
                share = min(self.elapsed() / self._seconds, 0.99) if self._seconds > 0 else 0.99
                self._progress(f"autopilot · {what}{self.best}", share)

        return progress

    def done(self) -> None:
        if self._progress is not None:
            self._progress("autopilot", 1.0)
