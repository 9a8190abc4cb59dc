"""Work on all cores, item by item: each task has the entries of a few items, found by a transpose of the rows.

All additions of one item fall into its own row of a sum, so no two threads write the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag import _kernels
from offdiag._kernels import parallel

SMALL_BAND = 1 << 20  # bytes of transpose not worth splitting further


def run_by_item(
    indptr: NDArray[np.int64],
    indices: NDArray[np.uint32],
    counts: NDArray[np.int64],
    cost: NDArray[np.int64],
    work: Callable[..., None],
    *,
    max_bytes: int,
    report: Callable[[float], None] | None = None,
) -> None:
    """``work(col_ptr, users, positions, lo, hi)`` for ranges of items that together cover all of them.

    The entries of item i are at ``positions[col_ptr[i - lo] : col_ptr[i - lo + 1]]``, and belong to these ``users``.
    ``counts`` is the number of entries of each item, ``cost`` what its work costs. The transpose takes 8 bytes per
    entry; built for a band of items at a time, it stays below ``max_bytes`` or 1 MiB.
    """
    finished_cost, whole_cost = 0, max(int(cost.sum()), 1)
    for lo, hi, col_ptr, users, positions in transposed_bands(indptr, indices, counts, max_bytes):
        # Equal shares of the cost, not of items: popular items would keep one core busy at the end.
        parts = [(lo + a, lo + b) for a, b in parallel.shares(cost[lo:hi], 32 * parallel.n_threads())]
        tasks: list[Any] = [(col_ptr[a - lo : b - lo + 1], users, positions, a, b) for a, b in parts]
        band_cost = int(cost[lo:hi].sum())

        def done(finished: int, before: int = finished_cost, band: int = band_cost, of: int = len(parts)) -> None:
            if report:
                report((before + band * finished / of) / whole_cost)

        parallel.run_parallel(work, tasks, done)
        finished_cost += band_cost


def transposed_bands(
    indptr: NDArray[np.int64], indices: NDArray[np.uint32], counts: NDArray[np.int64], max_bytes: int
) -> Iterator[tuple[int, int, NDArray[np.int64], NDArray[np.int32], NDArray[Any]]]:
    """lo, hi, col_ptr, users and positions, for bands of items whose transpose takes ``max_bytes`` or 1 MiB at most."""
    n = len(indices)
    for lo, hi in parallel.shares(counts, -(-n // (max(max_bytes, SMALL_BAND) // 8))):
        col_ptr = np.concatenate([[0], np.cumsum(counts[lo:hi])])
        users = np.empty(col_ptr[-1], dtype=np.int32)
        positions = np.empty(col_ptr[-1], dtype=np.int32 if n < 2**31 else np.int64)
        _kernels.pair_counts.transpose_band(indptr, indices, lo, hi, col_ptr[:-1].copy(), users, positions)
        yield lo, hi, col_ptr, users, positions
