"""Compiled loops over a band of rows of the Gram, counted in several pieces, each from some of the users.

Items are numbered by popularity. Row i of piece w is values[ptr[w, i] : ptr[w, i + 1]] in columns of the same range.
"""

import numpy as np

from offdiag._kernels.column_supports import SEEN, add_users, best_supports
from offdiag._kernels.parallel import compiled


@compiled
def most_entries(indptr, col_ptr, users, items, out):
    """At most how many items share a user with each of the items: the sum of the rows of its users, or all items."""
    for r in range(len(items)):
        n = 0
        for q in range(col_ptr[items[r]], col_ptr[items[r] + 1]):
            n += indptr[users[q] + 1] - indptr[users[q]]
        out[r] = min(n, len(col_ptr) - 1)


@compiled
def count_rows(indptr, indices, data, weight, col_ptr, users, positions, items, lengths, columns, values):
    """The rows of G of the items one after another, columns in the order in which they occur; returns their entries.

    Interactions as in ``Rows``; there is room for ``most_entries``.
    """
    acc, touched = np.zeros(len(col_ptr)), np.empty(len(col_ptr), np.uint32)
    at = 0
    for r in range(len(items)):
        n = add_users(indptr, indices, data, weight, col_ptr, users, positions, items[r], True, acc, touched)
        for t in range(n):
            columns[at + t] = touched[t]
            values[at + t] = acc[touched[t]]
            acc[touched[t]] = 0.0
        lengths[r] = n
        at += n
    return at


@compiled
def _add_row(ptr, columns, values, r, acc, touched):
    """Sum row r of all pieces; returns how many columns it has. A sum that cancels stays just above 0."""
    n = 0
    for w in range(len(ptr)):
        for p in range(ptr[w, r], ptr[w, r + 1]):
            j = columns[p]
            if acc[j] == 0:
                touched[n] = j
                n += 1
            total = acc[j] + values[p]
            acc[j] = total if total != 0 else SEEN
    return n


@compiled
def entries_before_diagonal(m, ptr, columns, values, items, below):
    """How many columns before items[r] row r has in all pieces together."""
    acc, touched = np.zeros(m), np.empty(m, np.uint32)
    for r in range(len(items)):
        below[r] = 0
        for t in range(_add_row(ptr, columns, values, r, acc, touched)):
            below[r] += touched[t] < items[r]
            acc[touched[t]] = 0.0


@compiled
def supports(ptr, columns, values, begin, repeats, penalty, group, fill, lo, hi, who, share, parent, below):
    """The same as ``column_supports.supports`` for items lo..hi; the pieces begin with item ``begin``.

    With ``repeats`` an item may support itself.
    """
    m, k = len(penalty), who.shape[1]
    acc, touched = np.zeros(m), np.empty(m, np.uint32)
    scores, items = np.empty(k), np.empty(k, np.int64)
    for i in range(lo, hi):
        n = _add_row(ptr, columns, values, i - begin, acc, touched)
        r = i - lo
        parent[r], below[r] = best_supports(
            i, m if repeats else i, acc, touched[:n], penalty, group, fill, scores, items, who[r], share[r]
        )
        for t in range(n):
            acc[touched[t]] = 0.0


@compiled
def rows_before_diagonal(m, ptr, columns, values, begin, lo, hi, out_ptr, column_ptr, out_columns, out):
    """Entries of rows lo..hi with more popular items, as in ``column_supports.gram_rows``."""
    acc, touched = np.zeros(m), np.empty(m, np.uint32)
    for i in range(lo, hi):
        r = i - begin
        n = _add_row(ptr, columns, values, r, acc, touched)
        row, listed = out[out_ptr[r] : out_ptr[r + 1]], out_columns[column_ptr[r] : column_ptr[r + 1]]
        if len(listed):
            q = 0
            for t in range(n):
                if touched[t] < i:
                    listed[q] = touched[t]
                    row[q] = acc[touched[t]]
                    q += 1
        else:
            for p in range(len(row)):
                row[p] = acc[p]
        for t in range(n):
            acc[touched[t]] = 0.0


@compiled
def wanted_lengths(ptr, column_ptr, columns, values, place, wanted, among, first, last, lengths):
    """How many entries of the stored rows place[first..last] are in columns ``among``, which ascend; a mark for each
    of them is in ``wanted``.
    """
    for r in range(first, last):
        at = place[r]
        row, listed = values[ptr[at] : ptr[at + 1]], columns[column_ptr[at] : column_ptr[at + 1]]
        n = 0
        if len(listed):
            for j in listed:
                n += wanted[j]
        else:
            for j in among[: np.searchsorted(among, len(row))]:
                n += row[j] != 0
        lengths[r] = n


@compiled
def wanted_rows(ptr, column_ptr, columns, values, place, wanted, among, first, last, out_ptr, out_columns, out):
    """These entries."""
    for r in range(first, last):
        at, q = place[r], out_ptr[r]
        row, listed = values[ptr[at] : ptr[at + 1]], columns[column_ptr[at] : column_ptr[at + 1]]
        if len(listed):
            for p in range(len(listed)):
                if wanted[listed[p]]:
                    out_columns[q] = listed[p]
                    out[q] = row[p]
                    q += 1
        else:
            for j in among[: np.searchsorted(among, len(row))]:
                if row[j] != 0:
                    out_columns[q] = j
                    out[q] = row[j]
                    q += 1
