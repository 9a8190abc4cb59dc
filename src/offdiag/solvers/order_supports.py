"""What ``solvers.support`` needs for models of order: columns of K for the neighbours, rows of A for the solves.

Problem   min_β Σ ‖y_i − s_S β‖² + ‖Λ_S^½ β‖² for every item i: column i of ``solvers.next_item`` restricted to the
          items in S, those of largest K_ji²/H_jj.
Equals    ``np.linalg.solve(H[S, S], K[S, i])`` with H = A + diag(Λ).
Memory    20 bytes per event (8 more with a half-life), 12 per pair of user and item, two numbers per neighbour, and
          the rows of A that a block of columns needs.

Rows of A and columns of K are counted from the events whenever they are needed, so neither matrix is ever held.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import _kernels
from offdiag._kernels import parallel
from offdiag.data.sequences import Sequences
from offdiag.gramian.order import NO_WINDOW, Ageing, age_factors, in_units
from offdiag.gramian.user_weights import scale_of, weights_of
from offdiag.progress import Progress, of_tasks
from offdiag.solvers import Doubles, Ints, gram_rows, popularity_order, support
from offdiag.solvers.popularity_order import Rows
from offdiag.solvers.support import Supports

EVENT_BYTES, PAIR_BYTES = 20, 12


def solve(
    data: OrderRows,
    k: int,
    dtype: str,
    *,
    dropout: float,
    l2: float,
    later: bool,
    repeats: bool,
    block_bytes: int,
    progress: Progress | None = None,
) -> Supports:
    """The k neighbours of each item and their β; ``block_bytes`` bounds the part of A that is held."""
    a, below = data.measure(progress)
    H = support.penalised(a, 1.0, dtype, dropout=dropout, l2=l2, item_power=0.0)
    H = np.where(H > 0, H, 1.0)  # what is in no source has a zero row and column, so any pivot will do
    supports = data.choose(H, below, k, dtype, later=later, repeats=repeats, progress=progress)
    plan = gram_rows.plan(supports, np.dtype(dtype).itemsize, block_bytes)
    support.solve(data, H, supports, plan, progress=progress)
    return supports


@dataclass(frozen=True, eq=False)
class OrderRows:
    """mix·G + (1 − mix)·A and mix·G + (1 − mix)·K of ``gramian.order``, one row or column at a time, by popularity."""

    rows: Rows  # the pairs of user and item; none if mix is 0
    events: tuple[NDArray[Any], ...]  # as in ``_kernels.order_rows``
    window: int
    longest: int
    share: float  # what G counts for
    scale: float  # what a unit of the sums over events counts for

    @classmethod
    def of(
        cls,
        sequences: Sequences,
        matrix: sparse.csr_array,
        rank: NDArray[np.int32],
        ageing: Ageing,
        *,
        user_power: float,
        mix: float,
    ) -> OrderRows:
        m = len(rank)
        n_u = np.diff(matrix.indptr)
        counted = matrix if mix else sparse.csr_array(matrix.shape, dtype=matrix.dtype)
        weight, unit = in_units(sequences, user_power)
        indptr = sequences.indptr.astype(np.int64, copy=False)
        items = rank[sequences.items].astype(np.uint32)
        first, step = _factors(sequences, ageing)
        tail = np.zeros(len(items))
        _kernels.order_counts.tails(indptr, step, tail)
        col_ptr = np.concatenate([[0], np.cumsum(np.bincount(items, minlength=m))])
        users = np.empty(len(items), dtype=np.int32)
        positions = np.empty(len(items), dtype=np.int32 if len(items) < 2**31 else np.int64)
        _kernels.pair_counts.transpose_band(indptr, items, 0, m, col_ptr[:-1].copy(), users, positions)
        return cls(
            popularity_order.by_popularity(counted, weights_of(n_u, user_power), rank),
            (indptr, items, first, step, tail, weight if mix < 1 else np.zeros(len(weight)), col_ptr, users, positions),
            NO_WINDOW if ageing.window is None else ageing.window,
            int(sequences.lengths.max(initial=0)),
            mix * scale_of(np.bincount(n_u), user_power),
            (1 - mix) * unit,
        )

    @property
    def n_items(self) -> int:
        return self.rows.n_items

    def arrays(self) -> tuple[NDArray[Any], ...]:
        return *self.rows.arrays(), *self.events

    def measure(self, progress: Progress | None = None) -> tuple[Doubles, Ints]:
        """diag(A), and how many entries of each row of A are before the diagonal."""
        diagonal, below = popularity_order.diagonal(self.rows), np.zeros(self.n_items, dtype=np.int64)

        def work(lo: int, hi: int) -> None:
            _kernels.order_rows.measure_rows(*self._arguments(), lo, hi, diagonal, below)

        tasks = parallel.ranges(self.n_items, -(-self.n_items // support.ITEMS_AT_ONCE))
        parallel.run_parallel(work, tasks, of_tasks(progress, "counting histories", len(tasks)))
        return diagonal, below

    def count_rows(self, *room: Any) -> None:
        """Rows of A for a ``gram_rows.Shelf``."""
        _kernels.order_rows.shelf_rows(*self._arguments(), *room)

    def choose(
        self, H: Doubles, below: Ints, k: int, dtype: Any, *, later: bool, repeats: bool, progress: Progress | None
    ) -> Supports:
        """The k best items of each column of K, with K there; ``below`` from ``measure``."""

        def find(penalty: Doubles, fill: int, first: int, last: int, *room: Any) -> None:
            _kernels.order_rows.supports(
                self.rows.arrays(), self.events, self.window, later, repeats, self.share, self.scale, penalty, fill,
                first, last, *room,
            )  # fmt: skip

        return replace(support.find_supports(find, self.n_items, H, k, dtype, self._counts(), progress), below=below)

    def _arguments(self) -> tuple[Any, ...]:
        return self.rows.arrays(), self.events, self.window, min(self.window, self.longest), self.share, self.scale

    def _counts(self) -> Ints:
        counts: Ints = np.diff(self.events[6])
        return counts


def _factors(sequences: Sequences, ageing: Ageing) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """first and step as in ``age_factors``; by place they are the same for all events and take no memory."""
    if ageing.half_life is not None:
        return age_factors(sequences, ageing.half_life)
    n = sequences.n_events
    return np.broadcast_to(np.float64(1.0), n), np.broadcast_to(np.float64(ageing.decay), n)
