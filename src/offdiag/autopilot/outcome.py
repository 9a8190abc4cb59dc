"""What the autopilot tried, what it chose, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from offdiag import model_list, notebook, tables, wording
from offdiag.evaluation import Comparison, Result
from offdiag.measured import decide
from offdiag.models.fields import settings_of
from offdiag.models.recommender import Recommender

if TYPE_CHECKING:
    import polars as pl

COMPLETE, BEHIND, NO_GAIN, FAILED, SKIPPED = "complete", "behind", "no gain", "failed", "skipped"


@dataclass(eq=False)
class Row:
    """One model of the race, measured on the validation users."""

    family: str
    model: str  # its class
    # "complete", "behind" (surely worse than the best, so never tuned), "no gain" (what it has more than another row
    # does not surely help), "failed" or "skipped"
    state: str
    settings: dict[str, Any] = field(default_factory=dict)
    result: Result | None = field(default=None, repr=False)
    fit_seconds: float = math.nan
    begun: float = 0.0  # seconds after the start of the race
    n_bytes: int = 0  # of the weights
    note: str = ""
    memory: int = 0  # bytes by which the fit raised the memory of the process at most; 0 if not known
    trials: int = 0  # of a search for its settings
    features: bool = False  # it learned from item_features
    ones: bool = False  # it learned from all values as 1
    history_decay: float | None = None  # for recommend
    parts: list[str] = field(default_factory=list)  # names of the rows of a blend
    for_blend: bool = False  # its settings were searched for a blend, next to the other parts

    @property
    def name(self) -> str:
        """Its family, and whether its settings were searched."""
        return self.family + ", tuned" * bool(self.trials) + " for a blend" * self.for_blend

    @property
    def peak(self) -> int:
        """What a fit needs at most besides the data: measured, and at least the weights."""
        return max(self.memory, self.n_bytes)

    def value(self, metric: str) -> float:
        return -math.inf if self.result is None else self.result.mean[metric]


@dataclass(frozen=True, eq=False)
class Autopilot(tables.Tabular):
    """What ``od.auto`` returns: a model fitted on everything, the table of all that was tried, and a report.

    As a table: family, model, state, mean and standard error on the validation users, seconds of the fit, the memory
    that it took at most (measured on Linux, else that of the weights), bytes of the weights, a note. ``test`` holds the
    results of the chosen and of the automatic model on the test users, who were asked once, and ``gain`` their paired
    difference.

    Example:
        >>> import offdiag as od
        >>> found = od.auto(od.synthetic.interactions(300, 40, 3_000, seed=0), seconds=2)
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
    budget: float = math.inf  # seconds that were given
    grouped: bool = False  # with groups of items

    @property
    def history_decay(self) -> float | None:
        """How the history fades in the lists of the model, where that won; the model remembers it. None: not at all."""
        return self.chosen.history_decay

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
            "memory": [row.peak for row in rows],
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
        if (found := decide(gain.difference[name], gain.sem[name])) == "better":
            return f"{said}: {difference} over the automatic model, more than two standard errors"
        if found == "worse":
            return f"{said}: {difference}, worse than the automatic model"
        return f"{said}: {difference} against the automatic model, within two standard errors"

    @property
    def repeat(self) -> str:
        """One line of Python that makes the same model again, of the ``data``, ``features`` and ``groups`` given."""
        data = "od.prepare.binarize(od.read(data))" if self.chosen.ones else "data"
        if self.chosen.parts:
            by_name = {row.name: row for row in self.rows}
            parts = ", ".join(self._fit(by_name[name], data) for name in self.chosen.parts)
            shares = ", ".join(_text(share) for share in self.chosen.settings["shares"])
            return f"od.Blend.of([{parts}], shares=[{shares}])"
        return self._fit(self.chosen, data)

    def _fit(self, row: Row, data: str) -> str:
        chosen = row is self.chosen
        made = expression(row.model, self.model.settings_ if chosen else row.settings)
        side = ", item_features=features" * row.features + ", groups=groups" * self.grouped
        fading = "" if row.history_decay is None else f".with_history_decay({_text(row.history_decay)})"
        return f"{made}.fit({data}{side}){fading}"

    @property
    def command(self) -> str | None:
        """The same as a command, with DATA as the table; None for what only Python can say: blends and values as 1."""
        if self.chosen.parts or self.chosen.ones:
            return None
        known = {name: entry.command for name, entry in model_list.MODELS.items()}
        words = [f"offdiag fit DATA --model {known[self.chosen.model]}"]
        for name, value in _changed(self.chosen.model, self.model.settings_).items():
            text = _text(value).strip("'")
            words.append(f"--set {name}={text}" if isinstance(value, bool) else f"--{name.replace('_', '-')} {text}")
        words += ["--features FEATURES"] * self.chosen.features + ["--groups GROUPS"] * self.grouped
        return " ".join([*words, "--out best.od"])

    @property
    def advice(self) -> list[str]:
        """What to try with more time."""
        left_out = [row.family for row in self.rows if row.state == SKIPPED]
        said = [f"left out: {', '.join(left_out)}; more time or memory would let them in"] if left_out else []
        if self.stopped == "seconds":
            said.append("time was up before all settings were tried: more seconds may find better ones")
        if self.history_decay is not None:
            said.append(
                f"older choices fade in its lists (history_decay={self.history_decay:g}), which the model remembers; "
                "one that is made by the command below needs history_decay= in each call"
            )
        return said

    @property
    def report(self) -> str:
        """All of it as text."""
        head, *cells = report_cells(self)
        widths = [max(len(row[column]) for row in [head, *cells]) for column in range(len(head) - 1)]
        lines = [
            "  ".join(c.ljust(w) for c, w in zip(row, [*widths, 0], strict=True)).rstrip() for row in [head, *cells]
        ]
        parts = [*self.sights, "", *lines, "", self.verdict, *self.notes, *self.advice, f"again: {self.repeat}"]
        parts += [f"or: {self.command}"] if self.command else []
        return "\n".join([*parts, f"{wording.seconds(self.seconds)} in all"])

    def __str__(self) -> str:
        return self.report

    def _repr_html_(self) -> str:
        facts = {f"seen {n}": said for n, said in enumerate(self.sights, 1)}
        facts |= {"verdict": self.verdict, "again": self.repeat}
        return notebook.card("Autopilot", facts, self.to_polars())


