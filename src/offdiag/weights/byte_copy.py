"""A copy of W with one byte per weight: lists are ranked by it, and only the items it leaves in doubt by W itself.

    W = unit·(codes + extras) + R,  |R_ji| ≤ errors_j

A history's sum of codes and extras, in units, is within e = Σ_j errors_j (and the rounding of W's own sums) of its
score. So an item whose sum is more than 2e below the k-th best sum is not in the list. The others, rarely more than 2k,
are scored from W in the same order as without the copy: the lists are the same, bit for bit.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import memory
from offdiag.weights.protocol import Floats, Ints, Select

if TYPE_CHECKING:
    from offdiag.weights.matrices import Matrix

FEWEST_ITEMS = 2048  # fewer are scored from W in no more time than the rest of a call takes
LEAST_SHARE = 8  # for lists longer than this part of the items, most items are candidates
OF_MANY = 128  # the same for many users at once, whose exact scores cost less each than those of one
FEW_USERS = 16
LONGEST = 60_000  # items of a history whose sums fit into 32 bits
MOST = 1 << 14  # units in a weight
BEYOND = 0.001  # share of the weights with an extra: of a sample, all but these fit into a code
SAMPLED = 128  # columns of the sample
ROWS_AS_ONE = 16  # rows that many users have are read from the cache, at a fraction of the cost
LARGEST = 127  # code
WIDTH = 2048  # columns of a tile: its codes for the popular items stay in the cache
ROWS_AT_ONCE = 128  # encoded at a time, by one thread
ALIGNED = 64  # bytes

Rank = Callable[..., None]  # scores candidates exactly and puts the best into their heaps


@dataclass(frozen=True, eq=False)
class ByteCopy:
    unit: float
    codes: NDArray[np.int8]  # (m, m or a little more)
    ptr: NDArray[np.int64]  # (m, tiles): where the extras of a row begin in each tile
    columns: NDArray[np.int32]
    extras: NDArray[np.int16]
    errors: NDArray[np.float64]  # (m,) largest |R| of each row
    largest: NDArray[np.float64]  # (m,) largest |W| of each row

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in vars(self).values() if isinstance(part, np.ndarray))

    def slack(self, X: sparse.csr_array, dtype: np.dtype[Any]) -> Ints:
        """How far below the k-th best sum the sum of a listed item can be, for each row of ones."""
        ones = sparse.csr_array((np.ones(X.nnz), X.indices, X.indptr), shape=X.shape)
        errors, largest = (np.asarray(ones @ part) for part in (self.errors, self.largest))
        rounding = np.diff(X.indptr) * float(np.finfo(dtype).eps) * largest
        units = 2.000001 * (errors + rounding) / self.unit
        whole: Ints = np.minimum(units, 1 << 30).astype(np.int64)
        return whole + 1

    def selector(
        self, rank: Rank, X: sparse.csr_array, seen_ptr: NDArray[Any], allowed: NDArray[np.bool_],
        scores: Floats, items: Ints,
    ) -> Select:  # fmt: skip
        """A function that puts the k best items of a range of users into their heaps."""
        from offdiag._kernels import byte_rows

        k, m = scores.shape[1], X.shape[1]
        slack, history = self.slack(X, scores.dtype), X.indices.astype(np.int32, copy=False)
        indptr, seen = (ptr.astype(np.int64, copy=False) for ptr in (X.indptr, seen_ptr))
        parts = (self.codes, self.ptr, self.columns, self.extras)

        def narrow(first: int, last: int, room: int) -> NDArray[np.int64]:
            """Rank users first..last; −1 for those whose candidates have no room."""
            found, counts = np.empty((last - first, room), np.int32), np.empty(last - first, np.int64)
            byte_rows.candidates(
                indptr, history, seen, allowed, *parts, slack, k, WIDTH, first, last,
                found, np.empty_like(found), counts,
            )  # fmt: skip
            rank(indptr, history, first, last, found, counts, scores, items)
            return counts

        def select(first: int, last: int) -> None:
            counts = narrow(first, last, 3 * k + 8 * byte_rows.CHUNK)
            for u in np.flatnonzero(counts < 0).tolist():
                narrow(first + u, first + u + 1, m + byte_rows.CHUNK)

        return select


def applies(X: sparse.csr_array, k: int) -> bool:
    """Whether lists of these rows can be found with a copy, in less time than without."""
    n, m = X.shape
    return (
        m >= FEWEST_ITEMS
        and 0 < (LEAST_SHARE if n <= FEW_USERS else OF_MANY) * k <= m
        and X.nnz > 0
        and bool((X.data == 1).all())
        and int(np.diff(X.indptr).max()) <= LONGEST
    )


class OnDemand:
    """The copy of some weights, made when lists without it have cost about as much as making it does.

    Neither a pickle nor a file takes it.
    """

    def __init__(self) -> None:
        self.copy: ByteCopy | None = None
        self._rows_read, self._done, self._busy = 0.0, False, threading.Lock()

    def __reduce__(self) -> tuple[type[OnDemand], tuple[()]]:
        return OnDemand, ()

    def make(self, W: Matrix) -> ByteCopy | None:
        """Make it now, unless there is no room, it is unwanted, or another thread is making it."""
        if self._done or not self._busy.acquire(blocking=False):
            return self.copy
        try:
            if not self._done and is_wanted(W.shape[0]):
                self.copy = encode(W)
            self._done = True
        finally:
            self._busy.release()
        return self.copy

    def find(self, W: Matrix, X: sparse.csr_array) -> ByteCopy | None:
        """The copy, if it is there or due with these histories: reading all rows of W once is what it costs."""
        if not self._done:
            self._rows_read += len(np.unique(X.indices)) + X.nnz / ROWS_AS_ONE
            if self._rows_read >= W.shape[0]:
                return self.make(W)
        return self.copy


def is_wanted(m: int) -> bool:
    """Whether the user wants a copy, and there is room for it and as much again."""
    room = memory.available()
    return os.environ.get("OFFDIAG_BYTE_COPY", "1") != "0" and (room is None or 2 * m * m <= room)


def encode(W: Matrix) -> ByteCopy | None:
    """The copy of W; None if W holds numbers that are not finite."""
    unit = _unit(W)
    made, largest = _encode(W, unit)
    if np.isfinite(largest) and largest > MOST * unit:
        made, _ = _encode(W, 1.01 * largest / MOST)
    return made if np.isfinite(largest) else None


def _unit(W: Matrix) -> float:
    """Of a sample of columns, all but a few weights are at most 127 units."""
    m = W.shape[0]
    items = np.arange(m)
    at = np.unique(np.linspace(0, m - 1, min(SAMPLED, m)).astype(np.int64))
    strengths = np.abs(np.concatenate([W.column(items, i) for i in at.tolist()])).astype(np.float64)
    place = int((len(strengths) - 1) * (1 - BEYOND))
    usual = float(np.partition(strengths, place)[place]) or float(strengths.max(initial=0.0))
    return usual / LARGEST if 0 < usual < np.inf else 1.0


def _encode(W: Matrix, unit: float) -> tuple[ByteCopy, float]:
    """The copy of W in this unit, and its largest weight; the copy is useless if that is more than MOST units."""
    from offdiag._kernels import byte_rows, parallel

    m, dtype = W.shape[0], W.dtype
    codes = _aligned_rows(m)
    errors, largest, ptr = np.zeros(m), np.zeros(m), np.zeros((m, -(-m // WIDTH)), np.int64)
    inverse, items = dtype.type(1 / unit), np.arange(m)
    blocks = parallel.ranges(m, -(-m // ROWS_AT_ONCE))
    beyond = [(np.empty(0, np.int32), np.empty(0, np.int16))] * len(blocks)

    def work(n: int, first: int, last: int) -> None:
        rows, mine = np.empty((last - first, m), dtype), slice(first, last)
        W.tile(items[mine], items[: last - first], 0, m, rows, 0, last - first)
        room = byte_rows.measure(rows, inverse, largest[mine])
        columns, extras = np.empty(room, np.int32), np.empty(room, np.int16)
        byte_rows.encode(rows, unit, inverse, WIDTH, codes[mine], errors[mine], ptr[mine], columns, extras)
        beyond[n] = columns, extras

    parallel.run_parallel(work, [(n, first, last) for n, (first, last) in enumerate(blocks)])
    before = np.cumsum([0, *(len(one) for one, _ in beyond)])
    for (first, last), start in zip(blocks, before[:-1], strict=True):
        ptr[first:last] += start
    columns, extras = (np.concatenate([pair[n] for pair in beyond]) for n in (0, 1))
    return ByteCopy(unit, codes, ptr, columns, extras, errors, largest), float(largest.max(initial=0.0))


def _aligned_rows(m: int) -> NDArray[np.int8]:
    """Rows of m codes that begin at multiples of a cache line."""
    stride = -(-m // ALIGNED) * ALIGNED
    buffer = np.empty(m * stride + ALIGNED, np.int8)
    begin = -buffer.ctypes.data % ALIGNED
    return buffer[begin : begin + m * stride].reshape(m, stride)
