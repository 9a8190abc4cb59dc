"""Sums over users that are never rounded, so that removing a user leaves no trace: a sum is two numbers.

A sum is stored as its nearest double (in the Gram) and the exact remainder. In whatever order users are added and
removed, the two depend only on the current users. Sums of 0/1 data, integers and halves need, and have, no remainder.

A user's contribution to a pair of items, w·v_i·v_j, is rounded once to a double, and to a multiple of 2^-60; sums below
2^46 then fit into two doubles. Larger ones fit if their last digits are zeros; otherwise an error is raised.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import _kernels
from offdiag._kernels import parallel
from offdiag.errors import OffdiagError
from offdiag.gramian.layout import positions
from offdiag.gramian.packed import Gram
from offdiag.gramian.sparse import SparseGram, sparse_gram
from offdiag.gramian.user_weights import Users, weights_of
from offdiag.solvers import Doubles, popularity_order

SMALLEST = -60  # sums are multiples of 2 to this power
LEAST = 2.0**-50  # smallest contribution of a user to a pair
TOO_WIDE = (
    "the values of this model differ too much in size to be added and taken away without rounding: scale them to "
    "about 1, or binarise them, and fit again (nothing was changed)"
)


def two_sum(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """a + b rounded, and the rounding error [Knuth97]."""
    s = a + b
    c = s - a
    return s, (a - (s - c)) + (b - c)


def add(high: Doubles, low: Doubles, x: Doubles) -> tuple[Doubles, Doubles]:
    """(high + low) + x as the nearest double and the remainder, exactly."""
    s, e = two_sum(high, x)
    rest, lost = two_sum(low, e)
    if lost.any() or not np.isfinite(s).all():
        raise OffdiagError(TOO_WIDE)
    return two_sum(s, rest)


def on_grid(x: Doubles) -> Doubles:
    """x, rounded to a multiple of 2^SMALLEST; some digits must remain."""
    if ((x != 0) & (np.abs(x) < LEAST)).any():
        raise OffdiagError(TOO_WIDE)
    big = np.ldexp(1.5, SMALLEST + 52)
    return np.where(np.abs(x) < big / 2, (x + big) - big, x)


def last_digit(x: NDArray[Any]) -> int:
    """The power of 2 of the lowest binary digit in any of the numbers; large if there are no numbers."""
    x = x[x != 0].astype(np.float64)
    if not len(x):
        return 1 << 20
    mantissa, exponent = np.frexp(x)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    return int((exponent - 53 + np.log2((whole & -whole).astype(np.float64)).astype(np.int64)).min())


def is_plain(matrix: sparse.csr_array, user_power: float, largest: float, largest_sum: float) -> bool:
    """Whether doubles alone hold all sums over these rows exactly, in any order."""
    n_u = np.unique(np.diff(matrix.indptr))
    value = 0 if bool((matrix.data == 1).all()) else last_digit(matrix.data)
    least = 2 * value + last_digit(weights_of(n_u, user_power))
    return least >= SMALLEST and largest <= _holds(least) and largest_sum <= _holds(value)


def _holds(last: int) -> float:
    """The bound up to which a double holds every number with this last digit."""
    return float(2.0 ** min(53 + last, 1000))


def count(G: Gram | SparseGram, matrix: sparse.csr_array) -> tuple[Any, SparseGram | None]:
    """The Gram of these rows with every sum exact, and the remainders, if any."""
    g = G.own_diagonal()
    if is_plain(matrix, G.user_power, float(g.max(initial=0.0)), float(G.item_sums.max(initial=0.0))):
        return G, None
    pattern = sparse_gram(matrix, G.user_power)
    weight = weights_of(np.diff(matrix.indptr), G.user_power)
    data = popularity_order.by_popularity(matrix, weight, np.arange(G.n_items, dtype=np.int32)).arrays()
    values, rest = np.zeros(len(pattern.indices)), np.zeros(len(pattern.indices))
    wide = np.zeros(G.n_items, dtype=bool)

    def work(lo: int, hi: int) -> None:
        _kernels.exact_sums.exact_rows(*data, lo, hi, pattern.indptr, pattern.indices, values, rest, wide)

    parallel.run_parallel(work, parallel.ranges(G.n_items, 8 * parallel.n_threads()))
    if wide.any():
        raise OffdiagError(TOO_WIDE)
    sums, sums_rest = np.zeros(G.n_items), np.zeros(G.n_items)
    _kernels.exact_sums.exact_sums(matrix.indices, matrix.data.astype(np.float64), sums, sums_rest)
    high = replace(pattern, values=values, item_sums=sums)
    low = pruned(replace(pattern, values=rest, item_sums=sums_rest))
    if isinstance(G, Gram):
        packed = np.zeros(len(G.values))
        for i in range(G.n_items):
            row = slice(high.indptr[i], high.indptr[i + 1])
            packed[positions(G.n_items, np.array([i]), high.indices[row].astype(np.int64))[0]] = values[row]
        return replace(G, values=packed, item_sums=sums), low
    return high, low


def pruned(low: SparseGram) -> SparseGram | None:
    """The remainders that are not 0; None if all are 0."""
    if not low.values.any() and not low.item_sums.any():
        return None
    rows = low.tocsr().copy()
    rows.eliminate_zeros()
    empty = np.zeros(0, dtype=np.int64)
    return SparseGram(
        rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data, empty, np.zeros_like(low.item_counts),
        low.item_sums, low.user_power,
    )  # fmt: skip


def nothing(G: Users) -> SparseGram:
    """Remainders that are all 0."""
    m = G.n_items
    return SparseGram(
        np.zeros(m + 1, np.int64), np.zeros(0, np.int32), np.zeros(0), np.zeros(0, np.int64), np.zeros(m, np.int64),
        np.zeros(m), G.user_power,
    )  # fmt: skip


def sums_after(high: Doubles, low: Doubles, rows: sparse.csr_array, sign: int) -> tuple[Doubles, Doubles]:
    """Column sums after these rows are added (+1) or removed (−1)."""
    values = rows.data.astype(np.float64)
    some = np.bincount(rows.indices, weights=values, minlength=len(high)).astype(np.float64)
    if float(some.max(initial=0.0)) <= _holds(last_digit(values)):
        return add(high, low, sign * some)
    for lo, hi in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        x = np.zeros(len(high))
        x[rows.indices[lo:hi]] = values[lo:hi]
        high, low = add(high, low, sign * x)
    return high, low


def part_after(
    high: Doubles, low: Doubles, rows: sparse.csr_array, user_power: float, sign: int, together: Doubles
) -> tuple[Doubles, Doubles]:
    """The sums of all pairs of some items after these rows (over the same items) are added or removed.

    ``together`` is the Gram of the rows, which is used if it is exact.
    """
    if is_plain(rows, user_power, float(together.max(initial=0.0)), 0.0):
        return add(high, low, sign * together)
    weight = weights_of(np.diff(rows.indptr), user_power)
    high, low = high.copy(), low.copy()
    for u, (lo, hi) in enumerate(zip(rows.indptr[:-1], rows.indptr[1:], strict=True)):
        at = np.ix_(rows.indices[lo:hi], rows.indices[lo:hi])
        v = rows.data[lo:hi].astype(np.float64)
        high[at], low[at] = add(high[at], low[at], sign * on_grid(np.outer(v, v) * weight[u]))
    return high, low
