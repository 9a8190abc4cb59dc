"""Compiled loops over a Gram stored by rows (``offdiag.gramian.sparse``) and over the columns a change affects.

Row i of the symmetric G is values[ptr[i] : ptr[i + 1]] in the columns indices[ptr[i] : ptr[i + 1]], ascending.
"""

import numpy as np

from offdiag._kernels.column_supports import add_users, best_supports
from offdiag._kernels.parallel import compiled


@compiled
def row_lengths(indptr, indices, data, weight, col_ptr, users, positions, lo, hi, lengths):
    """How many items share a user with each item in lo..hi, itself included; interactions as in ``Rows``."""
    acc, touched = np.zeros(len(col_ptr)), np.empty(len(col_ptr), np.uint32)
    for i in range(lo, hi):
        n = lengths[i] = add_users(indptr, indices, data, weight, col_ptr, users, positions, i, True, acc, touched)
        for t in range(n):
            acc[touched[t]] = 0.0


@compiled
def count_rows(indptr, indices, data, weight, col_ptr, users, positions, lo, hi, ptr, columns, values):
    """Rows lo..hi of G, summed over users in their order; ``ptr`` follows the lengths from ``row_lengths``."""
    acc, touched = np.zeros(len(col_ptr)), np.empty(len(col_ptr), np.uint32)
    for i in range(lo, hi):
        n = add_users(indptr, indices, data, weight, col_ptr, users, positions, i, True, acc, touched)
        met = touched[:n]
        met.sort()
        for t in range(n):
            columns[ptr[i] + t] = met[t]
            values[ptr[i] + t] = acc[met[t]]
            acc[met[t]] = 0.0


@compiled
def diagonal(ptr, indices, values, out):
    """out[i] = G_ii where it is stored."""
    for i in range(len(out)):
        at = ptr[i] + np.searchsorted(indices[ptr[i] : ptr[i + 1]], i)
        if at < ptr[i + 1] and indices[at] == i:
            out[i] = values[at]


@compiled
def part(ptr, indices, values, items, where, out):
    """out = G[items, items]; where[j] is the index of j in ``items``, or -1. ``out`` starts as zeros."""
    for a in range(len(items)):
        for p in range(ptr[items[a]], ptr[items[a] + 1]):
            b = where[indices[p]]
            if b >= 0:
                out[a, b] = values[p]


@compiled
def put_lengths(ptr, indices, items, where, part, lengths):
    """Lengths of the rows of the items after G[items, items] is replaced."""
    for a in range(len(items)):
        n = 0
        for p in range(ptr[items[a]], ptr[items[a] + 1]):
            n += where[indices[p]] < 0
        for b in range(len(items)):
            n += part[a, b] != 0
        lengths[items[a]] = n


@compiled
def put_rows(ptr, indices, values, items, where, part, lo, hi, out_ptr, out_indices, out_values):
    """Rows lo..hi with G[items, items] replaced; the items ascend."""
    for i in range(lo, hi):
        q = out_ptr[i]
        if where[i] < 0:
            out_indices[q : out_ptr[i + 1]] = indices[ptr[i] : ptr[i + 1]]
            out_values[q : out_ptr[i + 1]] = values[ptr[i] : ptr[i + 1]]
            continue
        a, b = where[i], 0
        for p in range(ptr[i], ptr[i + 1]):
            j = indices[p]
            if where[j] >= 0:
                continue
            while b < len(items) and items[b] < j:
                if part[a, b] != 0:
                    out_indices[q] = items[b]
                    out_values[q] = part[a, b]
                    q += 1
                b += 1
            out_indices[q] = j
            out_values[q] = values[p]
            q += 1
        while b < len(items):
            if part[a, b] != 0:
                out_indices[q] = items[b]
                out_values[q] = part[a, b]
                q += 1
            b += 1


@compiled
def _summed_row(
    i, ptr, indices, values, ptr_b, indices_b, values_b, sign, live, size, least, rounding, believed, columns, out
):
    """Row i of A ± B over live items, ascending; returns its length, or -1 if an entry would fall below 0.

    ``size``, the root of diag(A), tells rounding residue from real entries. Empty ``columns``: nothing is written.
    """
    n, p, q, end, end_b = 0, ptr[i], ptr_b[i], ptr[i + 1], ptr_b[i + 1]
    m = len(live)
    while p < end or q < end_b:
        j, j_b = indices[p] if p < end else m, indices_b[q] if q < end_b else m
        at = min(j, j_b)
        a = values[p] if j == at else 0.0
        b = values_b[q] if j_b == at else 0.0
        p += j == at
        q += j_b == at
        total = np.float64(a) + sign * np.float64(b)
        trace = max(least, rounding * max(np.float64(a), np.float64(b), 1e-3 * size[i] * size[at]))
        if total < -trace and not total >= -believed * size[i] * size[at]:
            return -1
        if live[i] and live[at] and (at == i or total > trace):
            if len(columns):
                columns[n] = at
                out[n] = total
            n += 1
    return n


@compiled
def summed_lengths(
    ptr, indices, values, ptr_b, indices_b, values_b, sign, live, size, least, rounding, believed, lo, hi, lengths
):
    """Entries of rows lo..hi of A ± B; live items only, without rounding residue."""
    none, nothing = indices[:0], values[:0]
    for i in range(lo, hi):
        lengths[i] = _summed_row(
            i, ptr, indices, values, ptr_b, indices_b, values_b, sign, live, size, least, rounding, believed,
            none, nothing,
        )  # fmt: skip


