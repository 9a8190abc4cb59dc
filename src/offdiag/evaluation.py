"""Evaluate a model on held-out users: means with standard errors, values per user, paired comparison."""

import difflib
import inspect
import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from offdiag import metrics as formulas
from offdiag import notebook, tables, wording
from offdiag.errors import FutureLeakWarning, OffdiagError
from offdiag.progress import Progress, reporter
from offdiag.protocols import Ranker

Floats = NDArray[np.float64]

_FROM_HITS: dict[str, Callable[[formulas.Hits, formulas.Counts, int], Floats]] = {
    "recall": formulas.recall,
    "recall_all": formulas.recall_all,
    "precision": formulas.precision,
    "ndcg": formulas.ndcg,
    "map": formulas.average_precision,
    "mrr": formulas.reciprocal_rank,
    "hit": formulas.hit,
}
KNOWN_METRICS = (*_FROM_HITS, "coverage", "novelty")


class HasTargets(Protocol):
    """A part of a split: the rows of both matrices are the same users, the columns the model's items."""

    @property
    def histories(self) -> Any: ...
    @property
    def targets(self) -> Any: ...


class Metric(NamedTuple):
    """A parsed metric name such as `ndcg@100`."""

    name: str
    kind: str
    k: int


@dataclass(frozen=True, eq=False)
class Comparison(tables.Tabular):
    """The paired difference of two results on the same users, first minus second, for each shared metric."""

    difference: dict[str, float]
    sem: dict[str, float]
    t: dict[str, float]
    p_value: dict[str, float]
    n_users: int

    def _columns(self, form: str) -> Mapping[str, Any]:
        names = ("difference", "sem", "t", "p_value")
        values = {name: np.array([*getattr(self, name).values()]) for name in names}
        return {"metric": list(self.difference)} | values | {"n_users": np.full(len(self.difference), self.n_users)}

    def _repr_html_(self) -> str:
        return notebook.card("Comparison", {"paired over": f"{self.n_users:,} users"}, self.to_polars())

    def __str__(self) -> str:
        names = list(self.difference)
        width = max(len(name) for name in ["metric", *names])
        lines = [f"{'metric':<{width}}  difference      sem         t         p"]
        lines += [
            f"{name:<{width}}  {self.difference[name]:>+10.4f}  {self.sem[name]:>7.4f}"
            f"  {self.t[name]:>8.2f}  {self.p_value[name]:>8.2g}"
            for name in names
        ]
        return "\n".join([*lines, f"paired over {self.n_users:,} users"])

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: plain numbers, None where a value does not exist."""
        columns = ("difference", "sem", "t", "p_value")
        return {name: _finite(getattr(self, name)) for name in columns} | {"n_users": self.n_users}


@dataclass(frozen=True, eq=False)
class Result(tables.Tabular):
    """What `evaluate` returns: means over users, their standard errors, and the values per user.

    Tables: "metrics" has a row per metric (metric, mean, sem, n_users), "users" a row per user and a column per metric.

    `per_user` holds, for each metric, a value for every user with targets, in the order of the held-out rows.
    `coverage` is one number for all users together: it has a mean, a sem of nan and no entry in `per_user`.

    Example:
        >>> print(od.Result({"hit@1": 0.5}, {"hit@1": 0.5}, {"hit@1": np.array([0.0, 1.0])}, 2, 0, seconds=0.1))
        metric      mean      sem
        hit@1     0.5000   0.5000
        2 users, 0.10 s
    """

    TABLES: ClassVar[tuple[str, ...]] = ("metrics", "users")

    mean: dict[str, float]
    sem: dict[str, float]
    per_user: dict[str, Floats]
    n_users: int
    n_without_targets: int
    seconds: float
    user_ids: NDArray[Any] | None = field(default=None, repr=False)

    def _columns(self, form: str) -> Mapping[str, Any]:
        if form == "users":
            users = np.arange(self.n_users) if self.user_ids is None else self.user_ids
            return {"user": users} | self.per_user
        sem = np.array([self.sem[name] for name in self.mean])
        users = np.full(len(self.mean), self.n_users)
        return {"metric": list(self.mean), "mean": np.array([*self.mean.values()]), "sem": sem, "n_users": users}

    def _repr_html_(self) -> str:
        facts = {"users": f"{self.n_users:,}", "time": wording.seconds(self.seconds)}
        if self.n_without_targets:
            facts["left out"] = f"{self.n_without_targets:,} users without targets"
        return notebook.card("Result", facts, self.to_polars().select("metric", "mean", "sem"))

    def compare(self, other: "Result") -> Comparison:
        """Paired two-sided t-test of this result minus `other`, user by user, for the metrics both have.

        Both must hold the same users in the same order. Where every user has the same value in both
        there is no difference to test: t is 0, p is 1. With one user, or for coverage, sem, t and p are nan.

        Example:
            >>> split = od.split.strong(od.synthetic.interactions(300, 40, 3_000, seed=0), held_out=0.2)
            >>> result = od.evaluate(od.Popularity().fit(split.train), split.test, "ndcg@10")
            >>> result.compare(result).p_value
            {'ndcg@10': 1.0}
        """
        if self.n_users != other.n_users:
            raise OffdiagError(
                f"a paired comparison needs the same users in both results, received {self.n_users:,} and "
                f"{other.n_users:,}: evaluate both models on the same held-out part"
            )
        if (
            self.user_ids is not None
            and other.user_ids is not None
            and not np.array_equal(self.user_ids, other.user_ids)
        ):
            raise OffdiagError(
                "a paired comparison needs the same users in both results, received different user ids: "
                "evaluate both models on the same held-out part"
            )
        shared = [name for name in self.mean if name in other.mean]
        if not shared:
            raise OffdiagError(
                f"the results share no metric, received {', '.join(self.mean)} and {', '.join(other.mean)}: "
                "evaluate both with the same metrics"
            )
        difference, sem, t, p_value = {}, {}, {}, {}
        for name in shared:
            if name in self.per_user:
                difference[name], sem[name], t[name], p_value[name] = paired_t_test(
                    self.per_user[name] - other.per_user[name]
                )
            else:
                difference[name] = self.mean[name] - other.mean[name]
                sem[name] = t[name] = p_value[name] = float("nan")
        return Comparison(difference, sem, t, p_value, self.n_users)

    def __str__(self) -> str:
        width = max(len(name) for name in ["metric", *self.mean])
        lines = [f"{'metric':<{width}}  {'mean':>8}  {'sem':>7}"]
        lines += [
            f"{name:<{width}}  {mean:>8.4f}  "
            + (f"{self.sem[name]:>7.4f}" if np.isfinite(self.sem[name]) else f"{'-':>7}")
            for name, mean in self.mean.items()
        ]
        left_out = f", {self.n_without_targets:,} without targets left out" if self.n_without_targets else ""
        return "\n".join([*lines, f"{self.n_users:,} users{left_out}, {wording.seconds(self.seconds)}"])

    def to_dict(self, *, per_user: bool = False) -> dict[str, Any]:
        """JSON-ready: plain numbers, None for a sem that does not exist; values per user only on request.

        Example:
            >>> od.Result({"coverage@1": 0.5}, {"coverage@1": np.nan}, {}, 2, 0, seconds=0.1).to_dict()["sem"]
            {'coverage@1': None}
        """
        out: dict[str, Any] = {
            "mean": _finite(self.mean),
            "sem": _finite(self.sem),
            "n_users": self.n_users,
            "n_without_targets": self.n_without_targets,
            "seconds": self.seconds,
        }
        if per_user:
            out["per_user"] = {name: values.tolist() for name, values in self.per_user.items()}
        return out


def evaluate(
    model: Ranker,
    held_out: HasTargets,
    metrics: Sequence[str] | str = ("recall@20", "recall@50", "ndcg@100"),
    *,
    among: Any = None,
    exclude_seen: bool = True,
    history_decay: float | None = None,
    history_half_life: float | None = None,
    batch: int = 16_384,
    progress: Progress | bool | None = None,
) -> Result:
    """Recommend for every held-out user with targets and measure the lists.

    Works with anything whose `recommend(histories, k=, exclude_seen=)` gives `.indices` (n x k columns, -1
    for an empty place). Memory: one batch of lists. Users without targets are left out and counted.
    `history_decay` and `history_half_life` are as in `recommend` of a linear model; the split must have times or
    events. Where the order is used and targets are older than the history, there is a FutureLeakWarning.

    ``among`` gives ids of items: lists hold only these, and only targets among them count. Targets of some items in
    lists of all are ``held_out.only(ids)``.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> split = od.split.strong(X, held_out=0.2)
        >>> sorted(od.evaluate(od.EASE().fit(split.train), split.test, "ndcg@10").mean)
        ['ndcg@10']
        >>> timed = od.split.last_out(od.synthetic.interactions(300, 40, 3_000, times=True, seed=0))
        >>> recent = od.evaluate(od.EASE().fit(timed.train), timed.test, "ndcg@10", history_decay=0.8)
        >>> recent.n_users
        291
    """
    progress = reporter(progress)
    start = time.perf_counter()
    given = {"history_decay": history_decay, "history_half_life": history_half_life}
    recency: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    wanted = [parse_metric(name) for name in dict.fromkeys([metrics] if isinstance(metrics, str) else metrics)]
    if not wanted:
        raise OffdiagError("expected at least one metric, received none: pass for example metrics=['ndcg@100']")
    if batch < 1:
        raise OffdiagError(f"batch must be at least 1, received {batch}")
    if among is not None:
        held_out = held_out.only(among)  # type: ignore[attr-defined]
    allowed = {} if among is None else {"allow": among}
    histories, targets = _canonical(held_out.histories), _canonical(held_out.targets)
    popularity = _check(model, histories, targets, getattr(held_out, "item_ids", None), wanted)
    n_items = targets.shape[1]
    ordered = _ordered_histories(model, held_out, by_age=bool(recency))
    if ordered is None and getattr(getattr(held_out, "ordered", None), "dislikes", None) is not None:
        ordered = getattr(held_out, "ordered", None)  # no list should have what a user dislikes

    n_targets = np.diff(targets.indptr).astype(np.int64)
    rows = np.flatnonzero(n_targets)
    if rows.size == 0:
        raise OffdiagError(
            f"none of the {targets.shape[0]:,} held-out users has a target, so there is nothing to measure: "
            "hold out more, or keep users with more interactions"
        )
    # Never ask for more than the catalogue holds: a missing place counts as a miss anyway.
    depth = min(max(metric.k for metric in wanted), n_items)
    per_user = {metric.name: np.empty(rows.size) for metric in wanted if metric.kind != "coverage"}
    covered = {metric.name: np.zeros(n_items, np.bool_) for metric in wanted if metric.kind == "coverage"}

    for lo in range(0, rows.size, batch):
        if progress is not None:
            progress("evaluate", lo / rows.size)
        users = rows[lo : lo + batch]
        asked = histories[users] if ordered is None else ordered.select_users(positions=users)
        answer = model.recommend(asked, k=depth, exclude_seen=exclude_seen, **allowed, **recency)
        indices = _validate_indices(answer.indices, users.size, n_items)
        hits = formulas.find_hits(indices, targets[users])
        for name, kind, k in wanted:
            if kind == "coverage":
                covered[name] |= formulas.recommended(indices, n_items, k)
            elif kind == "novelty":
                per_user[name][lo : lo + batch] = formulas.novelty(indices, popularity, k)
            else:
                per_user[name][lo : lo + batch] = _FROM_HITS[kind](hits, n_targets[users], k)
    if progress is not None:
        progress("evaluate", 1.0)

    means, sems = {}, {}
    for name, kind, _ in wanted:
        if kind == "coverage":
            means[name], sems[name] = float(covered[name].mean()), float("nan")
        else:
            means[name], sems[name] = float(per_user[name].mean()), standard_error(per_user[name])
    ids = getattr(held_out, "user_ids", None)
    return Result(
        mean=means,
        sem=sems,
        per_user=per_user,
        n_users=int(rows.size),
        n_without_targets=int(targets.shape[0] - rows.size),
        seconds=time.perf_counter() - start,
        user_ids=None if ids is None else np.asarray(ids)[rows],
    )


def paired_t_test(differences: Floats) -> tuple[float, float, float, float]:
    """(mean, standard error, t, two-sided p) of the hypothesis that the mean difference is 0."""
    from scipy.special import stdtr  # the t distribution, without the slow import of scipy.stats

    mean, sem = float(differences.mean()), standard_error(differences)
    if not np.isfinite(sem):
        return mean, sem, float("nan"), float("nan")
    if sem == 0.0:  # every user differs by the same amount: no spread, so no uncertainty
        return mean, sem, (float("inf") * np.sign(mean) if mean else 0.0), (0.0 if mean else 1.0)
    t = mean / sem
    return mean, sem, t, float(2.0 * stdtr(differences.size - 1, -abs(t)))


def standard_error(values: Floats) -> float:
    if values.size < 2:
        return float("nan")
    return float(values.std(ddof=1) / np.sqrt(values.size))


def parse_metric(name: str) -> Metric:
    if match := re.fullmatch(r"(\w+)@([1-9][0-9]{0,8})", str(name)):
        kind, k = match.groups()
        if kind in KNOWN_METRICS:
            return Metric(str(name), kind, int(k))
    stem, _, cut = str(name).partition("@")
    known = ", ".join(f"{kind}@k" for kind in KNOWN_METRICS)
    close = difflib.get_close_matches(stem.strip().lower(), KNOWN_METRICS, n=1)
    cut = cut.strip()
    number = cut if cut.isascii() and cut.isdigit() and 0 < len(cut) < 10 and int(cut) > 0 else "20"
    advice = f"; did you mean {close[0]}@{number}?" if close else ""
    raise OffdiagError(f"unknown metric {str(name)!r}: expected one of {known} with k a positive whole number{advice}")


def _canonical(matrix: Any) -> sp.csr_array[Any, tuple[int, int]]:
    """CSR with sorted columns, no duplicates and no stored zeros; the caller's matrix is never changed."""
    out = sp.csr_array(matrix)
    if not out.has_canonical_format or (out.nnz and not out.data.all()):
        out = out.copy()
        out.sum_duplicates()
        out.eliminate_zeros()
    return out


