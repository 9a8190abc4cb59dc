"""What tuning tried and what it found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

COMPLETE, PRUNED, FAILED = "complete", "pruned", "failed"


@dataclass(frozen=True)
class Trial:
    """One setting: measured on all validation users, or rejected after a look at few items and users."""

    number: int
    origin: str  # "automatic", "given", "screening", "sampler" or "propensity": who proposed it
    settings: dict[str, Any]
    state: str  # "complete", "pruned" or "failed"
    value: float | None = None  # mean of the metric over the validation users
    sem: float | None = None
    small_value: float | None = None  # the same on popular items and some of the users only
    left_out_error: float | None = None  # of users left out of training in turn, exact: a second opinion
    seconds: float = 0.0
    note: str = ""  # why it failed


@dataclass(frozen=True, eq=False)
class Tuned:
    """The best settings, a model that has them, and every trial."""

    model: Any  # not fitted
    settings: dict[str, Any]  # the searched ones and those held fixed
    value: float
    sem: float
    metric: str
    trials: list[Trial]
    seconds: float
    stopped: str  # "trials", "seconds" or "interrupted"

    @property
    def best(self) -> Trial:
        """The trial with the largest value; of equal ones the first."""
        return best_of(self.trials)

    def __str__(self) -> str:
        names = list(dict.fromkeys(name for trial in self.trials for name in trial.settings))
        head = ["trial", *names, self.metric, "sem", "seconds", "state"]
        rows = [_row(trial, names) for trial in sorted(self.trials, key=_order)]
        widths = [max(len(row[n]) for row in [head, *rows]) for n in range(len(head))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in [head, *rows]]
        done = sum(trial.state == COMPLETE for trial in self.trials)
        return "\n".join([*lines, f"{len(self.trials)} trials ({done} complete), {self.seconds:.1f} s"])

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "model": type(self.model).__name__,
            "metric": self.metric,
            "settings": self.settings,
            "value": self.value,
            "sem": self.sem,
            "stopped": self.stopped,
            "seconds": self.seconds,
            "trials": [asdict(trial) for trial in self.trials],
        }


def best_of(trials: Sequence[Trial]) -> Trial:
    complete = [trial for trial in trials if trial.state == COMPLETE and trial.value is not None]
    return max(complete, key=lambda trial: float(trial.value or 0.0))


def number_text(value: Any) -> str:
    """A setting for a person: 0.6537 rather than 0.653712345."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _order(trial: Trial) -> tuple[bool, float, int]:
    value = trial.value if trial.value is not None else -1.0
    return trial.state != COMPLETE, -value, trial.number


def _row(trial: Trial, names: Sequence[str]) -> list[str]:
    settings = [number_text(trial.settings.get(name, "")) for name in names]
    value = "" if trial.value is None else f"{trial.value:.4f}"
    sem = "" if trial.sem is None else f"{trial.sem:.4f}"
    return [str(trial.number), *settings, value, sem, f"{trial.seconds:.1f}", trial.state]
