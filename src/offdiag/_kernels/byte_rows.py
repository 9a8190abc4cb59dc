"""Sums of weights rounded to one byte, the few items that these leave as candidates, and their exact scores.

W = unit·(codes + extras) + R. Codes are whole numbers of at most 127 in absolute value; extras, in sparse rows cut into
tiles of columns, are what exceeds that. Sums of codes are whole numbers, so they do not round.
"""

import numpy as np

from offdiag._kernels.parallel import compiled
from offdiag._kernels.topk import sift_down, worse

LARGEST = 127  # absolute value of a code
ITEMS_AT_ONCE = 256  # of a history, whose codes are added in 16 bits: 256·127 < 2¹⁵
CHUNK = 32  # sums that are compared with the threshold at once
EIGHT = 8  # items of a group
LEAST = -(1 << 31)  # stands for an item that must not be listed


@compiled
def measure(W, inverse, largest):
    """The largest absolute value of each row of W, inf if one is not finite; returns how many exceed a code."""
    bound, n = W.dtype.type(LARGEST + 0.5), 0
    for r in range(len(W)):
        row, top, finite, beyond = W[r], W.dtype.type(0), True, 0
        for c in range(len(row)):
            a = abs(row[c])
            finite &= a < np.inf
            top = max(top, a)
            beyond += a * inverse >= bound
        largest[r] = top if finite else np.inf
        n += beyond
    return n


@compiled
def encode(W, unit, inverse, width, codes, errors, ptr, columns, extras):
    """The codes of the rows of W, their largest error, and extras, which ptr cuts into tiles."""
    m, n, room = W.shape[1], 0, len(columns)
    for r in range(len(W)):
        row, code, error = W[r], codes[r], 0.0
        for t in range(ptr.shape[1]):
            ptr[r, t] = n
            for lo in range(t * width, min((t + 1) * width, m), CHUNK):
                beyond = False
                for c in range(lo, min(lo + CHUNK, (t + 1) * width, m)):
                    whole = np.rint(row[c] * inverse)
                    error = max(error, abs(np.float64(row[c]) - unit * np.float64(whole)))
                    beyond |= abs(whole) > LARGEST
                    code[c] = np.int8(min(max(whole, -LARGEST), LARGEST))
                if beyond:
                    for c in range(lo, min(lo + CHUNK, (t + 1) * width, m)):
                        whole = np.rint(row[c] * inverse)
                        if abs(whole) > LARGEST and n < room:
                            columns[n] = c
                            extras[n] = np.int16(whole - min(max(whole, -LARGEST), LARGEST))
                            n += 1
        errors[r] = error


@compiled
def add_codes(codes, history, begin, end, lo, short, sums):
    """sums = Σ codes[history[p], lo:…] over p in begin..end; ``short`` is room for sums of 16 bits."""
    width = len(sums)
    hi = lo + width
    sums[:] = 0
    p = begin
    while p < end:
        stop = min(p + ITEMS_AT_ONCE, end)
        short[:width] = 0
        while p + 4 <= stop:
            a, b = codes[history[p], lo:hi], codes[history[p + 1], lo:hi]
            c, d = codes[history[p + 2], lo:hi], codes[history[p + 3], lo:hi]
            for i in range(width):
                short[i] += np.int16(a[i]) + np.int16(b[i]) + np.int16(c[i]) + np.int16(d[i])
            p += 4
        while p < stop:
            a = codes[history[p], lo:hi]
            for i in range(width):
                short[i] += np.int16(a[i])
            p += 1
        for i in range(width):
            sums[i] += short[i]


