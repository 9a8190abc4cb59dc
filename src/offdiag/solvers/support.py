"""Each item regressed on a support of few others, exactly: sparse weights, and no m×m matrix.

Problem   min_β ‖x_i − X_S β‖² + ‖Λ_S^½ β‖² for every item i, Λ = c·diag(G) + l2: column i of the full-rank problem
          [Steck20 Eq. 8] restricted to the items in S, the neighbours of largest G_ji²/H_jj.
Cost      Σ n_u² additions; per item |S|²/2 reads and about twenty |S|² flops, |S|³/3 where H is badly conditioned.
Equals    ``np.linalg.solve(H[S, S], G[S, i])`` with H = G + diag(Λ); with S all other items, column i of EDLAE.

Items are numbered by popularity here (``solvers.popularity_order``), and only the part of the Gram that a block of
columns needs is held (``solvers.gram_rows``). Every entry is summed in float64 over users in their order, so the result
is the same to the bit for any blocks and threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from offdiag import _kernels
from offdiag._kernels import parallel
from offdiag.progress import Progress, of_tasks
from offdiag.solvers import Doubles, Floats, Ints, blas, precision
from offdiag.solvers.cholesky import penalties
from offdiag.solvers.gram_rows import Plan, Shelf
from offdiag.solvers.gram_triangles import Triangles
from offdiag.solvers.popularity_order import Rows
from offdiag.solvers.products import item_l2

if TYPE_CHECKING:
    from offdiag.solvers.gram_supports import RankedGram
    from offdiag.solvers.order_supports import OrderRows

ITEMS_AT_ONCE = 64  # a task for one core
COUNTING, SOLVING = "counting pairs", "solving columns"
STEPS = 0.1  # of conjugate gradients, as a share of |S|: beyond about this a Cholesky factor is cheaper


@dataclass(frozen=True, eq=False)
class Groups:
    """Items of one group are not in each other's supports, and count as one thing in the noise (``grouped``)."""

    number: Ints  # of each item by popularity; empty: there are no groups
    growth: float  # of G within a group, 1 + c


ALONE = Groups(np.zeros(0, dtype=np.int64), 1.0)


@dataclass(frozen=True, eq=False)
class Supports:
    """The support of column i is rows[ptr[i] : ptr[i + 1]], least popular item first; values are G there, then β."""

    ptr: Ints  # (m + 1,)
    rows: NDArray[np.int32]
    values: Floats
    parent: NDArray[np.int32]  # the best more popular neighbour of each item, or -1
    below: Ints  # how many more popular items share a user with it
    groups: Groups = ALONE


class Kept(Protocol):
    """Finished blocks stored beyond the life of the process."""

    def restore(self, block: int, items: NDArray[np.int32]) -> dict[str, NDArray[Any]] | None: ...
    def store(self, block: int, items: NDArray[np.int32], found: dict[str, NDArray[Any]]) -> None: ...


def penalised(g: Doubles, scale: float, dtype: str, *, dropout: float, l2: float, item_power: float) -> Doubles:
    """diag(H) = diag(G) + Λ, for G in its own unit, which is ``scale`` times smaller."""
    precision.check_squares(g, float(np.finfo(dtype).max) / 64)
    penalty = item_l2(l2 / scale, g, item_power)
    precision.check_penalty(g, penalties(g, dropout, penalty), dtype, dropout=dropout)
    return np.asarray(g * (1 + dropout / (1 - dropout)) + penalty)


