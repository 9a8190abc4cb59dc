"""How a model ages: its accuracy period by period after a cut in time, as it was fitted and kept up to date."""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag import checks, notebook, tables
from offdiag.data.held_out import HeldOut
from offdiag.data.interactions import Interactions
from offdiag.data.moments import moment_of
from offdiag.errors import OffdiagError
from offdiag.evaluation import Result, evaluate, parse_metric
from offdiag.living.exact_change import exchange_users
from offdiag.living.past import can_follow
from offdiag.models.recommender import Recommender
from offdiag.progress import Progress, reporter

WEEK = 7 * 24 * 3600.0
MOST = 1000  # periods


@dataclass(frozen=True, eq=False)
class Period:
    """One period: what the model as fitted reached in it, and the same model kept up to date."""

    start: float
    end: float
    age: int  # number of periods since the fit
    new_items: float  # share of the targets whose item nobody had before the cut
    as_fitted: Result
    updated: Result
    seconds: float  # to bring the model up to date before this period


@dataclass(frozen=True, eq=False)
class OverTime(tables.Tabular):
    """What `evaluate_over_time` returns.

    As a table, a row per period and metric: start, end, age (in periods), n_users, new_items (the share of targets that
    nobody had before the cut), both means with their standard errors, what the age costs (updated − as fitted, paired)
    with its standard error, and the seconds of the update.

    Example:
        >>> X = od.synthetic.interactions(300, 40, 3_000, times=True, seed=0)
        >>> ageing = od.evaluate_over_time(od.EASE(l2=10.0), X, "2024-09-01", every=30 * 86_400)
        >>> ageing.to_polars().columns[-4:]
        ['updated_sem', 'lost', 'lost_sem', 'seconds']
    """

    periods: tuple[Period, ...]
    every: float
    model: str

    @property
    def metrics(self) -> list[str]:
        return list(self.periods[0].as_fitted.mean)

    def refit_after(self, metric: str | None = None) -> int | None:
        """The number of periods after which age costs accuracy for certain; None if it never does here.

        It is the first n for which the users of periods 1 to n together lose more than two standard errors.

        Example:
            >>> X = od.synthetic.interactions(300, 40, 3_000, times=True, seed=0)
            >>> popular = od.evaluate_over_time(od.Popularity(), X, "2024-09-01", every=30 * 86_400)
            >>> popular.refit_after() is None  # popularity hardly changes in this data
            True
        """
        name = self._metric(metric)
        gaps = np.empty(0)
        for period in self.periods[self.periods[0].age == 0 :]:  # at age 0 both are the same model
            gaps = np.concatenate([gaps, period.updated.per_user[name] - period.as_fitted.per_user[name]])
            if len(gaps) > 1 and gaps.mean() > 2 * gaps.std(ddof=1) / np.sqrt(len(gaps)):
                return period.age
        return None

    def _metric(self, metric: str | None) -> str:
        known = list(self.periods[0].as_fitted.per_user)
        if metric is not None and metric not in known:
            raise OffdiagError(f"expected one of {', '.join(known)}, received {metric!r}; measure it first")
        return metric or known[0]

    def _columns(self, form: str) -> Mapping[str, Any]:
        rows = [self._row(period, name) for period in self.periods for name in self.metrics]
        return {name: [row[name] for row in rows] for name in rows[0]}

    def _row(self, period: Period, name: str) -> dict[str, Any]:
        old, new = period.as_fitted, period.updated
        lost = new.compare(old)
        return {
            "start": period.start, "end": period.end, "age": period.age, "metric": name, "n_users": old.n_users,
            "new_items": period.new_items, "as_fitted": old.mean[name], "as_fitted_sem": old.sem[name],
            "updated": new.mean[name], "updated_sem": new.sem[name],
            "lost": lost.difference[name], "lost_sem": lost.sem[name], "seconds": period.seconds,
        }  # fmt: skip

    def _repr_html_(self) -> str:
        return notebook.card("Accuracy over time", {"model": self.model, "verdict": self.verdict()}, self.to_polars())

    def verdict(self, metric: str | None = None) -> str:
        """One sentence: how often a refit pays off.

        Example:
            >>> X = od.synthetic.interactions(300, 40, 3_000, times=True, seed=0)
            >>> od.evaluate_over_time(od.Popularity(), X, "2024-09-01", every=30 * 86_400).verdict()
            'no loss of ndcg@10 beyond two standard errors within 4 periods'
        """
        name, after = self._metric(metric), self.refit_after(metric)
        if after is None:
            return f"no loss of {name} beyond two standard errors within {self.periods[-1].age} periods"
        return f"{name} is lower for certain after {after} period{'s' * (after > 1)} without a refit"

    def __str__(self) -> str:
        width = max(len(name) for name in ["metric", *self.metrics])
        lines = [f"age  {'metric':<{width}}    users  new items  as fitted   updated      lost      sem"]
        table = self._columns("long")
        columns = (table[name] for name in ("age", "metric", "n_users", "new_items", "as_fitted", "updated"))
        for row in zip(*columns, table["lost"], table["lost_sem"], strict=True):
            age, name, users, new, old, fresh, lost, sem = row
            error = f"{sem:>7.4f}" if np.isfinite(sem) else f"{'-':>7}"
            lines.append(
                f"{age:>3}  {name:<{width}}  {users:>7,}  {new:>9.3f}  {old:>9.4f}  {fresh:>8.4f}"
                f"  {lost:>+8.4f}  {error}"
            )
        return "\n".join([*lines, self.verdict()])


