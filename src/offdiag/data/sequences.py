"""Sequences: what each user chose, in order, with repeats. Pure functions over flat arrays.

The order is that of time; events with equal times, and events without times, stay in the order of the source table.
Memory: 4 bytes per event, 8 more with times, and 8 per user.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.data.sparse_rows import csr, positions_of_rows, row_of_entries, row_pointer, sort_pairs
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    from offdiag.data.interactions import Interactions


@dataclass(frozen=True, eq=False)
class Sequences:
    """The events of user u are ``items[indptr[u] : indptr[u + 1]]``, earliest first; an item may occur many times.

    Example:
        >>> import numpy as np
        >>> from offdiag.data.sequences import Sequences
        >>> both = Sequences(np.array([0, 2, 3]), np.array([4, 4, 1], dtype=np.int32))
        >>> both.lengths.tolist(), both.of(0).tolist()
        ([2, 1], [4, 4])
    """

    indptr: NDArray[np.int64]
    items: NDArray[np.int32]  # columns
    times: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        if self.times is not None and len(self.times) != len(self.items):
            raise OffdiagError(f"expected one time per event ({len(self.items)}), received {len(self.times)}")

    @property
    def n_users(self) -> int:
        return len(self.indptr) - 1

    @property
    def n_events(self) -> int:
        return len(self.items)

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.indptr)

    @property
    def users(self) -> NDArray[np.int64]:
        """The user of each event."""
        return row_of_entries(self.indptr)

    def of(self, user: int) -> NDArray[np.int32]:
        """The items of one user, earliest first."""
        return self.items[self.indptr[user] : self.indptr[user + 1]]

    def select_users(self, index: NDArray[np.int64]) -> Sequences:
        """These users, in that order."""
        indptr, picked = positions_of_rows(self.indptr, index)
        return Sequences(indptr, self.items[picked], None if self.times is None else self.times[picked])

    def select_events(self, mask: NDArray[np.bool_]) -> Sequences:
        """The events where the mask is true; all users stay."""
        picked = np.flatnonzero(mask)
        indptr = np.searchsorted(picked, self.indptr)
        return Sequences(indptr, self.items[picked], None if self.times is None else self.times[picked])

    def renumber_items(self, column: NDArray[Any]) -> Sequences:
        """Item i is item ``column[i]`` of another catalogue; events of items at −1 are dropped."""
        moved = column[self.items]
        left = self if (moved >= 0).all() else self.select_events(moved >= 0)
        return Sequences(left.indptr, moved[moved >= 0].astype(np.int32, copy=False), left.times)

    def from_end(self) -> NDArray[np.int64]:
        """How many events of the same user come after each event: 0 for the last."""
        return np.repeat(self.indptr[1:], self.lengths) - np.arange(self.n_events) - 1

    def ages(self) -> NDArray[np.float64]:
        """How long before the last event of the same user each event happened, in the unit of the times."""
        if self.times is None or self.times.dtype.kind not in "iuf":
            received = "none" if self.times is None else f"times of type {self.times.dtype}"
            raise OffdiagError(f"expected events with times as numbers, received {received}; read with time=<column>")
        times = self.times.astype(np.float64)  # differences of whole numbers could exceed their type
        return times[np.repeat(self.indptr[1:] - 1, self.lengths)] - times

    def starts(self, gap: float) -> NDArray[np.bool_]:
        """Whether each event is the first of its user, or follows the one before it after more than ``gap``."""
        if self.times is None:
            raise OffdiagError("expected interactions with times, received none; read with time=<column>")
        found = np.ones(self.n_events, dtype=bool)
        found[1:] = self.times[1:] > self.times[:-1] + gap
        found[self.indptr[:-1][self.lengths > 0]] = True
        return found

    def pair_of_events(self, matrix: sparse.csr_array) -> NDArray[np.int64]:
        """For each event, where its user and item are stored in a canonical matrix with the same rows; −1: nowhere."""
        m = matrix.shape[1]
        stored = row_of_entries(matrix.indptr) * m + matrix.indices
        asked = self.users * m + self.items
        place = np.minimum(np.searchsorted(stored, asked), max(len(stored) - 1, 0))
        if not len(stored):
            return np.full(len(asked), -1, dtype=np.int64)
        return np.where(stored[place] == asked, place, -1)


def sequences_of(inter: Interactions) -> Sequences | None:
    """The events of each user in order; without events, the pairs by their times; None if there is no order."""
    if inter.events is not None or inter.times is None:
        return inter.events
    rows = row_of_entries(inter.matrix.indptr)
    order = np.lexsort((inter.table_order, inter.times, rows))
    indptr = inter.matrix.indptr.astype(np.int64, copy=False)
    return Sequences(indptr, inter.matrix.indices[order].astype(np.int32, copy=False), inter.times[order])


def in_order(users: NDArray[np.int32], items: NDArray[np.int32], times: NDArray[Any] | None, n_users: int) -> Sequences:
    """Sequences from the rows of a table; equal times stay in the order of the rows."""
    order = np.argsort(users, kind="stable") if times is None else np.lexsort((times, users))
    kept = None if times is None else times[order]
    return Sequences(row_pointer(users, n_users), items[order].astype(np.int32, copy=False), kept)


def join(first: Sequences, second: Sequences) -> Sequences:
    """The events of the same users in both, by time if there are times; otherwise those of ``first`` come first."""
    if (first.times is None) != (second.times is None):
        raise OffdiagError("expected times in both parts or in neither, received them in one; read both the same way")
    users = np.concatenate([first.users, second.users])
    items = np.concatenate([first.items, second.items])
    times = None if first.times is None else np.concatenate([first.times, second.times])
    return in_order(users.astype(np.int32), items, times, first.n_users)


def weighted_rows(sequences: Sequences, n_items: int, weight: NDArray[np.floating]) -> sparse.csr_array:
    """A row per user: the weights of its events, added up where an item occurs more than once."""
    users = sequences.users
    order, columns = sort_pairs(users, sequences.items, sequences.n_users, n_items)
    values = weight if order is None else weight[order]
    starts = np.ones(len(columns), dtype=bool)  # true where a pair (user, item) begins
    np.not_equal(columns[1:], columns[:-1], out=starts[1:])
    indptr = sequences.indptr
    starts[indptr[:-1][np.diff(indptr) > 0]] = True
    first = np.flatnonzero(starts)
    sums = np.add.reduceat(values, first) if len(first) else values[:0]
    return csr(sums, columns[first], np.searchsorted(first, indptr), (sequences.n_users, n_items))
