"""``od.tune``: the automatic settings, then those of a map, then Optuna's; the best on the validation users win."""

from __future__ import annotations

import dataclasses
import os
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import numpy as np

from offdiag import checks
from offdiag.errors import InterruptedFitWarning, NotEnoughMemory, OffdiagError
from offdiag.evaluation import Result, parse_metric
from offdiag.models import auto
from offdiag.progress import Progress, reporter
from offdiag.protocols import Learner
from offdiag.tuning import ranges, screening
from offdiag.tuning.proposals import Sampler
from offdiag.tuning.study import Journal
from offdiag.tuning.trial_runner import Bench, validation_of
from offdiag.tuning.trials import COMPLETE, FAILED, REJECTED, Trial, Tuned, chosen, top, winner

LATE = 0.002  # of the best value: a smaller lead on the small problem is not trusted
TRUSTED = 4  # complete trials before anything is rejected on the small problem
FEATURE_WEIGHTS = (0.01, 10.0, "log")
PROPENSITIES = (-0.1, 0.05, 0.1, 0.15, 0.2)  # tried on the best model at the end; they cost no fit


class _OutOfTime(Exception):  # noqa: N818 - not an error of anybody
    """Raised by the progress of a trial once the budget is spent."""


def tune(
    model: Learner | type[Learner],
    split: Any,
    metric: str = "ndcg@100",
    trials: int = 40,
    *,
    seconds: float | None = None,
    fixed: Mapping[str, Any] | None = None,
    space: Mapping[str, Any] | None = None,
    start: Iterable[Mapping[str, Any]] = (),
    item_features: Any = None,
    study: str | os.PathLike[str] | None = None,
    seed: int = 0,
    progress: Progress | bool | None = None,
) -> Tuned:
    """The settings of a model that are best on the validation users of a split. The test users are never used.

    ``model`` is a class such as ``od.EDLAE``, or an instance whose settings, where they are not the defaults, are held
    fixed. ``fixed`` holds more; ``space`` replaces bounds: {"l2": (10, 1000, "log"), "rank": [50, 100]}. ``start``
    holds settings to try early. With ``item_features``, which every fit then takes, feature_weight is searched too.
    ``study`` is a file that makes the search resumable: the same call continues from it.
    Ctrl-C, or the end of ``seconds``, gives the best found so far.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> tuned = od.tune(od.EASE, od.split.strong(X, held_out=0.2), trials=3, fixed={"user_power": 0.5})
        >>> len(tuned.trials), sorted(tuned.settings)
        (3, ['l2', 'user_power'])
    """
    progress = reporter(progress)
    parse_metric(metric)
    cls, fixed = _class_and_fixed(model, fixed)
    _check_budget(trials, seconds, seed)
    validation = validation_of(split)
    bench = Bench(split.train, validation, metric, item_features)
    clock = _Clock(seconds, trials, progress)
    wanted = ranges.given_bounds(cls, space, fixed)
    if item_features is not None and not {"feature_weight"} & {*wanted, *fixed}:
        wanted |= ranges.given_bounds(cls, {"feature_weight": FEATURE_WEIGHTS}, fixed)
    given = [_start(cls, settings, fixed) for settings in start]
    header = {
        "model": cls.__name__, "metric": metric, "fixed": _plain(fixed), "data": bench.fingerprint(), "seed": seed,
        "space": {name: str(what) for name, what in wanted.items()}, "searched": ranges.bounds_of(cls),
    }  # fmt: skip
    journal = Journal(study, header)
    try:
        first, fixed, scale = _automatic(cls, bench, fixed, clock)
    except _OutOfTime:
        if any(trial.state == COMPLETE for trial in journal.trials):
            return _tuned(cls, fixed, journal.trials, metric, clock, "seconds")
        raise _too_short(seconds) from None
    if "feature_weight" in wanted:
        first |= bench.automatic_weight(cls(**fixed | first))
    bounds = ranges.space_of(cls, scale, fixed, wanted)
    first = ranges.move_inside(first, {name: what for name, what in bounds.items() if name in wanted})
    search = _Search(cls, bench, fixed, bounds, journal, clock, Sampler(bounds, seed))
    begin = [("automatic", first), *(("given", settings) for settings in given)]
    stopped = "trials"
    try:
        search.run(begin, scale, trials, mapped=screening.applies(cls, fixed, wanted, bench))
    except _OutOfTime:
        stopped = "seconds"
    except KeyboardInterrupt:
        if not search.complete:
            raise
        stopped = "interrupted"
        warnings.warn(
            f"tuning was interrupted after {len(search.trials)} trials; the best of them is kept",
            InterruptedFitWarning,
            stacklevel=2,
        )
    if not search.complete:
        if stopped == "seconds":
            raise _too_short(seconds)
        raise OffdiagError(
            f"none of the {len(search.trials)} trials could be fitted; the last: {search.trials[-1].note}"
        )
    return _tuned(cls, fixed, search.trials, metric, clock, stopped)


