"""Counting a Gram: sums per item, users of an item, and rows of XᵀX straight into their packed places."""

import numpy as np

from offdiag._kernels.parallel import compiled


@compiled
def item_totals(indptr, indices, data, counts, sums, pairs):
    """Per item: how many users have it, the sum of its values, and the length of all those users' rows."""
    for u in range(len(indptr) - 1):
        for p in range(indptr[u], indptr[u + 1]):
            i = indices[p]
            counts[i] += 1
            sums[i] += data[p]
            pairs[i] += indptr[u + 1] - indptr[u]


@compiled
def sums_of_squares(indptr, indices, data, by_item, by_user):
    """‖column‖² and ‖row‖² of X, without an array of squares."""
    for u in range(len(indptr) - 1):
        for p in range(indptr[u], indptr[u + 1]):
            square = np.float64(data[p]) * np.float64(data[p])
            by_item[indices[p]] += square
            by_user[u] += square


@compiled
def transpose_band(indptr, indices, lo, hi, cursor, users, positions):
    """For items lo..hi, the users who have each and its position in their row; advances cursor[i - lo]."""
    for u in range(len(indptr) - 1):
        for p in range(indptr[u], indptr[u + 1]):
            i = np.int64(indices[p])
            if lo <= i < hi:
                q = cursor[i - lo]
                users[q] = u
                positions[q] = p
                cursor[i - lo] = q + 1


@compiled
def gram_counts(indptr, indices, col_ptr, users, positions, lo, hi, P, h, e):
    """Rows of the packed G that belong to items lo..hi, for 0/1 data: add one per pair, in place.

    The users of item i are users[col_ptr[i - lo] : col_ptr[i - lo + 1]]. Indices are unsigned here and below: a
    signed index costs a test for negative values, which makes the loop 2.5 times slower.
    """
    one = P.dtype.type(1)
    first_trailing = np.uint32(h)
    for i in range(lo, hi):
        if i < h:
            row = P[i, e:]
            for q in range(col_ptr[i - lo], col_ptr[i - lo + 1]):
                rest = indices[positions[q] : indptr[users[q] + 1]]
                for p in range(len(rest)):
                    row[rest[p]] += one
        else:
            row = P[i - h + 1 - e]
            for q in range(col_ptr[i - lo], col_ptr[i - lo + 1]):
                rest = indices[indptr[users[q]] : positions[q] + 1]
                p = len(rest) - 1
                while p >= 0 and rest[p] >= first_trailing:
                    row[rest[p] - first_trailing] += one
                    p -= 1


@compiled
def gram_values(indptr, indices, data, weight, col_ptr, users, positions, lo, hi, P, h, e, acc):
    """The same for any values and user weights: summed in float64 (``acc``), rounded once when stored."""
    m = len(acc)
    first_trailing = np.uint32(h)
    for i in range(lo, hi):
        acc[:] = 0.0
        for q in range(col_ptr[i - lo], col_ptr[i - lo + 1]):
            u, at = users[q], positions[q]
            scaled = weight[u] * data[at]
            if i < h:
                for p in range(at, indptr[u + 1]):
                    acc[indices[p]] += scaled * data[p]
            else:
                back = np.int64(at)
                while back >= indptr[u] and indices[back] >= first_trailing:
                    acc[indices[back]] += scaled * data[back]
                    back -= 1
        if i < h:
            row = P[i, e:]
            for j in range(i, m):
                row[j] = acc[j]
        else:
            row = P[i - h + 1 - e]
            for j in range(h, i + 1):
                row[j - h] = acc[j]
