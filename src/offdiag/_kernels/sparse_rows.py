"""Weights stored as sparse rows: validity, tiles of scores, and the k best without a tile.

``coded_rows`` has the same four functions for compressed rows; ``rank_touched`` completes the lists of both.
"""

import numpy as np

from offdiag._kernels.parallel import compiled
from offdiag._kernels.topk import sift_down, worse


@compiled
def valid_rows(indptr, indices, m, first, last):
    """Whether the rows first..last lie inside ``indices`` and hold strictly ascending columns below m."""
    for r in range(first, last):
        lo, hi = indptr[r], indptr[r + 1]
        if lo < 0 or hi < lo or hi > len(indices):
            return False
        before = np.int64(-1)
        for p in range(lo, hi):
            if indices[p] <= before or indices[p] >= m:
                return False
            before = np.int64(indices[p])
    return True


@compiled
def skip_to(indices, begin, last, hi, end):
    """end[r]: the first position in begin[r]..last[r] whose column is at least hi."""
    for r in range(len(begin)):
        end[r] = begin[r] + np.searchsorted(indices[begin[r] : last[r]], hi)


@compiled
def score_tile(indptr, rows, data, begin, end, columns, values, lo, first, out):
    """out[u] = Σ_p data[p] · W[rows[p], lo:] over the history of user first + u; row r of W is at begin[r]..end[r]."""
    for u in range(len(out)):
        acc = out[u]
        acc[:] = 0
        for p in range(indptr[first + u], indptr[first + u + 1]):
            x = data[p]
            for q in range(begin[rows[p]], end[rows[p]]):
                acc[columns[q] - lo] += x * values[q]


@compiled
def rank_touched(acc, scale, stamp, touched, n, u, seen, allowed, scores, items):
    """Put the n touched items into the heap of user u, except those in ``seen``; their stamp is u, their score in acc.

    All others score 0; they fill the remaining room, earlier items first, ahead of any negative score.
    ``scale`` multiplies the score of each item, unless it is empty.
    """
    m, k = len(allowed), len(scores)
    scaled = len(scale) > 0
    zero = acc.dtype.type(0)
    for p in range(len(seen)):
        j = seen[p]
        if stamp[j] != u:
            stamp[j] = u
            touched[n] = j
            n += 1
        acc[j] = -np.inf  # worse than an empty slot, which has a later item
    for t in range(n):
        i = np.int64(touched[t])
        if allowed[i] and acc[i] > -np.inf:
            score = acc[i] * scale[i] if scaled else acc[i]
            if worse(scores[0], items[0], score, i):
                sift_down(scores, items, 0, k, score, i)
    i = np.int64(0)
    while i < m and worse(scores[0], items[0], zero, i):
        if stamp[i] != u and allowed[i]:
            sift_down(scores, items, 0, k, zero, i)
        i += 1


@compiled
def select(indptr, history, data, seen_ptr, W_ptr, columns, values, allowed, first, last, scores, items):
    """Put the k best items of users first..last into their heaps, visiting only items reachable from the history."""
    m = len(allowed)
    acc, stamp, touched = np.empty(m, values.dtype), np.full(m, -1, np.int32), np.empty(m, np.int32)
    unscaled = np.empty(0, values.dtype)
    for u in range(first, last):
        n = 0
        for p in range(indptr[u], indptr[u + 1]):
            x = data[p]
            for q in range(W_ptr[history[p]], W_ptr[history[p] + 1]):
                j = columns[q]
                if stamp[j] != u:
                    stamp[j] = u
                    acc[j] = x * values[q]
                    touched[n] = j
                    n += 1
                else:
                    acc[j] += x * values[q]
        seen = history[seen_ptr[u] : seen_ptr[u + 1]]
        rank_touched(acc, unscaled, stamp, touched, n, u, seen, allowed, scores[u], items[u])
