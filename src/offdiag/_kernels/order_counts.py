"""Counting what follows what: rows of Σ sᵀs and Σ sᵀy over the examples of ordered histories, item by item.

In an example the source s is what a user has chosen so far, weighted by age, and the target y is what comes next. The
weight of event j in the source that ends with event k is w(k, j) = first[j]·step[j+1]·…·step[k]; it never grows with k.

Every contribution is rounded to a multiple of ``grid``. Sums of such numbers are exact, so they depend neither on the
order of users nor on the threads, and contributions below half a step, those of distant events, need not be computed.
"""

import numpy as np

from offdiag._kernels.parallel import compiled

BLOCK = 64  # rows and columns of a tile that is transposed in the cache


@compiled
def tails(indptr, step, out):
    """out[k] = Σ_{l ≥ k} (step[k+1]·…·step[l])² over the sources of a user that end with event k or later."""
    for u in range(len(indptr) - 1):
        total = 0.0
        for k in range(indptr[u + 1] - 2, indptr[u] - 1, -1):
            following = step[k + 1] if k < indptr[u + 1] - 2 else 0.0
            total = 1.0 + following * following * total
            out[k] = total


@compiled
def source_rows(
    indptr, items, first, step, tail, window, weight, grid, col_ptr, users, positions, lo, hi, scale, U, acc, aged
):
    """Rows lo..hi of U = scale·Σ_{j<k} A_jk e_j e_kᵀ + half of the terms with j = k, so that Σ sᵀs = U + Uᵀ."""
    for i in range(lo, hi):
        acc[:] = 0.0
        for q in range(col_ptr[i - lo], col_ptr[i - lo + 1]):
            u, j = np.int64(users[q]), np.int64(positions[q])
            last = indptr[u + 1] - 2  # the event with which the longest source ends
            if j > last or weight[u] == 0:
                continue
            end = min(last, j + window - 1)
            if end < last:  # the source of event end + 1 has lost event j
                age = first[j]
                for k in range(j, end + 1):
                    age *= step[k] if k > j else 1.0
                    aged[k - j] = age
                total = 1.0
                for k in range(end, j - 1, -1):
                    x = np.rint(weight[u] * aged[k - j] * first[k] * total / grid) * grid
                    acc[items[k]] += x if k > j else 0.5 * x
                    total = 1.0 + step[k] * step[k] * total
                continue
            age = first[j]
            least = 0.5 * grid / (weight[u] * (last - j + 1))
            acc[i] += 0.5 * np.rint(weight[u] * age * first[j] * tail[j] / grid) * grid
            for k in range(j + 1, end + 1):
                age *= step[k]
                if age < least:
                    break
                acc[items[k]] += np.rint(weight[u] * age * first[k] * tail[k] / grid) * grid
        for k in range(len(acc)):
            U[i, k] = scale * acc[k]


@compiled
def target_rows(
    indptr, items, first, step, window, later, weight, grid, col_ptr, users, positions, lo, hi, scale, K, acc
):
    """Rows lo..hi of scale·Σ sᵀy, added to K; ``later``: the target is all that follows, weighted like the source."""
    reach = 2 * window - 1 if later else window
    for i in range(lo, hi):
        acc[:] = 0.0
        for q in range(col_ptr[i - lo], col_ptr[i - lo + 1]):
            u, j = np.int64(users[q]), np.int64(positions[q])
            last = indptr[u + 1] - 2
            if j > last or weight[u] == 0:
                continue
            age = first[j]
            least = 0.5 * grid / (weight[u] * (last - j + 1))
            for k in range(j, min(last, j + reach - 1) + 1):
                if k > j:
                    age *= step[k]
                if age < least:
                    break
                # w(l, j) times the weight of event k + 1 in the target of l is the same for each example l in between
                examples = min(k, j + window - 1) - max(j, k + 1 - window) + 1 if later else 1
                acc[items[k + 1]] += np.rint(weight[u] * age * examples / grid) * grid
        for k in range(len(acc)):
            K[i, k] += scale * acc[k]


@compiled
def fold(P, h, e, own, U, lo, hi):
    """For columns lo..hi: the packed matrix P becomes own·P + U + Uᵀ, and U becomes own·P, in both triangles."""
    m = len(U)
    for left in range(lo, hi, BLOCK):
        for top in range(left, m, BLOCK):
            for b in range(left, min(left + BLOCK, hi)):
                for a in range(max(top, b), min(top + BLOCK, m)):
                    r, c = (b, a + e) if b < h else (a - h + 1 - e, b - h)
                    before = own * P[r, c]
                    P[r, c] = before + (U[a, b] + U[b, a])
                    U[a, b] = before
                    U[b, a] = before
