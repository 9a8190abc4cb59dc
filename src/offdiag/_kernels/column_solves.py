"""Compiled loops of ``solvers.support``: neighbours, rows of the Gram, and columns solved on their supports.

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
from offdiag._kernels.topk import sift_down

SEEN = 1e-300  # a sum that is 0, of an item that has been seen


def _fortran(module: str, name: str, arguments: int) -> Any:
    """A SciPy BLAS or LAPACK function for compiled code; takes addresses. Bound by symbol, so caches stay valid."""
    symbol = f"offdiag_{name}"
    llvmlite.binding.add_symbol(symbol, get_cython_function_address(f"scipy.linalg.cython_{module}", name))
    return types.ExternalFunction(symbol, types.void(*[types.uintp] * arguments))


_spotrf, _dpotrf = _fortran("lapack", "spotrf", 5), _fortran("lapack", "dpotrf", 5)
_strsv, _dtrsv = _fortran("blas", "strsv", 8), _fortran("blas", "dtrsv", 8)
_ssymv, _dsymv = _fortran("blas", "ssymv", 10), _fortran("blas", "dsymv", 10)


@compiled
def relabel_rows(indptr, indices, data, rank, binary, first, last, out, out_data):
    """Rows first..last with items renumbered by ``rank`` and sorted; values that are all 1 need not move."""
    for u in range(first, last):
        lo, hi = indptr[u], indptr[u + 1]
        row = out[lo:hi]
        for p in range(lo, hi):
            out[p] = rank[indices[p]]
        if binary:
            row.sort()
        else:
            order = np.argsort(row)
            row[:] = row[order]
            out_data[lo:hi] = data[lo:hi][order]


@compiled
def supports(
    indptr, indices, data, weight, col_ptr, users, positions, penalty, group, fill, lo, hi, who, share, parent, below
):
    """For items lo..hi the k items j of largest G_ji²/H_jj, descending, and their G_ji; -1 after the last.

    The users of item i are users[col_ptr[i] : col_ptr[i + 1]]; ``penalty`` is 1/H_jj. ``parent`` is the best of the
    items more popular than i, or -1; ``below`` counts those of them that share a user with i. Supports that are not
    full are filled with items that share no user with i, popular items first, up to item ``fill``.
    """
    m, k = len(penalty), who.shape[1]
    acc, touched = np.zeros(m), np.empty(m + 1, np.uint32)  # one spare, for the item that is written but not kept
    scores, items = np.empty(k), np.empty(k, np.int64)
    for i in range(lo, hi):
        n = add_users(indptr, indices, data, weight, col_ptr, users, positions, i, True, acc, touched)
        r = i - lo
        parent[r], below[r] = best_supports(
            i, i, acc, touched[:n], penalty, group, fill, scores, items, who[r], share[r]
        )
        for t in range(n):
            acc[touched[t]] = 0.0


@compiled
def add_users(indptr, indices, data, weight, col_ptr, users, positions, i, whole, acc, touched):
    """Sum the rows of the users of item i, up to item i unless ``whole``, in their order; returns how many items."""
    n = np.uint64(0)
    for q in range(col_ptr[i], col_ptr[i + 1]):
        end = indptr[users[q] + 1] if whole else np.int64(positions[q])
        n = _add_user_row(indptr, indices, data, weight, users[q], positions[q], end, acc, touched, n)
    return n


@compiled
def _add_user_row(indptr, indices, data, weight, u, at, end, acc, touched, n):
    """Add user u's row up to ``end`` to the sums of the item at ``at``; new items are recorded as touched.

    A sum of 0 means that an item has not been seen: one that cancels, as those of features may, is kept just above it.
    Empty ``data`` means all values are 1.
    """
    x = weight[u]
    if not x > 0:  # its items would leave the sums at 0 and be recorded again and again
        return n
    if len(data) == 0:
        for p in range(np.uint64(indptr[u]), np.uint64(end)):
            j = indices[p]
            touched[n] = j  # written even if it is not kept: no branch to mispredict
            n += np.uint64(acc[j] == 0)
            acc[j] += x
    else:
        value = np.float64(data[at])
        for p in range(np.uint64(indptr[u]), np.uint64(end)):
            j = indices[p]
            more = x * (value * np.float64(data[p]))
            if more != 0:  # it may underflow to 0, and then does so for both items
                touched[n] = j
                n += np.uint64(acc[j] == 0)
                total = acc[j] + more
                acc[j] = total if total != 0 else SEEN
    return n


@compiled
def supports_of_rows(rows, penalty, group, fill, lo, hi, who, share, parent, below):
    """The same from rows lo..hi of the whole G."""
    k = who.shape[1]
    scores, items = np.empty(k), np.empty(k, np.int64)
    for i in range(lo, hi):
        r = i - lo
        touched = np.flatnonzero(rows[r])
        parent[r], below[r] = best_supports(
            i, i, rows[r], touched, penalty, group, fill, scores, items, who[r], share[r]
        )


@compiled
def best_supports(i, barred, acc, touched, penalty, group, fill, scores, items, who, share):
    """The k best of the touched items but ``barred`` and its group; ties go to the more popular one.

    Returns parent and below. ``group`` is empty if there are no groups.
    """
    grouped = len(group) > 0
    m, k = len(penalty), len(scores)
    scores[:] = -np.inf
    items[:] = m
    parent, strongest, below = -1, -1.0, 0
    for t in range(len(touched)):
        j = touched[t]
        if j == barred:
            continue
        value = acc[j] * (acc[j] * penalty[j])
        if grouped and group[j] == group[i]:
            below += j < i  # in the row of the Gram, but not in the support
            continue
        if value > scores[0] or (value == scores[0] and j < items[0]):
            sift_down(scores, items, 0, k, value, j)
        if j < i:
            below += 1
            if value > strongest or (value == strongest and j < parent):
                parent, strongest = j, value
    items.sort()
    found = np.searchsorted(items, m)
    n, at = found, 0
    for j in range(fill):
        if n == k or not len(touched):
            break
        if at < found and items[at] == j:
            at += 1
        elif j != barred and not (grouped and group[j] == group[i]):
            items[n] = j
            n += 1
    for a in range(found):
        share[a] = acc[items[a]]
    share[found:n] = 0
    order = np.argsort(-items[:n])
    values = share[:n].copy()
    for a in range(n):
        who[a] = items[order[a]]
        share[a] = values[order[a]]
    who[n:] = -1
    return parent, below


@compiled
def close_gaps(who, share, ptr):
    """Close the gaps after short rows, in place: row i then starts at ptr[i] of the flattened arrays."""
    flat_who, flat_share = who.reshape(-1), share.reshape(-1)
    k = who.shape[1]
    for i in range(len(ptr) - 1):
        for a in range(ptr[i + 1] - ptr[i]):
            flat_who[ptr[i] + a] = flat_who[i * k + a]
            flat_share[ptr[i] + a] = flat_share[i * k + a]


@compiled
def gram_rows(
    indptr, indices, data, weight, col_ptr, users, positions, items, first, last, ptr, column_ptr, columns, values
):
    """Row r: the Gram entries of items[r] with more popular items, in values[ptr[r] : ptr[r + 1]].

    Its columns are columns[column_ptr[r] : column_ptr[r + 1]], in order of first occurrence; if that is empty, the row
    is stored in full. The sizes must be exact: ``supports`` counted them.
    """
    acc, touched = np.zeros(len(col_ptr)), np.empty(len(col_ptr), np.uint32)
    for r in range(first, last):
        j = items[r]
        n = add_users(indptr, indices, data, weight, col_ptr, users, positions, j, False, acc, touched)
        row, listed = values[ptr[r] : ptr[r + 1]], columns[column_ptr[r] : column_ptr[r + 1]]
        if len(listed):
            for p in range(len(row)):
                listed[p] = touched[p]
                row[p] = acc[touched[p]]
        else:
            for p in range(len(row)):
                row[p] = acc[p]
        for t in range(n):
            acc[touched[t]] = 0.0


@compiled
def _sub_gram(S, place, ptr, column_ptr, columns, values, H, group, growth, where, A):
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
def _conjugate_gradients(A, n, b, most, tolerance, x, r, p, q, args):
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
def _cholesky(A, n, b, x, args):
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

    Item j has row place[j] of the output of ``gram_rows``. Conjugate gradients for at most ``most``·len(S) steps, then
    a Cholesky factor. explained[i] = G_iS·β is the part of ‖x_i‖² that S explains, -1 if the sub-Gram is singular.
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
        _sub_gram(S, place, gram_ptr, column_ptr, columns, gram, H, group, growth, where, A)
        for a in range(n):
            where[S[a]] = n
        steps = np.int64(most * n)
        solved = _conjugate_gradients(A, n, b, steps, tolerance, x, residual, p, q, args) or _cholesky(A, n, b, x, args)
        for a in range(n):
            beta[a] = x[a]
            explained[i] += np.float64(b[a]) * np.float64(x[a])
        if not solved:
            explained[i] = -1.0


@compiled
def family_order(parent, child, sibling, out):
    """Items ordered so that each comes after its parent and among its relatives; parents are more popular, -1: none."""
    child[:] = -1
    m = len(parent)
    for i in range(m - 1, -1, -1):  # backwards, so that popular children come first
        if parent[i] >= 0:
            sibling[i] = child[parent[i]]
            child[parent[i]] = i
    n = 0
    for root in range(m):
        if parent[root] >= 0:
            continue
        i = root
        while True:
            out[n] = i
            n += 1
            if child[i] >= 0:
                i = child[i]
                continue
            while i != root and sibling[i] < 0:
                i = parent[i]
            if i == root:
                break
            i = sibling[i]


@compiled
def cut_blocks(order, ptr, rows, n_head, room, most_room, most_items, ends):
    """Cut the order where the rows needed since the last cut (of the items and their supports) would exceed the limit.

    room[j] is the size of the row of item j, unless it is in the head. ends[b] is where block b ends.
    """
    stamp = np.full(len(room), -1, np.int64)
    blocks, taken, begun = 0, 0, 0
    for n in range(len(order)):
        i = order[n]
        fresh = 0
        for again in range(2):
            fresh = room[i] if i >= n_head and stamp[i] != blocks else 0
            for p in range(ptr[i], ptr[i + 1]):
                j = rows[p]
                if j >= n_head and stamp[j] != blocks:
                    fresh += room[j]
            if again or n == begun or (taken + fresh <= most_room and n - begun < most_items):
                break
            ends[blocks] = n
            blocks, taken, begun = blocks + 1, 0, n
        taken += fresh
        stamp[i] = blocks
        for p in range(ptr[i], ptr[i + 1]):
            stamp[rows[p]] = blocks
    ends[blocks] = len(order)
    return blocks + 1


@compiled
def count_by_row(rows, values, counts):
    for p in range(len(rows)):
        if values[p] != 0:
            counts[rows[p]] += 1


@compiled
def columns_to_rows(order, rank, ptr, rows, values, power, scale, cursor, indices, out):
    """Columns by popularity to rows by catalogue order, sign(β)·|β|^power·scale[i]; cursor[j] is where row j begins.

    order[r] is the item of rank r. Columns are visited in catalogue order, so each row is ascending.
    """
    for i in range(len(rank)):
        r = rank[i]
        for p in range(ptr[r], ptr[r + 1]):
            if values[p] != 0:
                j = order[rows[p]]
                indices[cursor[j]] = i
                value = values[p]
                if power != 1.0:
                    value = np.sign(value) * np.abs(value) ** power
                out[cursor[j]] = value * scale[i]
                cursor[j] += 1
