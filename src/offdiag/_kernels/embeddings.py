"""Rows of embeddings pushed and gathered along the entries of X, and arithmetic on them."""

import numpy as np

from offdiag._kernels.parallel import compiled, inlined


@compiled
def push_rows(items, ptr, columns, data, weight, V, out):
    """out[u] = weight[u]·Σ data[p]·V[items[r]] over the p in ptr[r]..ptr[r+1] with columns[p] = u: X V, item by item.

    Each row of V is read once, in order; only the smaller ``out`` is accessed at random, and it stays in the cache.
    """
    width = V.shape[1]
    out[:] = 0
    for r in range(len(items)):
        v = V[items[r]]
        p = ptr[r]
        stop = ptr[r + 1]
        while p + 2 <= stop:
            a, b, x, y = out[columns[p]], out[columns[p + 1]], data[p], data[p + 1]
            for c in range(width):
                a[c] += x * v[c]
                b[c] += y * v[c]
            p += 2
        if p < stop:
            a, x = out[columns[p]], data[p]
            for c in range(width):
                a[c] += x * v[c]
    for u in range(len(weight)):
        if weight[u] != 1:
            a, x = out[u], weight[u]
            for c in range(width):
                a[c] *= x


@inlined
def add_eight(acc, data, p, t0, t1, t2, t3, t4, t5, t6, t7):
    """acc += data[p]·t0 + data[p + 1]·t1 + …: one pass over ``acc``; the sum is nested, so it keeps their order."""
    v0, v1, v2, v3 = data[p], data[p + 1], data[p + 2], data[p + 3]
    v4, v5, v6, v7 = data[p + 4], data[p + 5], data[p + 6], data[p + 7]
    for c in range(len(acc)):
        half = (((acc[c] + v0 * t0[c]) + v1 * t1[c]) + v2 * t2[c]) + v3 * t3[c]
        acc[c] = (((half + v4 * t4[c]) + v5 * t5[c]) + v6 * t6[c]) + v7 * t7[c]


@compiled
def gather_rows(items, ptr, columns, data, V, out, first, last):
    """out[items[r]] += Σ data[p]·V[columns[p]] over p in ptr[r]..ptr[r+1], eight at a time, for r in first..last."""
    for r in range(first, last):
        acc, p, stop = out[items[r]], ptr[r], ptr[r + 1]
        while p + 8 <= stop:
            add_eight(
                acc, data, p, V[columns[p]], V[columns[p + 1]], V[columns[p + 2]], V[columns[p + 3]],
                V[columns[p + 4]], V[columns[p + 5]], V[columns[p + 6]], V[columns[p + 7]],
            )  # fmt: skip
            p += 8
        while p + 2 <= stop:
            t0, t1, v0, v1 = V[columns[p]], V[columns[p + 1]], data[p], data[p + 1]
            for c in range(len(acc)):
                acc[c] = (acc[c] + v0 * t0[c]) + v1 * t1[c]
            p += 2
        if p < stop:
            t0, v0 = V[columns[p]], data[p]
            for c in range(len(acc)):
                acc[c] += v0 * t0[c]


@compiled
def row_dots(A, B, out, first, last):
    """out[i] = A[i]·B[i], summed in float64 (four partial sums, so that additions overlap)."""
    width = A.shape[1]
    for i in range(first, last):
        a, b = A[i], B[i]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        c = 0
        while c + 4 <= width:
            s0 += np.float64(a[c]) * np.float64(b[c])
            s1 += np.float64(a[c + 1]) * np.float64(b[c + 1])
            s2 += np.float64(a[c + 2]) * np.float64(b[c + 2])
            s3 += np.float64(a[c + 3]) * np.float64(b[c + 3])
            c += 4
        while c < width:
            s0 += np.float64(a[c]) * np.float64(b[c])
            c += 1
        out[i] = (s0 + s1) + (s2 + s3)


@compiled
def add_scaled_rows(out, d, V, first, last):
    """out[i] += d[i]·V[i]."""
    width = V.shape[1]
    for i in range(first, last):
        o, v, x = out[i], V[i], d[i]
        for c in range(width):
            o[c] += x * v[c]


@compiled
def combine_rows(a, A, b, B, out, first, last):
    """out[i] = a[i]·A[i] + b[i]·B[i]; out may be A or B."""
    width = A.shape[1]
    for i in range(first, last):
        o, x, y, s, t = out[i], A[i], B[i], a[i], b[i]
        for c in range(width):
            o[c] = s * x[c] + t * y[c]
