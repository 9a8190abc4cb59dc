"""The k best items of many rows: scores are merged into heaps, tile by tile, and never held at once."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.weights.protocol import Scorer
from offdiag.weights.tiles import USERS_AT_ONCE

LITTLE = 1 << 20  # weights that are read
FEW = 16  # users
USERS_PER_PASS = 16_384  # bounds the working memory; each pass reads the weights once


def top_k(
    weights: Scorer,
    X: sparse.csr_array,
    k: int,
    *,
    exclude_seen: bool = True,
    allowed: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
    """Columns and scores of the k best items per row of X; -1 and -inf where none are left.

    Equal scores go to the earlier column, so the result does not depend on batches, tiles or threads.
    """
    n, m = X.shape
    allowed = np.ones(m, dtype=np.bool_) if allowed is None else allowed
    items = np.full((n, k), m, dtype=np.int64)
    scores = np.full((n, k), -np.inf, dtype=weights.dtype)
    if k == 0:
        return items, scores
    if _is_little_work(weights, X):
        for u in range(n):
            history = X.indices[X.indptr[u] : X.indptr[u + 1]]
            found, best = _plain_list(weights, history, k, exclude_seen, allowed)
            items[u, : len(found)], scores[u, : len(found)] = found, best
        items[items == m] = -1
        return items, scores
    for start in range(0, n, USERS_PER_PASS):
        stop = min(start + USERS_PER_PASS, n)
        part = X if stop - start == n else X[start:stop]
        _fill_heaps(weights, part, exclude_seen, allowed, scores[start:stop], items[start:stop])
    items[items == m] = -1
    return items, scores


def _is_little_work(weights: Scorer, X: sparse.csr_array) -> bool:
    """Whether loading the compiled loops, if they are not, would take longer than doing without."""
    if "numba" in sys.modules or X.nnz > LITTLE // X.shape[1] or X.shape[0] > FEW or not X.nnz:
        return False
    return weights.row(int(X.indices[0])) is not None and bool((X.data == 1).all())


def _plain_list(
    weights: Scorer, history: NDArray[Any], k: int, exclude_seen: bool, allowed: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
    """The list of one user, with the bits of the compiled loops, which add the rows in the same order."""
    scores = np.zeros(len(allowed), dtype=weights.dtype)
    for item in history.tolist():
        scores += weights.row(item)
    listed = allowed & (scores > -np.inf)
    if exclude_seen:
        listed[history] = False
    candidates = np.flatnonzero(listed)
    best = candidates[np.argsort(-scores[candidates], kind="stable")[:k]]
    return best, scores[best]


def _fill_heaps(
    weights: Scorer,
    X: sparse.csr_array,
    exclude_seen: bool,
    allowed: NDArray[np.bool_],
    heap_scores: NDArray[np.floating],
    heap_items: NDArray[np.int64],
) -> None:
    from offdiag._kernels import parallel, topk

    seen_ptr = X.indptr if exclude_seen else np.zeros_like(X.indptr)
    shares = parallel.ranges(X.shape[0], -(-X.shape[0] // USERS_AT_ONCE))

    def rank(score: Any, lo: int, first: int, last: int) -> None:
        topk.select_tile(score(first, last), lo, allowed, seen_ptr, X.indices, first, heap_scores, heap_items)

    if select := weights.selector(X, seen_ptr, allowed, heap_scores, heap_items):
        parallel.run_parallel(select, shares)
    else:
        for lo, hi, score in weights.score_tiles(X):
            if allowed[lo:hi].any():
                parallel.run_parallel(rank, [(score, lo, first, last) for first, last in shares])
    parallel.run_parallel(topk.sort_heaps, [(first, last, heap_scores, heap_items) for first, last in shares])
