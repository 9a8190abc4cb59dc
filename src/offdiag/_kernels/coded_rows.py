"""Compiled loops for compressed weights: scores and lists straight from the codes, and the choice of entries to keep.

Row j of W is a run of (gap, code): each entry is ``gap + 1`` columns after the previous one, the first ``gap``
columns from the left edge. Its value is code × scale of its column, so the scale is applied once per score.
Each loop works on a range without the interpreter lock, and has a slow twin in the tests.
"""

import numpy as np

from offdiag._kernels.elastic_net import keep_best
from offdiag._kernels.parallel import compiled
from offdiag._kernels.sparse_rows import rank_touched


@compiled
def valid_rows(indptr, gaps, m, first, last):
    """Whether the rows first..last lie inside ``gaps`` and end before column m."""
    for r in range(first, last):
        lo, hi = np.int64(indptr[r]), np.int64(indptr[r + 1])
        if lo < 0 or hi < lo or hi > len(gaps):
            return False
        column = np.int64(-1)
        for p in range(lo, hi):
            column += np.int64(gaps[p]) + 1
            if column >= m:
                return False
    return True


@compiled
def columns_of(indptr, gaps, first, last, out):
    """out: the columns of the entries of rows first..last, in storage order."""
    at = 0
    for r in range(first, last):
        column = np.int64(-1)
        for p in range(np.int64(indptr[r]), np.int64(indptr[r + 1])):
            column += np.int64(gaps[p]) + 1
            out[at] = column
            at += 1


@compiled
def find(indptr, gaps, rows, target, out):
    """out[r]: the position of entry (rows[r], target), -1 if it is not stored."""
    for r in range(len(rows)):
        column, out[r] = np.int64(-1), -1
        for p in range(np.int64(indptr[rows[r]]), np.int64(indptr[rows[r] + 1])):
            column += np.int64(gaps[p]) + 1
            if column >= target:
                if column == target:
                    out[r] = p
                break


@compiled
def skip_to(gaps, begin, before, last, hi, end, after):
    """From position begin[r], whose predecessor is in column before[r], to the first entry at or after column hi."""
    for r in range(len(begin)):
        p, column = begin[r], before[r]
        while p < last[r] and column + np.int64(gaps[p]) + 1 < hi:
            column += np.int64(gaps[p]) + 1
            p += 1
        end[r], after[r] = p, column


@compiled
def score_tile(indptr, rows, data, begin, before, end, gaps, codes, table, scale, lo, first, out):
    """out[u] = Σ_p data[p] · W[rows[p], lo:] over the history of user first + u, in float32.

    ``table`` holds the value of each code; it is empty if a code is its own value.
    """
    coded = len(table) > 0
    for u in range(len(out)):
        acc = out[u]
        acc[:] = 0
        for p in range(indptr[first + u], indptr[first + u + 1]):
            x, r = data[p], rows[p]
            j = before[r] - lo
            for q in range(begin[r], end[r]):
                j += np.int64(gaps[q]) + 1
                acc[j] += x * (table[np.int64(codes[q])] if coded else np.float32(codes[q]))
        for c in range(len(acc)):
            acc[c] *= scale[lo + c]


@compiled
def select(indptr, history, data, seen_ptr, W_ptr, gaps, codes, table, scale, allowed, first, last, scores, items):
    """Put the k best items of users first..last into their heaps, visiting only items reachable from the history."""
    m = len(allowed)
    coded = len(table) > 0
    acc, stamp, touched = np.empty(m, np.float32), np.full(m, -1, np.int32), np.empty(m, np.int32)
    for u in range(first, last):
        n = 0
        for p in range(indptr[u], indptr[u + 1]):
            x, r = data[p], history[p]
            j = np.int64(-1)
            for q in range(np.int64(W_ptr[r]), np.int64(W_ptr[r + 1])):
                j += np.int64(gaps[q]) + 1
                part = x * (table[np.int64(codes[q])] if coded else np.float32(codes[q]))
                if stamp[j] != u:
                    stamp[j] = u
                    acc[j] = part
                    touched[n] = j
                    n += 1
                else:
                    acc[j] += part
        seen = history[seen_ptr[u] : seen_ptr[u + 1]]
        rank_touched(acc, scale, stamp, touched, n, u, seen, allowed, scores[u], items[u])


# The choice of entries. A block holds columns lo.. of W: column lo + c is values[ptr[c]:ptr[c + 1]], in the given
# rows, or in rows 0, 1, … if ``rows`` is empty.


@compiled
def _strength(value, boost):
    """|value|·boost in float32, positive for any nonzero value."""
    s = abs(np.float32(value)) * boost
    return np.float32(1e-45) if s == 0.0 and value != 0.0 else s


@compiled
def _row(ptr, rows, c, q):
    """The row of entry q, which is in column c of the block."""
    return np.int64(rows[q]) if len(rows) else q - ptr[c]


