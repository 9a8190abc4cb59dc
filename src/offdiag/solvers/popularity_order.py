"""The interactions as ``solvers.support`` reads them: items numbered by popularity, by user and by item.

Sums of user weights are exact, so the Gram of 0/1 data has the same bytes in whatever order and in however many parts
it is summed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import _kernels
from offdiag._kernels import parallel
from offdiag.data.sparse_rows import runs_of_rows
from offdiag.gramian import user_weights
from offdiag.solvers import Doubles, Floats, Ints

ENTRIES_AT_ONCE = 1 << 22


@dataclass(frozen=True, eq=False)
class Rows:
    """Interactions with items numbered by popularity, by user and by item, and the weight of each user."""

    indptr: Ints
    indices: NDArray[np.uint32]  # ascending in each row
    data: Floats  # empty when every value is 1
    weight: Doubles  # (n,)
    col_ptr: Ints  # (m + 1,)
    users: NDArray[np.int32]  # of item i: users[col_ptr[i] : col_ptr[i + 1]]
    positions: NDArray[Any]  # of the item in indices

    @property
    def n_items(self) -> int:
        return len(self.col_ptr) - 1

    def arrays(self) -> tuple[NDArray[Any], ...]:
        return self.indptr, self.indices, self.data, self.weight, self.col_ptr, self.users, self.positions

    def count_rows(self, *room: Any) -> None:
        """Rows of the Gram for a ``gram_rows.Shelf``."""
        _kernels.column_supports.gram_rows(*self.arrays(), *room)


def popularity_rank(counts: Ints) -> NDArray[np.int32]:
    """rank[i] = how many items are more popular than i; ties go to the earlier item."""
    rank = np.empty(len(counts), dtype=np.int32)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts), dtype=np.int32)
    return rank


def by_popularity(matrix: sparse.csr_array, weight: Doubles, rank: NDArray[np.int32]) -> Rows:
    """The interactions renumbered and transposed: 12 bytes each in addition to the matrix, 16 if it has values."""
    binary = bool((matrix.data == 1).all())
    data = None if binary else matrix.data
    return parts_by_popularity([(matrix.indptr, matrix.indices, data)], weight, rank)


def parts_by_popularity(
    parts: list[tuple[NDArray[Any], NDArray[Any], Floats | None]], weight: Doubles, rank: NDArray[np.int32]
) -> Rows:
    """The same for users in several parts: row pointers, columns and values, None if all values are 1."""
    m = len(rank)
    binary = all(data is None for _, _, data in parts)
    n_u = np.concatenate([np.diff(indptr) for indptr, _, _ in parts])
    indptr = np.concatenate([[0], np.cumsum(n_u, dtype=np.int64)])
    indices = np.empty(indptr[-1], dtype=np.uint32)
    kind = np.result_type(*(np.float32 if data is None else data.dtype for _, _, data in parts))
    data = np.empty(0 if binary else indptr[-1], dtype=kind)
    begin = 0
    for rows, columns, values in parts:
        end = begin + int(rows[-1])
        if values is None and not binary:
            values = np.ones(len(columns), dtype=kind)
        of_part = (rows.astype(np.int64, copy=False), columns, data[:0] if values is None else values, rank, binary)
        room = indices[begin:end], data[begin:end]

        def rename(first: int, last: int, of_part: tuple[Any, ...] = of_part, room: tuple[Any, ...] = room) -> None:
            _kernels.column_supports.relabel_rows(*of_part, first, last, *room)

        parallel.run_parallel(rename, parallel.ranges(len(rows) - 1, 8 * parallel.n_threads()))
        begin = end
    counts = np.zeros(m, dtype=np.int64)
    at_once = max(ENTRIES_AT_ONCE, m)  # each takes 8 bytes while it is counted
    for lo in range(0, len(indices), at_once):
        counts += np.bincount(indices[lo : lo + at_once], minlength=m)
    col_ptr = np.concatenate([[0], np.cumsum(counts)])
    users = np.empty(len(indices), dtype=np.int32)
    positions = np.empty(len(indices), dtype=np.int32 if len(indices) < 2**31 else np.int64)
    _kernels.pair_counts.transpose_band(indptr, indices, 0, m, col_ptr[:-1].copy(), users, positions)
    return Rows(indptr, indices, data, weight, col_ptr, users, positions)


def diagonal(data: Rows) -> Doubles:
    """g = diag(G); some interactions at a time, because each takes 16 bytes while it is added."""
    g = np.zeros(data.n_items)
    for lo, hi in runs_of_rows(data.indptr, max(ENTRIES_AT_ONCE, data.n_items)):
        a, b = data.indptr[lo], data.indptr[hi]
        rows, values = data.indptr[lo : hi + 1], data.data[a:b]
        g += user_weights.diagonal(rows, data.indices[a:b], values, data.weight[lo:hi], data.n_items)
    return g
