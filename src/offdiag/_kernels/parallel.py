"""The few compiled loops. Each releases the GIL and works on a range, so plain threads share the work.

Each is tested against an obviously right NumPy twin (``tests/oracles.py``). Positions follow ``offdiag.packed``.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit


def compiled(function: Callable[..., Any], fastmath: Iterable[str] = ("contract",)) -> Any:
    """Compile on first use, to run without the interpreter lock; keep the machine code for later runs if possible."""
    options: dict[str, Any] = {"nogil": True, "fastmath": set(fastmath), "error_model": "numpy"}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # neither the package's folder nor a home is writable, as in some containers
        return njit(**options)(function)


def in_any_order(function: Callable[..., Any]) -> Any:
    """The same where the order of a sum is left to the compiler, which makes it many times faster."""
    return compiled(function, ("contract", "reassoc"))


def n_threads() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_parallel(
    work: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], done: Callable[[int], None] | None = None
) -> None:
    """Call ``work(*task)`` for every task on all cores; ``done`` hears how many have finished.

    Threads take the next task when they are free, so tasks need not be equal. Ctrl-C drops what has not begun.
    """
    tasks = list(tasks)
    if len(tasks) == 1 or n_threads() == 1:
        for finished, task in enumerate(tasks, 1):
            work(*task)
            if done:
                done(finished)
        return
    with ThreadPoolExecutor(n_threads()) as pool:
        futures = [pool.submit(work, *task) for task in tasks]
        try:
            for finished, future in enumerate(as_completed(futures), 1):
                future.result()
                if done:
                    done(finished)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@compiled
def item_totals(indptr, indices, data, counts, sums, pairs):  # type: ignore[no-untyped-def]
    """Per item: how many users have it, the sum of its values, and the length of all those users' rows."""
    for u in range(len(indptr) - 1):
        for p in range(indptr[u], indptr[u + 1]):
            i = indices[p]
            counts[i] += 1
            sums[i] += data[p]
            pairs[i] += indptr[u + 1] - indptr[u]


@compiled
def sums_of_squares(indptr, indices, data, by_item, by_user):  # type: ignore[no-untyped-def]
    """‖column‖² and ‖row‖² of X, without an array of squares."""
    for u in range(len(indptr) - 1):
        for p in range(indptr[u], indptr[u + 1]):
            square = np.float64(data[p]) * np.float64(data[p])
            by_item[indices[p]] += square
            by_user[u] += square


@compiled
def transpose_band(indptr, indices, lo, hi, cursor, users, positions):  # type: ignore[no-untyped-def]
    """For items lo..hi, the users who have each and where in their row it stands; cursor[i - lo] moves along."""
    for u in range(len(indptr) - 1):
        for p in range(indptr[u], indptr[u + 1]):
            i = np.int64(indices[p])
            if lo <= i < hi:
                q = cursor[i - lo]
                users[q] = u
                positions[q] = p
                cursor[i - lo] = q + 1