def _tuned(
    cls: type[Learner], fixed: dict[str, Any], trials: list[Trial], metric: str, clock: _Clock, stopped: str
) -> Tuned:
    best = winner(trials)
    return Tuned(
        model=cls(**fixed | best.settings),
        settings=fixed | best.settings,
        value=float(best.value or 0.0),
        sem=float("nan") if best.sem is None else best.sem,
        metric=metric,
        trials=list(trials),
        seconds=clock.elapsed(),
        stopped=stopped,
    )


class _Clock:
    """Progress of the whole search, and the end of its budget."""

    def __init__(self, seconds: float | None, trials: int, progress: Progress | None) -> None:
        self._begin, self._seconds, self._trials, self._progress = time.perf_counter(), seconds, trials, progress
        self.done, self.note, self._shown = 0, "", 0.0

    def elapsed(self) -> float:
        return time.perf_counter() - self._begin

    def over(self) -> bool:
        return self._seconds is not None and self.elapsed() >= self._seconds

    def __call__(self, stage: str, fraction: float) -> None:
        if self.over():
            raise _OutOfTime
        if self._progress:
            share = (self.done + min(fraction, 1.0) * 0.9) / max(self._trials, 1)
            if self._seconds is not None:
                share = max(share, self.elapsed() / self._seconds)
            self._shown = max(self._shown, min(share, 1.0))  # a trial has several stages, but the bar never goes back
            self._progress(f"trial {min(self.done + 1, self._trials)} of {self._trials}{self.note}", self._shown)


