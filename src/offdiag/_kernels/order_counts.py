"""Counting what follows what: rows of Σ sᵀs and Σ sᵀy over the examples of ordered histories, item by item.

In an example the source s is what a user has chosen so far, weighted by age, and the target y is what comes next. The
weight w(k, j) of event j in the source that ends with event k depends on the places, powers[k − j], or on the times,
first[j]·step[j+1]·…·step[k]; it never grows with k.

Every contribution is rounded to a whole number of units. Sums of whole numbers are exact, so they depend neither on the
order of users nor on the threads, and contributions below half a unit, those of distant events, need not be computed.
``weight`` is the weight of a user in units. Events of item i are at positions[col_ptr[i - lo] : col_ptr[i - lo + 1]].
"""

import numpy as np

from offdiag._kernels.parallel import compiled, inlined

BLOCK = 64  # rows and columns of a tile that is transposed in the cache
MAGIC = 6755399441055744.0  # 1.5·2^52: a double this large has no fraction, so adding it rounds


@inlined
def whole(x):
    """The nearest whole number, for |x| < 2^51; much faster than rint."""
    return (x + MAGIC) - MAGIC


@compiled
def source_rows_by_place(indptr, items, powers, sums, window, weight, col_ptr, users, positions, lo, hi, scale, U, acc):
    """Rows lo..hi of U = scale·Σ_{j<k} A_jk e_j e_kᵀ + half of the terms with j = k, so that Σ sᵀs = U + Uᵀ.

    ``sums[n]`` = Σ_{d ≤ n} powers[d]²; powers beyond the end of their table are too small to count.
    """
    for i in range(lo, hi):
        acc[:] = 0.0
        for q in range(col_ptr[i - lo], col_ptr[i - lo + 1]):
            u, j = np.int64(users[q]), np.int64(positions[q])
            far = min(indptr[u + 1] - 2 - j, window - 1)  # the last event that is in a source with event j
            mine = weight[u]
            if far < 0 or mine == 0:
                continue
            acc[i] += 0.5 * whole(mine * sums[far])
            following = items[j : j + far + 1]
            for d in range(1, min(far + 1, len(powers))):
                acc[following[d]] += whole(mine * powers[d] * sums[far - d])
        for k in range(len(acc)):
            U[i, k] = scale * acc[k]


@compiled
def target_rows_by_place(indptr, items, values, weight, col_ptr, users, positions, lo, hi, scale, K, acc):
    """Rows lo..hi of scale·Σ sᵀy, added to K; the event d + 1 places after event j gets values[d]."""
    for i in range(lo, hi):
        acc[:] = 0.0
        for q in range(col_ptr[i - lo], col_ptr[i - lo + 1]):
            u, j = np.int64(users[q]), np.int64(positions[q])
            mine = weight[u]
            following = items[j + 1 : indptr[u + 1]]
            for d in range(min(len(following), len(values))):
                acc[following[d]] += whole(mine * values[d])
        for k in range(len(acc)):
            K[i, k] += scale * acc[k]


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
def source_rows_by_time(
    indptr, items, first, step, tail, window, weight, col_ptr, users, positions, lo, hi, scale, U, acc, aged
):
    """The same as ``source_rows_by_place`` for weights that depend on the times."""
    for i in range(lo, hi):
        acc[:] = 0.0
        for q in range(col_ptr[i - lo], col_ptr[i - lo + 1]):
            u, j = np.int64(users[q]), np.int64(positions[q])
            last = indptr[u + 1] - 2  # the event with which the longest source ends
            if j > last or weight[u] == 0:
                continue
            end = min(last, j + window - 1)
            if end < last:
                add_within_window(items, first, step, weight[u], j, end, acc, aged)
                continue
            age = weight[u] * first[j]
            least = 0.5 / (last - j + 1)  # a tail is at most as large as the number of events that are left
            acc[i] += 0.5 * whole(age * first[j] * tail[j])
            for k in range(j + 1, end + 1):
                age *= step[k]
                if age < least:
                    break
                acc[items[k]] += whole(age * first[k] * tail[k])
        for k in range(len(acc)):
            U[i, k] = scale * acc[k]


@compiled
def add_within_window(items, first, step, weight, j, end, acc, aged):
    """The terms of event j where the source of event end + 1 has lost it: tails end there too."""
    age = weight * first[j]
    for k in range(j, end + 1):
        age *= step[k] if k > j else 1.0
        aged[k - j] = age
    total = 1.0
    for k in range(end, j - 1, -1):
        x = whole(aged[k - j] * first[k] * total)
        acc[items[k]] += x if k > j else 0.5 * x
        total = 1.0 + step[k] * step[k] * total


@compiled
def target_rows_by_time(
    indptr, items, first, step, window, later, weight, col_ptr, users, positions, lo, hi, scale, K, acc
):
    """The same as ``target_rows_by_place`` for weights that depend on the times."""
    reach = 2 * window - 1 if later else window
    for i in range(lo, hi):
        acc[:] = 0.0
        for q in range(col_ptr[i - lo], col_ptr[i - lo + 1]):
            u, j = np.int64(users[q]), np.int64(positions[q])
            last = indptr[u + 1] - 2
            age = weight[u] * first[j]
            least = 0.5 / max(last - j + 1, 1)
            for k in range(j, min(last, j + reach - 1) + 1):
                if age < least:
                    break
                examples = examples_between(k - j, window) if later else 1
                acc[items[k + 1]] += whole(age * examples)
                age *= step[k + 1]
        for k in range(len(acc)):
            K[i, k] += scale * acc[k]


@compiled
def examples_between(d, window):
    """How many examples have event j in the source and event j + d + 1 among the later targets, within the window.

    In each of them the two weights have the same product: w(j + d, j).
    """
    return min(d, window - 1) - max(0, d + 1 - window) + 1


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
