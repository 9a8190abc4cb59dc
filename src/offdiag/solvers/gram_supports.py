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
from offdiag.solvers.gram_triangles import Triangles
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
    """The k neighbours of all items; or of some (ascending) and an empty support for the others, without ``below``."""
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
    return Supports(ptr, found.rows, found.values, all_parents, found.below[:0], groups)


class StoredTriangles(Triangles):
    """Triangles whose rows are in memory already."""

    data: RankedGram

    def __init__(self, data: RankedGram, dtype: Any) -> None:
        super().__init__(data, np.zeros(0, dtype=np.int64), dtype)

    def _named(self, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        return self.data.order[rows]

    def _rows(self, items: NDArray[np.int32]) -> tuple[NDArray[Any], ...]:
        G = self.data.G
        begin, end = G.indptr[items], G.indptr[items + 1]
        return begin, end, begin, end, G.indices, G.values
