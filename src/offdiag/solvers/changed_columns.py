"""The columns of a sparse model whose Gram has changed at few items: which are solved again, and on which supports.

Column i solves H[S, S] β = G[S, i]. It stays the same unless i changed, or its support S contains, or contained, a
changed item. Most columns that are solved again keep their support, which is then read from the weights: choosing it
would take longer than solving.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag import _kernels
from offdiag._kernels import parallel
from offdiag.progress import Progress
from offdiag.solvers import Doubles, Floats, Ints, gram_supports
from offdiag.solvers.gram_supports import RankedGram
from offdiag.solvers.support import Supports

SAME, SUPPORTED, NEW = 0, 1, 2  # the problem is the same; its support is; neither


@dataclass(frozen=True, eq=False)
class Columns:
    """All columns of a model on the changed Gram, by popularity. ``supports`` are those of the weights."""

    supports: Supports
    state: NDArray[np.int8]
    explained: Doubles  # G_iS·β of the columns that stay

    def share_of_new(self) -> float:
        """The part of Σ|S|² in columns that need a new support."""
        work = np.diff(self.supports.ptr).astype(np.float64) ** 2
        return float(work[self.state == NEW].sum()) / max(float(work.sum()), 1.0)

    def to_solve(self, data: RankedGram, H: Doubles, k: int, dtype: Any, progress: Progress | None) -> Supports:
        """Supports of the columns that are solved again; the others have an empty one."""
        new = np.flatnonzero(self.state == NEW).astype(np.int32)
        chosen = gram_supports.choose(data, H, k, dtype, items=new, progress=progress)
        known = np.diff(self.supports.ptr)
        lengths = np.where(self.state == SUPPORTED, known, np.diff(chosen.ptr))
        ours, theirs = np.repeat(self.state == SUPPORTED, known), np.repeat(self.state == SUPPORTED, lengths)
        ptr = np.concatenate([[0], np.cumsum(lengths)])
        rows, values = np.empty(ptr[-1], dtype=np.int32), np.empty(ptr[-1], dtype=dtype)
        rows[theirs], values[theirs] = self.supports.rows[ours], self.supports.values[ours]
        rows[~theirs], values[~theirs] = chosen.rows, chosen.values
        return Supports(ptr, rows, values, chosen.parent, chosen.below)


@dataclass(frozen=True, eq=False)
class OldWeights:
    """Weights by row, W_ji = sign(β)·|β|^power·scale[i], in the catalogue before the change."""

    indptr: Ints
    indices: NDArray[np.int32]
    data: Floats
    places: Ints  # the new place of every old item, −1: dropped
    power: float
    scale: Doubles  # of the items in the new catalogue


def compare(
    data: RankedGram, W: OldWeights, changed: Ints, before: Doubles, after: Doubles, k: int, dtype: Any
) -> Columns:
    """What has become of each column when G changed only at pairs of ``changed`` items.

    ``before`` and ``after`` are diag(H); all arguments are in the order of the new catalogue. Cost: a pass over G.
    """
    m, order, rank = data.n_items, data.order, data.rank
    at, stays = np.full(m, -1, dtype=np.int64), np.flatnonzero(W.places >= 0)
    at[W.places[stays]] = stays
    lengths = np.zeros(m, dtype=np.int64)
    lengths[rank[W.places[stays]]] = np.bincount(W.indices, minlength=len(W.places))[stays]
    ptr = np.concatenate([[0], np.cumsum(lengths)])
    members, weights = np.full(ptr[-1], -1, dtype=np.int32), np.empty(ptr[-1], dtype=W.data.dtype)
    cursor = ptr[:-1].copy()
    _kernels.changed_columns.rows_to_columns(
        W.indptr, W.indices, W.data, order, rank, at, W.places, cursor, members, weights
    )
    state, share, explained = np.empty(m, dtype=np.int8), np.empty(ptr[-1], dtype=dtype), np.zeros(m)
    short = cursor != ptr[1:]  # an item of the support was dropped
    marked = short.copy()
    marked[rank[changed]] = True
    with np.errstate(divide="ignore"):
        merits = 1 / before[order], 1 / after[order]
    G = data.G
    args = (G.indptr, G.indices, G.values, order, ptr, members, weights, marked, np.sort(rank[changed]), *merits)

    def work(lo: int, hi: int) -> None:
        _kernels.changed_columns.compare_columns(*args, k, W.power, W.scale[order], lo, hi, state, share, explained)

    parallel.run_parallel(work, parallel.ranges(m, gram_supports.RANGES * parallel.n_threads()))
    return Columns(Supports(ptr, members, share, rank, lengths[:0]), state, explained)
