"""Compiled loops of ``solvers.shared_columns``: one column solved for many settings, from one look at its row of G.

Items are numbered by popularity. Row i of the symmetric G is values[ptr[i] : ptr[i + 1]] in the columns
indices[ptr[i] : ptr[i + 1]], ascending. Settings differ by diag(H) and by the number of neighbours, so the sub-Gram of
all neighbours that any of them wants is gathered once. Each is then solved with the loops, and so to the very bit, of
``column_solves.solve_columns``.
"""

import numpy as np

from offdiag._kernels.column_solves import cholesky, conjugate_gradients, sub_gram
from offdiag._kernels.parallel import compiled


@compiled
def count_supports(ptr, most, fill, lengths):
    """lengths[s, i]: neighbours of item i in setting s, at most most[s]; with fill[s], all items before it."""
    for s in range(len(most)):
        for i in range(len(ptr) - 1):
            met = ptr[i + 1] - ptr[i] - 1  # the item itself is in its row
            lengths[s, i] = max(min(met, most[s]), min(fill[s] - 1, most[s]) if met >= 0 else 0, 0)


@compiled
def supports(ptr, indices, values, penalty, fill, lo, hi, support_ptr, rows, share):
    """For items lo..hi and each setting s the items j of largest G_ji²·penalty[s, j], descending, and their G_ji.

    They go to support_ptr[s, i]..support_ptr[s, i + 1], of the length from ``count_supports``. Ties go to the more
    popular item. Same result as ``column_supports.best_supports``, without a heap: rows are in order already.
    """
    longest = 0
    for i in range(lo, hi):
        longest = max(longest, ptr[i + 1] - ptr[i])
    merit, pool = np.empty(longest), np.empty(longest)
    for i in range(lo, hi):
        begin, end = ptr[i], ptr[i + 1]
        for s in range(len(penalty)):
            first, q = support_ptr[s, i], support_ptr[s, i + 1]
            k, found = q - first, end - begin - 1
            if k == 0:
                continue
            if k > found:  # all items, whether they share a user or not
                p = end - 1
                for j in range(fill[s] - 1, -1, -1):
                    if j != i:
                        while p > begin and indices[p] > j:
                            p -= 1
                        rows[first] = j
                        share[first] = values[p] if indices[p] == j else 0
                        first += 1
                continue
            if k < found:
                n = 0
                for p in range(begin, end):
                    value = np.float64(values[p])
                    merit[p - begin] = value * (value * penalty[s, indices[p]])
                    if indices[p] != i:
                        pool[n] = merit[p - begin]
                        n += 1
                least = largest(pool, n, k)
                spare = k  # how many of exactly this merit belong to the support
                for t in range(n):
                    spare -= pool[t] > least
            else:
                least, spare = -1.0, 0
                merit[: end - begin] = 0
            for p in range(begin, end):  # most popular first, so ties go to them
                if q == first or indices[p] == i or merit[p - begin] < least:
                    continue
                if merit[p - begin] == least:
                    if spare == 0:
                        continue
                    spare -= 1
                q -= 1
                rows[q] = indices[p]
                share[q] = values[p]


@compiled
def largest(pool, n, k):
    """The k-th largest of the first n numbers, which are moved; 1 ≤ k ≤ n."""
    lo, hi, at = 0, n - 1, k - 1
    while lo < hi:
        middle = (lo + hi) // 2
        a, b, c = pool[lo], pool[middle], pool[hi]
        pivot = max(min(a, b), min(max(a, b), c))
        left, right = lo, hi
        while left <= right:
            while pool[left] > pivot:
                left += 1
            while pool[right] < pivot:
                right -= 1
            if left <= right:
                pool[left], pool[right] = pool[right], pool[left]
                left += 1
                right -= 1
        if at <= right:
            hi = right
        elif at >= left:
            lo = left
        else:
            break
    return pool[at]


