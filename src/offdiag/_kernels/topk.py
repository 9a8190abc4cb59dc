"""Scores of one tile, and heaps of the k best that are carried from tile to tile."""

import numpy as np

from offdiag._kernels.embeddings import add_eight
from offdiag._kernels.parallel import compiled


@compiled
def score_tile(indptr, rows, data, tile, lo, hi, first, out):
    """out[u] = Σ_p data[p] · tile[rows[p], lo:hi] over the history of user first + u, in the order of the history."""
    for u in range(len(out)):
        acc, p, stop = out[u], indptr[first + u], indptr[first + u + 1]
        acc[:] = 0
        while p + 8 <= stop:
            add_eight(
                acc, data, p, tile[rows[p], lo:hi], tile[rows[p + 1], lo:hi], tile[rows[p + 2], lo:hi],
                tile[rows[p + 3], lo:hi], tile[rows[p + 4], lo:hi], tile[rows[p + 5], lo:hi],
                tile[rows[p + 6], lo:hi], tile[rows[p + 7], lo:hi],
            )  # fmt: skip
            p += 8
        while p + 4 <= stop:
            t0, t1 = tile[rows[p], lo:hi], tile[rows[p + 1], lo:hi]
            t2, t3 = tile[rows[p + 2], lo:hi], tile[rows[p + 3], lo:hi]
            v0, v1, v2, v3 = data[p], data[p + 1], data[p + 2], data[p + 3]
            for c in range(len(acc)):
                acc[c] = (((acc[c] + v0 * t0[c]) + v1 * t1[c]) + v2 * t2[c]) + v3 * t3[c]
            p += 4
        while p < stop:
            t0, v0 = tile[rows[p], lo:hi], data[p]
            for c in range(len(acc)):
                acc[c] += v0 * t0[c]
            p += 1


@compiled
def worse(score, item, other_score, other_item):
    """Order of a ranked list: lower score is worse; between equal scores the later item is."""
    return score < other_score or (score == other_score and item > other_item)


@compiled
def sift_down(scores, items, hole, size, score, item):
    """Put (score, item) into a heap whose root is the worst entry, starting from the free slot ``hole``."""
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        if child + 1 < size and worse(scores[child + 1], items[child + 1], scores[child], items[child]):
            child += 1
        if not worse(scores[child], items[child], score, item):
            break
        scores[hole] = scores[child]
        items[hole] = items[child]
        hole = child
    scores[hole] = score
    items[hole] = item


@compiled
def select_tile(tile, lo, allowed, seen_ptr, seen, first, heap_scores, heap_items):
    """Merge scores (users first.. × items lo..) into each user's k best, leaving out seen and disallowed items.

    An empty slot has score -inf and item = n_items, so it is worse than anything real. Tiles come in ascending order
    of items, so a score equal to the worst kept one never displaces it: ties go to the earlier item.
    """
    k = heap_scores.shape[1]
    width = tile.shape[1]
    chunk = 32
    for u in range(first, first + len(tile)):
        scores, items = heap_scores[u], heap_items[u]
        p, stop = seen_ptr[u], seen_ptr[u + 1]
        p += np.searchsorted(seen[p:stop], lo)  # the first seen item that is not before this tile
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
                        sift_down(scores, items, 0, k, part[c], item)
                        threshold = scores[0]


@compiled
def sort_heaps(first, last, heap_scores, heap_items):
    """Turn each heap into a list from best to worst, in place."""
    k = heap_scores.shape[1]
    for u in range(first, last):
        scores, items = heap_scores[u], heap_items[u]
        for end in range(k - 1, 0, -1):
            score, item = scores[end], items[end]
            scores[end], items[end] = scores[0], items[0]
            sift_down(scores, items, 0, end, score, item)