def evaluate_over_time(
    model: Recommender,
    data: Interactions,
    at: Any,
    every: float | timedelta = WEEK,
    metrics: Sequence[str] | str = ("ndcg@10",),
    *,
    exclude_seen: bool = True,
    progress: Progress | bool | None = None,
) -> OverTime:
    """How fast a model ages, and so how often it should be fitted again.

    The model learns everything before ``at`` (a number or a date, as in ``od.split.by_time``). Then, period by period
    of length ``every`` (in the unit of the times, or a timedelta; a week by default), it recommends from all that
    users did before the period and is measured on what they did in it: once as it was fitted, once brought up to
    date before each period. Items that it has never seen are targets that it misses. Periods without events are
    left out. Models with an exact ``update`` are updated (and forget the old rows of the users who return); others
    are fitted again, and then settings left at "auto" are chosen again. The model given is not changed.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, times=True, seed=0)
        >>> ageing = od.evaluate_over_time(od.EASE(l2=10.0), X, "2024-09-01", every=30 * 86_400)
        >>> [period.age for period in ageing.periods]
        [0, 1, 2, 3, 4]
    """
    report = reporter(progress)
    if not isinstance(model, Recommender):
        raise OffdiagError(f"expected a model such as od.EASE(), received {type(model).__name__}")
    if not isinstance(data, Interactions):
        raise OffdiagError(
            f"expected Interactions with times, received {type(data).__name__}; "
            "read them with od.read(…, time=<column>)"
        )
    wanted = [parse_metric(name) for name in ([metrics] if isinstance(metrics, str) else metrics)]
    if all(metric.kind == "coverage" for metric in wanted):
        raise OffdiagError("expected a metric that has a value per user, such as ndcg@10, received none; add one")
    log = _Log(data)
    starts = _starts(log.times, moment_of(at), every)
    length = starts[1] - starts[0]
    aged = _fit(model, log.between(-np.inf, starts[0]))
    known = log.between(-np.inf, starts[0]).matrix.sum(axis=0) > 0
    fresh, then = aged, starts[0]
    periods = []
    for age, start in enumerate(starts[:-1].tolist()):
        if report is not None:
            report("over time", age / (len(starts) - 1))
        past, ahead = log.between(-np.inf, start), log.between(start, start + length).matrix
        if not ahead.nnz:
            continue
        clock = time.perf_counter()
        if start > then:
            fresh, then = _brought_up_to_date(model, fresh, log.between(-np.inf, then), past, fresh is aged), start
        seconds = time.perf_counter() - clock
        held_out = HeldOut(past.matrix, ahead, data.user_ids, data.item_ids, past)
        new = float(np.mean(~known[ahead.indices]))
        as_fitted, updated = (evaluate(one, held_out, metrics, exclude_seen=exclude_seen) for one in (aged, fresh))
        periods.append(Period(start, start + length, age, new, as_fitted, updated, seconds))
    if report is not None:
        report("over time", 1.0)
    return OverTime(tuple(periods), length, type(model).__name__)