@compiled
def _union(i, support_ptr, rows, stamp, out):
    """The items in any of the supports of column i, descending; returns how many."""
    n = 0
    for s in range(len(support_ptr)):
        for p in range(support_ptr[s, i], support_ptr[s, i + 1]):
            if stamp[rows[p]] != i:
                stamp[rows[p]] = i
                out[n] = rows[p]
                n += 1
        if s == 0:
            first = n
    if n > first:
        some = out[:n]
        some.sort()
        for a in range(n // 2):
            out[a], out[n - 1 - a] = out[n - 1 - a], out[a]
    return n


@compiled
def _take(whole, n_whole, at, n, A):
    """The lower triangle of some rows and columns of ``whole``, at ascending; both as ``sub_gram`` lays them out."""
    for a in range(n):
        column = whole[at[a] * (n_whole + 1) : (at[a] + 1) * (n_whole + 1)]
        out = A[a * (n + 1) : (a + 1) * (n + 1)]
        for c in range(a + 1, n):
            out[c] = column[at[c]]


@compiled
def solve(
    items, first, last, support_ptr, rows, values, explained, place, gram_ptr, column_ptr, columns, gram, H, most
):
    """values = G[S, i] of items[first..last] replaced by β, for each setting s with diag(H) = H[s].

    explained[s, i] = G_iS·β, -1 if the sub-Gram is singular. The rest is as in ``column_solves.solve_columns``.
    """
    m = len(place)
    longest, together = 0, 0
    for t in range(first, last):
        total = 0
        for s in range(len(H)):
            n = support_ptr[s, items[t] + 1] - support_ptr[s, items[t]]
            longest, total = max(longest, n), total + n
        together = max(together, min(total, m))
    whole, A = np.empty((together + 1) * together, values.dtype), np.empty((longest + 1) * longest, values.dtype)
    b, x, q = np.empty(longest, values.dtype), np.empty(longest, values.dtype), np.empty(longest, values.dtype)
    residual, p = np.empty(longest, values.dtype), np.empty(longest, values.dtype)
    stamp, union, at = np.full(m, -1, np.int32), np.empty(together, np.int32), np.empty(longest, np.int32)
    where, length, no_groups = np.zeros(m, np.uint32), 0, np.empty(0, np.int64)
    args = (np.array([ord("L"), ord("N"), ord("T")], np.uint8), np.ones(4, np.int32), np.array([1, 0], values.dtype))
    tolerance = 8 * np.finfo(values.dtype).eps
    for t in range(first, last):
        i = items[t]
        n_all = _union(i, support_ptr, rows, stamp, union)
        explained[:, i] = 0.0
        if n_all == 0:
            continue
        if n_all != length:
            where[:] = n_all
            length = n_all
        U = union[:n_all]
        for a in range(n_all):
            where[U[a]] = a
        sub_gram(U, place, gram_ptr, column_ptr, columns, gram, H[0], no_groups, H[0, 0], where, whole)
        for s in range(len(H)):
            lo, hi = support_ptr[s, i], support_ptr[s, i + 1]
            S, beta = rows[lo:hi], values[lo:hi]
            n = len(S)
            if n == 0:
                continue
            for a in range(n):
                at[a] = where[S[a]]
                b[a] = beta[a]
            M = whole
            if n < n_all:
                M = A
                _take(whole, n_all, at, n, A)
            for a in range(n):
                M[a * (n + 2)] = H[s, S[a]]
            solved = conjugate_gradients(M, n, b, np.int64(most * n), tolerance, x, residual, p, q, args)
            if not solved:
                if n == n_all:  # the factor overwrites its matrix, which other settings still need
                    A[: n * (n + 1)] = whole[: n * (n + 1)]
                solved = cholesky(A, n, b, x, args)
            for a in range(n):
                beta[a] = x[a]
                explained[s, i] += np.float64(b[a]) * np.float64(x[a])
            if not solved:
                explained[s, i] = -1.0
        for a in range(n_all):
            where[U[a]] = n_all


@compiled
def parents(ptr, indices, values, g, out):
    """out[i] = the more popular item j of largest G_ji²/G_jj, or -1."""
    for i in range(len(out)):
        best, out[i] = -1.0, -1
        for p in range(ptr[i], ptr[i + 1]):
            j = indices[p]
            if j >= i:
                break
            value = np.float64(values[p])
            if value * value > best * g[j]:
                best, out[i] = value * value / g[j], j
