"""Ordered histories → A = Σ sᵀs and K = Σ sᵀy, all that a model of what comes next needs to know of them.

Each event but the first of a user is one example: its target y is that event, its source s what the user chose before,
weighted by age. Both sums are over users, so like a Gram they can be added and subtracted.

Cost    at most n_u² additions for a user with n_u events, fewer where the weight of distant events vanishes
Memory  m(m+1)/2 numbers for A, m² for K; a sixteenth of K or 4 MB while counting; 16 bytes per event with a half-life
"""

from __future__ import annotations

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
from offdiag.gramian.item_bands import transposed_bands
from offdiag.gramian.packed import gram
from offdiag.gramian.user_weights import scale_of, weights_of
from offdiag.progress import Progress

UNIT_BITS = 30  # a unit is 2^-30 of the largest user weight: sums up to 2^23 of such weights are exact
MOST_UNITS = 2.0**51  # of one contribution: larger ones are not rounded to whole numbers
NO_WINDOW = 1 << 40
BANDS = 32  # into which the rows of A are divided while they are counted
LEAST_NUMBERS = 1 << 20  # in a band: fewer are not worth handing out to threads


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
    P, own = np.zeros(layout.size(m), dtype=dtype), 0.0
    if mix and matrix is not None:
        G = gram(matrix, user_power, dtype=dtype, progress=progress)
        P, own = G.values, mix * G.scale
    K = np.empty((m, m), dtype=dtype)
    if own or mix == 1:
        spread(P, own, K)
    if mix < 1:
        weight, scale = in_units(sequences, user_power)
        tables = Tables.of(sequences, ageing, weight, later=later)
        _count(sequences, tables, weight, (1 - mix) * scale, P, K, add=own > 0, progress=progress)
    return OrderSums(P, K)


def spread(P: NDArray[np.floating], own: float, K: NDArray[np.floating]) -> None:
    """Packed P becomes own·P, and K the same in full."""
    m = len(K)
    h, e, _ = layout.layout(m)

    def work(lo: int, hi: int) -> None:
        _kernels.order_counts.spread(layout.rectangle(P, m), h, e, own, K, lo, hi)

    parallel.run_parallel(work, parallel.shares(np.arange(m, 0, -1), 4 * parallel.n_threads()))