def to_size(
    supports: Supports, H: Doubles, max_bytes: int | None, solve: Callable[[Supports, str], Doubles]
) -> tuple[Supports, Doubles]:
    """Solve and, if the weights would be too large, solve again without the weakest."""
    entries = len(supports.rows)
    if max_bytes is not None:
        entries = min(entries, (max_bytes - 8 * len(supports.ptr)) // (4 + supports.values.dtype.itemsize))
    if entries == len(supports.rows):
        return supports, solve(supports, "all")
    G = supports.values.copy()
    solve(supports, "all")
    pruned = strongest(supports, H, G, entries)
    return pruned, solve(pruned, "pruned")


def choose(
    data: Rows,
    H: Doubles,
    k: int,
    dtype: Any,
    *,
    lo: int = 0,
    hi: int | None = None,
    groups: Groups = ALONE,
    progress: Progress | None = None,
) -> Supports:
    """The k neighbours of items lo..hi; only users who have one of these items matter."""
    n = (data.n_items if hi is None else hi) - lo

    def find(penalty: Doubles, fill: int, first: int, last: int, *room: Any) -> None:
        _kernels.column_supports.supports(*data.arrays(), penalty, groups.number, fill, lo + first, lo + last, *room)

    return replace(find_supports(find, n, H, k, dtype, np.diff(data.col_ptr), progress), groups=groups)


def choose_from_rows(
    rows: Callable[[int, int], Doubles], g: Doubles, H: Doubles, k: int, dtype: Any, groups: Groups = ALONE
) -> Supports:
    """The same from rows lo..hi of the whole G."""

    def find(penalty: Doubles, fill: int, lo: int, hi: int, *room: Any) -> None:
        _kernels.column_supports.supports_of_rows(rows(lo, hi), penalty, groups.number, fill, lo, hi, *room)

    return replace(find_supports(find, len(H), H, k, dtype, g, None), groups=groups)


def find_supports(
    find: Callable[..., None], n: int, H: Doubles, k: int, dtype: Any, used: NDArray[Any], progress: Progress | None
) -> Supports:
    """The supports of n items, found by ``find(1/H, fill, first, last, *room)`` for the items first..last.

    Neighbours share a user with the item, unless k covers all other items: then every item with ``used`` > 0 is one.
    """
    who, share = np.empty((n, k), dtype=np.int32), np.empty((n, k), dtype=dtype)
    parent, below = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int64)
    fill = int(np.count_nonzero(used)) if k >= len(H) - 1 else 0
    with np.errstate(divide="ignore"):
        penalty = 1 / H

    def work(first: int, last: int) -> None:
        find(penalty, fill, first, last, *(room[first:last] for room in (who, share, parent, below)))

    # Popular items take longest and go first, so no core is left with a long task at the end.
    tasks = parallel.ranges(n, -(-n // ITEMS_AT_ONCE))
    parallel.run_parallel(work, tasks, of_tasks(progress, "finding neighbours", len(tasks)))
    ptr = np.concatenate([[0], np.cumsum(np.count_nonzero(who >= 0, axis=1))])
    _kernels.column_layout.close_gaps(who, share, ptr)
    return Supports(ptr, who.reshape(-1)[: ptr[-1]], share.reshape(-1)[: ptr[-1]], parent, below)


def strongest(supports: Supports, H: Doubles, G: Floats, entries: int) -> Supports:
    """The supports without their weakest entries, with G as values again: β_j²·H_jj is about what leaving out j costs.

    ``supports`` holds β, ``G`` the values before. On ties the earlier column keeps its entry.
    """
    cost = supports.values.astype(np.float64) ** 2 * H[supports.rows]
    kept = np.zeros(len(cost), dtype=bool)
    kept[np.argsort(-cost, kind="stable")[:entries]] = True
    before = np.concatenate([[0], np.cumsum(kept)])
    return replace(supports, ptr=before[supports.ptr], rows=supports.rows[kept], values=G[kept])


def join(parts: list[Supports]) -> Supports:
    """The supports of consecutive ranges of items, joined into one."""
    ptr = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(part.ptr) for part in parts]))])
    others = zip(*((part.rows, part.values, part.parent, part.below) for part in parts), strict=True)
    rows, values, parent, below = map(np.concatenate, others)
    return Supports(ptr, rows, values, parent, below)


def solve(
    data: Rows | RankedGram | OrderRows,
    H: Doubles,
    supports: Supports,
    plan: Plan,
    *,
    kept: Kept | None = None,
    held: Shelf | Triangles | None = None,
    steps: float = STEPS,
    progress: Progress | None = None,
) -> Doubles:
    """Replace the values of the supports by β, block by block; returns G_iS·β of each item i.

    Blocks found in ``kept`` are taken from there; the others are stored in it as they finish. ``held`` is what rows of
    the Gram are read into, as the plan demands.
    """
    explained = np.zeros(len(H))
    reported = ColumnProgress(progress, len(H))
    for number, items in enumerate(plan.blocks):
        found = kept.restore(number, items) if kept else None
        if found is None:
            if held is None and plan.by_column:
                held = Triangles(data, supports.below, supports.values.dtype)
            held = held or Shelf(data, supports.below, plan.n_head, supports.values.dtype)
            held.hold(supports, items, reported.counted(len(items)))
            solve_block(held.arrays(), H, supports, items, explained, steps, reported.within(len(items)))
            if kept:
                kept.store(number, items, take(supports, items, explained))
        else:
            put(supports, items, explained, found)
        reported.add(len(items), solved=found is None)
    return explained


