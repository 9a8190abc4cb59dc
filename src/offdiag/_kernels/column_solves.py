"""Compiled loops of ``solvers.support``: columns solved on their supports.

Items are numbered by popularity here, most popular first, and each user's items ascend. So the popular ones, the
*head*, are 0..h, and only the lower triangle of the symmetric Gram is needed: row j up to column j.
LAPACK and BLAS are SciPy's, called directly from compiled code.
"""

from typing import Any

import llvmlite.binding
import numpy as np
from numba import types
from numba.extending import get_cython_function_address

from offdiag._kernels.parallel import compiled


def _fortran(module: str, name: str, arguments: int) -> Any:
    """A SciPy BLAS or LAPACK function for compiled code; takes addresses. Bound by symbol, so caches stay valid."""
    symbol = f"offdiag_{name}"
    llvmlite.binding.add_symbol(symbol, get_cython_function_address(f"scipy.linalg.cython_{module}", name))
    return types.ExternalFunction(symbol, types.void(*[types.uintp] * arguments))


_spotrf, _dpotrf = _fortran("lapack", "spotrf", 5), _fortran("lapack", "dpotrf", 5)
_strsv, _dtrsv = _fortran("blas", "strsv", 8), _fortran("blas", "dtrsv", 8)
_ssymv, _dsymv = _fortran("blas", "ssymv", 10), _fortran("blas", "dsymv", 10)


@compiled
def sub_gram(S, place, ptr, column_ptr, columns, values, H, group, growth, where, A):
    """The lower triangle of H[S, S] by columns, each one slot longer than S; entries within a group grow by a factor.

    S descends, so column a is in the row of S[a]. ``where`` is len(S) for items that are not in S: entries that do not
    belong to A go to the last slot, without a test.
    """
    n = len(S)
    for a in range(n):
        s = S[a]
        r = place[s]
        column = A[a * (n + 1) : (a + 1) * (n + 1)]
        row, listed = values[ptr[r] : ptr[r + 1]], columns[column_ptr[r] : column_ptr[r + 1]]
        if len(listed) or not len(row):
            column[a:] = 0
            for p in range(len(row)):
                column[where[listed[p]]] = row[p]
        else:
            for c in range(a + 1, n):
                column[c] = row[S[c]]
        column[a] = H[s]
        if len(group):
            for c in range(a + 1, n):
                if group[S[c]] == group[s]:
                    column[c] *= growth


