"""Ordered histories → A = Σ sᵀs and K = Σ sᵀy, all that a model of what comes next needs to know of them.

Each event but the first of a user is one example: its target y is that event, its source s what the user chose before,
weighted by age. Both sums are over users, so like a Gram they can be added and subtracted.

Cost    at most n_u² additions for a user with n_u events, fewer where the weight of distant events vanishes
Memory  m(m+1)/2 numbers for A and m² for K; an eighth of A while counting, and with a half-life 24 bytes per event
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
from offdiag.errors import OffdiagError
from offdiag.gramian import layout
from offdiag.gramian.item_bands import run_by_item
from offdiag.gramian.packed import gram
from offdiag.gramian.user_weights import scale_of, weights_of
from offdiag.progress import Progress

UNIT_BITS = 30  # a unit is 2^-30 of the largest user weight: sums up to 2^23 of such weights are exact
MOST_UNITS = 2.0**51  # of one contribution: larger ones are not rounded to whole numbers
NO_WINDOW = 1 << 40
Report = Callable[[float], None] | None  # of the share that is done


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
    weight, scale = in_units(sequences, user_power)
    count = _Counter(sequences, m, ageing, weight, (1 - mix) * scale) if mix < 1 else None
    _fill(P, own, K, count, later, progress)
    return OrderSums(P, K)


def _fill(
    P: NDArray[np.floating],
    own: float,
    K: NDArray[np.floating],
    count: _Counter | None,
    later: bool,
    progress: Progress | None,
) -> None:
    """Packed P becomes own·P plus the sum over sources, K becomes own·P plus that over targets; K begins as zeros."""
    m = len(K)
    if count is not None:
        count.sources(K, _stage(progress, "counting histories"))
    h, e, _ = layout.layout(m)

    def fold(lo: int, hi: int) -> None:
        _kernels.order_counts.fold(layout.rectangle(P, m), h, e, own, K, lo, hi)

    parallel.run_parallel(fold, parallel.shares(np.arange(m, 0, -1), 4 * parallel.n_threads()))
    if count is not None:
        count.targets(K, later, _stage(progress, "counting what follows"))


class _Counter:
    """The passes over the events: what they share, and which loop counts by place or by time."""

    def __init__(self, sequences: Sequences, m: int, ageing: Ageing, weight: NDArray[np.float64], scale: float) -> None:
        self._weight, self._scale = weight, scale
        self._largest = float(weight.max(initial=1.0))
        self._m, self._ageing, self._sequences = m, ageing, sequences
        self._longest = int(sequences.lengths.max(initial=0))
        self._window = NO_WINDOW if ageing.window is None else ageing.window
        self._indptr = sequences.indptr.astype(np.int64, copy=False)
        self._items = sequences.items.astype(np.int32, copy=False).view(np.uint32)
        self._counts = np.bincount(sequences.items, minlength=m).astype(np.int64)
        left = sequences.from_end() + 1  # about what an event costs
        self._cost = np.bincount(sequences.items, weights=left, minlength=m).astype(np.int64)

    def sources(self, U: NDArray[np.floating], report: Report) -> None:
        """U with U + Uᵀ = Σ sᵀs, over ``U``."""
        if self._ageing.half_life is None:
            powers = visible_powers(self._ageing.decay, self._longest, self._largest)
            sums = np.cumsum(self._ageing.decay ** (2.0 * np.arange(max(self._longest, 1))))
            loop, arguments = _kernels.order_counts.source_rows_by_place, (powers, sums, self._window)
            self._run(loop, arguments, U, report)
            return
        first, step = age_factors(self._sequences, self._ageing.half_life)
        tail = np.zeros(len(self._items))
        _kernels.order_counts.tails(self._indptr, step, tail)
        room = min(self._window, self._longest)
        self._run(
            _kernels.order_counts.source_rows_by_time,
            (first, step, tail, self._window),
            U,
            report,
            lambda: (np.empty(room),),
        )

    def targets(self, K: NDArray[np.floating], later: bool, report: Report) -> None:
        """Σ sᵀy, added to ``K``."""
        if self._ageing.half_life is None:
            values = visible_powers(self._ageing.decay, self._longest, self._largest)
            if later:
                values = values * [_kernels.order_counts.examples_between(d, self._window) for d in range(len(values))]
            values = values[: 2 * self._window - 1 if later else self._window]
            self._run(_kernels.order_counts.target_rows_by_place, (values,), K, report)
            return
        arguments = (*age_factors(self._sequences, self._ageing.half_life), self._window, later)
        self._run(_kernels.order_counts.target_rows_by_time, arguments, K, report)

    def _run(
        self,
        loop: Callable[..., None],
        arguments: tuple[Any, ...],
        out: NDArray[np.floating],
        report: Report,
        room: Callable[[], tuple[Any, ...]] = tuple,
    ) -> None:
        def work(col_ptr: Any, users: Any, positions: Any, lo: int, hi: int) -> None:
            loop(
                self._indptr, self._items, *arguments, self._weight, col_ptr, users, positions, lo, hi,
                self._scale, out, np.empty(self._m), *room(),
            )  # fmt: skip

        run_by_item(
            self._indptr, self._items, self._counts, self._cost, work, max_bytes=out.nbytes // 16, report=report
        )


def count_units(
    sequences: Sequences, m: int, ageing: Ageing, unit: float, *, later: bool = False, user_power: float = 0.0
) -> OrderSums:
    """A and K of these users alone in units, as whole numbers in float64: sums of parts are exact."""
    P, K, weight = np.zeros(layout.size(m)), np.zeros((m, m)), weights_in(sequences, user_power, unit)
    if float((weight * sequences.lengths).max(initial=0.0)) >= MOST_UNITS:
        raise OffdiagError(
            f"these histories weigh too much, at user_power={user_power:g}, to be added without rounding to those that "
            "the model was fitted on: fit it again on all of them (nothing was changed)"
        )
    _fill(P, 0.0, K, _Counter(sequences, m, ageing, weight, 1.0), later, None)
    return OrderSums(P, K)


def examples_of(sequences: Sequences) -> NDArray[np.int64]:
    """How many users have n examples, for every n."""
    return np.bincount(np.maximum(sequences.lengths - 1, 0)).astype(np.int64)


def unit_of(sequences: Sequences, user_power: float) -> float:
    """The unit of sums over these users, a power of 2."""
    largest = float(weights_of(np.flatnonzero(examples_of(sequences)), user_power).max(initial=0.0))
    return float(2.0 ** (np.ceil(np.log2(largest)) - UNIT_BITS)) if largest else 2.0**-UNIT_BITS


def weights_in(sequences: Sequences, user_power: float, unit: float) -> NDArray[np.float64]:
    """The weight of each user in units, exactly."""
    return weights_of(np.maximum(sequences.lengths - 1, 0), user_power) / unit


def in_units(sequences: Sequences, user_power: float) -> tuple[NDArray[np.float64], float]:
    """The weight of each user in units, and what a unit counts for in the sums."""
    unit = unit_of(sequences, user_power)
    return weights_in(sequences, user_power, unit), scale_of(examples_of(sequences), user_power) * unit


def age_factors(sequences: Sequences, half_life: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """first and step: event j weighs first[j]·step[j+1]·…·step[k] in the source that ends with event k."""
    if sequences.times is None:
        raise ValueError("expected events with times")
    waits = np.zeros(sequences.n_events)  # until the next event of the user, the target of the source that ends here
    waits[:-1] = np.diff(sequences.times.astype(np.float64))
    waits[sequences.indptr[1:][sequences.lengths > 0] - 1] = 0.0  # the last event is in no source
    factor = np.exp2(-waits / half_life)
    return factor, factor


def visible_powers(decay: float, longest: int, largest: float) -> NDArray[np.float64]:
    """1, decay, decay², … as far as a contribution, at most this power times the longest history, is half a unit.

    ``largest`` is the largest weight of a user, in units.
    """
    bits = np.log2(largest) + 1 + np.log2(max(longest, 1))
    n = longest if decay == 1 else min(longest, int(bits / -np.log2(decay)) + 1)
    return decay ** np.arange(max(n, 1), dtype=np.float64)


def _stage(progress: Progress | None, name: str) -> Report:
    return None if progress is None else lambda share: progress(name, share)
