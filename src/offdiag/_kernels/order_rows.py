"""Rows of share·G + Σ sᵀs and columns of share·G + Σ sᵀy for one item at a time, as ``column_supports`` works on them.

Items are numbered by popularity. All events around one of the item's are visited, those before it too, so that nothing
but the row itself is held. ``events`` are those of a ``solvers.order_supports.OrderRows``. If pairs count, they are
sorted by item in each history, so that only the more popular items of a row are visited; else they are in order, and
only those near an event are. The terms of an event are in units (``order_terms``), and so is what the pair of a user
and an item counts for in G, the same for all items: ``together``. A row has it once for each user, whatever repeats.
Every sum in ``acc`` is 0 between two rows.
"""

import numpy as np

from offdiag._kernels.column_supports import best_supports
from offdiag._kernels.order_terms import (
    own_source_by_time,
    sources_by_place,
    sources_by_time,
    targets_by_place,
    targets_by_time,
    whole,
)
from offdiag._kernels.parallel import compiled


@compiled
def sort_by_item(indptr, first, last, items, places):
    """Sort the events of users first..last by item, then place, in place; ``places`` is where each was before."""
    for u in range(first, last):
        lo, hi = indptr[u], indptr[u + 1]
        keys = np.empty(hi - lo, np.uint64)
        for p in range(hi - lo):
            keys[p] = (np.uint64(items[lo + p]) << np.uint64(32)) | np.uint64(p)
        keys.sort()
        for p in range(hi - lo):
            items[lo + p] = keys[p] >> np.uint64(32)
            places[lo + p] = keys[p] & np.uint64(0xFFFFFFFF)


@compiled
def _fill(terms, n, also):
    for p in range(n):
        terms[p] = also


@compiled
def _add(items, places, terms, first, last, below, repeated, also, acc, touched, n):
    """Add the terms of events first..last of one user that have an item before ``below``; returns how many are touched.

    If items are repeated, what the pair counts for is taken away again from all but the first event.
    """
    begin, end = np.uint64(first), np.uint64(last)
    middle = end if repeated else begin
    for t in range(begin, middle):
        j = items[t]
        x = terms[places[t]] * (j < below)
        if t > begin and items[t - np.uint64(1)] == j and x > 0:
            x -= also
        touched[n] = j
        n += np.uint64((acc[j] == 0) & (x > 0))
        acc[j] += x
    for t in range(middle, end):
        j = items[t]
        x = terms[places[t]] * (j < below)  # without a branch, which would often be mispredicted
        touched[n] = j  # written even if it is not kept, for the same reason
        n += np.uint64((acc[j] == 0) & (x > 0))
        acc[j] += x
    return n


@compiled
def _add_row(events, ageing, i, acc, touched, terms):
    """Row i of share·G + Σ sᵀs before the diagonal; returns how many items are touched."""
    indptr, items, places, together, weight, repeated, by_item, col_ptr, users, positions = events
    powers, fading, sums, falling, _, factor, tail, window, _ = ageing
    n, below = np.uint64(0), np.uint32(i)
    for q in range(col_ptr[i], col_ptr[i + 1]):
        u, at = users[q], np.int64(positions[q])
        begin, end, mine = indptr[u], indptr[u + 1], weight[u]
        also = 0.0 if q > col_ptr[i] and users[q - 1] == u else together[u]
        if mine == 0 and also == 0:
            continue
        p, last = np.int64(places[at]), end - begin - 2
        if by_item:
            _fill(terms, end - begin, also)
        if len(factor):
            first, stop = sources_by_time(factor, tail, window, mine, begin, p, last, also, terms)
        else:
            first, stop = sources_by_place(powers, fading, sums, falling, window, mine, p, last, also, terms)
        first, stop = (begin, at) if by_item else (begin + first, begin + stop)
        n = _add(items, places, terms, first, stop, below, repeated[u] and also > 0, also, acc, touched, n)
    return n


@compiled
def _add_column(events, ageing, i, acc, touched, terms):
    """Column i of share·G + Σ sᵀy; returns how many items are touched."""
    indptr, items, places, together, weight, repeated, by_item, col_ptr, users, positions = events
    _, _, _, _, backwards, factor, _, window, later = ageing
    n, below = np.uint64(0), np.uint32(len(acc))
    for q in range(col_ptr[i], col_ptr[i + 1]):
        u, at = users[q], np.int64(positions[q])
        begin, end, mine = indptr[u], indptr[u + 1], weight[u]
        also = 0.0 if q > col_ptr[i] and users[q - 1] == u else together[u]
        if mine == 0 and also == 0:
            continue
        p = np.int64(places[at])
        if by_item:
            _fill(terms, end - begin, also)
        if len(factor):
            first, stop = targets_by_time(factor, window, later, mine, begin, p, also, terms)
        else:
            first, stop = targets_by_place(backwards, mine, p, also, terms)
        first, stop = (begin, end) if by_item else (begin + first, begin + stop)
        n = _add(items, places, terms, first, stop, below, repeated[u] and also > 0, also, acc, touched, n)
    return n