@compiled
def fill_triangles(
    items, first, last, ptr, end, column_ptr, column_end, columns, values, holder_ptr, holders, places, begin, size,
    rows, start, row, out,
):  # fmt: skip
    """Copy what supports need of rows items[first..last] of the Gram to ``out``.

    Row r is values[ptr[r] : end[r]] in columns[column_ptr[r] : column_end[r]]; no columns: in all from the first on.
    Item j is in the supports of columns holders[holder_ptr[j] : holder_ptr[j + 1]], at ``places``. Column t has its
    support in rows[begin[t] : begin[t] + size[t]] and its part of the Gram below the diagonal, by columns, in out from
    start[t] on. ``row`` has a zero for every item, before and after.
    """
    for r in range(first, last):
        j = items[r]
        numbers, listed = values[ptr[r] : end[r]], columns[column_ptr[r] : column_end[r]]
        if len(listed):
            for p in range(len(listed)):
                row[listed[p]] = numbers[p]
        else:
            row[: len(numbers)] = numbers
        for h in range(holder_ptr[j], holder_ptr[j + 1]):
            t, a = holders[h], np.int64(places[h])
            n = size[t]
            others = rows[begin[t] + a + 1 : begin[t] + n]
            column = out[start[t] + a * (2 * n - a - 1) // 2 :]
            for c in range(len(others)):
                column[c] = row[others[c]]
        if len(listed):
            for p in range(len(listed)):
                row[listed[p]] = 0
        else:
            row[: len(numbers)] = 0


@compiled
def _unpack(S, triangle, H, group, growth, A):
    """The same as ``sub_gram`` from the entries of this support alone, as ``fill_triangles`` writes them."""
    n, at = len(S), 0
    for a in range(n):
        column = A[a * (n + 1) : (a + 1) * (n + 1)]
        column[a] = H[S[a]]
        for c in range(a + 1, n):
            column[c] = triangle[at]
            at += 1
        if len(group):
            for c in range(a + 1, n):
                if group[S[c]] == group[S[a]]:
                    column[c] *= growth


@compiled
def _times(A, n, x, out, args):
    """out = A x for the lower triangle A."""
    letters, sizes, factors = args
    sizes[0] = n
    sizes[1] = n + 1
    addresses = (
        letters.ctypes.data, sizes.ctypes.data, factors.ctypes.data, A.ctypes.data, sizes[1:].ctypes.data,
        x.ctypes.data, sizes[2:].ctypes.data, factors[1:].ctypes.data, out.ctypes.data, sizes[2:].ctypes.data,
    )  # fmt: skip
    if A.itemsize == 4:
        _ssymv(*addresses)
    else:
        _dsymv(*addresses)


@compiled
def conjugate_gradients(A, n, b, most, tolerance, x, r, p, q, args):
    """A x = b by conjugate gradients, preconditioned by diag(A); True if the recomputed residual is small enough."""
    lead = n + 2
    start = 0.0
    for a in range(n):
        x[a] = 0
        r[a] = b[a]
        p[a] = b[a] / A[a * lead]
        start += np.float64(r[a]) * np.float64(p[a])
    now = start
    for _ in range(most):
        if now <= tolerance * tolerance * start:
            break
        _times(A, n, p, q, args)
        curvature = 0.0
        for a in range(n):
            curvature += np.float64(p[a]) * np.float64(q[a])
        step = x.dtype.type(now / curvature)
        after = 0.0
        for a in range(n):
            x[a] += step * p[a]
            r[a] -= step * q[a]
            after += np.float64(r[a]) * np.float64(r[a]) / np.float64(A[a * lead])
        ratio = x.dtype.type(after / now)
        for a in range(n):
            p[a] = r[a] / A[a * lead] + ratio * p[a]
        now = after
    _times(A, n, x, q, args)
    left = 0.0
    for a in range(n):
        left += (np.float64(b[a]) - np.float64(q[a])) ** 2 / np.float64(A[a * lead])
    return left <= 4 * tolerance * tolerance * start


@compiled
def cholesky(A, n, b, x, args):
    """A x = b by the Cholesky factor of A, which overwrites it; False if A is singular at this precision."""
    letters, sizes, _ = args
    lower, plain, transposed = letters[0:].ctypes.data, letters[1:].ctypes.data, letters[2:].ctypes.data
    sizes[0] = n
    sizes[1] = n + 1
    size, lead, one, info = sizes.ctypes.data, sizes[1:].ctypes.data, sizes[2:].ctypes.data, sizes[3:].ctypes.data
    for a in range(n):
        x[a] = A[a * (n + 2)]
    if A.itemsize == 4:
        _spotrf(lower, size, A.ctypes.data, lead, info)
    else:
        _dpotrf(lower, size, A.ctypes.data, lead, info)
    tiny = 8 * np.finfo(A.dtype).eps
    for a in range(n):  # L_aa²/H_aa is the share of an item not explained by those before it: noise at rounding level
        if sizes[3] != 0 or not A[a * (n + 2)] * A[a * (n + 2)] > tiny * x[a]:
            return False
    for a in range(n):
        x[a] = b[a]
    for order in (plain, transposed):
        if A.itemsize == 4:
            _strsv(lower, order, plain, size, A.ctypes.data, lead, x.ctypes.data, one)
        else:
            _dtrsv(lower, order, plain, size, A.ctypes.data, lead, x.ctypes.data, one)
    return True


@compiled
def solve_columns(
    items, first, last, ptr, rows, values, explained, place, gram_ptr, column_ptr, columns, gram, H, group, growth, most
):
    """values = G[S, i] of items[first..last] replaced by β on the support S = rows[ptr[i] : ptr[i + 1]], descending.

    Item j has row place[j] of the output of ``gram_rows``; if there are no places, column t of the block has its own
    triangle, as in ``fill_triangles``. Conjugate gradients for at most ``most``·len(S) steps, then a Cholesky factor.
    explained[i] = G_iS·β is the part of ‖x_i‖² that S explains, -1 if the sub-Gram is singular.
    """
    longest = 0
    for t in range(first, last):
        longest = max(longest, ptr[items[t] + 1] - ptr[items[t]])
    A = np.empty((longest + 1) * longest, values.dtype)
    b, x, q = np.empty(longest, values.dtype), np.empty(longest, values.dtype), np.empty(longest, values.dtype)
    residual, p = np.empty(longest, values.dtype), np.empty(longest, values.dtype)
    where, length = np.zeros(len(H), np.uint32), 0
    args = (np.array([ord("L"), ord("N"), ord("T")], np.uint8), np.ones(4, np.int32), np.array([1, 0], values.dtype))
    tolerance = 8 * np.finfo(values.dtype).eps
    for t in range(first, last):
        i = items[t]
        S, beta = rows[ptr[i] : ptr[i + 1]], values[ptr[i] : ptr[i + 1]]
        n = len(S)
        explained[i] = 0.0
        if n == 0:
            continue
        if n != length:
            where[:] = n
            length = n
        for a in range(n):
            where[S[a]] = a
            b[a] = beta[a]
        if len(place):
            sub_gram(S, place, gram_ptr, column_ptr, columns, gram, H, group, growth, where, A)
        else:
            _unpack(S, gram[gram_ptr[t] : gram_ptr[t + 1]], H, group, growth, A)
        for a in range(n):
            where[S[a]] = n
        steps = np.int64(most * n)
        solved = conjugate_gradients(A, n, b, steps, tolerance, x, residual, p, q, args) or cholesky(A, n, b, x, args)
        for a in range(n):
            beta[a] = x[a]
            explained[i] += np.float64(b[a]) * np.float64(x[a])
        if not solved:
            explained[i] = -1.0
