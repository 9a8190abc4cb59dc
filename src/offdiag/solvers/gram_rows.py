"""Rows of the Gram for one block of columns at a time, in bounded memory; items are numbered by popularity.

Only the part of the symmetric G before the diagonal is stored, row by row: in full if more than half of the row is
nonzero, else as a list of columns. The rows of popular items, the *head*, are needed by most columns and counted once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offdiag import _kernels
from offdiag._kernels import parallel
from offdiag.gramian import layout
from offdiag.solvers import Floats, Ints

if TYPE_CHECKING:
    from offdiag.solvers.gram_supports import RankedGram
    from offdiag.solvers.order_supports import OrderRows
    from offdiag.solvers.popularity_order import Rows
    from offdiag.solvers.support import Supports

BLOCK_ITEMS = 4096  # columns per block at most: the work a restart may have to repeat
ROWS_AT_ONCE = 64  # a task for one core


@dataclass(frozen=True, eq=False)
class Plan:
    """Which columns are solved together, and the popular items whose rows of the Gram are kept throughout."""

    blocks: list[NDArray[np.int32]]
    n_head: int
    row_bytes: int = 0  # of all rows of the Gram
    passes: float = 1.0  # how often the rows are counted, on average over their entries
    by_column: bool = False  # whether each column has its own part of the Gram (``gram_triangles``) instead of rows


def plan(supports: Supports, itemsize: int, block_bytes: int, block_items: int = BLOCK_ITEMS) -> Plan:
    """Blocks of related columns, so that a block needs the Gram of few items and fits in ``block_bytes``.

    The parent of an item is its best more popular neighbour; walking these trees keeps relatives together. Half of the
    memory is for the rows of popular items, which most blocks need, the other half for those of one block.
    """
    m = len(supports.parent)
    room = bytes_of_rows(supports.below, itemsize)
    filled = np.cumsum(room)
    n_head = m if not m or filled[-1] <= block_bytes else int(np.searchsorted(filled, block_bytes // 2, side="right"))
    order = np.empty(m, dtype=np.int32)
    ends, sizes = np.empty(m + 1, dtype=np.int64), np.empty(m + 1, dtype=np.int64)
    child, sibling = np.full(m, -1, dtype=np.int32), np.full(m, -1, dtype=np.int32)
    _kernels.column_layout.family_order(supports.parent, child, sibling, order)
    n = _kernels.column_layout.cut_blocks(
        order, supports.ptr, supports.rows, n_head, room, max(block_bytes // 2, 1), block_items, ends, sizes
    )
    blocks = [part for part in np.split(order, ends[: n - 1]) if len(part)]
    whole = int(filled[-1]) if m else 0
    counted = int(sizes[:n].sum()) + (int(filled[n_head - 1]) if n_head else 0)
    return Plan(blocks, n_head, whole, counted / max(whole, 1))


def row_sizes(below: Ints, first: int = 0) -> tuple[Ints, Ints]:
    """How many numbers and column indices the row of each item takes; rows more than half full need no indices.

    The items are those from ``first`` on.
    """
    j = np.arange(first, first + len(below), dtype=np.int64)
    full = 2 * below >= j
    return np.where(full, j, below), np.where(full, 0, below)


def bytes_of_rows(below: Ints, itemsize: int, first: int = 0) -> Ints:
    """How many bytes the row of each item takes."""
    numbers, listed = row_sizes(below, first)
    return itemsize * numbers + 4 * listed


class Shelf:
    """The rows of the head, followed by those of one block: row place[j] belongs to item j.

    Row r is values[ptr[r] : ptr[r + 1]] in columns[column_ptr[r] : column_ptr[r + 1]]; no columns: stored in full.
    """

    place: NDArray[np.int32]  # (m,), -1 for an item without a row
    ptr: Ints
    column_ptr: Ints
    columns: NDArray[np.uint32]
    values: Floats

    def __init__(self, data: Rows | RankedGram | OrderRows, below: Ints, n_head: int, dtype: Any) -> None:
        self.data, self.n_head = data, n_head
        self._numbers, self._listed = row_sizes(below)
        self.place = np.full(len(below), -1, dtype=np.int32)
        self.ptr = self.column_ptr = np.zeros(1, dtype=np.int64)
        self.columns, self.values = np.empty(0, dtype=np.uint32), np.empty(0, dtype=dtype)
        self._tail = self._add(np.arange(n_head, dtype=np.int32))[:0]

    def hold(self, supports: Supports, block: NDArray[np.int32], done: Callable[[float], None] | None = None) -> None:
        """Replace the rows of the previous block by those for these columns."""
        self.place[self._tail] = -1
        self.ptr, self.column_ptr = self.ptr[: self.n_head + 1], self.column_ptr[: self.n_head + 1]
        needed = np.unique(np.concatenate([supports.rows[supports.ptr[i] : supports.ptr[i + 1]] for i in block]))
        self._tail = self._add(needed[needed >= self.n_head], done)

    def arrays(self) -> tuple[NDArray[Any], ...]:
        return self.place, self.ptr, self.column_ptr, self.columns, self.values

    def _add(self, items: NDArray[np.int32], done: Callable[[float], None] | None = None) -> NDArray[np.int32]:
        """Count the rows of these items and append them."""
        before = len(self.ptr) - 1
        self.ptr = np.concatenate([self.ptr, self.ptr[-1] + np.cumsum(self._numbers[items])])
        self.column_ptr = np.concatenate([self.column_ptr, self.column_ptr[-1] + np.cumsum(self._listed[items])])
        self.columns = enlarged(self.columns, self.column_ptr[before], self.column_ptr[-1])
        self.values = enlarged(self.values, self.ptr[before], self.ptr[-1])
        self.place[items] = np.arange(before, before + len(items), dtype=np.int32)
        ptr, column_ptr = self.ptr[before:], self.column_ptr[before:]

        def count(first: int, last: int) -> None:
            self.data.count_rows(items, first, last, ptr, column_ptr, self.columns, self.values)

        tasks = parallel.ranges(len(items), -(-len(items) // ROWS_AT_ONCE))
        parallel.run_parallel(count, tasks, done and (lambda finished: done(finished / len(tasks))))
        return items


def of_gram(values: Floats, m: int, order: Ints, dtype: Any) -> tuple[NDArray[Any], ...]:
    """The arrays of a Shelf that holds every row in full, from a packed Gram; order[r] is the item of rank r."""
    ptr = np.concatenate([[0], np.cumsum(np.arange(m, dtype=np.int64))])
    rows = np.empty(ptr[-1], dtype=dtype)
    for j in range(m):
        rows[ptr[j] : ptr[j + 1]] = values[layout.positions(m, order[j : j + 1], order[:j])].ravel()
    empty = np.zeros(m + 1, dtype=np.int64)
    return np.arange(m, dtype=np.int32), ptr, empty, np.empty(0, dtype=np.uint32), rows


def enlarged(array: NDArray[Any], kept: int, needed: int) -> NDArray[Any]:
    """The array, or a longer one with the same first ``kept`` numbers."""
    if needed <= len(array):
        return array
    longer = np.empty(needed, dtype=array.dtype)
    longer[:kept] = array[:kept]
    return longer
