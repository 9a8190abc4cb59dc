"""What a low rank does to a model: its diagonal, the cosines between embeddings of similar items, accuracy by rank.

The measurements behind Figure 1 of [Steck20]. A model that may predict an item from itself gives similar items similar
embeddings; one that may not has to push them apart.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag import checks
from offdiag.errors import InterruptedFitWarning, OffdiagError
from offdiag.evaluation import HasTargets, Result, evaluate
from offdiag.progress import Progress, reporter
from offdiag.weights import LowRank, Weights

BLOCK_BYTES = 32 << 20  # size of one block of scores or gathered embeddings


def similar_groups(weights: Weights, n: int = 10) -> NDArray[np.int64]:
    """Row i holds the n other items with the largest values in *column* i of W: those that predict item i best.

    Best first, ties to the earlier item, fewer columns when there are not n others. W is read in blocks of columns, so
    memory stays at one block; meant for the full-rank model [Steck20 section 6].
    """
    from offdiag._kernels import parallel, topk

    if not weights.linear:
        raise OffdiagError(f"similar items need weights between items, received {weights.kind} weights")
    m = weights.shape[0]
    k = min(checks.whole("n", n, 1), max(m - 1, 0))
    groups = np.full((m, k), m, dtype=np.int64)
    if k == 0:
        return groups
    scores = np.full((m, k), -np.inf, dtype=weights.dtype)
    anything = np.ones(m, dtype=np.bool_)
    itself, own = np.arange(m, dtype=np.int32), np.arange(m + 1, dtype=np.int32)
    width = max(1, BLOCK_BYTES // (m * weights.dtype.itemsize))

    def select(block: NDArray[np.floating], first: int) -> None:
        topk.select_tile(block, 0, anything, own, itself, first, scores, groups)

    for lo in range(0, m, width):
        block = weights.columns(lo, min(lo + width, m))
        shares = parallel.ranges(len(block), parallel.n_threads())
        parallel.run_parallel(select, [(block[a:b], lo + a) for a, b in shares])
    topk.sort_heaps(0, m, scores, groups)
    return groups


def balanced(weights: LowRank) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Encoder and decoder of the same W = UVᵀ with UᵀU = VᵀV.

    U·R and V·R⁻ᵀ give the same model for every invertible R, but not the same cosines, so two models are only
    comparable with the same choice of R. This one, from the singular value decomposition of W, has the smallest
    ‖U‖² + ‖V‖² and is unique up to a rotation, which leaves cosines unchanged. O(m·rank²); W is not formed.
    """
    Qu, Ru = np.linalg.qr(weights.U)
    Qv, Rv = np.linalg.qr(weights.V)
    left, values, right = np.linalg.svd(Ru @ Rv.T)
    root = np.sqrt(values)
    return Qu @ (left * root), Qv @ (right.T * root)


