"""The part of the Gram that each column needs, kept by column: rows are counted in few passes over all of them.

Rows of the Gram serve every column that needs them, but those of a large catalogue do not fit in memory, and the
blocks of ``gram_rows`` then count most of them again, dozens of times. The triangle of a support of k items takes k²/2
numbers, however large the catalogue. One pass over all rows fills those of as many columns as there is memory for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offdiag import _kernels
from offdiag._kernels import parallel
from offdiag.solvers import Ints, gram_rows
from offdiag.solvers.gram_rows import Plan

if TYPE_CHECKING:
    from offdiag.solvers.gram_supports import RankedGram
    from offdiag.solvers.order_supports import OrderRows
    from offdiag.solvers.popularity_order import Rows
    from offdiag.solvers.support import Supports

ROWS_AT_ONCE = 32  # a task for one core
LARGER = 2  # times the bytes of all rows
PLACE_BYTES = 8  # of each entry of a support: the column, and the place in it


def plan(supports: Supports, itemsize: int, block_bytes: int) -> Plan:
    """Blocks of rows or of triangles, whichever counts less; if equal, triangles unless they are much larger.

    Triangles are read in order, rows at random, which is slow unless they fit in a cache.
    """
    rows = gram_rows.plan(supports, itemsize, block_bytes)
    k = np.diff(supports.ptr)
    filled = np.cumsum(itemsize * k * (k - 1) // 2 + PLACE_BYTES * k)
    if not len(k) or filled[-1] > rows.passes * block_bytes:
        return rows
    if rows.passes <= 1 and filled[-1] > LARGER * rows.row_bytes:
        return rows
    blocks = cut(filled, block_bytes)
    if len(blocks) > rows.passes:
        return rows
    return Plan(blocks, 0, rows.row_bytes, float(len(blocks)), by_column=True)


def plan_some(supports: Supports, itemsize: int, block_bytes: int) -> Plan:
    """Blocks of triangles of the columns that have a support."""
    k = np.diff(supports.ptr)
    columns = np.flatnonzero(k).astype(np.int32)
    k = k[columns]
    blocks = cut(np.cumsum(itemsize * k * (k - 1) // 2 + PLACE_BYTES * k), block_bytes)
    return Plan([columns[block] for block in blocks], 0, by_column=True)


def cut(filled: Ints, block_bytes: int) -> list[NDArray[np.int32]]:
    """Consecutive columns that fit in this many bytes together, or one that takes more."""
    blocks, begin = [], 0
    while begin < len(filled):
        before = filled[begin - 1] if begin else 0
        end = max(int(np.searchsorted(filled, before + block_bytes, side="right")), begin + 1)
        blocks.append(np.arange(begin, end, dtype=np.int32))
        begin = end
    return blocks


@dataclass(eq=False)
class Triangles:
    """The triangles of one block of columns, in place of a ``gram_rows.Shelf``: those of t begin at start[t]."""

    data: Rows | RankedGram | OrderRows
    below: Ints
    dtype: Any

    def __post_init__(self) -> None:
        self._numbers, self._listed = gram_rows.row_sizes(self.below)
        self._room = threading.local()
        self.start = np.zeros(1, dtype=np.int64)
        self.values = np.empty(0, dtype=self.dtype)

    def hold(self, supports: Supports, block: NDArray[np.int32], done: Callable[[float], None] | None = None) -> None:
        """Replace the triangles of the previous block by those of these columns."""
        begin = supports.ptr[block]
        size = supports.ptr[block + 1] - begin
        self.start = np.concatenate([[0], np.cumsum(size * (size - 1) // 2)])
        if self.start[-1] > len(self.values):
            del self.values
            self.values = np.empty(self.start[-1], dtype=self.dtype)
        rows = self._named(supports.rows)
        holder_ptr = np.zeros(self.data.n_items + 1, dtype=np.int64)
        _kernels.column_layout.count_holders(begin, size, rows, holder_ptr)
        holders, places = np.empty(size.sum(), dtype=np.int32), np.empty(size.sum(), dtype=np.int32)
        _kernels.column_layout.fill_holders(begin, size, rows, holder_ptr[:-1].copy(), holders, places)
        needed = np.flatnonzero(np.diff(holder_ptr)).astype(np.int32)
        tasks = parallel.ranges(len(needed), -(-len(needed) // ROWS_AT_ONCE))

        def fill(first: int, last: int) -> None:
            items = needed[first:last]
            _kernels.column_solves.fill_triangles(
                items, 0, len(items), *self._rows(items), holder_ptr, holders, places, begin, size, rows, self.start,
                self._zeros(), self.values,
            )  # fmt: skip

        parallel.run_parallel(fill, tasks, done and (lambda finished: done(finished / len(tasks))))

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """As those of a Shelf: no places, and triangles instead of rows."""
        nothing = np.empty(0, dtype=np.int64)
        return nothing.astype(np.int32), self.start, nothing, nothing.astype(np.uint32), self.values

    def _named(self, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """Items of supports, as the rows of the Gram call them."""
        return rows

    def _rows(self, items: NDArray[np.int32]) -> tuple[NDArray[Any], ...]:
        """The rows of these items as in a Shelf: where each begins and ends, and the same for its columns."""
        ptr, column_ptr = (np.concatenate([[0], np.cumsum(sizes[items])]) for sizes in (self._numbers, self._listed))
        columns, values = np.empty(column_ptr[-1], dtype=np.uint32), np.empty(ptr[-1], dtype=self.dtype)
        self.data.count_rows(items, 0, len(items), ptr, column_ptr, columns, values)
        return ptr[:-1], ptr[1:], column_ptr[:-1], column_ptr[1:], columns, values

    def _zeros(self) -> NDArray[Any]:
        """A row of zeros for this thread, which every loop leaves as it was."""
        if not hasattr(self._room, "row"):
            self._room.row = np.zeros(self.data.n_items, dtype=self.dtype)
        row: NDArray[Any] = self._room.row
        return row
