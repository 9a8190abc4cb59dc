"""What tuning tried and what it found."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from offdiag import notebook, tables, wording
from offdiag.progress import Progress, reporter
from offdiag.protocols import Learner
from offdiag.tuning.gain import Gain, measure_gain

COMPLETE, REJECTED, FAILED = "complete", "rejected", "failed"
TIE = 0.25  # standard errors: closer trials are ranked by their left-out errors


@dataclass(frozen=True)
class Trial:
    """One set of settings: measured on all validation users, or rejected on a few items and users."""

    number: int
    origin: str  # "automatic", "given", "screening", "sampler" or "propensity": who proposed it
    settings: dict[str, Any]
    state: str  # "complete", "rejected" or "failed"
    value: float | None = None  # mean of the metric over the validation users
    sem: float | None = None
    small_value: float | None = None  # the same on popular items and some of the users only
    left_out_error: float | None = None  # exact leave-one-out error of training users: a second opinion
    seconds: float = 0.0
    note: str = ""  # why it failed


@dataclass(frozen=True, eq=False)
class Tuned(tables.Tabular):
    """The chosen settings, a model with them, and every trial.

    As a table: a row per trial, the chosen one first; every searched setting is a column.

    Example:
        >>> import offdiag as od
        >>> split = od.split.strong(od.synthetic.interactions(300, 40, 3_000, seed=0), held_out=0.2)
        >>> tuned = od.tune(od.EASE, split, trials=2, fixed={"user_power": 0.5})
        >>> tuned.model.l2 == tuned.settings["l2"] == tuned.best.settings["l2"]
        True
        >>> tuned.to_dict()["stopped"]
        'trials'
    """

    model: Learner  # not fitted
    settings: dict[str, Any]  # the searched ones and those held fixed
    value: float
    sem: float
    metric: str
    trials: list[Trial]
    seconds: float
    stopped: str  # "trials", "seconds" or "interrupted"
    groups: Any = None  # of items, of every fit

    @property
    def best(self) -> Trial:
        """The chosen trial; ``reason`` says why."""
        return winner(self.trials)

    @property
    def reason(self) -> str:
        """Why this trial was chosen: for its value, or among near-equals for its left-out error."""
        return reason(self.trials)

    def gain(self, split: Any, *, item_features: Any = None, progress: Progress | bool | None = None) -> Gain:
        """What tuning gained: the chosen and the automatic settings, fitted on train, measured on the test users.

        Ask once, at the very end. Settings that were held fixed are fixed in both. Give features of the search again.

        Example:
            >>> import offdiag as od
            >>> split = od.split.strong(od.synthetic.interactions(300, 40, 3_000, seed=0), held_out=0.2)
            >>> gain = od.tune(od.EASE, split, trials=2, fixed={"user_power": 0.5}).gain(split)
            >>> gain.tuned.n_users == gain.automatic.n_users == gain.comparison.n_users
            True
        """
        fixed = {name: value for name, value in self.settings.items() if name not in self.best.settings}
        cls = type(self.model)
        return measure_gain(
            cls(**self.settings), cls(**fixed), split, self.metric, reporter(progress), groups=self.groups,
            item_features=item_features,
        )  # fmt: skip

    @property
    def ranked(self) -> list[Trial]:
        """The chosen trial, then the complete ones by value, then the others."""
        best = self.best
        return [best, *sorted((trial for trial in self.trials if trial is not best), key=_order)]

    def _columns(self, form: str) -> Mapping[str, Any]:
        ranked = self.ranked
        names = list(dict.fromkeys(name for trial in ranked for name in trial.settings))
        facts = ("value", "sem", "small_value", "left_out_error", "seconds", "state", "note")
        columns = {"trial": [trial.number for trial in ranked], "origin": [trial.origin for trial in ranked]}
        columns |= {name: tables.alike([trial.settings.get(name) for trial in ranked]) for name in names}
        return columns | {name: [getattr(trial, name) for trial in ranked] for name in facts}

    def _repr_html_(self) -> str:
        facts = {self.metric: wording.with_error(self.value, self.sem), "chosen": self.reason}
        facts |= {"stopped by": self.stopped}
        facts |= {name: number_text(value) for name, value in self.settings.items()}
        table = self.to_polars().drop("small_value", "left_out_error", "note")
        return notebook.card(f"Tuned {type(self.model).__name__}", facts, table)

    def __str__(self) -> str:
        names = list(dict.fromkeys(name for trial in self.trials for name in trial.settings))
        head = ["trial", *names, self.metric, "sem", "seconds", "state"]
        rows = [_row(trial, names) for trial in self.ranked]
        widths = [max(len(row[n]) for row in [head, *rows]) for n in range(len(head))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in [head, *rows]]
        done = sum(trial.state == COMPLETE for trial in self.trials)
        lines.append(f"{len(self.trials)} trials ({done} complete), {wording.seconds(self.seconds)}")
        lines.append(f"chosen: {self.reason}")
        if self.best.origin == "automatic":
            lines.append("these are the automatic settings: tuning found none that it prefers")
        elif (before := automatic_value(self.trials)) is not None:
            lines.append(
                f"{self.value - before:+.4f} {self.metric} over automatic on the validation users, partly luck; "
                "gain(split) measures it on the test users"
            )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "model": type(self.model).__name__,
            "metric": self.metric,
            "settings": self.settings,
            "chosen": self.best.number,
            "reason": self.reason,
            "value": self.value,
            "sem": self.sem if math.isfinite(self.sem) else None,
            "stopped": self.stopped,
            "seconds": self.seconds,
            "trials": [asdict(trial) for trial in self.trials],
        }


def top(trials: Sequence[Trial]) -> Trial:
    """The trial with its own fit and the largest value; the first one in a tie."""
    fitted = [trial for trial in trials if trial.state == COMPLETE and trial.origin != "propensity"]
    return max(fitted, key=lambda trial: float(trial.value or 0.0))


def chosen(trials: Sequence[Trial]) -> Trial:
    """Of the trials within a quarter of a standard error of the top, the one with the smallest left-out error.

    With few validation users the largest of many values is mostly luck. The error of users left out of training is
    exact and does not depend on them. Without it, the top trial is taken.
    """
    near = _near_equals(trials)
    if any(trial.left_out_error is None for trial in near):
        return top(trials)
    return min(near, key=lambda trial: float(trial.left_out_error or 0.0))


def _near_equals(trials: Sequence[Trial]) -> list[Trial]:
    """The trials with their own fit that the validation users can hardly tell from the top one."""
    first = top(trials)
    least = float(first.value or 0.0) - TIE * (first.sem or 0.0)
    return [t for t in trials if t.state == COMPLETE and t.origin != "propensity" and float(t.value or 0.0) >= least]


def reason(trials: Sequence[Trial]) -> str:
    """Why the winner was chosen, in words."""
    first, fit, best, near = top(trials), chosen(trials), winner(trials), _near_equals(trials)
    if len(near) == 1 or any(trial.left_out_error is None for trial in near):
        text = f"trial {fit.number}: it has the largest value"
    else:
        whose = "its own" if fit is first else f"trial {first.number}"
        text = (
            f"trial {fit.number}: of the {len(near)} trials within a quarter of a standard error of the largest value "
            f"({whose}), it has the smallest left-out error"
        )
    if best is fit:
        return text
    return f"{text}; then trial {best.number}, the same with the power of popularity that has the largest value"


def automatic_value(trials: Sequence[Trial]) -> float | None:
    """The value of the automatic settings on the validation users."""
    return next((t.value for t in trials if t.origin == "automatic" and t.value is not None), None)


def winner(trials: Sequence[Trial]) -> Trial:
    """The chosen trial with the power of popularity that suits it best."""
    fit = chosen(trials)
    powers = [t for t in trials if t.origin == "propensity" and t.settings | fit.settings == t.settings]
    return max([fit, *powers], key=lambda trial: float(trial.value or 0.0))


def number_text(value: Any) -> str:
    """A setting as text: 0.6537 rather than 0.653712345."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _order(trial: Trial) -> tuple[bool, float, int]:
    value = trial.value if trial.value is not None else -1.0
    return trial.state != COMPLETE, -value, trial.number


def _row(trial: Trial, names: Sequence[str]) -> list[str]:
    settings = [number_text(trial.settings.get(name, "")) for name in names]
    value = "" if trial.value is None else f"{trial.value:.4f}"
    sem = "" if trial.sem is None else f"{trial.sem:.4f}"
    return [str(trial.number), *settings, value, sem, f"{trial.seconds:.1f}", trial.state]
