"""The rows most like others, and ridge regression on them: a small system for each row."""

import numpy as np

from offdiag._kernels.parallel import compiled, in_any_order


@compiled
def similar(indptr, indices, data, by_feature, items, values, first, last, out):
    """out[r] = inner products of row first + r with all rows, of which ``by_feature`` is the transpose."""
    for r in range(last - first):
        row = out[r]
        row[:] = 0
        for p in range(indptr[first + r], indptr[first + r + 1]):
            value = data[p]
            for q in range(by_feature[indices[p]], by_feature[indices[p] + 1]):
                row[items[q]] += value * values[q]


@compiled
def largest(similar, sets, products):
    """The places of the largest positive entries of each row, ascending, and these; −1 and 0 where there are fewer.

    Of equal ones the first are taken.
    """
    n, size = similar.shape[1], sets.shape[1]
    heap = np.empty(size, dtype=np.float64)  # the smallest of those kept is at its root
    for r in range(len(similar)):
        row, kept = similar[r], 0
        for i in range(n):
            value = row[i]
            if value <= 0 or (kept == size and value <= heap[0]):
                continue
            if kept < size:
                hole = kept
                kept += 1
                while hole > 0 and heap[(hole - 1) // 2] > value:
                    heap[hole] = heap[(hole - 1) // 2]
                    hole = (hole - 1) // 2
            else:
                hole = 0
                while 2 * hole + 1 < size:
                    child = 2 * hole + 1
                    if child + 1 < size and heap[child + 1] < heap[child]:
                        child += 1
                    if heap[child] >= value:
                        break
                    heap[hole] = heap[child]
                    hole = child
            heap[hole] = value
        least = heap[0] if kept == size else 0.0
        above = 0
        for i in range(n):
            above += row[i] > least and row[i] > 0
        equal, place = kept - above, 0  # of the entries that are the smallest kept, the first
        for i in range(n):
            value = row[i]
            if value > 0 and (value > least or (kept == size and value == least and equal > 0)):
                equal -= value == least
                sets[r, place], products[r, place] = i, value
                place += 1
        sets[r, place:] = -1
        products[r, place:] = 0


@in_any_order
def _dot(a, b):
    total = 0.0
    for c in range(len(a)):
        total += a[c] * b[c]
    return total


@compiled
def solve(grams, products, power, ridge, first, last, out):
    """out[s] = (grams[s]^power + ridge)⁻¹ products[s]^power, powers entry by entry, by Cholesky factors."""
    n = products.shape[1]
    L, x = np.empty((n, n)), np.empty(n)
    for s in range(first, last):
        for i in range(n):
            for j in range(i + 1):
                value = grams[s, i, j] ** power
                total = value - _dot(L[i, :j], L[j, :j])
                L[i, j] = np.sqrt(total + ridge) if i == j else total / L[j, j]
            x[i] = (products[s, i] ** power - _dot(L[i, :i], x[:i])) / L[i, i]
        for i in range(n - 1, -1, -1):
            x[i] /= L[i, i]
            for j in range(i):
                x[j] -= L[i, j] * x[i]
        out[s] = x