@compiled
def _span(ptr, rows, c, first, last):
    """Where the entries of column c in rows first..last begin and end; if rows are listed, those of all rows."""
    return (ptr[c], ptr[c + 1]) if len(rows) else (ptr[c] + first, ptr[c] + last)


@compiled
def _is_kept(value, boost, j, tau, cut, cut_item, first_item):
    """Whether to keep entry j of a column; the strongest of the column is always kept."""
    s = _strength(value, boost)
    if s < tau or s < cut or (s == cut and j > cut_item):
        return s > 0.0 and j == first_item
    return s > 0.0


@compiled
def column_cuts(ptr, rows, values, boost, keep, lo, first, last, cut, cut_item, first_item):
    """For columns first..last of a block: the strongest entry, and the weakest of the ``keep`` strongest.

    Ties go to the earlier row. cut[i] stays 0 where all entries are kept. Returns whether all values are finite.
    """
    best, who = np.empty(keep, np.float32), np.empty(keep, np.int64)
    finite = True
    for c in range(first, last):
        size, top, entries = 0, np.float32(0), 0
        crowded = ptr[c + 1] - ptr[c] > keep
        for q in range(ptr[c], ptr[c + 1]):
            j = _row(ptr, rows, c, q)
            s = _strength(values[q], boost[j])
            finite &= np.isfinite(np.float32(values[q]))
            if s > 0.0:
                entries += 1
                if s > top:
                    top, first_item[lo + c] = s, j
                if crowded:
                    size = keep_best(s, j, best, who, size)
        if entries > keep:
            cut[lo + c], cut_item[lo + c] = best[0], who[0]
    return finite


@compiled
def strengths(ptr, rows, values, boost, lo, first, last, cut, cut_item, first_item, part, counts):
    """Count entries by the upper half of the bits of their strength or, within one ``part``, by the lower half.

    The bits of positive floats sort like the floats. The strongest entry of each column counts in the last bin.
    """
    most = 0
    for c in range(first, last):
        most = max(most, ptr[c + 1] - ptr[c])
    floats = np.empty(most, np.float32)
    bits = floats.view(np.uint32)
    for c in range(first, last):
        n, own = 0, (cut[lo + c], cut_item[lo + c], first_item[lo + c])
        for q in range(ptr[c], ptr[c + 1]):
            j = _row(ptr, rows, c, q)
            if _is_kept(values[q], boost[j], j, np.float32(0), *own):
                if j != own[2]:
                    floats[n] = _strength(values[q], boost[j])
                    n += 1
                elif part < 0:
                    counts[-1] += 1
        for a in range(n):
            if part < 0:
                counts[bits[a] >> np.uint32(16)] += 1
            elif np.int64(bits[a] >> np.uint32(16)) == part:
                counts[bits[a] & np.uint32(0xFFFF)] += 1


@compiled
def count_rows(ptr, rows, values, boost, lo, first, last, tau, cut, cut_item, first_item, before, sizes, limits, top):
    """Slots that rows first..last need for this block, for each longest step in ``limits``; returns the entry count.

    before[j] is the last column in which row j has an entry. top[c]: the largest |value| kept in column lo + c.
    """
    entries = 0
    for c in range(len(ptr) - 1):
        i = lo + c
        begin, end = _span(ptr, rows, c, first, last)
        for q in range(begin, end):
            j = _row(ptr, rows, c, q)
            if first <= j < last and _is_kept(values[q], boost[j], j, tau, cut[i], cut_item[i], first_item[i]):
                for w in range(len(limits)):
                    sizes[w, j] += 1 + (i - before[j] - 1) // limits[w]
                before[j] = i
                entries += 1
                top[c] = max(top[c], abs(np.float32(values[q])))
    return entries


@compiled
def fill_rows(
    ptr, rows, values, boost, lo, first, last, tau, cut, cut_item, first_item, before, cursor, ends, limit, scale,
    whole, gaps, codes,
):  # fmt: skip
    """Store the kept entries of rows first..last: value / scale, rounded to the nearest integer if ``whole``.

    A step too long for one gap is split by stored zeros. Returns False if a row does not fit its slots.
    """
    for c in range(len(ptr) - 1):
        i = lo + c
        begin, end = _span(ptr, rows, c, first, last)
        for q in range(begin, end):
            j = _row(ptr, rows, c, q)
            if first <= j < last and _is_kept(values[q], boost[j], j, tau, cut[i], cut_item[i], first_item[i]):
                step = i - before[j] - 1
                if cursor[j] + step // limit >= ends[j]:
                    return False
                while step >= limit:
                    gaps[cursor[j]], codes[cursor[j]] = limit - 1, 0
                    cursor[j] += 1
                    step -= limit
                share = np.float32(values[q]) / scale[i]
                gaps[cursor[j]], codes[cursor[j]] = step, min(max(np.rint(share), -127), 127) if whole else share
                cursor[j] += 1
                before[j] = i
    return True
