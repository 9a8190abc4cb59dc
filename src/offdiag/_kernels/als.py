"""Compiled loops of implicit factorisation: the vector of one row given the vectors of the columns.

Row u with entries x_ui solves A z = b, A = G + λ_u I + Σ_i c_i v_i v_iᵀ, b = Σ_i c_i v_i, c_i = α x_ui, G = VᵀV,
λ_u = l2·(α Σ_i x_ui + m)^power: [Rendle22 Eq. 3] over α₀ = 1/α. Rows are independent, so threads share them.
"""

from typing import Any

import numpy as np

from offdiag._kernels import parallel

SMALL = 1 << 18  # multiply-adds that finish before another thread would have started


def _compiled(function: Any) -> Any:
    """Sums may be reordered, so that inner products use the vector units; the order is the same in every run."""
    return parallel.compiled(function, ("contract", "reassoc", "nsz"))


@_compiled
def _penalty(data, start, stop, alpha, l2, power, m):
    total = 0.0
    for p in range(start, stop):
        total += data[p]
    return l2 * (alpha * total + m) ** power


@_compiled
def solve_rows(indptr, indices, data, V, G, alpha, l2, power, m, first, last, out):
    """out[u − first] = A⁻¹ b exactly, by Cholesky, for rows first..last; a row without entries gets 0.

    Cost per row: n_u·rank²/2 + rank³/6 multiply-adds. A is held as its upper triangle, row by row.
    """
    rank = V.shape[1]
    A = np.empty((rank, rank), dtype=V.dtype)
    for u in range(first, last):
        z = out[u - first]
        start, stop = indptr[u], indptr[u + 1]
        for a in range(rank):
            z[a] = 0
        if start == stop:
            continue
        for a in range(rank):
            for b in range(a, rank):
                A[a, b] = G[a, b]
            A[a, a] += _penalty(data, start, stop, alpha, l2, power, m)
        p = start
        while p < stop:  # four entries at a time: A is read once for the four
            i0 = indices[p]
            i1, i2, i3 = indices[min(p + 1, stop - 1)], indices[min(p + 2, stop - 1)], indices[min(p + 3, stop - 1)]
            c0 = V.dtype.type(alpha * data[p])
            c1 = V.dtype.type(alpha * data[p + 1] if p + 1 < stop else 0.0)
            c2 = V.dtype.type(alpha * data[p + 2] if p + 2 < stop else 0.0)
            c3 = V.dtype.type(alpha * data[p + 3] if p + 3 < stop else 0.0)
            v0, v1, v2, v3 = V[i0], V[i1], V[i2], V[i3]
            for a in range(rank):
                s0, s1, s2, s3 = c0 * v0[a], c1 * v1[a], c2 * v2[a], c3 * v3[a]
                z[a] += s0 + s1 + s2 + s3
                row = A[a]
                for b in range(a, rank):
                    row[b] += s0 * v0[b] + s1 * v1[b] + s2 * v2[b] + s3 * v3[b]
            p += 4
        for a in range(rank):  # A = RᵀR, R over A
            pivot = np.sqrt(A[a, a])
            for b in range(a, rank):
                A[a, b] /= pivot
            z[a] /= pivot  # solves Rᵀ y = b along the way
            for i in range(a + 1, rank):
                r = A[a, i]
                z[i] -= r * z[a]
                row, own = A[i], A[a]
                for b in range(i, rank):
                    row[b] -= r * own[b]
        for a in range(rank - 1, -1, -1):  # R z = y
            total = z[a]
            for b in range(a + 1, rank):
                total -= A[a, b] * z[b]
            z[a] = total / A[a, a]


@_compiled
def _times(indptr, indices, data, V, G, alpha, penalty, u, p, out):
    """out = A p."""
    rank = V.shape[1]
    for a in range(rank):
        out[a] = penalty * p[a]
    for a in range(rank):
        row, s = G[a], p[a]
        for b in range(rank):
            out[b] += s * row[b]
    for at in range(indptr[u], indptr[u + 1]):
        v = V[indices[at]]
        dot = V.dtype.type(0)
        for a in range(rank):
            dot += v[a] * p[a]
        dot *= V.dtype.type(alpha * data[at])
        for a in range(rank):
            out[a] += dot * v[a]


@_compiled
def improve_rows(indptr, indices, data, V, G, alpha, l2, power, m, steps, first, last, Z):
    """A few conjugate-gradient steps from the current row u of Z: each lowers the row's part of the loss.

    Cost per row and step: 2·n_u·rank + rank² multiply-adds.
    """
    rank = V.shape[1]
    r, p, q = np.empty(rank, V.dtype), np.empty(rank, V.dtype), np.empty(rank, V.dtype)
    for u in range(first, last):
        z = Z[u]
        start, stop = indptr[u], indptr[u + 1]
        if start == stop:
            for a in range(rank):
                z[a] = 0
            continue
        penalty = V.dtype.type(_penalty(data, start, stop, alpha, l2, power, m))
        _times(indptr, indices, data, V, G, alpha, penalty, u, z, q)
        for a in range(rank):
            r[a] = -q[a]
        for at in range(start, stop):
            v, c = V[indices[at]], V.dtype.type(alpha * data[at])
            for a in range(rank):
                r[a] += c * v[a]
        norm = 0.0
        for a in range(rank):
            p[a] = r[a]
            norm += r[a] * r[a]
        if not norm < np.inf:  # overflow: mark the vector as NaN instead of leaving it unchanged
            for a in range(rank):
                z[a] = np.nan
            continue
        start_norm = norm
        for _ in range(steps):
            if norm <= 1e-20 * start_norm or norm < 1e-30:  # the row is solved to the last bit
                break
            _times(indptr, indices, data, V, G, alpha, penalty, u, p, q)
            curvature = 0.0
            for a in range(rank):
                curvature += p[a] * q[a]
            step = V.dtype.type(norm / curvature)
            new = 0.0
            for a in range(rank):
                z[a] += step * p[a]
                r[a] -= step * q[a]
                new += r[a] * r[a]
            ratio = V.dtype.type(new / norm)
            norm = new
            for a in range(rank):
                p[a] = r[a] + ratio * p[a]


@_compiled
def row_losses(indptr, indices, data, V, Z, alpha, first, last, out):
    """out[u] = Σ_i α x_ui (z_u·v_i − 1)² for rows first..last."""
    for u in range(first, last):
        z, total = Z[u], 0.0
        for at in range(indptr[u], indptr[u + 1]):
            v = V[indices[at]]
            dot = 0.0
            for a in range(V.shape[1]):
                dot += z[a] * v[a]
            total += alpha * data[at] * (dot - 1.0) ** 2
        out[u] = total


def shares(indptr: Any, rank: int, parts: int) -> list[tuple[int, int]]:
    """Rows in up to ``parts`` shares of about equal work, n_u + rank per row; one share if the work is small."""
    work = np.diff(indptr).astype(np.int64) + rank
    return parallel.shares(work, int(min(parts, len(work), work.sum() * rank // SMALL)))


def run(work: Any, indptr: Any, rank: int) -> None:
    """``work(first, last)`` over all rows on all cores."""
    parallel.run_parallel(work, shares(indptr, rank, 8 * parallel.n_threads()))