@compiled
def summed_rows(
    ptr, indices, values, ptr_b, indices_b, values_b, sign, live, size, least, rounding, believed, lo, hi,
    out_ptr, out_indices, out,
):  # fmt: skip
    """Rows lo..hi of A ± B."""
    for i in range(lo, hi):
        room = slice(out_ptr[i], out_ptr[i + 1])
        _summed_row(
            i, ptr, indices, values, ptr_b, indices_b, values_b, sign, live, size, least, rounding, believed,
            out_indices[room], out[room],
        )  # fmt: skip


@compiled
def moved_lengths(ptr, indices, at, place, lengths):
    """Row lengths in the new catalogue: row i is row at[i] without the columns j with place[j] = -1."""
    for i in range(len(at)):
        n = 0
        if at[i] >= 0:
            for p in range(ptr[at[i]], ptr[at[i] + 1]):
                n += place[indices[p]] >= 0
        lengths[i] = n


@compiled
def moved_rows(ptr, indices, values, at, place, lo, hi, out_ptr, out_indices, out_values):
    """Rows lo..hi of the new catalogue, columns ascending."""
    for i in range(lo, hi):
        if at[i] < 0:
            continue
        q, ascending = out_ptr[i], True
        for p in range(ptr[at[i]], ptr[at[i] + 1]):
            j = place[indices[p]]
            if j >= 0:
                ascending &= q == out_ptr[i] or out_indices[q - 1] < j
                out_indices[q] = j
                out_values[q] = values[p]
                q += 1
        if not ascending:
            row, numbers = out_indices[out_ptr[i] : q], out_values[out_ptr[i] : q]
            order = np.argsort(row)
            row[:] = row[order]
            numbers[:] = numbers[order]


@compiled
def times(ptr, indices, values, scale, V, lo, hi, out):
    """Rows lo..hi of scale·G V."""
    for i in range(lo, hi):
        row = out[i]
        row[:] = 0
        for p in range(ptr[i], ptr[i + 1]):
            value, other = V.dtype.type(values[p] * scale), V[indices[p]]
            for c in range(len(row)):
                row[c] += value * other[c]


@compiled
def shelf_rows(ptr, indices, values, order, rank, items, first, last, out_ptr, column_ptr, columns, out):
    """The same as ``column_supports.gram_rows``, from G: the entries of items[r] with more popular items.

    ``items`` and ``columns`` are numbered by popularity, order[r] is the item of rank r.
    """
    for r in range(first, last):
        i = items[r]
        begin, end = ptr[order[i]], ptr[order[i] + 1]
        row, listed = out[out_ptr[r] : out_ptr[r + 1]], columns[column_ptr[r] : column_ptr[r + 1]]
        if len(listed):
            n = 0
            for p in range(begin, end):
                j = rank[indices[p]]
                if j < i:
                    listed[n] = j
                    row[n] = values[p]
                    n += 1
        else:
            row[:] = 0
            for p in range(begin, end):
                j = rank[indices[p]]
                if j < i:
                    row[j] = values[p]


@compiled
def more_popular(ptr, indices, order, rank, first, last, below):
    """How many more popular items share a user with each item; numbered by popularity."""
    for i in range(first, last):
        n = 0
        for p in range(ptr[order[i]], ptr[order[i] + 1]):
            n += rank[indices[p]] < i
        below[i] = n


@compiled
def supports_of_gram(ptr, indices, values, order, rank, penalty, group, fill, items, who, share, parent, below):
    """The same as ``column_supports.supports`` from G, for any items (numbered by popularity)."""
    m, k = len(penalty), who.shape[1]
    acc, touched = np.zeros(m), np.empty(m, np.uint32)
    scores, best = np.empty(k), np.empty(k, np.int64)
    for r in range(len(items)):
        i = items[r]
        begin, end = ptr[order[i]], ptr[order[i] + 1]
        for p in range(begin, end):
            touched[p - begin] = rank[indices[p]]
            acc[touched[p - begin]] = values[p]
        parent[r], below[r] = best_supports(
            i, i, acc, touched[: end - begin], penalty, group, fill, scores, best, who[r], share[r]
        )
        for t in range(end - begin):
            acc[touched[t]] = 0.0


@compiled
def kept_lengths(ptr, indices, place, fresh, new_ptr, lengths):
    """Entries of each row of W if the columns marked ``fresh`` come from the new rows and the others are kept."""
    for j in range(len(lengths)):
        lengths[j] = new_ptr[j + 1] - new_ptr[j]
    for j in range(len(ptr) - 1):
        if place[j] < 0:
            continue
        n = 0
        for p in range(ptr[j], ptr[j + 1]):
            i = place[indices[p]]
            n += i >= 0 and not fresh[i]
        lengths[place[j]] += n


@compiled
def kept_rows(
    ptr, indices, data, at, place, fresh, factor, new_ptr, new_indices, new_data, lo, hi, out_ptr, out_indices, out
):
    """Rows lo..hi of W: old entries of columns that are not fresh, times factor[i], and the new ones, ascending."""
    for j in range(lo, hi):
        q, b, end = out_ptr[j], new_ptr[j], new_ptr[j + 1]
        if at[j] >= 0:
            for p in range(ptr[at[j]], ptr[at[j] + 1]):
                i = place[indices[p]]
                if i < 0 or fresh[i]:
                    continue
                while b < end and new_indices[b] < i:
                    out_indices[q] = new_indices[b]
                    out[q] = new_data[b]
                    q += 1
                    b += 1
                out_indices[q] = i
                out[q] = data[p] if factor[i] == 1.0 else np.float64(data[p]) * factor[i]
                q += 1
        out_indices[q : out_ptr[j + 1]] = new_indices[b:end]
        out[q : out_ptr[j + 1]] = new_data[b:end]
