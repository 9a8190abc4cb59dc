"""Compiled loops over packed symmetric matrices: products in double precision, reordered items, fingerprints.

Positions follow ``offdiag.gramian.layout``; the loops release the interpreter lock and work on ranges of packed rows.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag._kernels.parallel import compiled, in_any_order, n_threads, ranges, run_parallel
from offdiag.gramian import layout

FINGERPRINT_WORDS = 1 << 17  # at a time: 1 MiB
BLOCK = 64  # rows and columns at a time, where one of two arrays is read across its rows


@in_any_order
def _both_ways(row, x0, x1, x2, out0, out1, out2, mine0, mine1, mine2):
    """out += row·mine and the sums of row·x for three vectors: an entry below the diagonal is used twice."""
    sum0, sum1, sum2 = 0.0, 0.0, 0.0
    for c in range(len(row)):  # one loop: an entry is read and widened once for all three
        a = np.float64(row[c])
        sum0 += a * x0[c]
        sum1 += a * x1[c]
        sum2 += a * x2[c]
        out0[c] += a * mine0
        out1[c] += a * mine1
        out2[c] += a * mine2
    return sum0, sum1, sum2


@compiled
def _add_row(row, own, V, out, i, lo, hi):
    """out += V·A for A[i, lo..hi] = row, its mirror image, and A[i, i] = own."""
    x, y, z = V[0, lo:hi], V[1, lo:hi], V[2, lo:hi]
    sums = _both_ways(row, x, y, z, out[0, lo:hi], out[1, lo:hi], out[2, lo:hi], V[0, i], V[1, i], V[2, i])
    out[0, i] += sums[0] + np.float64(own) * V[0, i]
    out[1, i] += sums[1] + np.float64(own) * V[1, i]
    out[2, i] += sums[2] + np.float64(own) * V[2, i]


@compiled
def add_products(P, h, e, V, out, first, last):
    """out += V·A for the entries of A in packed rows first..last; V and out are 3×m, double precision."""
    m = V.shape[1]
    for r in range(first, last):
        # Row r of P: A[h + j, h..h + j] with j = r - 1 + e, then A[r.., r] if r < h.
        j = r - 1 + e
        if j >= 0 and h + j < m:
            _add_row(P[r, :j], P[r, j], V, out, h + j, h, h + j)
        if r < h:
            _add_row(P[r, r + 1 + e : m + e], P[r, r + e], V, out, r, r + 1, m)


@compiled
def move_rows(P, h, e, at, new_P, new_h, new_e, first, last):
    """Packed rows first..last of the matrix whose item i was item at[i] before, or is new (−1: a row of zeros)."""
    m = len(at)
    for r in range(first, last):
        j = r - 1 + new_e
        if j >= 0 and new_h + j < m:
            i = at[new_h + j]
            for c in range(j + 1):
                new_P[r, c] = entry(P, h, e, i, at[new_h + c])
        if r < new_h:
            i = at[r]
            for c in range(r, m):
                new_P[r, c + new_e] = entry(P, h, e, i, at[c])


@compiled
def entry(P, h, e, i, j):
    """A[i, j], 0 if one of the two is −1."""
    if i < 0 or j < 0:
        return P.dtype.type(0)
    low, high = min(i, j), max(i, j)
    return P[low, high + e] if low < h else P[high - h + 1 - e, low - h]


@compiled
def fingerprint(words, size, first, last, out):
    """Two non-cryptographic sums per ``size`` words that change if a word changes or moves (missed: 2⁻⁶⁴ each)."""
    a, b = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
    for share in range(first, last):
        s, t = np.uint64(0), np.uint64(0)
        for i in range(share * size, min((share + 1) * size, len(words))):
            x = (words[i] + np.uint64(i) * a) * b
            x ^= x >> np.uint64(29)
            s += x * a
            t += (x ^ (x >> np.uint64(32))) * b
        out[share, 0], out[share, 1] = s, t


def moved(values: NDArray[np.floating], m: int, at: NDArray[np.int64]) -> NDArray[np.floating]:
    """The packed matrix whose item i is item at[i] of this one, or new (−1: zeros)."""
    out: NDArray[np.floating] = np.empty(layout.size(len(at)), dtype=values.dtype)
    if not len(at):
        return out
    (h, e, _), (new_h, new_e, _) = layout.layout(m), layout.layout(len(at))
    old, new = layout.rectangle(values, m), layout.rectangle(out, len(at))

    def work(first: int, last: int) -> None:
        move_rows(old, h, e, at, new, new_h, new_e, first, last)

    run_parallel(work, ranges(len(new), 4 * n_threads()))
    return out


def products(values: NDArray[np.floating], m: int, V: NDArray[np.float64]) -> NDArray[np.float64]:
    """V·A for three rows of V (3×m) in double precision, whatever the precision of A; A is read once."""
    h, e, _ = layout.layout(m)
    P = layout.rectangle(values, m)
    shares = ranges(len(P), 2 * n_threads())
    sums = np.zeros((len(shares), *V.shape))

    def work(share: int, first: int, last: int) -> None:
        add_products(P, h, e, V, sums[share], first, last)

    run_parallel(work, [(share, first, last) for share, (first, last) in enumerate(shares)])
    return np.asarray(sums.sum(axis=0))


def fingerprints(array: NDArray[Any]) -> NDArray[np.uint64]:
    """Two numbers for each MiB of a C-ordered array."""
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    words = np.pad(flat, (0, -flat.size % 8)).view(np.uint64) if flat.size % 8 else flat.view(np.uint64)
    out = np.zeros((-(-len(words) // FINGERPRINT_WORDS), 2), dtype=np.uint64)

    def work(first: int, last: int) -> None:
        fingerprint(words, FINGERPRINT_WORDS, first, last, out)

    run_parallel(work, ranges(len(out), 2 * n_threads()))
    return out


@compiled
def packed_tile(P, h, e, rows, places, lo, hi, scale, diagonal, out, first, last):
    """out[places[r]] = B[rows[r], lo:hi] for r in first..last, from the packed symmetric C; rows ascend.

    A value on the far side of the diagonal sits in the packed row of the other item. Taking 64 rows at a time makes
    those reads run along cache lines instead of jumping one packed row per number.
    """
    block = 64
    for start in range(first, last, block):
        mine = rows[start : min(start + block, last)]
        place = places[start : min(start + block, last)]
        for i in range(lo, min(hi, h)):  # C[j, i], i < j: column i of the leading part
            column = P[i, e:]
            c = np.uint64(i - lo)
            if mine[0] > i:
                for r in range(len(mine)):
                    out[place[r], c] = column[mine[r]]
            else:
                for r in range(len(mine)):
                    if mine[r] > i:
                        out[place[r], c] = column[mine[r]]
        for i in range(max(lo, h), hi):  # C[j, i], h ≤ j < i: row i of the trailing triangle
            row = P[i - h + 1 - e]
            c = np.uint64(i - lo)
            for r in range(len(mine)):
                if h <= mine[r] < i:
                    out[place[r], c] = row[mine[r] - np.uint64(h)]
        for r in range(len(mine)):  # entries in the item's own packed row; then C becomes B
            j = np.int64(mine[r])
            if j < h:
                begin, end = max(lo, j), hi
                source = P[j, begin + e :]
            else:
                begin, end = max(lo, h), min(hi, j + 1)
                source = P[j - h + 1 - e, begin - h :]
            own = out[place[r]]
            for k in range(end - begin):
                own[begin - lo + k] = source[k]
            for k in range(hi - lo):
                own[k] *= scale[lo + k]
            if lo <= j < hi:
                own[j - lo] = diagonal[j]


@compiled
def triangle_sums(P, h, e, Z, lo, hi, own, both):
    """own[i] = Σ_k T_ki², both[i] = Σ_k T_ki Z_ki for columns lo..hi of the packed lower triangle T."""
    m = len(Z)
    for left in range(lo, hi, BLOCK):
        for top in range(left, m, BLOCK):
            for i in range(left, min(left + BLOCK, hi)):
                for k in range(max(top, i), min(top + BLOCK, m)):
                    r, c = (i, k + e) if i < h else (k - h + 1 - e, i - h)
                    x = np.float64(P[r, c])
                    own[i] += x * x
                    both[i] += x * np.float64(Z[k, i])


@compiled
def subtract_triangle(P, h, e, scale, Z, lo, hi):
    """Z −= T·dMat(scale) in columns lo..hi, for the packed lower triangle T."""
    m = len(Z)
    for left in range(lo, hi, BLOCK):
        for top in range(left, m, BLOCK):
            for i in range(left, min(left + BLOCK, hi)):
                for k in range(max(top, i), min(top + BLOCK, m)):
                    r, c = (i, k + e) if i < h else (k - h + 1 - e, i - h)
                    Z[k, i] -= P[r, c] * scale[i]