@compiled
def gram_counts(indptr, indices, col_ptr, users, positions, lo, hi, P, h, e):  # type: ignore[no-untyped-def]
    """Rows of the packed G that belong to items lo..hi, for 0/1 data: add one per pair, straight into place.

    The users of item i are users[col_ptr[i - lo] : col_ptr[i - lo + 1]]. Indices are unsigned here and below: a
    signed one costs a test for negative values, 2.5 times the time of the loop.
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
def gram_values(indptr, indices, data, weight, col_ptr, users, positions, lo, hi, P, h, e, acc):  # type: ignore[no-untyped-def]
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


@compiled
def packed_tile(P, h, e, rows, places, lo, hi, scale, diagonal, out, first, last):  # type: ignore[no-untyped-def]
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
        for r in range(len(mine)):  # what lies in the item's own packed row; then C becomes B
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
def score_tile(indptr, rows, data, tile, lo, hi, first, out):  # type: ignore[no-untyped-def]
    """out[u] = Σ_p data[p] · tile[rows[p], lo:hi] over the history of user first + u.

    Eight rows are taken at a time to spare the accumulator; the sum is nested, so its order is that of the history.
    """
    width = hi - lo
    for u in range(len(out)):
        acc = out[u]
        for c in range(width):
            acc[c] = 0
        p = indptr[first + u]
        stop = indptr[first + u + 1]
        while p + 8 <= stop:
            t0, t1 = tile[rows[p], lo:hi], tile[rows[p + 1], lo:hi]
            t2, t3 = tile[rows[p + 2], lo:hi], tile[rows[p + 3], lo:hi]
            t4, t5 = tile[rows[p + 4], lo:hi], tile[rows[p + 5], lo:hi]
            t6, t7 = tile[rows[p + 6], lo:hi], tile[rows[p + 7], lo:hi]
            v0, v1, v2, v3 = data[p], data[p + 1], data[p + 2], data[p + 3]
            v4, v5, v6, v7 = data[p + 4], data[p + 5], data[p + 6], data[p + 7]
            for c in range(width):
                half = (((acc[c] + v0 * t0[c]) + v1 * t1[c]) + v2 * t2[c]) + v3 * t3[c]
                acc[c] = (((half + v4 * t4[c]) + v5 * t5[c]) + v6 * t6[c]) + v7 * t7[c]
            p += 8
        while p + 4 <= stop:
            t0, t1 = tile[rows[p], lo:hi], tile[rows[p + 1], lo:hi]
            t2, t3 = tile[rows[p + 2], lo:hi], tile[rows[p + 3], lo:hi]
            v0, v1, v2, v3 = data[p], data[p + 1], data[p + 2], data[p + 3]
            for c in range(width):
                acc[c] = (((acc[c] + v0 * t0[c]) + v1 * t1[c]) + v2 * t2[c]) + v3 * t3[c]
            p += 4
        while p < stop:
            t0, v0 = tile[rows[p], lo:hi], data[p]
            for c in range(width):
                acc[c] += v0 * t0[c]
            p += 1


@compiled
def _worse(score, item, other_score, other_item):  # type: ignore[no-untyped-def]
    """Order of a ranked list: lower score is worse; between equal scores the later item is."""
    return score < other_score or (score == other_score and item > other_item)


@compiled
def _sift_down(scores, items, hole, size, score, item):  # type: ignore[no-untyped-def]
    """Put (score, item) into a heap whose root is the worst entry, starting from the free place ``hole``."""
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        if child + 1 < size and _worse(scores[child + 1], items[child + 1], scores[child], items[child]):
            child += 1
        if not _worse(scores[child], items[child], score, item):
            break
        scores[hole] = scores[child]
        items[hole] = items[child]
        hole = child
    scores[hole] = score
    items[hole] = item


@compiled
def select_tile(tile, lo, allowed, seen_ptr, seen, first, heap_scores, heap_items):  # type: ignore[no-untyped-def]
    """Merge scores (users first.. × items lo..) into each user's k best, leaving out seen and disallowed items.

    An empty place has score -inf and item = n_items, so it is worse than anything real. Tiles come in ascending order
    of items, hence a score equal to the worst kept one never displaces it: ties go to the earlier item.
    """
    k = heap_scores.shape[1]
    width = tile.shape[1]
    chunk = 32
    for u in range(first, first + len(tile)):
        scores, items = heap_scores[u], heap_items[u]
        p, stop = seen_ptr[u], seen_ptr[u + 1]
        left, right = p, stop
        while left < right:  # first seen item that is not before this tile
            mid = (left + right) // 2
            if seen[mid] < lo:
                left = mid + 1
            else:
                right = mid
        p = left
        threshold = scores[0]
        for start in range(0, width, chunk):
            part = tile[u - first, start : min(start + chunk, width)]
            promising = False
            for c in range(len(part)):  # no branch inside, so this runs eight at a time; most chunks end here
                promising |= part[c] > threshold
            if not promising:
                continue
            for c in range(len(part)):
                item = lo + start + c
                if part[c] > threshold and allowed[item]:
                    while p < stop and seen[p] < item:
                        p += 1
                    if p == stop or seen[p] != item:
                        _sift_down(scores, items, 0, k, part[c], item)
                        threshold = scores[0]


@compiled
def sort_heaps(first, last, heap_scores, heap_items):  # type: ignore[no-untyped-def]
    """Turn each heap into a list from best to worst, in place."""
    k = heap_scores.shape[1]
    for u in range(first, last):
        scores, items = heap_scores[u], heap_items[u]
        for end in range(k - 1, 0, -1):
            score, item = scores[end], items[end]
            scores[end], items[end] = scores[0], items[0]
            _sift_down(scores, items, 0, end, score, item)


def ranges(n: int, parts: int) -> list[tuple[int, int]]:
    """0..n in at most ``parts`` ranges of nearly equal length."""
    edges = np.linspace(0, n, min(max(parts, 1), max(n, 1)) + 1).astype(np.int64)
    return [(int(a), int(b)) for a, b in pairwise(edges) if b > a]


@compiled
def push_rows(items, ptr, columns, data, weight, V, out):  # type: ignore[no-untyped-def]
    """out[u] = weight[u]·Σ data[p]·V[items[r]] over the p in ptr[r]..ptr[r+1] with columns[p] = u: X V, item by item.

    Each row of V is read once, in order; it is the smaller ``out`` that is visited at random and stays in the cache.
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


