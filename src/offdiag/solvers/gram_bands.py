"""Rows of a Gram whose users are in several places: counted in each for a band of items, then added up.

Items are numbered by popularity. Sums over 0/1 data are exact, so supports and rows are those of ``solvers.support``
and ``solvers.gram_rows`` from all users at once, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from offdiag import _kernels
from offdiag._kernels import parallel
from offdiag.gramian.packed import EXACT_FLOAT32
from offdiag.solvers import Doubles, Floats, Ints, support
from offdiag.solvers.gram_rows import ROWS_AT_ONCE, enlarged, row_sizes
from offdiag.solvers.popularity_order import Rows
from offdiag.solvers.support import Supports

ENTRIES_AT_ONCE = 1 << 20  # for which there is room in a task of one core


class Piece(NamedTuple):
    """Whole rows of G for some items, from some of the users: ptr (n + 1,), columns and sums."""

    ptr: Ints
    columns: NDArray[np.uint32]
    values: Floats


class Added(NamedTuple):
    """The pieces of the same items one after another: row r of piece w begins at ptr[w, r]."""

    ptr: NDArray[np.int64]
    columns: NDArray[np.uint32]
    values: Floats


@dataclass(frozen=True, eq=False)
class StoredRows:
    """Entries of some rows with more popular items, in the format of a ``gram_rows.Shelf``."""

    items: NDArray[np.int32]
    ptr: Ints
    column_ptr: Ints
    columns: NDArray[np.uint32]
    values: Floats

    def __sizeof__(self) -> int:
        return sum(array.nbytes for array in (self.items, *self.rows()))  # what Dask sees

    def rows(self) -> tuple[NDArray[Any], ...]:
        return self.ptr, self.column_ptr, self.columns, self.values

    def shelf(self, m: int) -> tuple[NDArray[Any], ...]:
        """The arrays of a Shelf of these rows, for ``support.solve_block``."""
        place = np.full(m, -1, dtype=np.int32)
        place[self.items] = np.arange(len(self.items), dtype=np.int32)
        return place, *self.rows()


class Countable(Protocol):
    """Some users, whose rows of the Gram can be counted."""

    def pieces(self, items: NDArray[np.int64]) -> tuple[Piece, ...]:
        """What neighbours are chosen from, and the rows of the Gram; once if that is the same."""
        ...


def pieces(data: Rows | Countable, items: NDArray[np.int64]) -> tuple[Piece, ...]:
    """The pieces of these items over the users of ``data``."""
    return (count(data, items),) if isinstance(data, Rows) else data.pieces(items)


def count(data: Rows, items: NDArray[np.int64]) -> Piece:
    """The rows of these items over the users of ``data``; of 0/1 data without weights in float32, which is exact."""
    ones = not len(data.data) and bool((data.weight == 1).all()) and len(data.weight) <= EXACT_FLOAT32

    def fill(lo: int, hi: int, *room: Any) -> int:
        return int(_kernels.gram_bands.count_rows(*data.arrays(), items[lo:hi], *room))

    return counted(fill, data.indptr, data.col_ptr, data.users, items, np.float32 if ones else np.float64)


def counted(fill: Callable[..., int], indptr: Ints, col_ptr: Ints, users: Any, items: Ints, dtype: Any) -> Piece:
    """The piece that ``fill(lo, hi, lengths, columns, values)`` counts for items lo..hi, one after another."""
    lengths, most = np.zeros(len(items), dtype=np.int64), np.zeros(len(items), dtype=np.int64)
    _kernels.gram_bands.most_entries(indptr, col_ptr, users, items, most)
    tasks = parallel.shares(most, max(-(-int(most.sum()) // ENTRIES_AT_ONCE), 1))
    found: dict[int, tuple[NDArray[Any], NDArray[Any]]] = {}

    def work(lo: int, hi: int) -> None:
        room = int(most[lo:hi].sum())
        columns, values = np.empty(room, np.uint32), np.empty(room, dtype)
        n = fill(lo, hi, lengths[lo:hi], columns, values)
        found[lo] = columns[:n].copy(), values[:n].copy()

    parallel.run_parallel(work, tasks)
    columns, values = (np.concatenate([found[lo][at] for lo, _ in tasks]) for at in (0, 1))
    return Piece(np.concatenate([[0], np.cumsum(lengths)]), columns, values)


def add(pieces: list[Piece]) -> Added:
    """The pieces as one, to be read row by row."""
    if len(pieces) == 1:
        return Added(pieces[0].ptr[None], pieces[0].columns, pieces[0].values)
    begin = np.concatenate([[0], np.cumsum([piece.ptr[-1] for piece in pieces])])[:-1]
    ptr = np.stack([piece.ptr + at for piece, at in zip(pieces, begin, strict=True)])
    columns = np.concatenate([piece.columns for piece in pieces])
    values = np.concatenate([piece.values for piece in pieces])
    return Added(ptr, columns, values)


def entries_before_diagonal(added: Added, items: Ints, m: int) -> Ints:
    """How many more popular items share a user with each of ``items``."""
    below = np.zeros(len(items), np.int64)
    _kernels.gram_bands.entries_before_diagonal(m, *added, items, below)
    return below


def choose(added: Added, lo: int, H: Doubles, k: int, dtype: Any, counts: Ints, *, repeats: bool = False) -> Supports:
    """The k neighbours of the items from ``lo`` on; ``counts``: users per item, by popularity.

    With ``repeats`` an item may be its own neighbour.
    """
    group = support.ALONE.number

    def find(penalty: Doubles, fill: int, first: int, last: int, *room: Any) -> None:
        _kernels.gram_bands.supports(*added, lo, repeats, penalty, group, fill, lo + first, lo + last, *room)

    return support.find_supports(find, added.ptr.shape[1] - 1, H, k, dtype, counts, None)


def store(added: Added, lo: int, below: Ints, m: int, dtype: Any) -> StoredRows:
    """The rows of the items from ``lo`` on, up to the diagonal; ``below`` counts their entries there."""
    n = len(below)
    numbers, listed = row_sizes(below, lo)
    ptr, column_ptr = (np.concatenate([[0], np.cumsum(sizes)]) for sizes in (numbers, listed))
    columns, values = np.empty(column_ptr[-1], np.uint32), np.empty(ptr[-1], dtype)

    def fill(first: int, last: int) -> None:
        _kernels.gram_bands.rows_before_diagonal(m, *added, lo, lo + first, lo + last, ptr, column_ptr, columns, values)

    parallel.run_parallel(fill, parallel.ranges(n, -(-n // ROWS_AT_ONCE)))
    return StoredRows(np.arange(lo, lo + n, dtype=np.int32), ptr, column_ptr, columns, values)


def first_rows(stored: StoredRows, n: int) -> StoredRows:
    """The rows of items before ``n``; nothing is copied."""
    k = int(np.searchsorted(stored.items, n))
    values, columns = stored.values[: stored.ptr[k]], stored.columns[: stored.column_ptr[k]]
    return StoredRows(stored.items[:k], stored.ptr[: k + 1], stored.column_ptr[: k + 1], columns, values)


def pick(bands: list[StoredRows], items: NDArray[np.int32], among: NDArray[np.int32]) -> StoredRows:
    """The rows of these items, as lists of their entries in the columns ``among``; both ascend, and so do the bands."""
    wanted = np.zeros(int(among[-1]) + 1 if len(among) else 0, dtype=np.uint8)
    wanted[among] = 1
    wanted = np.concatenate([wanted, np.zeros(max(int(items[-1]) + 1 - len(wanted), 0), np.uint8)])
    begin = np.searchsorted(items, [band.items[0] for band in bands])
    found = []
    for band, lo, hi in zip(bands, begin, [*begin[1:], len(items)], strict=True):
        mine = items[lo:hi]
        found.append(_picked(band, mine, (mine - band.items[0]).astype(np.int64), wanted, among))
    return join(found)


def _picked(
    band: StoredRows, items: NDArray[np.int32], place: Ints, wanted: NDArray[np.uint8], among: NDArray[np.int32]
) -> StoredRows:
    """The rows ``place`` of a band."""
    lengths = np.zeros(len(items), np.int64)
    tasks = parallel.ranges(len(items), -(-len(items) // ROWS_AT_ONCE))

    def length(lo: int, hi: int) -> None:
        _kernels.gram_bands.wanted_lengths(*band.rows(), place, wanted, among, lo, hi, lengths)

    parallel.run_parallel(length, tasks)
    ptr = np.concatenate([[0], np.cumsum(lengths)])
    columns, values = np.empty(ptr[-1], np.uint32), np.empty(ptr[-1], band.values.dtype)

    def fill(lo: int, hi: int) -> None:
        _kernels.gram_bands.wanted_rows(*band.rows(), place, wanted, among, lo, hi, ptr, columns, values)

    parallel.run_parallel(fill, tasks)
    return StoredRows(items, ptr, ptr, columns, values)


class Bench:
    """The rows of popular items, with room after them for those of one block at a time: the head is never copied."""

    def __init__(self, head: StoredRows) -> None:
        self._head, self._lock = head, Lock()
        self._columns, self._values = head.columns, head.values

    def __reduce__(self) -> Any:
        return Bench, (self._head,)

    def __sizeof__(self) -> int:
        return self._columns.nbytes + self._values.nbytes  # what Dask sees

    @contextmanager
    def rows(self, tail: list[StoredRows]) -> Iterator[StoredRows]:
        """The rows of both, within the block only."""
        with self._lock:
            head, there = self._head, [self._head, *tail]
            ptr, column_ptr = (_pointers(there, name) for name in ("ptr", "column_ptr"))
            self._columns = enlarged(self._columns, len(head.columns), int(column_ptr[-1]))
            self._values = enlarged(self._values, len(head.values), int(ptr[-1]))
            listed, numbers = self._columns[: len(head.columns)], self._values[: len(head.values)]
            self._head = StoredRows(head.items, head.ptr, head.column_ptr, listed, numbers)
            at, begin = len(listed), len(numbers)
            for rows in tail:
                self._columns[at : at + len(rows.columns)] = rows.columns
                self._values[begin : begin + len(rows.values)] = rows.values
                at, begin = at + len(rows.columns), begin + len(rows.values)
            items = np.concatenate([rows.items for rows in there])
            yield StoredRows(items, ptr, column_ptr, self._columns, self._values)


def join(some: list[StoredRows]) -> StoredRows:
    """All rows of several."""
    items, columns, values = (
        np.concatenate([getattr(rows, name) for rows in some]) for name in ("items", "columns", "values")
    )
    return StoredRows(items, _pointers(some, "ptr"), _pointers(some, "column_ptr"), columns, values)


def _pointers(some: list[StoredRows], name: str) -> Ints:
    return np.concatenate([[0], np.cumsum(np.concatenate([np.diff(getattr(rows, name)) for rows in some]))])
