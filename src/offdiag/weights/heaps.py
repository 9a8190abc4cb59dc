"""The k best items of many rows: scores are merged into heaps, tile by tile, and never held at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.weights.protocol import Scorer
from offdiag.weights.tiles import USERS_AT_ONCE

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
    for start in range(0, n, USERS_PER_PASS):
        stop = min(start + USERS_PER_PASS, n)
        part = X if stop - start == n else X[start:stop]
        _fill_heaps(weights, part, exclude_seen, allowed, scores[start:stop], items[start:stop])
    items[items == m] = -1
    return items, scores


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
