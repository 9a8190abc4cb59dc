"""``od.tune``: the automatic settings, then those of a map, then Optuna's; the best on the validation users win."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np

from offdiag import checks
from offdiag.errors import BudgetTooShortError, InterruptedFitWarning, OffdiagError
from offdiag.evaluation import parse_metric
from offdiag.models import auto
from offdiag.models.grouping import check_taken
from offdiag.models.recommender import Recommender
from offdiag.progress import Progress, reporter
from offdiag.protocols import Learner
from offdiag.tuning import ranges, screening
from offdiag.tuning.proposals import Sampler
from offdiag.tuning.study import Journal
from offdiag.tuning.trial_loop import Clock, OutOfTime, Search, plain
from offdiag.tuning.trial_runner import Bench, validation_of
from offdiag.tuning.trials import COMPLETE, Trial, Tuned, winner

FEATURE_WEIGHTS = (0.01, 10.0, "log")


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
    groups: Any = None,
    progress: Progress | bool | None = None,
) -> Tuned:
    """The settings of a model that are best on the validation users of a split. The test users are never used.

    ``model`` is a class such as ``od.EDLAE``, or an instance whose settings, where they are not the defaults, are held
    fixed. ``fixed`` holds more; ``space`` replaces bounds: {"l2": (10, 1000, "log"), "rank": [50, 100]}. ``start``
    holds settings to try early. With ``item_features``, which every fit then takes, feature_weight is searched too.
    ``study`` is a file that makes the search resumable: the same call continues from it.
    Ctrl-C, or the end of ``seconds``, gives the best found so far. ``groups`` are those of every fit (docs/groups.md).

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> tuned = od.tune(od.EASE, od.split.strong(X, held_out=0.2), trials=3, fixed={"user_power": 0.5})
        >>> len(tuned.trials), sorted(tuned.settings)
        (3, ['l2', 'user_power'])
    """
    parse_metric(metric)
    _check_budget(trials, seconds, seed)
    validation = validation_of(split)
    if groups is not None:
        cls, held = _class_and_fixed(model, fixed)
        check_taken(cast("Recommender", cls(**held)))
    bench = Bench(split.train, validation, metric, groups, item_features)
    return tune_on(
        bench, model, trials, seconds=seconds, fixed=fixed, space=space, start=start, item_features=item_features,
        study=study, seed=seed, groups=groups, progress=reporter(progress),
    )  # fmt: skip


def tune_on(
    bench: Bench,
    model: Learner | type[Learner],
    trials: int,
    *,
    seconds: float | None = None,
    fixed: Mapping[str, Any] | None = None,
    space: Mapping[str, Any] | None = None,
    start: Iterable[Mapping[str, Any]] = (),
    item_features: Any = None,
    study: str | os.PathLike[str] | None = None,
    seed: int = 0,
    groups: Any = None,
    progress: Progress | None = None,
) -> Tuned:
    """The same, as a bench measures."""
    metric = bench.metric
    cls, fixed = _class_and_fixed(model, fixed)
    clock = Clock(seconds, trials, progress)
    wanted = ranges.given_bounds(cls, space, fixed)
    if item_features is not None and not {"feature_weight"} & {*wanted, *fixed}:
        wanted |= ranges.given_bounds(cls, {"feature_weight": FEATURE_WEIGHTS}, fixed)
    given = [_start(cls, settings, fixed) for settings in start]
    header = {
        "model": cls.__name__, "metric": metric, "fixed": plain(fixed), "data": bench.fingerprint(), "seed": seed,
        "space": {name: str(what) for name, what in wanted.items()}, "searched": ranges.bounds_of(cls),
    }  # fmt: skip
    journal = Journal(study, header, cls.__dataclass_fields__)
    try:
        first, fixed, scale = _automatic(cls, bench, fixed, wanted, clock)
    except OutOfTime:
        if any(trial.state == COMPLETE for trial in journal.trials):
            return _tuned(cls, fixed, journal.trials, metric, clock, "seconds", groups)
        raise _too_short(seconds) from None
    if "feature_weight" in wanted:
        first |= bench.automatic_weight(cls(**fixed | first))
    bounds = ranges.space_of(cls, scale, fixed, wanted)
    first = ranges.move_inside(first, {name: what for name, what in bounds.items() if name in wanted})
    search = Search(cls, bench, fixed, bounds, journal, clock, Sampler(bounds, seed))
    begin = [("automatic", first), *(("given", settings) for settings in given)]
    stopped = "trials"
    try:
        search.run(begin, scale, trials, mapped=screening.applies(cls, fixed, wanted, bench))
    except OutOfTime:
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
    return _tuned(cls, fixed, search.trials, metric, clock, stopped, groups)


def _tuned(
    cls: type[Learner],
    fixed: dict[str, Any],
    trials: list[Trial],
    metric: str,
    clock: Clock,
    stopped: str,
    groups: Any,
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
        groups=groups,
    )


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
    cls: type[Learner], bench: Bench, fixed: dict[str, Any], wanted: ranges.Space, clock: Clock
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
    without = {*fixed, *ranges.replaced(cls, {**fixed, **wanted})}
    return {name: value for name, value in settings.items() if name not in without}, fixed, scale


def _start(cls: type[Learner], settings: Mapping[str, Any], fixed: Mapping[str, Any]) -> dict[str, Any]:
    for name in settings:
        ranges.check_setting(cls, name)
    return {name: value for name, value in settings.items() if name not in fixed}


def _check_budget(trials: int, seconds: float | None, seed: int) -> None:
    checks.whole("trials", trials, 1)
    if seconds is not None and not (checks.is_number(seconds) and seconds > 0):
        raise OffdiagError(f"seconds must be a number above 0, or None for no limit, received {seconds!r}")
    checks.whole("seed", seed)


def _too_short(seconds: float | None) -> BudgetTooShortError:
    return BudgetTooShortError(
        f"the budget of {seconds:g} seconds ended before a first trial was finished; give more seconds, "
        "or none for no limit"
    )