def median_cosines(embeddings: Any, groups: Any) -> NDArray[np.float64]:
    """For each group of items, the median cosine over all pairs of its members' embeddings.

    `embeddings` has a row per item (see `balanced`), `groups` a row of row numbers per group (see `similar_groups`).
    A zero embedding has no direction: its pairs are left out. nan where no pair is left.
    """
    E, groups = np.asarray(embeddings), np.asarray(groups)
    E = E if E.dtype.kind == "f" else E.astype(np.float64)
    if E.ndim != 2 or groups.ndim != 2 or (groups.size and not 0 <= groups.min() <= groups.max() < len(E)):
        raise OffdiagError(
            f"expected embeddings of items × rank and groups of their row numbers, received shapes {E.shape} and "
            f"{groups.shape}"
        )
    n = groups.shape[1]
    lengths = np.sqrt(np.einsum("ik,ik->i", E, E, dtype=np.float64))
    unit = E / np.where(lengths > 0, lengths, 1).astype(E.dtype)[:, None]
    one, other = np.triu_indices(n, k=1)  # every pair once
    out = np.full(len(groups), np.nan)
    if not len(one):
        return out
    step = max(1, BLOCK_BYTES // (n * max(E.shape[1], n) * E.dtype.itemsize))
    for lo in range(0, len(groups), step):
        members = groups[lo : lo + step]
        some = unit[members]  # (groups, n, rank)
        pairs = (some @ some.transpose(0, 2, 1))[:, one, other].astype(np.float64)
        live = lengths[members] > 0
        pairs[~(live[:, one] & live[:, other])] = np.nan
        out[lo : lo + step] = _medians(pairs)
    return out


def _medians(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The median of each row, ignoring nans; nan where nothing is left."""
    ordered = np.sort(values, axis=1)  # nans go last
    left = np.count_nonzero(~np.isnan(values), axis=1)[:, None]
    low, high = np.maximum(left - 1, 0) // 2, left // 2
    high = np.minimum(high, values.shape[1] - 1)
    middle = (np.take_along_axis(ordered, low, 1) + np.take_along_axis(ordered, high, 1)) / 2
    return np.asarray(middle[:, 0])


@dataclass(frozen=True, eq=False)
class RankPoint:
    """One model at one rank."""

    model: str
    rank: int
    mean: float
    sem: float
    n_bytes: int  # of the weights
    seconds: float  # to fit
    objective: float  # reached by the fit; models with different objectives cannot be compared by it
    settings: dict[str, Any]  # as used
    result: Result = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON."""
        names = ("model", "rank", "mean", "sem", "n_bytes", "seconds", "objective", "settings")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, eq=False)
class RankCurve:
    """Accuracy against rank for some models; `fitted[model, rank]` for the ranks in `keep`."""

    metric: str
    points: list[RankPoint]
    fitted: dict[tuple[str, int], Any] = field(default_factory=dict, repr=False)

    @property
    def models(self) -> list[str]:
        return list(dict.fromkeys(point.model for point in self.points))

    @property
    def ranks(self) -> list[int]:
        return sorted({point.rank for point in self.points})

    def of(self, model: str) -> list[RankPoint]:
        """The points of one model, by rank."""
        return sorted((point for point in self.points if point.model == model), key=lambda point: point.rank)

    def at(self, model: str, rank: int) -> RankPoint:
        return next(point for point in self.points if (point.model, point.rank) == (model, rank))

    def __str__(self) -> str:
        width = max(len(name) for name in ["model", *self.models])
        lines = [f"{'model':<{width}}   rank  {self.metric:>10}      sem         MB  seconds   objective"]
        lines += [
            f"{p.model:<{width}}  {p.rank:>5}  {p.mean:>10.4f}  {p.sem:>7.4f}  {p.n_bytes / 1e6:>9.2f}"
            f"  {p.seconds:>7.2f}  {p.objective:>10.6g}"
            for p in self.points
        ]
        return "\n".join(lines)


def accuracy_by_rank(
    train: Any,
    held_out: HasTargets,
    ranks: Iterable[int],
    models: Mapping[str, Any],
    metric: str = "ndcg@100",
    *,
    keep: Collection[int] = (),
    choose: Callable[[str, int, Any], Any] | None = None,
    progress: Progress | bool | None = None,
) -> RankCurve:
    """Fit each of the models at each rank on `train` and measure it on `held_out`.

    `models` maps a name to a model with a `rank`, e.g. ``{"EDLAE": od.LowRankEDLAE(dropout=0.5, l2=100.0)}``; its rank
    is replaced. Every other setting is used as it is at all ranks, unless `choose` is given: it takes name, rank and
    model and returns the model to fit, so that settings can depend on the rank. Tune on other users than `held_out`.
    """
    progress = reporter(progress)
    ranks = sorted(set(ranks))
    if not ranks or not models:
        raise OffdiagError(f"expected at least one rank and one model, received {len(ranks)} and {len(models)}")
    points, fitted = [], {}
    for n, (rank, (name, model)) in enumerate((r, m) for r in ranks for m in models.items()):
        if progress:
            progress(f"{name} of rank {rank}", n / (len(ranks) * len(models)))
        asked = replace(model, rank=rank)
        asked = choose(name, rank, asked) if choose else asked
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InterruptedFitWarning)
            learner = asked.fit(train)
        if getattr(learner, "stopped_", "") == "interrupted":
            raise KeyboardInterrupt  # `fit` itself keeps its best iterate, but a half-fitted model is not a measurement
        seconds = time.perf_counter() - start
        result = evaluate(learner, held_out, metrics=[metric])
        points.append(
            RankPoint(
                model=name,
                rank=rank,
                mean=result.mean[metric],
                sem=result.sem[metric],
                n_bytes=learner.weights_.nbytes,
                seconds=seconds,
                objective=float(learner.objective_),
                settings=learner.settings_,
                result=result,
            )
        )
        if rank in keep:
            fitted[name, rank] = learner
    if progress:
        progress("accuracy by rank", 1.0)
    return RankCurve(metric, points, fitted)
