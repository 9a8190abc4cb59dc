"""The race on the validation users: families with automatic settings, then settings of the best, then a blend.

A row is measured on the same users as all others, so differences are paired. What is behind the best by more than two
standard errors is not tuned.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, cast

import numpy as np

from offdiag import wording
from offdiag.autopilot.clock import Clock, OutOfTime
from offdiag.autopilot.entrants import Entrant
from offdiag.autopilot.outcome import BEHIND, COMPLETE, FAILED, SKIPPED, Row
from offdiag.data.split import Split
from offdiag.errors import NotEnoughMemory, OffdiagError
from offdiag.evaluation import evaluate, paired_t_test
from offdiag.models import blend_shares
from offdiag.models.blend import Blend
from offdiag.models.blended_parts import blended
from offdiag.models.recommender import Recommender
from offdiag.protocols import Learner
from offdiag.ranking import encode
from offdiag.tuning import tune

FITS_TO_TUNE = 6  # with time for fewer, settings are not searched
TUNED = 2  # families whose settings are searched
PARTS = 3  # of a blend, at most
COMPLEMENTS = 0.5  # a part of a blend reaches at least this share of the best
TIE = 0.25  # standard errors of a lead that is none
KEPT = 4  # fitted models that stay in memory


@dataclass(eq=False)
class Race:
    """All rows so far, with the fitted models of the best."""

    split: Split
    metric: str
    clock: Clock
    seed: int
    rows: list[Row] = field(default_factory=list)
    models: dict[Row, Recommender] = field(default_factory=dict)
    automatic: Row | None = None
    notes: list[str] = field(default_factory=list)
    tunable: set[str] = field(default_factory=set)  # families whose settings are worth a search

    @property
    def best(self) -> Row:
        """The most accurate row; the automatic one if that is as good, within a quarter of a standard error."""
        first = max((row for row in self.rows if row in self.models), key=lambda row: row.value(self.metric))
        usual = self.automatic
        if usual is None or usual.result is None or first.result is None:
            return first
        test = first.result.compare(usual.result)
        return usual if test.difference[self.metric] <= TIE * test.sem[self.metric] else first

    def run(self, entrants: list[Entrant]) -> None:
        """One entrant after the other; raises only if the automatic one fails."""
        self.tunable = {entrant.family for entrant in entrants if entrant.tunable}
        for entrant in entrants:
            if not entrant.automatic and entrant.seconds > self.clock.left() / 2:
                left, needed = (wording.seconds(max(value, 0.0)) for value in (self.clock.left(), entrant.seconds))
                self._skip(entrant, f"a fit takes about {needed}, and {left} were left")
                continue
            self._enter(entrant)

    def _enter(self, entrant: Entrant) -> None:
        most = None if entrant.automatic else max(self.clock.left() / 2, 0.0)
        try:
            row = self._measure(entrant.family, entrant.model, most)
        except OutOfTime:
            self._skip(entrant, f"its fit was stopped after {wording.seconds(most or 0.0)}")
            return
        except NotEnoughMemory as error:
            if entrant.automatic:
                raise
            self._skip(entrant, str(error))
            return
        except OffdiagError as error:
            if entrant.automatic:
                raise
            self.rows.append(Row(entrant.family, type(entrant.model).__name__, FAILED, note=str(error)))
            return
        if entrant.automatic:
            self.automatic = row
            self.clock.reserve(1.5 * row.fit_seconds)

    def _skip(self, entrant: Entrant, note: str) -> None:
        self.rows.append(Row(entrant.family, type(entrant.model).__name__, SKIPPED, note=note))

    def _measure(self, family: str, model: Recommender, most: float | None) -> Row:
        """Fit on train, measure on the validation users, remember."""
        begun = self.clock.elapsed()
        begin = time.perf_counter()
        progress = self.clock.stage(f"fitting {family}", most)
        model.fit(self.split.train, progress=progress)
        seconds = time.perf_counter() - begin
        return self._add(family, model, seconds, begun)

    def _add(self, family: str, model: Recommender, seconds: float, begun: float) -> Row:
        result = evaluate(model, self.split.validation, [self.metric])  # type: ignore[arg-type]
        name = type(model).__name__
        row = Row(family, name, COMPLETE, dict(model.settings_), result, seconds, begun, model.weights_.nbytes)
        self.rows.append(row)
        self.models[row] = model
        self._drop()
        best = self.best
        self.clock.best = f" · best {self.metric} {best.value(self.metric):.4f} ({best.family})"
        return row

    def _drop(self) -> None:
        """Forget the fitted models of all but the best few, and of those that are surely behind the best."""
        order = sorted(self.models, key=lambda row: -row.value(self.metric))
        for row in order[KEPT:]:
            if row is not self.automatic:
                del self.models[row]
        for at, row in enumerate(self.rows):
            if row.state == COMPLETE and row is not order[0] and self._behind(row, order[0]):
                behind = replace(row, state=BEHIND)
                self.rows[at] = behind
                if row in self.models:
                    self.models[behind] = self.models.pop(row)
                if row is self.automatic:
                    self.automatic = behind

    def _behind(self, row: Row, best: Row) -> bool:
        assert row.result is not None
        assert best.result is not None
        test = best.result.compare(row.result)
        return bool(test.difference[self.metric] > 2 * test.sem[self.metric])

    def tune(self) -> None:
        """Search the settings of the best families, each for its part of what is left."""
        if find_spec("optuna") is None:
            self.notes.append("settings were not searched: optuna is missing; pip install 'offdiag[tune]'")
            return
        fit = [row for row in self.rows if row.state == COMPLETE and row in self.models and row.family in self.tunable]
        contenders = sorted(fit, key=lambda row: -row.value(self.metric))[:TUNED]
        for place, row in enumerate(contenders):
            seconds = 0.8 * self.clock.left() / (len(contenders) - place)
            trials = int(seconds / max(row.fit_seconds, 1e-3))
            if trials < FITS_TO_TUNE:
                fits = f"{row.family} takes {wording.seconds(row.fit_seconds)} per fit"
                self.notes.append(
                    f"its settings were not searched: {fits}, and {wording.seconds(max(seconds, 0))} were left"
                )
                continue
            self._tune_one(row, seconds, min(trials, 100))

    def _tune_one(self, row: Row, seconds: float, trials: int) -> None:
        model = self.models[row]
        given = {
            name: value for name, value in model.get_params().items() if name == "neighbours" and value is not None
        }
        begun, begin = self.clock.elapsed(), time.perf_counter()
        try:
            found = tune(
                cast("type[Learner]", type(model)), self.split, self.metric, trials, seconds=seconds, seed=self.seed,
                fixed=given if row.family == "next item" else None, progress=self.clock.stage(f"tuning {row.family}"),
            )  # fmt: skip
            best: Any = found.model
            if found.best.origin == "automatic":
                return
            best.fit(self.split.train, progress=self.clock.stage(f"fitting {row.family} with the best settings"))
        except OutOfTime:
            return
        except OffdiagError as error:
            self.notes.append(f"the settings of {row.family} were not searched: {wording.one_line(error)}")
            return
        made = self._add(row.family, best, time.perf_counter() - begin, begun)
        at = self.rows.index(next(one for one in self.rows if one.settings is made.settings))
        model_of = self.models.pop(self.rows[at], None)
        self.rows[at] = replace(self.rows[at], note=f"tuned, {len(found.trials)} trials", fit_seconds=row.fit_seconds)
        if model_of is not None:
            self.models[self.rows[at]] = model_of

    def blend(self) -> None:
        """Blend the best rows of different families; kept only if it wins on users that did not choose the shares."""
        parts = self._parts()
        if len(parts) < 2 or self.clock.left() <= 0:
            return
        begun, begin = self.clock.elapsed(), time.perf_counter()
        models = [self.models[row] for row in parts]
        self.clock.stage("blending")("", 0.0)
        users, found = self._candidates(models)
        some = np.random.default_rng(self.seed).random(len(users)) < 0.5
        if not some.any() or some.all():
            return
        trial = Blend.of(models, blend_shares.best_shares(found.some(some)).tolist())
        result = evaluate(trial, self.split.validation, [self.metric])  # type: ignore[arg-type]
        single = parts[0].result
        assert single is not None
        gap = (result.per_user[self.metric] - single.per_user[self.metric])[users[~some]]
        difference, sem, _, _ = paired_t_test(gap)
        said = wording.with_error(difference, sem, "+")
        if not difference > 2 * sem:
            names = " + ".join(row.family for row in parts)
            self.notes.append(f"a blend of {names} was not kept: {said} on users that did not choose its shares")
            return
        shares = blend_shares.best_shares(found)
        used = [p for p in range(len(models)) if shares[p] > 0]
        blend = Blend.of([models[p] for p in used], shares[used].tolist())
        self._add("blend", blend, time.perf_counter() - begin, begun)
        names = " + ".join(parts[p].family for p in used)
        self.notes.append(f"the blend of {names} gained {said} on users that did not choose its shares")

    def _parts(self) -> list[Row]:
        """The best row of each family, best first."""
        first: dict[str, Row] = {}
        for row in sorted(self.models, key=lambda row: -row.value(self.metric)):
            if not self.models[row].keeps_rows and row.result is not None:
                first.setdefault(row.family, row)
        ranked = list(first.values())
        if not ranked:
            return []
        least = COMPLEMENTS * ranked[0].value(self.metric)
        return [row for row in ranked if row.value(self.metric) >= least][:PARTS]

    def _candidates(self, models: list[Recommender]) -> tuple[Any, blend_shares.Candidates]:
        """Positions of validation users within the per-user results, and their candidates."""
        held = self.split.validation
        assert held is not None
        weights, recency = blended(models, np.ones(len(models)))
        asked = held.histories if recency is None else held.ordered
        rows = encode(asked, models[0].item_ids_, recency)[0]
        with_targets = np.flatnonzero(np.diff(held.targets.indptr))
        users = np.arange(len(with_targets))
        if len(users) > 2 * blend_shares.USERS:
            users = np.sort(np.random.default_rng(self.seed).choice(users, 2 * blend_shares.USERS, replace=False))
        chosen = with_targets[users]
        return users, blend_shares.candidates(weights, rows[chosen], held.targets[chosen])
