"""The columns of ``solvers.support`` for many settings at once, to the very bit, from one Gram that is held whole.

Settings differ by diag(H) = (1 + c)·diag(G) + l2 and by the number of neighbours. The neighbours that are the best for
one of them are mostly so for the others, and most of the time of a column goes into gathering its sub-Gram from rows
far apart: it is gathered once, for all neighbours that any setting wants, and each setting takes its part.

Memory    12 bytes per pair of items that share a user, half of that again for the rows as the columns need them, and
          the supports of all settings.
Equals    ``support.choose`` and ``support.solve`` for each setting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import _kernels
from offdiag._kernels import parallel
from offdiag.gramian.sparse import SparseGram, sparse_gram
from offdiag.progress import Progress, of_tasks
from offdiag.solvers import Doubles, Ints, blas, gram_rows, gram_supports, popularity_order
from offdiag.solvers.support import ITEMS_AT_ONCE, SOLVING, STEPS, Supports


@dataclass(frozen=True, eq=False)
class WholeGram:
    """A Gram with its items numbered by popularity, and the arrays of a ``gram_rows.Shelf`` with all of its rows."""

    G: SparseGram
    rank: NDArray[np.int32]
    g: Doubles  # diag(G) without its factor
    order: NDArray[np.int32]  # items in the order in which columns are solved: relatives need the same rows
    below: Ints
    shelf: tuple[NDArray[Any], ...]

    @property
    def nbytes(self) -> int:
        return self.G.nbytes + sum(part.nbytes for part in self.shelf)

    @classmethod
    def count(cls, matrix: sparse.csr_array, user_power: float, dtype: Any, progress: Progress | None) -> WholeGram:
        m = matrix.shape[1]
        rank = popularity_order.popularity_rank(np.bincount(matrix.indices, minlength=m))
        by_rank = sparse.csr_array((matrix.data, rank[matrix.indices], matrix.indptr), shape=matrix.shape)
        G = sparse_gram(by_rank, user_power, progress=progress)
        data = gram_supports.RankedGram(G, np.arange(m, dtype=np.int32), np.arange(m, dtype=np.int32))
        below = data.below()
        shelf = gram_rows.Shelf(data, below, m, dtype)
        g, parent, order = data.diagonal(), np.empty(m, dtype=np.int32), np.empty(m, dtype=np.int32)
        child, sibling = np.full(m, -1, dtype=np.int32), np.full(m, -1, dtype=np.int32)
        _kernels.shared_columns.parents(G.indptr, G.indices, G.values, g, parent)
        _kernels.column_layout.family_order(parent, child, sibling, order)
        return cls(G, rank, g, order, below, shelf.arrays())


def bytes_needed(matrix: sparse.csr_array) -> int:
    """At most what a ``WholeGram`` takes: as if no two users had a pair of items in common."""
    n_u = np.diff(matrix.indptr).astype(np.float64)
    return int(18 * min(float(n_u @ n_u), float(matrix.shape[1]) ** 2))


def solve(
    whole: WholeGram, H: list[Doubles], neighbours: list[int], dtype: Any, *, progress: Progress | None = None
) -> list[tuple[Supports, Doubles]]:
    """Supports with β, and what they explain, for each diag(H) and number of neighbours; -1: a singular column."""
    m, indptr, indices, values = len(whole.g), whole.G.indptr, whole.G.indices, whole.G.values
    most = np.array(neighbours, dtype=np.int64)
    fill = np.where(most >= m - 1, np.count_nonzero(whole.G.item_counts), 0)
    lengths = np.zeros((len(H), m), dtype=np.int64)
    _kernels.shared_columns.count_supports(indptr, most, fill, lengths)
    ends = np.cumsum(lengths).reshape(lengths.shape)
    ptr = np.concatenate([ends[:, :1] - lengths[:, :1], ends], axis=1)
    rows, beta = np.empty(ptr[-1, -1], dtype=np.int32), np.empty(ptr[-1, -1], dtype=dtype)
    explained = np.zeros((len(H), m))
    with np.errstate(divide="ignore"):
        penalty = np.stack([1 / one for one in H])
    diagonal = np.stack(H).astype(dtype)
    tasks = parallel.ranges(m, -(-m // ITEMS_AT_ONCE))
    parallel.run_parallel(
        lambda lo, hi: _kernels.shared_columns.supports(
            indptr, indices, values, penalty, fill, lo, hi, ptr, rows, beta
        ),
        tasks,
        of_tasks(progress, "finding neighbours", len(tasks)),
    )

    def work(first: int, last: int) -> None:
        _kernels.shared_columns.solve(
            whole.order, first, last, ptr, rows, beta, explained, *whole.shelf, diagonal, STEPS
        )

    with blas.one_thread():  # our own threads are enough
        parallel.run_parallel(work, tasks, of_tasks(progress, f"{SOLVING} of {len(H)} settings", len(tasks)))
    return [(_supports(whole, at, rows, beta), part) for at, part in zip(ptr, explained, strict=True)]


def _supports(whole: WholeGram, at: Ints, rows: NDArray[np.int32], beta: NDArray[Any]) -> Supports:
    mine = slice(at[0], at[-1])
    return Supports(at - at[0], rows[mine], beta[mine], np.empty(0, dtype=np.int32), whole.below)
