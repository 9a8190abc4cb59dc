"""Weights stored as sparse rows: validity, tiles of scores, and the k best without a tile."""

import numpy as np

from offdiag._kernels.parallel import compiled
from offdiag._kernels.topk import sift_down, worse


@compiled
def valid_rows(indptr, indices, m, first, last):  # type: ignore[no-untyped-def]
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
def row_ends(indices, begin, end, hi, out):  # type: ignore[no-untyped-def]
    """out[r]: the first place in begin[r]..end[r] whose column is not below hi."""
    for r in range(len(begin)):
        left, right = begin[r], end[r]
        while left < right:
            mid = (left + right) // 2
            if indices[mid] < hi:
                left = mid + 1
            else:
                right = mid
        out[r] = left


@compiled
def score_sparse_tile(indptr, rows, data, begin, end, columns, values, lo, first, out):  # type: ignore[no-untyped-def]
    """out[u] = Σ_p data[p] · W[rows[p], lo:] over the history of user first + u; row r of W is at begin[r]..end[r]."""
    for u in range(len(out)):
        acc = out[u]
        acc[:] = 0
        for p in range(indptr[first + u], indptr[first + u + 1]):
            x = data[p]
            for q in range(begin[rows[p]], end[rows[p]]):
                acc[columns[q] - lo] += x * values[q]


@compiled
def select_sparse(indptr, history, data, seen_ptr, W_ptr, columns, values, allowed, first, last, scores, items):  # type: ignore[no-untyped-def]
    """The k best items of users first..last into their heaps, looking only at items that the history leads to.

    All others score 0; as many of them as there is room for follow, the earlier first, before any negative score.
    """
    m, k = len(allowed), scores.shape[1]
    acc, stamp, touched = np.empty(m, values.dtype), np.full(m, -1, np.int32), np.empty(m, np.int32)
    zero = values.dtype.type(0)
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
        for p in range(seen_ptr[u], seen_ptr[u + 1]):
            if stamp[history[p]] != u:
                stamp[history[p]] = u
                touched[n] = history[p]
                n += 1
            acc[history[p]] = -np.inf  # worse than an empty place, which has a later item
        for t in range(n):
            j = touched[t]
            if allowed[j] and acc[j] > -np.inf and worse(scores[u, 0], items[u, 0], acc[j], j):
                sift_down(scores[u], items[u], 0, k, acc[j], j)
        j = 0
        while j < m and worse(scores[u, 0], items[u, 0], zero, j):
            if stamp[j] != u and allowed[j]:
                sift_down(scores[u], items[u], 0, k, zero, j)
            j += 1
