"""What the autopilot tried, what it chose, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from offdiag import notebook, tables, wording
from offdiag.evaluation import Comparison, Result
from offdiag.models.recommender import Recommender

if TYPE_CHECKING:
    import polars as pl

COMPLETE, BEHIND, FAILED, SKIPPED = "complete", "behind", "failed", "skipped"


@dataclass(frozen=True, eq=False)
class Row:
    """One model of the race, measured on the validation users."""

    family: str
    model: str  # its class
    state: str  # "complete", "behind" (surely worse than the best, so never tuned), "failed" or "skipped"
    settings: dict[str, Any] = field(default_factory=dict)
    result: Result | None = None
    fit_seconds: float = math.nan
    begun: float = 0.0  # seconds after the start of the race
    n_bytes: int = 0  # of the weights
    note: str = ""

    def value(self, metric: str) -> float:
        return -math.inf if self.result is None else self.result.mean[metric]


@dataclass(frozen=True, eq=False)
class Autopilot(tables.Tabular):
    """What ``od.auto`` returns: a model fitted on everything, the table of all that was tried, and a report.

    As a table: family, model, state, mean and standard error on the validation users, seconds of the fit, bytes of the
    weights, a note. ``test`` holds the results of the chosen and of the automatic model on the test users, who were
    asked once, and ``gain`` their paired difference.

    Example:
        >>> import offdiag as od
        >>> found = od.auto(od.synthetic.interactions(300, 40, 3_000, seed=0), seconds=5)
        >>> found.to_polars().columns[:3], found.model.n_users_
        (['family', 'model', 'state'], 300)
    """

    model: Recommender  # fitted on all data
    chosen: Row
    rows: tuple[Row, ...]
    metric: str
    serve: str
    sights: tuple[str, ...]  # what was seen in the data and how it was held out
    test: Mapping[str, Result]  # "chosen" and "automatic"
    notes: tuple[str, ...]
    seconds: float
    stopped: str  # "done", "seconds" or "interrupted"

    @property
    def gain(self) -> Comparison:
        """Chosen minus automatic, paired over the test users."""
        return self.test["chosen"].compare(self.test["automatic"])

    @property
    def table(self) -> pl.DataFrame:
        """All that was tried, best first."""
        return self.to_polars()

    @property
    def ranked(self) -> list[Row]:
        """The chosen row, then the others by their accuracy."""
        others = [row for row in self.rows if row is not self.chosen]
        return [self.chosen, *sorted(others, key=lambda row: -row.value(self.metric))]

    def _columns(self, form: str) -> Mapping[str, Any]:
        rows = self.ranked
        results = [row.result for row in rows]
        return {
            "family": [row.family for row in rows],
            "model": [row.model for row in rows],
            "state": [row.state for row in rows],
            self.metric: [None if one is None else one.mean[self.metric] for one in results],
            "sem": [None if one is None else one.sem[self.metric] for one in results],
            "fit_seconds": [None if math.isnan(row.fit_seconds) else row.fit_seconds for row in rows],
            "bytes": [row.n_bytes for row in rows],
            "note": [row.note for row in rows],
        }

    @property
    def verdict(self) -> str:
        """Whether the chosen model beats the automatic one on the test users."""
        name, gain = self.metric, self.gain
        mean = wording.with_error(self.test["chosen"].mean[name], self.test["chosen"].sem[name])
        said = f"{name} {mean} on {self.test['chosen'].n_users:,} test users"
        if self.test["chosen"] is self.test["automatic"]:
            return f"{said}; the automatic model is the best that was found"
        difference = wording.with_error(gain.difference[name], gain.sem[name], "+")
        if gain.difference[name] > 2 * gain.sem[name]:
            return f"{said}: {difference} over the automatic model, more than two standard errors"
        if gain.difference[name] < -2 * gain.sem[name]:
            return f"{said}: {difference}, worse than the automatic model"
        return f"{said}: {difference} against the automatic model, within two standard errors"

    @property
    def repeat(self) -> str:
        """One line that makes the same model again."""
        return f"{expression(type(self.model).__name__, self.model.settings_)}.fit(data)"

    @property
    def advice(self) -> list[str]:
        """What to try with more time."""
        left_out = [row.family for row in self.rows if row.state == SKIPPED]
        said = [f"left out: {', '.join(left_out)}; more time or memory would let them in"] if left_out else []
        if self.stopped == "seconds":
            said.append("time was up before all settings were tried: more seconds may find better ones")
        return said

    @property
    def report(self) -> str:
        """All of it as text."""
        name = self.metric
        head = ("family", "model", name, "fit", "size", "")
        cells = [head]
        for row in self.ranked:
            mean = "–" if row.result is None else wording.with_error(row.result.mean[name], row.result.sem[name])
            fit = "–" if math.isnan(row.fit_seconds) else wording.seconds(row.fit_seconds)
            size = wording.size(row.n_bytes) if row.n_bytes else "–"
            note = "chosen" if row is self.chosen else row.note or (row.state if row.state != COMPLETE else "")
            cells.append((row.family, row.model, mean, fit, size, note))
        widths = [max(len(row[column]) for row in cells) for column in range(5)]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, [*widths, 0], strict=True)).rstrip() for row in cells]
        parts = [*self.sights, "", *lines, "", self.verdict, *self.notes, *self.advice]
        return "\n".join([*parts, f"again: {self.repeat}", f"{wording.seconds(self.seconds)} in all"])

    def __str__(self) -> str:
        return self.report

    def _repr_html_(self) -> str:
        facts = {f"seen {n}": said for n, said in enumerate(self.sights, 1)}
        facts |= {"verdict": self.verdict, "again": self.repeat}
        return notebook.card("Autopilot", facts, self.to_polars())


def expression(name: str, settings: Mapping[str, Any]) -> str:
    """The Python expression of a model; the parts of a blend are models, too."""
    words = {key: value for key, value in settings.items() if not (name == "Blend" and key in ("decay", "half_life"))}

    def text(key: str, value: Any) -> str:
        if name == "Blend" and key == "parts":
            return "[" + ", ".join(expression(part["model"], part["settings"]) for part in value) + "]"
        return repr(float(f"{value:.6g}")) if isinstance(value, float) else repr(value)

    return f"od.{name}({', '.join(f'{key}={text(key, value)}' for key, value in words.items())})"
