"""Rows of Σ sᵀs and columns of Σ sᵀy for one item at a time, in the form that ``column_solves`` works on.

Items are numbered by popularity. Contributions are whole numbers of units and weights of events are products of
factors, as in ``order_counts``; but here all events around one of the item's are visited, those before it too, so that
nothing but the row itself is held. ``acc`` is a sum in units, ``met`` another sum that touches the same items: an item
is recorded in ``touched`` when it is new to both. Sums are never negative.
"""

import numpy as np

from offdiag._kernels.column_solves import add_users, best_supports
from offdiag._kernels.order_counts import examples_between, whole
from offdiag._kernels.parallel import compiled, inlined


@inlined
def _add(j, x, met, acc, touched, n):
    """Add x to the sum of item j; returns how many items are touched."""
    if x > 0:
        touched[n] = j
        n += np.uint64(acc[j] == 0 and met[j] == 0)
        acc[j] += x
    return n


@inlined
def _tails_until(step, at, end, out):
    """out[k - at] = Σ (step[k+1]·…·step[l])² over the sources that end with an event l from k to ``end``."""
    total = 1.0
    for k in range(end, at - 1, -1):
        out[k - at] = total
        total = 1.0 + step[k] * step[k] * total


@inlined
def _sums_from(step, at, end, out):
    """out[d] = Σ (step[at+1]·…·step[l])² over the sources that end with an event l from ``at`` to at + d."""
    total, product = 0.0, 1.0
    for k in range(at, end + 1):
        product *= step[k] if k > at else 1.0
        total += product * product
        out[k - at] = total


@compiled
def _add_sources(
    indptr, items, first, step, tail, window, weight, col_ptr, users, positions, i, met, acc, touched, n, sums
):
    """Row i of Σ sᵀs before the diagonal; returns how many items are touched, and the diagonal, in units."""
    own = 0.0
    for q in range(col_ptr[i], col_ptr[i + 1]):
        u, at = np.int64(users[q]), np.int64(positions[q])
        last = indptr[u + 1] - 2  # the event with which the longest source ends
        if at > last or weight[u] == 0:
            continue
        end = min(last, at + window - 1)  # the last source that this event is in
        if end < last:
            _tails_until(step, at, end, sums)
        mine, least = weight[u] * first[at], 0.5 / (last - at + 1)
        own += whole(mine * first[at] * (tail[at] if end == last else sums[0]))
        age = mine
        for k in range(at + 1, end + 1):
            age *= step[k]
            if age < least:
                break
            x = whole(age * first[k] * (tail[k] if end == last else sums[k - at]))
            if items[k] < i:
                n = _add(items[k], x, met, acc, touched, n)
            elif items[k] == i:
                own += x
        begin = max(indptr[u], at - window + 1)
        if begin + window - 1 < last:
            _sums_from(step, at, end, sums)
        age = mine
        for j in range(at - 1, begin - 1, -1):
            age *= step[j + 1]
            if age < least:
                break
            x = whole(age * first[j] * (tail[at] if j + window - 1 >= last else sums[j + window - 1 - at]))
            if items[j] < i:
                n = _add(items[j], x, met, acc, touched, n)
            elif items[j] == i:
                own += x
    return n, own


@compiled
def _add_targets(indptr, items, first, step, window, later, weight, col_ptr, users, positions, i, met, acc, touched, n):
    """Column i of Σ sᵀy; returns how many items are touched."""
    reach = 2 * window - 1 if later else window
    for q in range(col_ptr[i], col_ptr[i + 1]):
        u, k = np.int64(users[q]), np.int64(positions[q]) - 1  # the source before this event ends with event k
        age, least = weight[u], 0.5 / max(k - indptr[u] + 1, 1)
        for j in range(k, max(indptr[u], k - reach + 1) - 1, -1):
            if age < least:
                break
            examples = examples_between(k - j, window) if later else 1
            n = _add(items[j], whole(age * first[j] * examples), met, acc, touched, n)
            age *= step[j]
    return n


@compiled
def measure_rows(rows, events, window, room, share, scale, lo, hi, diagonal, below):
    """diag(A) and the number of entries before the diagonal, for rows lo..hi of A = share·G + scale·Σ sᵀs.

    ``rows`` are the arrays of a ``Rows``, whose Gram is G, ``events`` those of an ``OrderRows``; ``diagonal`` begins as
    that of G.
    """
    m = len(below)
    gram, acc, touched, sums = np.zeros(m), np.zeros(m), np.empty(m + 1, np.uint32), np.empty(room)
    for i in range(lo, hi):
        n, own = _add_row(rows, events, window, i, gram, acc, touched, sums)
        diagonal[i] = share * diagonal[i] + scale * own
        below[i] = n
        for t in range(n):
            gram[touched[t]] = 0.0
            acc[touched[t]] = 0.0


@inlined
def _add_row(rows, events, window, i, gram, acc, touched, sums):
    """Row i of both parts of A before the diagonal; returns how many items are touched and the diagonal of Σ sᵀs."""
    n = add_users(*rows, i, False, gram, touched)
    indptr, items, first, step, tail, weight, col_ptr, users, positions = events
    return _add_sources(
        indptr, items, first, step, tail, window, weight, col_ptr, users, positions, i, gram, acc, touched, n, sums
    )


@compiled
def shelf_rows(rows, events, window, room, share, scale, items, first, last, ptr, column_ptr, columns, values):
    """The same as ``column_solves.gram_rows`` for A: the entries of items[r] with more popular items."""
    m = len(events[6]) - 1
    gram, acc, touched, sums = np.zeros(m), np.zeros(m), np.empty(m + 1, np.uint32), np.empty(room)
    for r in range(first, last):
        n, _ = _add_row(rows, events, window, items[r], gram, acc, touched, sums)
        row, listed = values[ptr[r] : ptr[r + 1]], columns[column_ptr[r] : column_ptr[r + 1]]
        for p in range(len(row)):
            j = touched[p] if len(listed) else np.uint32(p)
            row[p] = share * gram[j] + scale * acc[j]
            if len(listed):
                listed[p] = j
        for t in range(n):
            gram[touched[t]] = 0.0
            acc[touched[t]] = 0.0


@compiled
def supports(rows, events, window, later, repeats, share, scale, penalty, fill, lo, hi, who, values, parent, below):
    """The same as ``column_solves.supports`` for columns lo..hi of K = share·G + scale·Σ sᵀy.

    With ``repeats`` an item may be in its own support. ``below`` is that of K and of no use.
    """
    m, k = len(penalty), who.shape[1]
    gram, acc, touched = np.zeros(m), np.zeros(m), np.empty(m + 1, np.uint32)
    scores, best = np.empty(k), np.empty(k, np.int64)
    indptr, items, first, step, _, weight, col_ptr, users, positions = events
    alone = np.empty(0, np.int64)
    for i in range(lo, hi):
        n = add_users(*rows, i, True, gram, touched)
        n = _add_targets(
            indptr, items, first, step, window, later, weight, col_ptr, users, positions, i, gram, acc, touched, n
        )
        for t in range(n):
            gram[touched[t]] = share * gram[touched[t]] + scale * acc[touched[t]]
            acc[touched[t]] = 0.0
        r = i - lo
        barred = m if repeats else i
        parent[r], below[r] = best_supports(
            i, barred, gram, touched[:n], penalty, alone, fill, scores, best, who[r], values[r]
        )
        for t in range(n):
            gram[touched[t]] = 0.0