@compiled
def diagonal(events, ageing, lo, hi, out, terms):
    """out[i] = share·G_ii + A_ii in units, for items lo..hi."""
    indptr, _, places, together, weight, _, _, col_ptr, users, positions = events
    powers, fading, sums, falling, _, factor, tail, window, _ = ageing
    for i in range(lo, hi):
        total = 0.0
        for q in range(col_ptr[i], col_ptr[i + 1]):
            u, p = users[q], np.int64(places[positions[q]])
            begin, last, mine = indptr[u], indptr[u + 1] - indptr[u] - 2, weight[u]
            if q == col_ptr[i] or users[q - 1] != u:
                total += together[u]
            if p > last or mine == 0:
                continue
            if len(factor):
                total += own_source_by_time(factor, tail, window, mine, begin + p, begin + last)
            else:
                total += whole(mine * sums[min(last - p, window - 1)])
            if q + 1 == col_ptr[i + 1] or users[q + 1] != u:
                continue
            if len(factor):
                first, stop = sources_by_time(factor, tail, window, mine, begin, p, last, 0.0, terms)
            else:
                first, stop = sources_by_place(powers, fading, sums, falling, window, mine, p, last, 0.0, terms)
            r = q + 1
            while r < col_ptr[i + 1] and users[r] == u:  # the item again: both triangles of A have that pair
                other = np.int64(places[positions[r]])
                total += 2 * terms[other] if first <= other < stop else 0.0
                r += 1
        out[i] = total


@compiled
def row_sizes(events, ageing, lo, hi, below, acc, touched, terms):
    """The number of entries before the diagonal of rows lo..hi."""
    for i in range(lo, hi):
        below[i] = _add_row(events, ageing, i, acc, touched, terms)
        for t in range(below[i]):
            acc[touched[t]] = 0.0


@compiled
def count_rows(events, ageing, unit, of_columns, acc, touched, terms, items, lengths, out_columns, out):
    """Rows of A before the diagonal, or whole columns of K, one after another; returns their entries."""
    at = 0
    for r in range(len(items)):
        if of_columns:
            n = _add_column(events, ageing, items[r], acc, touched, terms)
        else:
            n = _add_row(events, ageing, items[r], acc, touched, terms)
        for t in range(n):
            out_columns[at + t] = touched[t]
            out[at + t] = unit * acc[touched[t]]
            acc[touched[t]] = 0.0
        lengths[r] = n
        at += n
    return at


@compiled
def shelf_rows(events, ageing, unit, acc, touched, terms, items, first, last, ptr, column_ptr, columns, values):
    """The same as ``column_supports.gram_rows``: the entries of items[r] with more popular items."""
    for r in range(first, last):
        n = _add_row(events, ageing, items[r], acc, touched, terms)
        row, listed = values[ptr[r] : ptr[r + 1]], columns[column_ptr[r] : column_ptr[r + 1]]
        if len(listed):
            for p in range(len(row)):
                listed[p] = touched[p]
                row[p] = unit * acc[touched[p]]
        else:
            for p in range(len(row)):
                row[p] = unit * acc[p]
        for t in range(n):
            acc[touched[t]] = 0.0


@compiled
def supports(events, ageing, unit, repeats, acc, touched, terms, penalty, fill, lo, hi, who, values, parent, below):
    """The same as ``column_supports.supports`` of columns lo..hi; with ``repeats`` an item may support itself."""
    m, k = len(penalty), who.shape[1]
    scores, best = np.empty(k), np.empty(k, np.int64)
    alone = np.empty(0, np.int64)
    for i in range(lo, hi):
        n = _add_column(events, ageing, i, acc, touched, terms)
        for t in range(n):
            acc[touched[t]] *= unit
        r = i - lo
        barred = m if repeats else i
        parent[r], below[r] = best_supports(
            i, barred, acc, touched[:n], penalty, alone, fill, scores, best, who[r], values[r]
        )
        for t in range(n):
            acc[touched[t]] = 0.0
