"""Evaluate a model on held-out users: means with standard errors, values per user, paired comparison."""

import inspect
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from offdiag import metrics as formulas
from offdiag.errors import FutureLeakWarning, OffdiagError
from offdiag.measured import Comparison as Comparison
from offdiag.measured import Floats
from offdiag.measured import Result as Result
from offdiag.measured import paired_t_test as paired_t_test
from offdiag.measured import standard_error as standard_error
from offdiag.metric_names import FROM_HITS, Metric
from offdiag.metric_names import KNOWN_METRICS as KNOWN_METRICS
from offdiag.metric_names import parse_metric as parse_metric
from offdiag.popularity_bands import Counting, band_of
from offdiag.progress import Progress, reporter
from offdiag.protocols import Ranker


class HasTargets(Protocol):
    """A part of a split: the rows of both matrices are the same users, the columns the model's items."""

    @property
    def histories(self) -> Any: ...
    @property
    def targets(self) -> Any: ...


def evaluate(
    model: Ranker,
    held_out: HasTargets,
    metrics: Sequence[str] | str = ("recall@20", "recall@50", "ndcg@100"),
    *,
    among: Any = None,
    bands: bool = False,
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

    ``bands=True`` also measures by popularity: how well lists find popular, middling, rare and new items, and how many
    of their places these get (``Result.bands``, docs/evaluation.md#by-popularity).

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
    popularity = _check(model, histories, targets, getattr(held_out, "item_ids", None), wanted, bands=bands)
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
    by_band = Counting(band_of(popularity), targets, wanted) if bands else None
    covered = {metric.name: np.zeros(n_items, np.bool_) for metric in wanted if metric.kind == "coverage"}

    for lo in range(0, rows.size, batch):
        if progress is not None:
            progress("evaluate", lo / rows.size)
        users = rows[lo : lo + batch]
        asked = histories[users] if ordered is None else ordered.select_users(positions=users)
        answer = model.recommend(asked, k=depth, exclude_seen=exclude_seen, **allowed, **recency)
        indices = _validate_indices(answer.indices, users.size, n_items)
        hits = formulas.find_hits(indices, targets[users])
        if by_band is not None:
            by_band.add(indices, users)
        for name, kind, k in wanted:
            if kind == "coverage":
                covered[name] |= formulas.recommended(indices, n_items, k)
            elif kind == "novelty":
                per_user[name][lo : lo + batch] = formulas.novelty(indices, popularity, k)
            else:
                per_user[name][lo : lo + batch] = FROM_HITS[kind](hits, n_targets[users], k)
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
        bands=None if by_band is None else by_band.end(),
    )


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
    *,
    bands: bool,
) -> Floats:
    """Reject what cannot be evaluated; return the popularity for novelty and bands (empty where nobody needs it)."""
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
    if not bands and not any(metric.kind == "novelty" for metric in wanted):
        return np.empty(0)
    popularity = getattr(model, "popularity_", None)
    if popularity is None:
        raise OffdiagError(
            f"{'bands need' if bands else 'novelty needs'} the model's popularity_, received a model without it: "
            f"fit it or drop {'the bands' if bands else 'the metric'}"
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
    if not by_age and not getattr(model, "reads_order", getattr(model, "knows_order", False)):
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
