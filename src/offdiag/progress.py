"""Progress of long-running work: a function that takes the name of the stage and the fraction done."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, float], None]


def of_tasks(
    progress: Progress | None, stage: str, tasks: int, begin: float = 0.0, share: float = 1.0
) -> Callable[[int], None] | None:
    """For parallel tasks: a function of the number finished; ``begin`` and ``share`` place them within the stage."""
    if progress is None:
        return None
    return lambda finished: progress(stage, begin + share * finished / tasks)
