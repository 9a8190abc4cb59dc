"""Counting what follows what: rows of Σ sᵀs and Σ sᵀy over the examples of ordered histories, item by item.

The terms are those of ``order_terms``. Both sums of an item are taken in one pass over its events, so that the events
of a user are looked up in memory only once.
"""

import numpy as np

from offdiag._kernels.order_terms import examples_between, whole
from offdiag._kernels.parallel import compiled, inlined

BLOCK = 64  # rows and columns of a tile that is transposed in the cache
TALL, WIDE = 128, 16  # the same where a tile is only read: its columns are added to rows, the longer the better


@compiled
def rows_by_place(
    indptr, items, ageing, weight, col_ptr, users, positions, lo, hi, scale, P, h, e, add, K, U, sources, targets
):
    """Rows lo..hi of scale·Σ sᵀs, added to packed P, and of scale·Σ sᵀy, in K or added to it.

    A pair of events is seen from the earlier one only: Σ sᵀs = S + Sᵀ, where S has the terms of an event with itself,
    by half, and with later ones. What row i of S has in packed row i is added to it here; the rest is left in U, whose
    rows begin with lo, for ``fold``. Events of item i are at positions[col_ptr[i - lo] : col_ptr[i - lo + 1]].
    ``sources`` and ``targets`` have room for a row.
    """
    powers, sums, values, window = ageing
    for i in range(lo, hi):
        sources[:] = 0.0
        targets[:] = 0.0
        for q in range(col_ptr[i - lo], col_ptr[i - lo + 1]):
            u, j = np.int64(users[q]), np.int64(positions[q])
            left = indptr[u + 1] - 1 - j
            far = min(left, window) - 1  # how far the last event is that is in a source with event j
            mine = weight[u]
            if far < 0 or mine == 0:
                continue
            sources[i] += 0.5 * whole(mine * sums[far])
            following = items[j + 1 : j + 1 + left]
            near = min(far, len(powers) - 1)
            for d in range(near):
                k = following[d]
                sources[k] += whole(mine * powers[d + 1] * sums[far - 1 - d])
                targets[k] += whole(mine * values[d])
            for d in range(near, min(left, len(values))):
                targets[following[d]] += whole(mine * values[d])
        _keep(i, scale, P, h, e, add, K[i], U[i - lo], sources, targets)


@compiled
def rows_by_time(
    indptr, items, ageing, weight, col_ptr, users, positions, lo, hi, scale, P, h, e, add, K, U, sources, targets
):
    """The same for weights that depend on the times."""
    factor, tail, window, later = ageing
    aged = np.empty(min(window, len(items)))
    reach = 2 * window - 1 if later else window
    for i in range(lo, hi):
        sources[:] = 0.0
        targets[:] = 0.0
        for q in range(col_ptr[i - lo], col_ptr[i - lo + 1]):
            u, j = np.int64(users[q]), np.int64(positions[q])
            last = indptr[u + 1] - 2  # the event with which the longest source ends
            if j > last or weight[u] == 0:
                continue
            end = min(last, j + window - 1)
            age = weight[u] * factor[j]
            least = 0.5 / (last - j + 1)  # a tail is at most as large as the number of events that are left
            if end < last:
                _add_within_window(items, factor, age, j, end, sources, aged)
            else:
                sources[i] += 0.5 * whole(age * factor[j] * tail[j])
            for k in range(j + 1, min(last + 1, j + reach) + 1):
                if age < least:
                    break
                targets[items[k]] += whole(age * examples_between(k - 1 - j, window) if later else age)
                age *= factor[k]
                if k <= end == last:
                    sources[items[k]] += whole(age * factor[k] * tail[k])
        _keep(i, scale, P, h, e, add, K[i], U[i - lo], sources, targets)


@compiled
def _add_within_window(items, factor, age, j, end, sources, aged):
    """The terms of event j where the source of event end + 1 has lost it: tails end there too."""
    for k in range(j, end + 1):
        age *= factor[k] if k > j else 1.0
        aged[k - j] = age
    total = 1.0
    for k in range(end, j - 1, -1):
        x = whole(aged[k - j] * factor[k] * total)
        sources[items[k]] += x if k > j else 0.5 * x
        total = 1.0 + factor[k] * factor[k] * total


@inlined
def _keep(i, scale, P, h, e, add, row, rest, sources, targets):
    """Row i where it belongs; ``row`` is that of K, ``rest`` that of U."""
    sources[i] *= 2
    first, end = (i, len(row)) if i < h else (h, i + 1)
    packed = P[i, i + e :] if i < h else P[i - h + 1 - e]
    for k in range(end - first):
        packed[k] += P.dtype.type(scale * sources[first + k])  # rounded first, as what is left in U
    for k in range(first):
        rest[k] = scale * sources[k]
    for k in range(end, len(rest)):
        rest[k] = scale * sources[k]
    if add:
        for k in range(len(row)):
            row[k] += scale * targets[k]
    else:
        for k in range(len(row)):
            row[k] = scale * targets[k]


@compiled
def spread(P, h, e, own, K, lo, hi):
    """For columns lo..hi: the packed matrix P becomes own·P, and K the same in both triangles."""
    m = len(K)
    for left in range(lo, hi, BLOCK):
        for top in range(left, m, BLOCK):
            for b in range(left, min(left + BLOCK, hi)):
                for a in range(max(top, b), min(top + BLOCK, m)):
                    r, c = (b, a + e) if b < h else (a - h + 1 - e, b - h)
                    P[r, c] *= own
                    K[a, b] = P[r, c]
                    K[b, a] = P[r, c]


@compiled
def fold(P, h, e, U, top, bottom, lo, hi):
    """Add Uᵀ, what ``rows`` left of rows top..bottom, to the packed matrix P, for columns lo..hi of U."""
    for left in range(lo, hi, WIDE):
        for above in range(top, bottom, TALL):
            below = min(above + TALL, bottom)
            for k in range(left, min(left + WIDE, hi)):
                first, end = (max(above, k + 1), below) if k < h else (max(above, h), min(below, k))
                packed = P[k, first + e :] if k < h else P[k - h + 1 - e, max(first - h, 0) :]
                for t in range(end - first):
                    packed[t] += U[first - top + t, k]
