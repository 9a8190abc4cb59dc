"""The nearest neighbours of items, from data or from rows of the Gram."""

import numpy as np

from offdiag._kernels.elastic_net import keep_best
from offdiag._kernels.parallel import compiled


@compiled
def _neighbours_of(i, acc, touched, n, left, right, shrink, who, best):
    """The most similar of the n touched items, by acc[j] / (left[j]·right[i] + shrink); items with 0 are left out."""
    size = 0
    for t in range(n):
        j = touched[t]
        if j != i and acc[j] > 0.0:
            size = keep_best(best.dtype.type(acc[j] / (left[j] * right[i] + shrink)), j, best, who, size)
    for t in range(size, len(best)):
        who[t] = -1


@compiled
def neighbours_from_data(indptr, indices, data, weight, ptr, users, values, left, right, shrink, lo, hi, who, best):
    """For items lo..hi, the most similar other items; unused slots of ``who`` are -1.

    The users of item i are users[ptr[i]:ptr[i + 1]], with ``values``. One column of G at a time, and in it only the
    items that share a user with i.
    """
    m = len(left)
    acc, stamp, touched = np.zeros(m), np.full(m, -1, np.int64), np.empty(m, np.int64)
    for i in range(lo, hi):
        n = 0
        for q in range(ptr[i], ptr[i + 1]):
            u = users[q]
            x = weight[u] * values[q]
            for p in range(indptr[u], indptr[u + 1]):
                j = indices[p]
                if stamp[j] != i:
                    stamp[j] = i
                    acc[j] = 0.0
                    touched[n] = j
                    n += 1
                acc[j] += x * data[p]
        _neighbours_of(i, acc, touched, n, left, right, shrink, who[i], best[i])


@compiled
def neighbours_from_rows(rows, left, right, shrink, lo, hi, who, best):
    """The same from rows lo..hi of G."""
    everything = np.arange(len(left))
    for i in range(lo, hi):
        _neighbours_of(i, rows[i - lo], everything, len(left), left, right, shrink, who[i], best[i])
