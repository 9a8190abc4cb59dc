"""Which weights of a model are strong enough to keep, and how they are stored; see docs/compression.md.

W is read in blocks of columns, several times, so that items × items numbers are never held. The bits of positive
floats sort like the floats: counts by their upper and then by their lower half give an exact threshold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import _kernels
from offdiag._kernels import parallel
from offdiag.errors import OffdiagError
from offdiag.progress import Progress
from offdiag.solvers import Doubles, Floats, Ints
from offdiag.weights import Compressed, Weights, tiles

POWER = 0.25  # |W_ji|·popularity_j^POWER: between 0 and 1/2, each of which lost more on some data
_LIMITS = np.array([1 << 8, 1 << 16, 1 << 32])  # the longest steps of uint8, uint16 and uint32
_GAPS = (np.uint8, np.uint16, np.uint32)
_BINS = 1 << 16
_TURNS = 12  # a budget is met after a few corrections; each reads the weights twice

# (lo, (ptr, rows, values)): column lo + c of W is values[ptr[c]:ptr[c + 1]]; all rows if ``rows`` is empty
Block = tuple[int, tuple[Ints, NDArray[np.int32], Floats]]


class Columns:
    """W by columns, a block at a time; can be read repeatedly."""

    def __init__(self, weights: Weights, progress: Progress | None = None) -> None:
        self.weights, self.m = weights, weights.shape[0]
        self._progress = progress
        self._stored = None if weights.nnz is None else sparse.csc_array(weights.tocsr())

    @staticmethod
    def width(m: int, itemsize: int) -> int:
        return min(m, max(1, tiles.TILE_BYTES // (m * itemsize)))

    @classmethod
    def needs(cls, weights: Weights) -> tuple[int, int]:
        """(number of entries, memory needed to read them).

        Two blocks, one the transpose of the other, or the stored entries by rows and by columns.
        """
        m, itemsize = weights.shape[0], weights.dtype.itemsize
        if weights.nnz is not None:
            return weights.nnz, 2 * (4 + itemsize) * weights.nnz
        return m * m, 2 * m * cls.width(m, itemsize) * itemsize

    def blocks(self, stage: str) -> Iterator[Block]:
        everything = np.empty(0, dtype=np.int32)
        if self._stored is not None:
            W = self._stored
            rows = W.indices.astype(np.int32, copy=False) if W.nnz else np.zeros(1, dtype=np.int32)
            yield 0, (W.indptr.astype(np.int64), rows, W.data)
            self._report(stage, 1.0)
            return
        m, dtype = self.m, self.weights.dtype
        width = self.width(m, dtype.itemsize)
        block = np.empty((width, m), dtype=dtype)  # reused for all blocks
        for lo in range(0, m, width):
            hi = min(lo + width, m)
            values = self.weights.columns(lo, hi, block[: hi - lo]).reshape(-1)
            yield lo, (np.arange(hi - lo + 1) * m, everything, values)
            self._report(stage, hi / m)

    def _report(self, stage: str, fraction: float) -> None:
        if self._progress:
            self._progress(stage, fraction)


@dataclass
class Choice:
    """The entries to keep: those of at least ``tau``, up to the cut of each column, and the strongest of each."""

    boost: NDArray[np.float32]  # (m,) factor on the strength of the weights of item j
    cut: NDArray[np.float32]  # (m,) strength of the weakest kept entry of column i
    cut_item: Ints  # (m,) and its row
    first_item: Ints  # (m,) row of the strongest entry of column i
    tau: np.float32

    @property
    def kept(self) -> tuple[Any, ...]:
        return self.cut, self.cut_item, self.first_item


def within_columns(columns: Columns, popularity: Doubles, keep: int) -> Choice:
    """The ``keep`` strongest entries of each column."""
    m = columns.m
    popular = popularity > 0
    sums = np.where(popular, popularity, popularity[popular].min() if popular.any() else 1.0)
    boost = ((sums / sums.max(initial=0.0)) ** POWER).astype(np.float32)
    found = Choice(boost, np.zeros(m, np.float32), np.zeros(m, np.int64), np.full(m, -1), np.float32(0))
    finite = []
    for lo, block in columns.blocks("finding the strongest weights"):

        def part(first: int, last: int, lo: int = lo, block: Any = block) -> None:
            finite.append(_kernels.coded_rows.column_cuts(*block, boost, keep, lo, first, last, *found.kept))

        parallel.run_parallel(part, parallel.ranges(len(block[0]) - 1, 4 * parallel.n_threads()))
    if not all(finite):
        raise OffdiagError("expected weights within the range of float32, received larger ones or nan; fit it again")
    return found


def _histogram(columns: Columns, choice: Choice, part: int) -> Ints:
    """Entries by the upper 16 bits of their strength, or by the lower 16 of those whose upper ones are ``part``."""
    counts = np.zeros(_BINS, dtype=np.int64)
    for lo, block in columns.blocks("finding the threshold"):
        shares = parallel.ranges(len(block[0]) - 1, parallel.n_threads())
        each = np.zeros((len(shares), _BINS), dtype=np.int64)
        state = [(*share, *choice.kept, part, mine) for share, mine in zip(shares, each, strict=True)]
        parallel.run_parallel(_kernels.coded_rows.strengths, [(*block, choice.boost, lo, *rest) for rest in state])
        counts += each.sum(axis=0)
    return counts


def _threshold(columns: Columns, choice: Choice, upper_counts: Ints, n: int) -> np.float32:
    """The smallest strength that at most n entries reach; equal entries are kept or dropped together."""
    at_least = np.append(np.cumsum(upper_counts[::-1])[::-1], 0)
    upper = int(np.argmax(at_least <= n))  # bins from here on are kept whole
    if upper == 0:
        return np.float32(0)
    if upper == _BINS:  # no room even for the strongest of each column
        return np.float32(np.inf)
    lower_counts = _histogram(columns, choice, upper - 1)
    within = np.append(np.cumsum(lower_counts[::-1])[::-1], 0)
    bits = ((upper - 1) << 16) + int(np.argmax(within <= n - at_least[upper]))
    infinity = int(np.float32(np.inf).view(np.uint32))
    return np.float32(np.uint32(min(bits, infinity)).view(np.float32))


@dataclass
class Form:
    """How to store the kept entries."""

    storage: str
    entries: int
    gap: int  # which of _GAPS
    sizes: Ints  # (m,) slots of each row
    top: NDArray[np.float32]  # (m,) largest |value| of each column
    nbytes: int


def form_of(columns: Columns, choice: Choice, storage: str) -> Form:
    """Count the kept entries, and choose the gap type that needs the least memory."""
    m = columns.m
    sizes, top = np.zeros((len(_LIMITS), m), dtype=np.int64), np.zeros(m, dtype=np.float32)
    before, entries = np.full(m, -1), []
    for lo, block in columns.blocks("counting"):
        shares = parallel.ranges(m, parallel.n_threads())
        tops = np.zeros((len(shares), len(block[0]) - 1), dtype=np.float32)

        def part(first: int, last: int, mine: Any, lo: int = lo, block: Any = block) -> None:
            state = (choice.tau, *choice.kept, before, sizes, _LIMITS, mine)
            entries.append(_kernels.coded_rows.count_rows(*block, choice.boost, lo, first, last, *state))

        parallel.run_parallel(part, [(*share, mine) for share, mine in zip(shares, tops, strict=True)])
        top[lo : lo + tops.shape[1]] = tops.max(axis=0)
    places = sizes.sum(axis=1)
    each = np.array([np.dtype(gap).itemsize for gap in _GAPS]) + np.dtype(storage).itemsize
    gap = int(np.argmin(places * each))
    fixed = (m + 1) * _pointer(int(places[gap])).itemsize + 4 * m
    return Form(storage, sum(entries), gap, sizes[gap], top, fixed + int(places[gap] * each[gap]))


def _pointer(places: int) -> np.dtype[Any]:
    return np.dtype(np.uint32 if places < 1 << 32 else np.int64)


def fit_into(columns: Columns, choice: Choice, storage: str, budget: int) -> Form:
    """Raise the threshold until the entries that reach it fit into the budget, or only one per column is left."""
    fixed = (columns.m + 1) * 4 + 4 * columns.m
    room = max(budget - fixed, 0)
    n = int(0.995 * room) // (1 + np.dtype(storage).itemsize)  # assuming that nearly all gaps are short
    upper_counts = _histogram(columns, choice, -1)
    for turn in range(_TURNS):
        choice.tau = _threshold(columns, choice, upper_counts, n if turn < _TURNS - 1 else 0)
        form = form_of(columns, choice, storage)
        if form.nbytes <= budget or choice.tau == np.inf or form.nbytes <= fixed:
            break
        n = int(min(n, form.entries) * 0.998 * room / (form.nbytes - fixed))
    return form


def store(columns: Columns, choice: Choice, form: Form) -> Compressed:
    """The kept entries, stored in the form computed for them."""
    m = columns.m
    ends = np.cumsum(form.sizes)
    cursor = ends - form.sizes
    indptr = np.append(0, ends).astype(_pointer(int(ends[-1])))
    whole = form.storage == "int8"
    gaps: NDArray[Any] = np.empty(int(ends[-1]), dtype=_GAPS[form.gap])
    codes = np.empty(len(gaps), dtype=np.int8 if whole else np.float32)
    before, scale, fits = np.full(m, -1), scale_of(form.top, form.storage), []
    for lo, block in columns.blocks("storing"):

        def part(first: int, last: int, lo: int = lo, block: Any = block) -> None:
            state = (choice.tau, *choice.kept, before, cursor, ends, _LIMITS[form.gap], scale, whole, gaps, codes)
            fits.append(_kernels.coded_rows.fill_rows(*block, choice.boost, lo, first, last, *state))

        parallel.run_parallel(part, parallel.ranges(m, parallel.n_threads()))
    if not all(fits) or not np.array_equal(cursor, ends):
        raise OffdiagError("the weights changed while they were read; compress a model that nothing else writes to")
    return Compressed(indptr, gaps, codes.astype(form.storage, copy=False), scale)


def scale_of(top: NDArray[np.float32], storage: str) -> NDArray[np.float32]:
    """The value of one unit of a code in each column: no value overflows, whatever its size."""
    if storage == "float32":
        return np.ones(len(top), dtype=np.float32)
    largest = np.where(top > 0, top, 1).astype(np.float64)
    if storage == "int8":
        return np.maximum(largest / 127, 1e-45).astype(np.float32)
    powers = np.ldexp(np.ones(len(top)), np.frexp(largest)[1] - 1)  # of two, so scaling is exact
    return np.asarray(powers, dtype=np.float32)
