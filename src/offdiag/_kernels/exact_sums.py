"""Compiled loops for sums that are never rounded; ``offdiag.gramian.exact`` explains them."""

import numpy as np

from offdiag._kernels.parallel import compiled


def _exactly(function):
    """Compile without fused multiply-add, which would round once instead of twice."""
    return compiled(function, ())


@_exactly
def _add_exactly(high, low, j, x):
    """(high + low)[j] += x, as ``offdiag.gramian.exact.add``; returns whether digits were lost."""
    s = high[j] + x
    c = s - high[j]
    e = (high[j] - (s - c)) + (x - c)
    rest = low[j] + e
    d = rest - low[j]
    lost = (low[j] - (rest - d)) + (e - d)
    h = s + rest
    f = h - s
    low[j] = (s - (h - f)) + (rest - f)
    high[j] = h
    return lost != 0 or not np.isfinite(h)


@_exactly
def exact_rows(indptr, indices, data, weight, col_ptr, users, positions, lo, hi, ptr, columns, values, rest, wide):
    """Rows lo..hi of G at the positions of ``columns``, each sum as its nearest double and the remainder."""
    big = 1.5 * 2.0**-8  # adding and subtracting it rounds to a multiple of 2^-60
    high, low = np.zeros(len(col_ptr)), np.zeros(len(col_ptr))
    for i in range(lo, hi):
        for q in range(col_ptr[i], col_ptr[i + 1]):
            u = users[q]
            value = np.float64(data[positions[q]]) if len(data) else 1.0
            for p in range(indptr[u], indptr[u + 1]):
                x = (value * np.float64(data[p])) * weight[u] if len(data) else weight[u]
                small = 0.0 < x < 2.0**-50  # it would keep only a few digits
                if x < big / 2:
                    x = (x + big) - big
                if _add_exactly(high, low, indices[p], x) or small:
                    wide[i] = True
        for p in range(ptr[i], ptr[i + 1]):
            values[p], rest[p] = high[columns[p]], low[columns[p]]
        for q in range(col_ptr[i], col_ptr[i + 1]):
            for p in range(indptr[users[q]], indptr[users[q] + 1]):
                high[indices[p]] = low[indices[p]] = 0.0


@_exactly
def exact_sums(items, data, sums, rest):
    """Column sums, each as its nearest double and the remainder."""
    for p in range(len(items)):
        _add_exactly(sums, rest, items[p], data[p])
