"""The state of a race: rows measured on the same validation users, and which of them is the best.

The stages add rows: ``families``, ``searching`` and ``blending``. Differences are paired. What is behind the best by
more than two standard errors is not tuned, and what a row has more than another one must win by as much.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from offdiag import memory, model_list
from offdiag._kernels import machine_code
from offdiag.autopilot.clock import Clock
from offdiag.autopilot.entrants import Entrant
from offdiag.autopilot.journal import Journal
from offdiag.autopilot.outcome import BEHIND, COMPLETE, NO_GAIN, SKIPPED, Row
from offdiag.data.interactions import Interactions
from offdiag.data.prepare import binarize
from offdiag.data.split import HeldOut, Split
from offdiag.evaluation import Comparison, Result, evaluate
from offdiag.measured import decide
from offdiag.models.blend import Blend
from offdiag.models.recommender import Recommender
from offdiag.progress import Progress

TIE = 0.25  # standard errors of a lead that is none
KEPT = 4  # fitted models that stay in memory, besides the best of each kind
RESERVE = 1.5  # the last fit, on everything, takes at most this much longer than the one on train


@dataclass(eq=False)
class Race:
    """All rows so far, with the fitted models of the best."""

    split: Split
    metric: str
    clock: Clock
    seed: int
    journal: Journal = field(default_factory=lambda: Journal(None, {}))
    also: Mapping[str, Any] = field(default_factory=dict)  # what fits may take besides: item_features, groups
    rows: list[Row] = field(default_factory=list)
    models: dict[Row, Recommender] = field(default_factory=dict)
    automatic: Row | None = None
    notes: list[str] = field(default_factory=list)
    entrants: dict[str, Entrant] = field(default_factory=dict)  # by family
    ones: bool = False  # the families learn from all values as 1
    _ones: Split | None = None

    @property
    def measured(self) -> list[Row]:
        """Rows that may be chosen, the most accurate first."""
        fit = [row for row in self.rows if row.result is not None and row.state in (COMPLETE, BEHIND)]
        return sorted(fit, key=lambda row: -row.value(self.metric))

    @property
    def best(self) -> Row:
        """The most accurate row; the automatic one if that is as good, within a quarter of a standard error."""
        first, usual = self.measured[0], self.automatic
        if usual is None or usual is first:
            return first
        test = self.compare(first, usual)
        return usual if test.difference[self.metric] <= TIE * test.sem[self.metric] else first

    def compare(self, one: Row, other: Row) -> Comparison:
        """The paired difference of two rows on the validation users."""
        assert one.result is not None
        assert other.result is not None
        return one.result.compare(other.result)

    def beats(self, one: Row, other: Row) -> bool:
        """Whether it is better by more than two standard errors."""
        test = self.compare(one, other)
        return decide(test.difference[self.metric], test.sem[self.metric]) == "better"

    def data(self, row: Row) -> Split:
        """What the row learned from and was measured on."""
        return self.split_of_ones() if row.ones else self.split

    def split_of_ones(self) -> Split:
        if self._ones is None:
            held = [_as_ones(part) for part in (self.split.validation, self.split.test)]
            self._ones = Split(binarize(self.split.train), held[0], cast(HeldOut, held[1]))
        return self._ones

    def measure(
        self, family: str, model: Recommender, most: float | None = None, *, trials: int = 0, **facts: Any
    ) -> Row:
        """Fit on train, measure on the validation users, remember; a row of an earlier part of the run stays as it is.

        ``facts`` are fields of the row. Raises ``OutOfTime`` after ``most`` seconds, and the errors of the fit.
        """
        row = Row(family, type(model).__name__, COMPLETE, trials=trials, **{"ones": self.ones} | facts)
        known = self.journal.rows.get(row.name)
        if known is not None and known.result is not None:
            return self.remember(known)
        begin, compiled, before = time.perf_counter(), machine_code.seconds, memory.begin_peak()
        model = self.fit(model, row, self.data(row).train, self.clock.stage(f"fitting {family}", most))
        row.memory = memory.peak_since(before)
        row.fit_seconds = max(time.perf_counter() - begin - (machine_code.seconds - compiled), 0.0)
        return self.add(row, model)

    def add(self, row: Row, model: Recommender) -> Row:
        """Measure a model that was just fitted on the validation users, if it was not, and remember both."""
        row.begun = max(self.clock.elapsed() - row.fit_seconds, 0.0)
        row.result = self.ask(row, model, "validation") if row.result is None else row.result
        row.settings, row.n_bytes = dict(model.settings_), model.weights_.nbytes
        if row.features and not model.settings_.get("feature_weight", 0.0):
            row.state, row.note = NO_GAIN, "the features would count for nothing"
        self.models[row] = model
        self.journal.add(row, self.clock.elapsed())
        return self.remember(row)

    def ask(self, row: Row, model: Recommender, part: str) -> Result:
        """How good a fitted model is on the validation or the test users."""
        held = getattr(self.data(row), part)
        return evaluate(model, held, [self.metric], history_decay=row.history_decay)

    def remember(self, row: Row) -> Row:
        """Add a measured row; mark what is behind now, and forget the fitted models of all but the best few."""
        self.rows.append(row)
        order = self.measured
        for other in order[1:]:
            if other.state == COMPLETE and self.beats(order[0], other):
                other.state = BEHIND
        of_kinds = {self._kind(other): other for other in reversed(order)}  # the best of each: a blend may need it
        for other in order[KEPT:]:
            if other is not self.automatic and (not self._kind(other) or other is not of_kinds[self._kind(other)]):
                self.models.pop(other, None)
        if order:
            best = self.best
            self.clock.best = f" · best {best.value(self.metric):.4f}"
            self.clock.reserve(RESERVE * self.cost(best))
        return row

    def cost(self, row: Row) -> float:
        """Seconds of another fit: a first one also compiles, so a family takes no longer than a dearer one did."""
        entrant = self.entrants.get(row.family)
        if entrant is None:
            return row.fit_seconds
        dearer = [one.fit_seconds for one in self.measured if self._flops(one) >= entrant.flops]
        return min([row.fit_seconds, *dearer])

    def _kind(self, row: Row) -> str:
        return self.entrants[row.family].kind if row.family in self.entrants else ""

    def _flops(self, row: Row) -> float:
        return self.entrants[row.family].flops if row.family in self.entrants else 0.0

    def leave_out(self, entrant: Entrant, note: str, state: str = SKIPPED, seconds: float = np.nan) -> None:
        """A row that was not measured, and why."""
        row = Row(entrant.family, type(entrant.model).__name__, state, note=note, fit_seconds=seconds)
        self.rows.append(row)
        if np.isfinite(seconds):  # time was spent on it, which another part of the run need not do
            self.journal.add(row, self.clock.elapsed())

    def model(self, row: Row) -> Recommender:
        """The model of a row as fitted on train, fitted again if it is not in memory."""
        if row not in self.models:
            stage = self.clock.stage(f"fitting {row.family} again")
            self.models[row] = self.fit_row(row, self.data(row).train, stage)
        return self.models[row]

    def fit_row(self, row: Row, data: Interactions, progress: Progress | None) -> Recommender:
        """A new model with the settings of a row; the parts of a blend are fitted one by one."""
        if row.parts:
            parts = [next(one for one in self.rows if one.name == name) for name in row.parts]
            fitted = [self.fit_row(part, data, progress) for part in parts]
            return Blend.of(fitted, row.settings["shares"])
        empty: Recommender = model_list.model_class(row.model)()
        model = self.fit(empty._with(row.settings), row, data, progress)
        return model if row.history_decay is None else model.with_history_decay(row.history_decay)

    def fit(self, model: Recommender, row: Row, data: Interactions, progress: Progress | None) -> Recommender:
        """Fit with what this row takes besides the data."""
        words = {name: what for name, what in self.also.items() if name == "groups" or row.features}
        model.fit(data, progress=progress, **words)
        if getattr(model, "stopped_", None) == "interrupted":
            raise KeyboardInterrupt  # a model that is not finished must not be judged
        return model


def _as_ones(held: HeldOut | None) -> HeldOut | None:
    if held is None:
        return None
    histories = held.histories.copy()
    histories.data = np.ones(histories.nnz, dtype=np.float32)
    ordered = None if held.ordered is None else binarize(held.ordered)
    return HeldOut(histories, held.targets, held.user_ids, held.item_ids, ordered, held.target_times)