@compiled
def kth_largest(values, k):
    """The k-th largest of at least k values, whose order is lost (quickselect)."""
    lo, hi, at = 0, len(values) - 1, len(values) - k
    while lo < hi:
        pivot, i, j = values[(lo + hi) // 2], lo, hi
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if at <= j:
            hi = j
        elif at >= i:
            lo = i
        else:
            break
    return values[at]


@compiled
def keep_best(items, sums, n, k, slack):
    """Drop what is surely not among the k best of n candidates; returns their number and the sum to exceed."""
    if n < k:
        return n, np.int32(LEAST + 1)
    least = np.int32(max(np.int64(kth_largest(sums[:n].copy(), k)) - slack, LEAST + 1))
    kept = 0
    for c in range(n):
        if sums[c] >= least:
            items[kept], sums[kept] = items[c], sums[c]
            kept += 1
    return kept, least


@compiled
def first_threshold(sums, tops, k, slack):
    """A sum below which no item is among the k best: k groups of items have one that is ``slack`` better."""
    n = len(sums) // EIGHT
    for g in range(n):
        top = np.int32(LEAST)
        for c in range(g * EIGHT, g * EIGHT + EIGHT):
            top = max(top, sums[c])
        tops[g] = top
    return np.int32(max(np.int64(kth_largest(tops[:n], k)) - slack, LEAST + 1))


@compiled
def candidates(
    indptr, history, seen_ptr, allowed, codes, ptr, columns, extras, slack, k, width, first, last, items, sums, counts
):
    """items[u, :counts[u]]: the items that may be among the k best of user first + u, ascending.

    A sum is within half of ``slack`` of the exact score in units. counts[u] is −1 if there are too many candidates.
    """
    m, room = len(allowed), items.shape[1]
    some = not allowed.all()
    thresholds, tops = np.full(last - first, LEAST + 1, np.int32), np.empty(width // EIGHT, np.int32)
    counts[: last - first] = 0
    short, acc = np.empty(width, np.int16), np.empty(width, np.int32)
    for t in range(ptr.shape[1]):
        lo = t * width
        part = acc[: min(width, m - lo)]
        for u in range(last - first):
            n, begin, end = counts[u], indptr[first + u], indptr[first + u + 1]
            if n < 0:
                continue
            add_codes(codes, history, begin, end, lo, short, part)
            for p in range(begin, end):
                j = history[p]
                stop = ptr[j, t + 1] if t + 1 < ptr.shape[1] else ptr[j + 1, 0] if j + 1 < m else len(columns)
                for q in range(ptr[j, t], stop):
                    part[columns[q] - lo] += extras[q]
            for s in range(seen_ptr[first + u], seen_ptr[first + u + 1]):
                if lo <= history[s] < lo + len(part):
                    part[history[s] - lo] = LEAST
            if some:
                for c in range(len(part)):
                    part[c] = part[c] if allowed[lo + c] else LEAST
            least = thresholds[u]
            if t == 0 and EIGHT * k <= len(part):
                least = first_threshold(part, tops, k, slack[first + u])
            for start in range(0, len(part), CHUNK):
                chunk = part[start : min(start + CHUNK, len(part))]
                top = np.int32(LEAST)
                for c in range(len(chunk)):  # no branch inside, so this runs eight at a time; most chunks end here
                    top = max(top, chunk[c])
                if top < least:
                    continue
                if n + CHUNK > room:
                    n, least = keep_best(items[u], sums[u], n, k, slack[first + u])
                    if n + CHUNK > room:
                        n = -1
                        break
                for c in range(len(chunk)):
                    if chunk[c] >= least:
                        items[u, n], sums[u, n] = lo + start + c, chunk[c]
                        n += 1
            counts[u], thresholds[u] = n, least
    for u in range(last - first):
        if counts[u] > 0:
            counts[u], _ = keep_best(items[u], sums[u], counts[u], k, slack[first + u])


def _exactly(function):
    """Compile without fused products, so that a sum rounds as where its terms were stored first."""
    return compiled(function, ())


@compiled
def push(found, scores, heap_scores, heap_items):
    """Put items with their exact scores into a heap."""
    for c in range(len(found)):
        i = np.int64(found[c])
        if worse(heap_scores[0], heap_items[0], scores[c], i):
            sift_down(heap_scores, heap_items, 0, len(heap_scores), scores[c], i)


@_exactly
def rank_dense(B, indptr, history, first, last, items, counts, heap_scores, heap_items):
    """Put the candidates of users first..last into their heaps, by the sums of their weights in order."""
    scores = np.empty(items.shape[1], B.dtype)
    for u in range(first, last):
        if counts[u - first] > 0:
            found, acc = items[u - first, : counts[u - first]], scores[: counts[u - first]]
            acc[:] = 0
            for p in range(indptr[u], indptr[u + 1]):
                row = B[history[p]]
                for c in range(len(found)):
                    acc[c] += row[np.uint32(found[c])]
            push(found, acc, heap_scores[u], heap_items[u])


@_exactly
def rank_packed(P, h, e, scale, own, indptr, history, first, last, items, counts, heap_scores, heap_items):
    """The same for W[j, i] = C[j, i]·scale[i] and W[i, i] = own[i], with C packed."""
    scores, scales = np.empty(items.shape[1], P.dtype), np.empty(items.shape[1], P.dtype)
    for u in range(first, last):
        if counts[u - first] > 0:
            found, acc = items[u - first, : counts[u - first]], scores[: counts[u - first]]
            acc[:] = 0
            for c in range(len(found)):
                scales[c] = scale[found[c]]
            for p in range(indptr[u], indptr[u + 1]):
                j = np.int64(history[p])
                for c in range(len(found)):
                    i = np.int64(found[c])
                    if i == j:
                        acc[c] += own[i]
                    else:
                        low, high = min(i, j), max(i, j)
                        r, q = (low, high + e) if low < h else (high - h + 1 - e, low - h)
                        acc[c] += P[np.uint64(r), np.uint64(q)] * scales[c]
            push(found, acc, heap_scores[u], heap_items[u])