def solve_block(
    gram: tuple[NDArray[Any], ...],
    H: Doubles,
    supports: Supports,
    items: NDArray[np.int32],
    explained: Doubles,
    steps: float = STEPS,
    progress: Callable[[float], None] | None = None,
) -> None:
    """The columns of some items, from the arrays of a Shelf that holds the rows they need."""
    diagonal, groups = H.astype(supports.values.dtype), supports.groups
    growth = diagonal.dtype.type(groups.growth)

    def work(first: int, last: int) -> None:
        _kernels.column_solves.solve_columns(
            items, first, last, supports.ptr, supports.rows, supports.values, explained, *gram, diagonal,
            groups.number, growth, steps,
        )  # fmt: skip

    tasks = parallel.ranges(len(items), -(-len(items) // ITEMS_AT_ONCE))
    with blas.one_thread():  # our own threads are enough
        parallel.run_parallel(work, tasks, progress and (lambda finished: progress(finished / len(tasks))))
    if explained[items].min(initial=0.0) < 0:
        raise precision.singular(diagonal.dtype)


def take(supports: Supports, items: NDArray[np.int32], explained: Doubles) -> dict[str, NDArray[Any]]:
    """The results for a block, as one set of arrays."""
    values = [supports.values[supports.ptr[i] : supports.ptr[i + 1]] for i in items]
    return {"values": np.concatenate(values), "explained": explained[items]}


def put(supports: Supports, items: NDArray[np.int32], explained: Doubles, found: dict[str, NDArray[Any]]) -> None:
    """Put the results of a block back."""
    explained[items] = found["explained"]
    begin = 0
    for i in items:
        part = supports.values[supports.ptr[i] : supports.ptr[i + 1]]
        part[:] = found["values"][begin : begin + len(part)]
        begin += len(part)


def to_rows(
    supports: Supports, rank: NDArray[np.int32], scale: Floats, power: float = 1.0
) -> tuple[Ints, NDArray[np.int32], Floats]:
    """B by rows in the order of the catalogue, sign(β)·|β|^power·scale[i]: indptr, indices, data, without zeros."""
    m = len(rank)
    order = np.argsort(rank).astype(np.int32)
    counts = np.zeros(m, dtype=np.int64)
    _kernels.column_layout.count_by_row(supports.rows, supports.values, counts)
    indptr = np.concatenate([[0], np.cumsum(counts[rank])])
    indices, data = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1], dtype=supports.values.dtype)
    _kernels.column_layout.columns_to_rows(
        order, rank, supports.ptr, supports.rows, supports.values, power, scale, indptr[:-1].copy(), indices, data
    )
    return indptr, indices, data


class ColumnProgress:
    """Progress over all columns, with the number solved per second, which excludes columns from a checkpoint."""

    def __init__(self, progress: Progress | None, columns: int) -> None:
        self._progress, self._columns = progress, max(columns, 1)
        self._begin, self._done, self._solved = time.perf_counter(), 0, 0

    def within(self, columns: int) -> Callable[[float], None]:
        """A callback for the next block: takes the finished share of its columns."""
        return lambda part: self._report(part * columns)

    def counted(self, columns: int) -> Callable[[float], None] | None:
        """The same while pairs are counted for them."""
        progress = self._progress
        return progress and (lambda part: progress(COUNTING, (self._done + part * columns) / self._columns))

    def add(self, columns: int, *, solved: bool) -> None:
        self._done += columns
        self._solved += columns if solved else 0
        self._report(0.0)

    def _report(self, more: float) -> None:
        if self._progress:
            rate = (self._solved + more) / max(time.perf_counter() - self._begin, 1e-9)
            self._progress(f"{SOLVING} · {rate:,.0f} items/s", (self._done + more) / self._columns)