class _Log:
    """Interactions that can be cut by time, all users and items kept."""

    def __init__(self, data: Interactions) -> None:
        times = data.times if data.events is None else data.events.times
        if times is None:
            raise OffdiagError("expected interactions with times, received none; read with time=<column>")
        self.data, self.times = data, times

    def between(self, start: float, end: float) -> Interactions:
        mask: NDArray[np.bool_] = (self.times >= start) & (self.times < end)
        return self.data.select_entries(mask) if self.data.events is None else self.data.select_events(mask)


def _starts(times: NDArray[Any], cut: float, every: Any) -> NDArray[np.float64]:
    """The beginnings of the periods after the cut, and the end of the last one."""
    length = every.total_seconds() if isinstance(every, timedelta) else every
    length = checks.number("every", length, 0, np.inf, above=True, below=True, hint="; e.g. 7 * 86_400 for a week")
    if not times.min() < cut <= times.max():
        raise OffdiagError(
            f"expected a time between the first ({times.min()}) and the last ({times.max()}), received at={cut:g}; "
            "choose one that leaves interactions on both sides"
        )
    n = int((times.max() - cut) // length) + 1
    if n > MOST:
        raise OffdiagError(
            f"expected at most {MOST:,} periods, received every={length:g}, which makes {n:,}; use longer ones"
        )
    return np.asarray(cut + length * np.arange(n + 1), dtype=np.float64)


def _fit(model: Recommender, past: Interactions) -> Recommender:
    """An unfitted model with the same settings, fitted; on the bare rows of users with events if it will be updated.

    With Interactions, which only a model of order needs, a changing model drops items that lose their users. None
    does here: histories only grow, and the longer ones are added first.
    """
    learner = dataclasses.replace(model)  # type: ignore[type-var]
    if not can_follow(model):
        return learner.fit(past)
    there = np.flatnonzero(np.diff(past.matrix.indptr))
    return learner.fit(past.select_users(positions=there) if model.knows_order else past.matrix[there])


def _brought_up_to_date(
    model: Recommender, fitted: Recommender, before: Interactions, past: Interactions, shared: bool
) -> Recommender:
    """The model with everything in ``past``, of which it has learned ``before``; ``shared``: others use it, too."""
    if not can_follow(model):
        return _fit(model, past)
    now = copy.copy(fitted) if shared else fitted
    changed = _changed_users(before, past)
    if not len(changed):
        return now
    old = changed[np.diff(before.matrix.indptr)[changed] > 0]
    pieces = [one.select_users(positions=some) for one, some in ((past, changed), (before, old))]
    come, gone = pieces if model.knows_order else [piece.matrix for piece in pieces]
    exchange_users(now, come, gone if len(old) else None)
    return now


def _changed_users(before: Interactions, past: Interactions) -> NDArray[np.int64]:
    """Users with other rows or more events in ``past``; events of one user are only ever added."""
    other = np.abs(past.matrix - before.matrix).sum(axis=1) > 0
    if before.events is not None and past.events is not None:
        other |= before.events.lengths != past.events.lengths
    return np.flatnonzero(other)