@compiled
def gather_rows(items, ptr, columns, data, V, out, first, last):  # type: ignore[no-untyped-def]
    """out[items[r]] += Σ data[p]·V[columns[p]] over p in ptr[r]..ptr[r+1], eight at a time, for r in first..last."""
    width = V.shape[1]
    for r in range(first, last):
        acc = out[items[r]]
        p = ptr[r]
        stop = ptr[r + 1]
        while p + 8 <= stop:
            t0, t1, t2, t3 = V[columns[p]], V[columns[p + 1]], V[columns[p + 2]], V[columns[p + 3]]
            t4, t5, t6, t7 = V[columns[p + 4]], V[columns[p + 5]], V[columns[p + 6]], V[columns[p + 7]]
            v0, v1, v2, v3 = data[p], data[p + 1], data[p + 2], data[p + 3]
            v4, v5, v6, v7 = data[p + 4], data[p + 5], data[p + 6], data[p + 7]
            for c in range(width):
                half = (((acc[c] + v0 * t0[c]) + v1 * t1[c]) + v2 * t2[c]) + v3 * t3[c]
                acc[c] = (((half + v4 * t4[c]) + v5 * t5[c]) + v6 * t6[c]) + v7 * t7[c]
            p += 8
        while p + 2 <= stop:
            t0, t1, v0, v1 = V[columns[p]], V[columns[p + 1]], data[p], data[p + 1]
            for c in range(width):
                acc[c] = (acc[c] + v0 * t0[c]) + v1 * t1[c]
            p += 2
        if p < stop:
            t0, v0 = V[columns[p]], data[p]
            for c in range(width):
                acc[c] += v0 * t0[c]


@compiled
def row_dots(A, B, out, first, last):  # type: ignore[no-untyped-def]
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
def add_scaled_rows(out, d, V, first, last):  # type: ignore[no-untyped-def]
    """out[i] += d[i]·V[i]."""
    width = V.shape[1]
    for i in range(first, last):
        o, v, x = out[i], V[i], d[i]
        for c in range(width):
            o[c] += x * v[c]


@compiled
def combine_rows(a, A, b, B, out, first, last):  # type: ignore[no-untyped-def]
    """out[i] = a[i]·A[i] + b[i]·B[i]; out may be A or B."""
    width = A.shape[1]
    for i in range(first, last):
        o, x, y, s, t = out[i], A[i], B[i], a[i], b[i]
        for c in range(width):
            o[c] = s * x[c] + t * y[c]