def _check(
    model: Ranker,
    histories: sp.csr_array[Any, tuple[int, int]],
    targets: sp.csr_array[Any, tuple[int, int]],
    columns: NDArray[Any] | None,
    wanted: list[Metric],
) -> Floats:
    """Reject what cannot be evaluated; return the popularity for novelty (empty when no metric needs it)."""
    if histories.shape != targets.shape:
        raise OffdiagError(
            f"histories and targets must have the same shape, received {histories.shape} and {targets.shape}"
            ": take both from the same split"
        )
    ids = getattr(model, "item_ids_", None)
    if ids is not None and len(ids) != targets.shape[1]:
        raise OffdiagError(
            f"the model knows {len(ids):,} items but the held-out part has {targets.shape[1]:,} columns: "
            "fit on the train part of the same split"
        )
    by_number = ids is None or np.array_equal(ids, np.arange(len(ids)))  # fitted on a bare matrix
    if columns is not None and not by_number and not np.array_equal(np.asarray(ids), columns):
        raise OffdiagError(
            "the model's items are not those of the held-out part, or in another order, so columns would not match: "
            "fit on the train part of the same split"
        )
    if not any(metric.kind == "novelty" for metric in wanted):
        return np.empty(0)
    popularity = getattr(model, "popularity_", None)
    if popularity is None:
        raise OffdiagError(
            "novelty needs the model's popularity_, received a model without it: fit it or drop the metric"
        )
    return np.asarray(popularity, dtype=np.float64)


