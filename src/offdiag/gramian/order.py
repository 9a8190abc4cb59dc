"""Ordered histories → A = Σ sᵀs and K = Σ sᵀy, all that a model of what comes next needs to know of them.

Each event but the first of a user is one example: its target y is that event, its source s what the user chose before,
weighted by age. Both sums are over users, so like a Gram they can be added and subtracted.

Cost    at most n_u² additions for a user with n_u events, fewer where the weight of distant events vanishes
Memory  m(m+1)/2 numbers for A and m² for K; 24 bytes per event while counting, and a sixteenth of A
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import _kernels
from offdiag._kernels import parallel
from offdiag.data.sequences import Sequences
from offdiag.gramian import layout
from offdiag.gramian.item_bands import run_by_item
from offdiag.gramian.packed import gram
from offdiag.gramian.user_weights import scale_of, weights_of
from offdiag.progress import Progress

GRID_BITS = 30  # a contribution is a multiple of 2^-30 of the largest user weight: sums up to 2^23 of them are exact
NO_WINDOW = 1 << 40


@dataclass(frozen=True)
class Ageing:
    """How much an event weighs in a source: ``decay`` to the power of its place from the end, or by its age in time.

    With ``half_life``, an event that is that much older than the target weighs one half, and ``decay`` is not used.
    Only the last ``window`` events are in a source; None: all.
    """

    decay: float = 1.0
    half_life: float | None = None
    window: int | None = None


@dataclass(frozen=True, eq=False)
class OrderSums:
    """A (packed, see ``offdiag.gramian.layout``) and K (C-ordered, rows are sources)."""

    A: NDArray[np.floating]
    K: NDArray[np.floating]


def count_order(
    sequences: Sequences,
    m: int,
    ageing: Ageing,
    *,
    later: bool = False,
    user_power: float = 0.0,
    mix: float = 0.0,
    matrix: sparse.csr_array | None = None,
    dtype: Any = np.float32,
    progress: Progress | None = None,
) -> OrderSums:
    """mix·G + (1 − mix)·A and mix·G + (1 − mix)·K, G the Gram of ``matrix``, for m items.

    ``later``: the target is all that follows, weighted by its distance from the next event as the source is by age.
    A user with n examples counts n^(−user_power) for each, times a common factor that makes the mean 1.
    """
    P = np.zeros(layout.size(m), dtype=dtype)
    own = 0.0
    if mix and matrix is not None:
        G = gram(matrix, user_power, dtype=dtype, progress=progress)
        P, own = G.values, mix * G.scale
    K = np.zeros((m, m), dtype=dtype)
    count = _Counter(sequences, m, ageing, user_power)
    share = (1 - mix) * count.scale
    count.sources(K, share, _stage(progress, "counting histories"))
    h, e, _ = layout.layout(m)

    def fold(lo: int, hi: int) -> None:
        _kernels.order_counts.fold(layout.rectangle(P, m), h, e, own, K, lo, hi)

    parallel.run_parallel(fold, parallel.shares(np.arange(m, 0, -1), 4 * parallel.n_threads()))
    count.targets(K, share, later, _stage(progress, "counting what follows"))
    return OrderSums(P, K)


class _Counter:
    """The arrays that both passes over the events share."""

    def __init__(self, sequences: Sequences, m: int, ageing: Ageing, user_power: float) -> None:
        n_examples = np.maximum(sequences.lengths - 1, 0)
        self.m = m
        self.weight = weights_of(n_examples, user_power)
        self.scale = scale_of(np.bincount(n_examples), user_power)
        largest = float(self.weight.max(initial=0.0))
        self.grid = 2.0 ** (np.ceil(np.log2(largest)) - GRID_BITS) if largest else 1.0
        self.indptr = sequences.indptr.astype(np.int64, copy=False)
        self.items = sequences.items.astype(np.int32, copy=False).view(np.uint32)
        self.longest = int(sequences.lengths.max(initial=0))
        self.window = NO_WINDOW if ageing.window is None else ageing.window
        self.first, self.step = age_factors(sequences, ageing)
        self.tail = np.zeros(len(self.items))
        _kernels.order_counts.tails(self.indptr, self.step, self.tail)
        self.counts = np.bincount(sequences.items, minlength=m).astype(np.int64)
        left = sequences.from_end()  # what an event costs
        self.cost = np.bincount(sequences.items, weights=left + 1, minlength=m).astype(np.int64)

    def sources(self, U: NDArray[np.floating], scale: float, report: Callable[[float], None] | None) -> None:
        def work(col_ptr: Any, users: Any, positions: Any, lo: int, hi: int) -> None:
            acc, aged = np.empty(self.m), np.empty(min(self.window, self.longest))
            _kernels.order_counts.source_rows(
                self.indptr, self.items, self.first, self.step, self.tail, self.window, self.weight, self.grid,
                col_ptr, users, positions, lo, hi, scale, U, acc, aged,
            )  # fmt: skip

        self._run(work, U.nbytes // 32, report)

    def targets(
        self, K: NDArray[np.floating], scale: float, later: bool, report: Callable[[float], None] | None
    ) -> None:
        def work(col_ptr: Any, users: Any, positions: Any, lo: int, hi: int) -> None:
            _kernels.order_counts.target_rows(
                self.indptr, self.items, self.first, self.step, self.window, later, self.weight, self.grid,
                col_ptr, users, positions, lo, hi, scale, K, np.empty(self.m),
            )  # fmt: skip

        self._run(work, K.nbytes // 32, report)

    def _run(self, work: Callable[..., None], max_bytes: int, report: Callable[[float], None] | None) -> None:
        run_by_item(self.indptr, self.items, self.counts, self.cost, work, max_bytes=max_bytes, report=report)


def age_factors(sequences: Sequences, ageing: Ageing) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """first and step: event j weighs first[j]·step[j+1]·…·step[k] in the source that ends with event k."""
    n = sequences.n_events
    if ageing.half_life is None:
        return np.ones(n), np.full(n, float(ageing.decay))
    assert sequences.times is not None
    waits = np.zeros(n)  # until the next event of the user, the target of the source that ends here
    waits[:-1] = np.diff(sequences.times.astype(np.float64))
    ends = sequences.indptr[1:][sequences.lengths > 0] - 1
    waits[ends] = 0.0  # the last event is in no source
    factor = np.exp2(-waits / ageing.half_life)
    return factor, factor


def _stage(progress: Progress | None, name: str) -> Callable[[float], None] | None:
    return None if progress is None else lambda share: progress(name, share)