@dataclasses.dataclass(eq=False)
class _Search:
    """The loop: propose, check on the small problem, fit, measure, record."""

    cls: type[Learner]
    bench: Bench
    fixed: dict[str, Any]
    space: ranges.Space
    journal: Journal
    clock: _Clock
    sampler: Sampler
    _rival: Result | None = None  # the best complete trial on the small problem

    def __post_init__(self) -> None:
        for trial in self.trials:
            self.sampler.learn(trial)
        self.clock.done = len(self.trials)

    @property
    def trials(self) -> list[Trial]:
        return self.journal.trials

    @property
    def complete(self) -> bool:
        return any(trial.state == COMPLETE for trial in self.trials)

    def run(self, first: list[tuple[str, dict[str, Any]]], scale: ranges.Scale, trials: int, *, mapped: bool) -> None:
        """All trials; raises ``_OutOfTime`` once the budget is spent."""
        for origin, settings in self._proposals(first, scale, trials, mapped):
            self._attempt(origin, settings)
        self._try_propensities(trials)
        # A resumed study may have tried the propensities of its best trial: the sampler gets the remaining trials.
        for origin, settings in self._sampled(trials):
            self._attempt(origin, settings)

    def _proposals(
        self, first: list[tuple[str, dict[str, Any]]], scale: ranges.Scale, trials: int, mapped: bool
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Settings until there are enough trials; trials of an earlier run of the study are not repeated."""
        last = trials - (len(PROPENSITIES) if self._tries_propensities(trials) else 0)
        done = Counter(trial.origin for trial in self.trials)
        for origin, settings in first:
            if done[origin] > 0:
                done[origin] -= 1
            elif len(self.trials) < max(last, 1):
                yield origin, settings
        if mapped and len(self.trials) < last and done["screening"] < screening.TAKEN:
            points = screening.screen(self.cls, self.bench, self.fixed, scale.l2, self.clock)
            for settings in points[done["screening"] :]:
                if len(self.trials) < last:
                    yield "screening", settings
        yield from self._sampled(last)

    def _sampled(self, trials: int) -> Iterator[tuple[str, dict[str, Any]]]:
        while self.space and len(self.trials) < trials:
            yield "sampler", self.sampler.propose(len(self.trials))

    def _attempt(self, origin: str, settings: dict[str, Any]) -> None:
        """One trial: reject on the small problem, or fit and measure."""
        self.clock(origin, 0.0)
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
        if self.complete and self._rival is None and self.bench.small is not None:  # a resumed study
            self._rival = self.bench.glance(self.cls(**self.fixed | top(self.trials).settings))
        return self.bench.glance(self.cls(**self.fixed | settings), self.clock)

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
            len(self.trials), origin, _plain(settings), state, value, sem, small_value, left_out, seconds, note
        )
        self.journal.add(trial)
        self.sampler.learn(trial)
        self.clock.done = len(self.trials)
        if self.clock.over():
            raise _OutOfTime


def _class_and_fixed(
    model: Learner | type[Learner], fixed: Mapping[str, Any] | None
) -> tuple[type[Learner], dict[str, Any]]:
    """The class and its fixed settings: those of an instance that differ from the defaults, and ``fixed``."""
    if fixed is not None and not isinstance(fixed, Mapping):
        raise OffdiagError(f"fixed must map settings to values, received {type(fixed).__name__}")
    cls = model if isinstance(model, type) else type(model)
    if not dataclasses.is_dataclass(cls):
        raise OffdiagError(f"expected a model such as od.EDLAE, received {cls.__name__}")
    own = {} if model is cls else {field.name: getattr(model, field.name) for field in dataclasses.fields(cls)}
    defaults = {field.name: field.default for field in dataclasses.fields(cls)}
    return cls, {name: value for name, value in own.items() if value != defaults[name]} | dict(fixed or {})


def _automatic(
    cls: type[Learner], bench: Bench, fixed: dict[str, Any], clock: _Clock
) -> tuple[dict[str, Any], dict[str, Any], ranges.Scale]:
    """The settings the model would choose itself, those held fixed, and the scale of the data.

    Numbers where they are known before the fit; any remaining "auto" is resolved in the fit of the first trial.
    """
    n_u = np.diff(bench.matrix.indptr)
    if not bench.matrix.nnz:
        raise OffdiagError("there is nothing to learn from: the training part has no interaction")
    fields = {f.name: f.default for f in dataclasses.fields(cls)} | fixed
    settings: dict[str, Any] = {name: fields[name] for name in ranges.searched(cls)}
    l2 = 1.0
    if getattr(cls, "l2_of_ease", False):
        model = cast(Any, cls)(**fields | {"l2": "auto"})
        auto.from_data(bench.matrix, model, progress=clock)
        l2 = model.l2 / auto.share(getattr(model, "dropout", 0.0))
        if model.auto_of_ease:
            linear = ("dropout", "l2", "user_power")
            known = {name: getattr(model, name) for name in linear if fields.get(name) == "auto"}
            settings |= known
            fixed = fixed | {name: value for name, value in known.items() if name in fixed}
    scale = ranges.Scale(bench.matrix.shape[1], bench.matrix.nnz, float(n_u[n_u > 0].mean()), l2)
    return {name: value for name, value in settings.items() if name not in fixed}, fixed, scale


def _start(cls: type[Learner], settings: Mapping[str, Any], fixed: Mapping[str, Any]) -> dict[str, Any]:
    for name in settings:
        ranges.check_setting(cls, name)
    return {name: value for name, value in settings.items() if name not in fixed}


def _check_budget(trials: int, seconds: float | None, seed: int) -> None:
    checks.whole("trials", trials, 1)
    if seconds is not None and not (checks.is_number(seconds) and seconds > 0):
        raise OffdiagError(f"seconds must be a number above 0, or None for no limit, received {seconds!r}")
    checks.whole("seed", seed)


def _too_short(seconds: float | None) -> OffdiagError:
    return OffdiagError(
        f"the budget of {seconds:g} seconds ended before a first trial was finished; give more seconds, "
        "or none for no limit"
    )


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Values that JSON can hold."""
    return {
        name: value.item() if isinstance(value, np.generic) else value if isinstance(value, int | float) else str(value)
        for name, value in settings.items()
    }