def _validate_indices(indices: Any, n_users: int, n_items: int) -> NDArray[np.int64]:
    out = np.asarray(indices, dtype=np.int64)
    if out.ndim != 2 or len(out) != n_users or (out.size and (out.max() >= n_items or out.min() < -1)):
        raise OffdiagError(
            f"expected recommend to give .indices of {n_users:,} rows with columns from -1 to {n_items - 1:,}"
            f", received shape {out.shape} with columns from {out.min(initial=0)} to {out.max(initial=0)}"
        )
    return out


def _ordered_histories(model: Ranker, held_out: HasTargets, *, by_age: bool) -> Any:
    """The histories as Interactions with their order, where it is used; None where only the items count."""
    if not by_age and not getattr(model, "knows_order", False):
        return None
    words = inspect.signature(model.recommend).parameters
    if by_age and "history_decay" not in words and not any(word.kind == word.VAR_KEYWORD for word in words.values()):
        raise OffdiagError(
            f"expected a model whose recommend takes history_decay, such as od.EASE, received {type(model).__name__}; "
            "leave history_decay and history_half_life out"
        )
    ordered = getattr(held_out, "ordered", None)
    if ordered is None:
        if by_age:
            raise OffdiagError(
                "expected held-out histories in order for history_decay and history_half_life, received rows without "
                "one; split Interactions with times or events (od.read(…, time=<column>))"
            )
        return None
    _warn_of_the_future(model, held_out)
    ids, columns = getattr(model, "item_ids_", None), getattr(held_out, "item_ids", None)
    if ids is not None and columns is not None and not np.array_equal(ids, columns):
        ordered = replace(ordered, item_ids=ids)  # fitted on a bare matrix, so its ids are the columns
    return ordered


def _warn_of_the_future(model: Ranker, held_out: HasTargets) -> None:
    """Warn if a model that uses the order of a history is given events that came after what it has to predict."""
    later = getattr(held_out, "users_with_later_history", int)()
    if later:
        warnings.warn(
            f"{later:,} of {held_out.targets.shape[0]:,} users have a history that continues after a target, and "
            f"{type(model).__name__} uses its order: it is asked about the past, not about what comes next; "
            "use od.split.last_out or by_time",
            FutureLeakWarning,
            stacklevel=3,
        )


def _finite(values: dict[str, float]) -> dict[str, float | None]:
    return {name: value if np.isfinite(value) else None for name, value in values.items()}