def report_cells(found: Autopilot) -> list[tuple[str, ...]]:
    """The table of a report as text: the head, then a line for each row, the chosen one first."""
    name = found.metric
    cells: list[tuple[str, ...]] = [("family", name, "fit", "memory", "size", "note")]
    for row in found.ranked:
        mean = "–" if row.result is None else wording.with_error(row.result.mean[name], row.result.sem[name])
        fit = "–" if row.result is None else wording.seconds(row.fit_seconds)
        memory, size = (wording.size(n) if n else "–" for n in (row.peak, row.n_bytes))
        state = row.state if row.state != COMPLETE else ""
        words = ["chosen" if row is found.chosen else state, row.note]
        cells.append((row.family, mean, fit, memory, size, ": ".join(word for word in words if word)))
    return cells


def expression(name: str, settings: Mapping[str, Any]) -> str:
    """The Python expression of a model with its settings."""
    return f"od.{name}({', '.join(f'{key}={_text(value)}' for key, value in _changed(name, settings).items())})"


def _changed(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a model that differ from its defaults; the others need not be said."""
    defaults = {setting: known.default for setting, known in settings_of(model_list.model_class(name)).items()}
    return {setting: value for setting, value in settings.items() if setting in defaults and value != defaults[setting]}


def _text(value: Any) -> str:
    """All digits of a number: with fewer, what is fitted again is only nearly the same."""
    return repr(float(value)) if isinstance(value, float) else repr(value)
