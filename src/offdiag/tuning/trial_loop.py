"""The loop of ``od.tune``: propose settings, reject those surely behind, fit and measure the others, record all."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, cast

import numpy as np

from offdiag.errors import NotEnoughMemory, OffdiagError
from offdiag.evaluation import Result
from offdiag.models.sparse import SparseEDLAE
from offdiag.progress import Progress
from offdiag.protocols import Learner
from offdiag.tuning import ranges, screening
from offdiag.tuning.proposals import Sampler
from offdiag.tuning.study import Journal
from offdiag.tuning.trial_runner import Bench
from offdiag.tuning.trials import COMPLETE, FAILED, REJECTED, Trial, chosen, top

LATE = 0.002  # of the best value: a smaller lead on the small problem is not trusted
TRUSTED = 4  # complete trials before anything is rejected on the small problem
TOGETHER = 6  # proposals at a time where fits share work: more share more, but know less of each other
PROPENSITIES = (-0.1, 0.05, 0.1, 0.15, 0.2)  # tried on the best model at the end; they cost no fit


class OutOfTime(Exception):  # noqa: N818 - not an error of anybody
    """Raised by the progress of a trial once the budget is spent."""


class Clock:
    """Progress of the whole search, and the end of its budget."""

    def __init__(self, seconds: float | None, trials: int, progress: Progress | None) -> None:
        self._begin, self._seconds, self._trials, self._progress = time.perf_counter(), seconds, trials, progress
        self.done, self.note, self._shown = 0, "", 0.0
        self.together = 1  # trials that are fitted at the same time

    def elapsed(self) -> float:
        return time.perf_counter() - self._begin

    def over(self) -> bool:
        return self._seconds is not None and self.elapsed() >= self._seconds

    def room(self, each: float) -> int:
        """How many more trials of so many seconds fit into the budget; at least one, which may be cut off."""
        if self._seconds is None or each <= 0:
            return self._trials
        return max(1, int((self._seconds - self.elapsed()) / each))

    def __call__(self, stage: str, fraction: float) -> None:
        if self.over():
            raise OutOfTime
        if self._progress:
            share = (self.done + min(fraction, 1.0) * 0.9 * self.together) / max(self._trials, 1)
            if self._seconds is not None:
                share = max(share, self.elapsed() / self._seconds)
            self._shown = max(self._shown, min(share, 1.0))  # a trial has several stages, but the bar never goes back
            self._progress(f"trial {min(self.done + 1, self._trials)} of {self._trials}{self.note}", self._shown)


@dataclasses.dataclass(eq=False)
class Search:
    """The loop: propose, check on the small problem, fit, measure, record."""

    cls: type[Learner]
    bench: Bench
    fixed: dict[str, Any]
    space: ranges.Space
    journal: Journal
    clock: Clock
    sampler: Sampler
    _rival: Result | None = None  # the best complete trial on the small problem
    _learned: int = 0  # trials that the sampler knows

    def __post_init__(self) -> None:
        self.clock.done = len(self.trials)
        self.shares = issubclass(self.cls, SparseEDLAE) and self.bench.shares(self.cls(**self.fixed))

    @property
    def trials(self) -> list[Trial]:
        return self.journal.trials

    @property
    def complete(self) -> bool:
        return any(trial.state == COMPLETE for trial in self.trials)

    def run(self, first: list[tuple[str, dict[str, Any]]], scale: ranges.Scale, trials: int, *, mapped: bool) -> None:
        """All trials; raises ``OutOfTime`` once the budget is spent."""
        for origin, batch in self._proposals(first, scale, trials, mapped):
            self._attempt(origin, batch)
        self._try_propensities(trials)
        # A resumed study may have tried the propensities of its best trial: the sampler gets the remaining trials.
        for origin, batch in self._sampled(trials):
            self._attempt(origin, batch)

    def _proposals(
        self, first: list[tuple[str, dict[str, Any]]], scale: ranges.Scale, trials: int, mapped: bool
    ) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """Settings in batches until there are enough trials; those of an earlier run of the study are not repeated."""
        last = trials - (len(PROPENSITIES) if self._tries_propensities(trials) else 0)
        done = Counter(trial.origin for trial in self.trials)
        for origin, settings in first:
            if done[origin] > 0:
                done[origin] -= 1
            elif len(self.trials) < max(last, 1):
                yield origin, [settings]
        if mapped and len(self.trials) < last and done["screening"] < screening.TAKEN:
            points = screening.screen(self.cls, self.bench, self.fixed, scale.l2, self.clock)
            for settings in points[done["screening"] :]:
                if len(self.trials) < last:
                    yield "screening", [settings]
        yield from self._sampled(last)

    def _sampled(self, trials: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        while self.space and len(self.trials) < trials:
            yield "sampler", self._proposed(trials - len(self.trials))

    def _proposed(self, most: int) -> list[dict[str, Any]]:
        """The next settings of the sampler: one, or the rest of a batch whose fits share the Gram of one user_power.

        A batch knows the trials before it and none of its own, so a study resumed within one continues it.
        """
        size = TOGETHER if self.shares else 1
        own = [trial.number for trial in self.trials if trial.origin == "sampler"]
        done = len(own) % size
        begin = own[-done] if done else len(self.trials)
        for trial in self.trials[self._learned : begin]:
            self.sampler.learn(trial)
        self._learned = max(begin, self._learned)
        first = self.trials[begin].settings if done else self.sampler.propose(begin)
        same = {name: value for name, value in first.items() if name == "user_power" and name in self.space}
        seconds = [trial.seconds for trial in self.trials[-TOGETHER:]]
        room = self.clock.room(max(seconds, default=0.0)) if size > 1 else 1
        return [self.sampler.propose(begin + at) | same for at in range(done, min(size, done + most, done + room))]

    def _attempt(self, origin: str, batch: list[dict[str, Any]]) -> None:
        """Trials: fitted together where that shares work, else one by one."""
        self.clock(origin, 0.0)
        if not self.shares:
            for settings in batch:
                self._attempt_alone(origin, settings)
            return
        while batch:
            models = [self.cls(**self.fixed | settings) for settings in batch]
            n = self.bench.at_once(models)
            self._attempt_together(origin, batch[:n], models[:n])
            batch = batch[n:]

    def _attempt_alone(self, origin: str, settings: dict[str, Any]) -> None:
        """One trial: reject on the small problem, or fit and measure."""
        begin = time.perf_counter()
        glance: Result | None = None
        try:
            glance = self._glance(settings)
            if glance is not None and origin == "sampler" and self._hopeless(glance):
                self._add(origin, settings, REJECTED, begin, glance=glance)
                return
            model = self.cls(**self.fixed | settings)
            result = self.bench.whole(model, self.clock)
        except NotEnoughMemory:
            raise
        except OffdiagError as error:
            self._add(origin, settings, FAILED, begin, glance=glance, note=str(error))
            return
        if getattr(model, "stopped_", None) == "interrupted":
            raise KeyboardInterrupt
        self._complete(origin, settings, begin, model, result, glance)

    def _attempt_together(self, origin: str, batch: list[dict[str, Any]], models: list[Learner]) -> None:
        """Trials fitted at the same time: each is rejected on some of the users, or measured on all of them."""
        begin, self.clock.together = time.perf_counter(), len(batch)
        fits = self.bench.fit_together(models, self.clock)
        self.clock.together = 1
        each = (time.perf_counter() - begin) / len(batch)
        self._restore_rival()
        for settings in batch:
            begin = time.perf_counter() - each
            model = next(fits)
            if isinstance(model, OffdiagError):
                self._add(origin, settings, FAILED, begin, note=str(model))
                continue
            glance = self.bench.measure_some(model)
            if glance is not None and origin == "sampler" and self._hopeless(glance):
                self._add(origin, settings, REJECTED, begin, glance=glance)
                continue
            self._complete(origin, settings, begin, model, self.bench.measure(model), glance)

    def _complete(
        self,
        origin: str,
        settings: dict[str, Any],
        begin: float,
        model: Learner,
        result: Result,
        glance: Result | None,
    ) -> None:
        used = {*settings, *self.space}
        settings = settings | {name: value for name, value in model.settings_.items() if name in used}
        if not self.complete or result.mean[self.bench.metric] > float(top(self.trials).value or 0.0):
            self._rival = glance
            self.clock.note = f" · best {self.bench.metric} {result.mean[self.bench.metric]:.4f}"
        left_out = self.bench.left_out_error(model)
        self._add(origin, settings, COMPLETE, begin, result=result, glance=glance, left_out=left_out)

    def _try_propensities(self, trials: int) -> None:
        """Divide the scores of the best model by powers of popularity: trials that need no fit of their own."""
        left = trials - len(self.trials)
        if left <= 0 or not self._tries_propensities(trials):
            return
        best = chosen(self.trials)
        done = [trial.settings for trial in self.trials if trial.origin == "propensity"]
        powers = [power for power in PROPENSITIES if best.settings | {"propensity_power": power} not in done][:left]
        if not powers:
            return
        model = self.cls(**self.fixed | best.settings)
        self.bench.whole(model, self.clock)
        for power in powers:
            begin = time.perf_counter()
            result = self.bench.measure(cast(Any, model).with_propensity(power))
            settings = best.settings | {"propensity_power": power}
            self._add("propensity", settings, COMPLETE, begin, result=result)
            self.clock("propensities", 1.0)

    def _tries_propensities(self, trials: int) -> bool:
        searched = "propensity_power" not in self.fixed and "propensity_power" not in self.space
        return searched and getattr(self.cls, "has_propensity", False) and trials >= 4 * len(PROPENSITIES)

    def _glance(self, settings: dict[str, Any]) -> Result | None:
        self._restore_rival()
        return self.bench.glance(self.cls(**self.fixed | settings), self.clock)

    def _restore_rival(self) -> None:
        """Of a resumed study: the best of its trials on the small problem."""
        if self.complete and self._rival is None:
            self._rival = self.bench.glance(self.cls(**self.fixed | top(self.trials).settings))

    def _hopeless(self, glance: Result) -> bool:
        """Whether it is clearly behind the best trial on the small problem, by paired differences and beyond its error.

        That error is how much better a complete trial did on the whole problem than the small one predicted.
        """
        known = [(t.value, t.small_value) for t in self.trials if t.value is not None and t.small_value is not None]
        if self._rival is None or self.bench.metric not in glance.per_user or len(known) < TRUSTED:
            return False
        value, small = max(known)
        doubt = max(v - value - (s - small) for v, s in known)  # at least 0, from the best trial itself
        test = glance.compare(self._rival)
        margin = 2 * test.sem[self.bench.metric] + LATE * self._rival.mean[self.bench.metric] + doubt
        return bool(test.difference[self.bench.metric] < -margin)

    def _add(
        self,
        origin: str,
        settings: dict[str, Any],
        state: str,
        begin: float,
        *,
        result: Result | None = None,
        glance: Result | None = None,
        left_out: float | None = None,
        note: str = "",
    ) -> None:
        metric = self.bench.metric
        sem = None if result is None or not np.isfinite(result.sem[metric]) else result.sem[metric]
        value, small_value = (None if one is None else one.mean[metric] for one in (result, glance))
        seconds = time.perf_counter() - begin
        trial = Trial(
            len(self.trials), origin, plain(settings), state, value, sem, small_value, left_out, seconds, note
        )
        self.journal.add(trial)
        self.clock.done = len(self.trials)
        if self.clock.over():
            raise OutOfTime


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Values that JSON can hold."""
    return {
        name: value.item() if isinstance(value, np.generic) else value if isinstance(value, int | float) else str(value)
        for name, value in settings.items()
    }
