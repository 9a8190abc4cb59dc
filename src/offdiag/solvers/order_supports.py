"""What ``solvers.support`` needs for models of order: columns of K for the neighbours, rows of A for the solves.

Problem   min_β Σ ‖y_i − s_S β‖² + ‖Λ_S^½ β‖² for every item i: column i of ``solvers.next_item`` restricted to the
          items in S, those of largest K_ji²/H_jj.
Equals    ``np.linalg.solve(H[S, S], K[S, i])`` with H = A + diag(Λ).
Memory    16 bytes per event (16 more with a half-life), two numbers per neighbour, and the rows of A that a block of
          columns needs.

Rows of A and columns of K are counted from the events whenever they are needed, so neither matrix is ever held.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag import _kernels
from offdiag._kernels import parallel
from offdiag.data.sequences import Sequences
from offdiag.gramian.order import UNIT_BITS, Ageing, Tables, examples_of
from offdiag.gramian.user_weights import scale_of, weights_of
from offdiag.progress import Progress, of_tasks
from offdiag.solvers import Doubles, Ints, gram_bands, gram_triangles, support
from offdiag.solvers.gram_bands import Piece
from offdiag.solvers.support import Supports

EVENT_BYTES, TIME_BYTES = 16, 16  # of an event, and more with a half-life


def solve(
    data: OrderRows,
    k: int,
    dtype: str,
    *,
    dropout: float,
    l2: float,
    repeats: bool,
    block_bytes: int,
    progress: Progress | None = None,
) -> Supports:
    """The k neighbours of each item and their β; ``block_bytes`` bounds the part of A that is held."""
    H = penalised(data.diagonal(progress), dtype, dropout=dropout, l2=l2)
    supports = data.choose(H, k, dtype, repeats=repeats, progress=progress)
    plan = gram_triangles.plan(supports, np.dtype(dtype).itemsize, block_bytes)
    support.solve(data, H, supports, plan, progress=progress)
    return supports


def penalised(g: Doubles, dtype: str, *, dropout: float, l2: float) -> Doubles:
    """diag(H) for diag(A)."""
    H = support.penalised(g, 1.0, dtype, dropout=dropout, l2=l2, item_power=0.0)
    return np.where(H > 0, H, 1.0)  # what is in no source has a zero row and column, so any pivot will do


@dataclass(frozen=True, eq=False)
class Everyone:
    """How many users have n different items, and n examples."""

    activity: Ints
    examples: Ints

    def scales(self, mix: float, user_power: float) -> tuple[float, float, float]:
        """The factors of the weights of a pair and of an example, and the unit of all sums."""
        of_pair, of_example = mix * scale_of(self.activity, user_power), (1 - mix) * scale_of(self.examples, user_power)
        largest = 0.0
        for factor, histogram in ((of_pair, self.activity), (of_example, self.examples)):
            there = weights_of(np.flatnonzero(histogram), user_power)
            largest = max(largest, float((factor * there).max(initial=0.0)))
        return of_pair, of_example, float(2.0 ** (np.ceil(np.log2(largest)) - UNIT_BITS)) if largest else 1.0


@dataclass(frozen=True, eq=False)
class OrderRows:
    """mix·G + (1 − mix)·A and mix·G + (1 − mix)·K of ``gramian.order``, one row or column at a time, by popularity."""

    events: tuple[Any, ...]  # as in ``_kernels.order_rows``
    ageing: tuple[Any, ...]
    n_items: int
    longest: int
    unit: float  # what a unit of the sums counts for
    all_pairs: bool  # whether every pair of a history counts, so that K has all the entries of A
    _rooms: threading.local = field(default_factory=threading.local)

    @classmethod
    def of(
        cls,
        sequences: Sequences,
        n_u: NDArray[Any],
        rank: NDArray[np.int32],
        ageing: Ageing,
        *,
        user_power: float,
        mix: float,
        later: bool = False,
        everyone: Everyone | None = None,
    ) -> OrderRows:
        """``n_u`` is how many different items each user has; ``everyone``: of whom these users are some."""
        lengths, m = sequences.lengths, len(rank)
        everyone = everyone or Everyone(np.bincount(n_u), examples_of(sequences))
        of_pair, of_example, unit = everyone.scales(mix, user_power)
        together = of_pair * weights_of(n_u, user_power)
        weight = of_example * weights_of(np.maximum(lengths - 1, 0), user_power) / unit
        # What counts at all counts a unit or more, so that no entry depends on what else is there.
        together = np.where(together > 0, np.maximum(np.rint(together / unit), 1.0), 0.0)
        tables = Tables.of(sequences, ageing, weight, later=later)
        backwards = [np.ascontiguousarray(table[::-1]) for table in (tables.powers, tables.sums, tables.values)]
        return cls(
            _by_popularity(sequences, rank, together, weight, lengths > n_u, by_item=mix > 0),
            (
                tables.powers, backwards[0], tables.sums, backwards[1], backwards[2], tables.factor, tables.tail,
                tables.window, later,
            ),
            m,
            int(lengths.max(initial=0)),
            unit,
            bool((together[lengths > 0] > 0).all()),
        )  # fmt: skip

    def __reduce__(self) -> Any:
        of_one_process = ("_rooms",)
        return OrderRows, tuple(value for name, value in vars(self).items() if name not in of_one_process)

    def __sizeof__(self) -> int:
        return sum(array.nbytes for array in self.arrays())  # what Dask sees

    def pieces(self, items: NDArray[np.int64]) -> tuple[Piece, Piece]:
        """Columns of K and rows of A before the diagonal, for ``solvers.gram_bands``."""
        indptr, col_ptr, users = self.events[0], self.events[7], self.events[8]

        def fill(lo: int, hi: int, *room: Any, of_columns: bool) -> int:
            data = self.events, self.ageing, self.unit, of_columns, *self._room()
            return int(_kernels.order_rows.count_rows(*data, items[lo:hi], *room))

        columns, rows = (
            gram_bands.counted(partial(fill, of_columns=one), indptr, col_ptr, users, items, np.float64)
            for one in (True, False)
        )
        return columns, rows

    def arrays(self) -> tuple[NDArray[Any], ...]:
        return tuple(part for part in (*self.events, *self.ageing) if isinstance(part, np.ndarray))

    def diagonal(self, progress: Progress | None = None) -> Doubles:
        """diag(A)."""
        out = np.zeros(self.n_items)

        def work(lo: int, hi: int) -> None:
            _kernels.order_rows.diagonal(self.events, self.ageing, lo, hi, out, self._room()[2])

        self._over_items(work, progress, "counting histories")
        return out * self.unit

    def choose(self, H: Doubles, k: int, dtype: Any, *, repeats: bool, progress: Progress | None = None) -> Supports:
        """The k best items of each column of K, with K there."""

        def find(penalty: Doubles, fill: int, first: int, last: int, *room: Any) -> None:
            _kernels.order_rows.supports(
                self.events, self.ageing, self.unit, repeats, *self._room(), penalty, fill, first, last, *room
            )

        counts: Ints = np.diff(self.events[7])
        found = support.find_supports(find, self.n_items, H, k, dtype, counts, progress)
        return found if self.all_pairs else replace(found, below=self._row_sizes(progress))

    def count_rows(self, *room: Any) -> None:
        """Rows of A for a ``gram_rows.Shelf``."""
        _kernels.order_rows.shelf_rows(self.events, self.ageing, self.unit, *self._room(), *room)

    def _row_sizes(self, progress: Progress | None) -> Ints:
        """How many entries of each row of A are before the diagonal."""
        below = np.zeros(self.n_items, dtype=np.int64)

        def work(lo: int, hi: int) -> None:
            _kernels.order_rows.row_sizes(self.events, self.ageing, lo, hi, below, *self._room())

        self._over_items(work, progress, "measuring rows")
        return below

    def _over_items(self, work: Any, progress: Progress | None, name: str) -> None:
        tasks = parallel.ranges(self.n_items, -(-self.n_items // support.ITEMS_AT_ONCE))
        parallel.run_parallel(work, tasks, of_tasks(progress, name, len(tasks)))

    def _room(self) -> tuple[NDArray[Any], ...]:
        """Sums, which every loop leaves at 0, touched items and terms of this thread: made once, not for each task."""
        if not hasattr(self._rooms, "arrays"):
            touched = np.empty(self.n_items + 1, dtype=np.uint32)
            self._rooms.arrays = np.zeros(self.n_items), touched, np.empty(max(self.longest, 1))
        arrays: tuple[NDArray[Any], ...] = self._rooms.arrays
        return arrays


def _by_popularity(
    sequences: Sequences,
    rank: NDArray[np.int32],
    together: Doubles,
    weight: Doubles,
    repeated: NDArray[np.bool_],
    *,
    by_item: bool,
) -> tuple[Any, ...]:
    """The events as ``_kernels.order_rows`` reads them: by user, and where those of each item are."""
    indptr, m = sequences.indptr.astype(np.int64, copy=False), len(rank)
    items = rank[sequences.items].astype(np.uint32)
    places = (np.arange(len(items)) - np.repeat(indptr[:-1], sequences.lengths)).astype(np.uint32)

    def sort(first: int, last: int) -> None:
        _kernels.order_rows.sort_by_item(indptr, first, last, items, places)

    if by_item:
        parallel.run_parallel(sort, parallel.shares(sequences.lengths, 8 * parallel.n_threads()))
    col_ptr = np.concatenate([[0], np.cumsum(np.bincount(items, minlength=m))])
    users = np.empty(len(items), dtype=np.int32)
    positions = np.empty(len(items), dtype=np.int32 if len(items) < 2**31 else np.int64)
    _kernels.pair_counts.transpose_band(indptr, items, 0, m, col_ptr[:-1].copy(), users, positions)
    return indptr, items, places, together, weight, repeated, by_item, col_ptr, users, positions
