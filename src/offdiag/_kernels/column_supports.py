"""Compiled loops of ``solvers.support``: the Gram summed over users item by item, and the neighbours of each item.

Items are numbered by popularity here, most popular first, and each user's items ascend.
"""

import numpy as np

from offdiag._kernels.parallel import compiled
from offdiag._kernels.topk import sift_down

SEEN = 1e-300  # a sum that is 0, of an item that has been seen


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
