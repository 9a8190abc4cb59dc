"""What ``solvers.support`` needs from the data, taken from a Gram stored by rows: neighbours, and rows of a Shelf.

Items are numbered by popularity, as there. The numbers are the same as from the interactions, so both give the same
columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag import _kernels
from offdiag._kernels import parallel
from offdiag.gramian.sparse import SparseGram
from offdiag.progress import Progress
from offdiag.solvers import Doubles, Ints, popularity_order
from offdiag.solvers.support import ALONE, Groups, Supports, find_supports

RANGES = 32  # of rows per thread, for work that only reads rows


@dataclass(frozen=True, eq=False)
class RankedGram:
    """A SparseGram read with its items numbered by popularity: order[r] is the item of rank r."""

    G: SparseGram
    rank: NDArray[np.int32]
    order: NDArray[np.int32]

    @classmethod
    def of(cls, G: SparseGram) -> RankedGram:
        rank = popularity_order.popularity_rank(G.item_counts)
        return cls(G, rank, np.argsort(rank).astype(np.int32))

    @property
    def n_items(self) -> int:
        return self.G.n_items

    def arrays(self) -> tuple[NDArray[Any], ...]:
        return self.G.indptr, self.G.indices, self.G.values, self.order, self.rank

    def diagonal(self) -> Doubles:
        """g = diag(G) without its factor, by popularity."""
        return self.G.own_diagonal()[self.order]

    def count_rows(self, *room: Any) -> None:
        """Rows of the Gram for a ``gram_rows.Shelf``."""
        _kernels.sparse_gram_rows.shelf_rows(*self.arrays(), *room)

    def below(self) -> Ints:
        """How many more popular items share a user with each."""
        m = self.n_items
        below = np.zeros(m, dtype=np.int64)
        indptr, indices, _, order, rank = self.arrays()
        tasks = parallel.ranges(m, RANGES * parallel.n_threads())
        parallel.run_parallel(
            lambda lo, hi: _kernels.sparse_gram_rows.more_popular(indptr, indices, order, rank, lo, hi, below), tasks
        )
        return below


def choose(
    data: RankedGram,
    H: Doubles,
    k: int,
    dtype: Any,
    *,
    items: NDArray[np.int32] | None = None,
    groups: Groups = ALONE,
    progress: Progress | None = None,
) -> Supports:
    """The k neighbours of all items, or of some (ascending): the others then have an empty support."""
    m = data.n_items
    wanted = np.arange(m, dtype=np.int32) if items is None else items

    def find(penalty: Doubles, fill: int, first: int, last: int, *room: Any) -> None:
        _kernels.sparse_gram_rows.supports_of_gram(
            *data.arrays(), penalty, groups.number, fill, wanted[first:last], *room
        )

    found = find_supports(find, len(wanted), H, k, dtype, data.G.item_counts, progress)
    if items is None:
        return replace(found, groups=groups)
    lengths, all_parents = np.zeros(m, dtype=np.int64), np.full(m, -1, dtype=np.int32)
    lengths[items], all_parents[items] = np.diff(found.ptr), found.parent
    ptr = np.concatenate([[0], np.cumsum(lengths)])
    return Supports(ptr, found.rows, found.values, all_parents, data.below(), groups)


def touched(G: SparseGram, changed: Ints, before: Doubles, after: Doubles, k: int) -> NDArray[np.bool_]:
    """Which columns have to be solved again when G changed only at pairs of ``changed`` items.

    ``before`` and ``after`` are diag(H), in catalogue order. Column i solves H[S, S] β = G[S, i]: it stays the same
    unless its support S contains, or contained, a changed item, or i itself changed.
    """
    m = G.n_items
    marked, out = np.zeros(m, dtype=bool), np.zeros(m, dtype=bool)
    marked[changed] = True
    with np.errstate(divide="ignore"):
        merit_before, merit = 1 / before, 1 / after

    def work(lo: int, hi: int) -> None:
        _kernels.sparse_gram_rows.may_change(G.indptr, G.indices, G.values, marked, merit_before, merit, k, lo, hi, out)

    parallel.run_parallel(work, parallel.ranges(m, RANGES * parallel.n_threads()))
    return out