def _count(
    sequences: Sequences,
    tables: Tables,
    weight: NDArray[np.float64],
    scale: float,
    P: NDArray[np.floating],
    K: NDArray[np.floating],
    *,
    add: bool,
    progress: Progress | None = None,
) -> None:
    """Add scale·Σ sᵀs to packed P, and put scale·Σ sᵀy in K or add it there.

    A pair of events is seen from the earlier one only, so half of what is counted for a row belongs to the packed rows
    of other items. It is held for a band of rows, then added there.
    """
    m = len(K)
    h, e, _ = layout.layout(m)
    packed = layout.rectangle(P, m) if m else P
    indptr = sequences.indptr.astype(np.int64, copy=False)
    items = sequences.items.astype(np.int32, copy=False).view(np.uint32)
    counts = np.bincount(sequences.items, minlength=m).astype(np.int64)
    left = sequences.from_end() + 1  # about what an event costs
    cost = np.bincount(sequences.items, weights=left, minlength=m) + m / 8
    size = max(-(-m // BANDS), LEAST_NUMBERS // max(m, 1))
    U = np.empty((min(size, m), m), dtype=K.dtype)
    loop: Any = _kernels.order_counts.rows_by_place
    ageing: Any = (tables.powers, tables.sums, tables.values, tables.window)
    if tables.timed:
        loop, ageing = _kernels.order_counts.rows_by_time, (tables.factor, tables.tail, tables.window, tables.later)

    def count(lo: int, hi: int, rest: Any, *entries: Any) -> None:
        room = np.empty(m), np.empty(m)
        loop(indptr, items, ageing, weight, *entries, lo, hi, scale, packed, h, e, add, K, rest, *room)

    def fold(top: int, bottom: int, lo: int, hi: int) -> None:
        _kernels.order_counts.fold(packed, h, e, U, top, bottom, lo, hi)

    for lo, hi, col_ptr, users, positions in transposed_bands(indptr, items, counts, K.nbytes // BANDS):
        for top in range(lo, hi, size):
            bottom = min(top + size, hi)
            parts = [(top + a, top + b) for a, b in parallel.shares(cost[top:bottom], 16 * parallel.n_threads())]
            tasks = [(a, b, U[a - top :], col_ptr[a - lo : b - lo + 1], users, positions) for a, b in parts]
            parallel.run_parallel(count, tasks)
            parallel.run_parallel(fold, [(top, bottom, a, b) for a, b in parallel.ranges(m, 4 * parallel.n_threads())])
            if progress:
                progress("counting histories", float(cost[:bottom].sum() / cost.sum()))


@dataclass(frozen=True, eq=False)
class Tables:
    """What the loops of ``_kernels`` need to know of the ageing."""

    window: int
    later: bool
    powers: NDArray[np.float64]  # of the decay
    sums: NDArray[np.float64]  # sums[n] = Σ_{d ≤ n} powers[d]², beyond the end of powers too
    values: NDArray[np.float64]  # what counts for the event d + 1 places later, as target
    factor: NDArray[np.float64]  # with times: what remains of each event at the time of the next; else empty
    tail: NDArray[np.float64]  # as in ``_kernels.order_terms.tails``

    @classmethod
    def of(cls, sequences: Sequences, ageing: Ageing, weight: NDArray[np.float64], *, later: bool) -> Tables:
        """For users of these weights, in units."""
        longest = int(sequences.lengths.max(initial=0))
        window = NO_WINDOW if ageing.window is None else ageing.window
        powers = visible_powers(ageing.decay, longest, float(weight.max(initial=1.0)))
        sums = np.cumsum(ageing.decay ** (2.0 * np.arange(max(longest, 1))))
        values = powers
        if later:
            values = powers * [_kernels.order_terms.examples_between(d, window) for d in range(len(powers))]
        factor = tail = np.empty(0)
        if ageing.half_life is not None:
            factor, tail = age_factors(sequences, ageing.half_life), np.zeros(sequences.n_events)
            _kernels.order_terms.tails(sequences.indptr.astype(np.int64, copy=False), factor, tail)
        reach = 2 * window - 1 if later else window
        return cls(window, later, powers[:window], sums, values[:reach], factor, tail)

    @property
    def timed(self) -> bool:
        return len(self.factor) > 0


def count_units(
    sequences: Sequences, m: int, ageing: Ageing, unit: float, *, later: bool = False, user_power: float = 0.0
) -> OrderSums:
    """A and K of these users alone in units, as whole numbers in float64: sums of parts are exact."""
    P, K, weight = np.zeros(layout.size(m)), np.empty((m, m)), weights_in(sequences, user_power, unit)
    if float((weight * sequences.lengths).max(initial=0.0)) >= MOST_UNITS:
        raise OffdiagError(
            f"these histories weigh too much, at user_power={user_power:g}, to be added without rounding to those that "
            "the model was fitted on: fit it again on all of them (nothing was changed)"
        )
    _count(sequences, Tables.of(sequences, ageing, weight, later=later), weight, 1.0, P, K, add=False)
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


def age_factors(sequences: Sequences, half_life: float) -> NDArray[np.float64]:
    """How each event ages until the next one: event j weighs factor[j]·…·factor[k] in the source that ends with k."""
    if sequences.times is None:
        raise ValueError("expected events with times")
    waits = np.zeros(sequences.n_events)  # until the next event of the user, the target of the source that ends here
    waits[:-1] = np.diff(sequences.times.astype(np.float64))
    waits[sequences.indptr[1:][sequences.lengths > 0] - 1] = 0.0  # the last event is in no source
    return np.exp2(-waits / half_life)


def visible_powers(decay: float, longest: int, largest: float) -> NDArray[np.float64]:
    """1, decay, decay², … as far as a contribution, at most this power times the longest history, is half a unit.

    ``largest`` is the largest weight of a user, in units.
    """
    bits = np.log2(largest) + 1 + np.log2(max(longest, 1))
    n = longest if decay == 1 else min(longest, int(bits / -np.log2(decay)) + 1)
    return decay ** np.arange(max(n, 1), dtype=np.float64)
