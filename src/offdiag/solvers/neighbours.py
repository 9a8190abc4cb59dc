"""The nearest neighbours of every item, by a cosine that can be asymmetric.

Problem   for each item i the k largest  s_ji = G_ji / (g_j^balance·g_i^(1 − balance) + shrink), j ≠ i, where G_ji > 0.
Cost      Σ n_u² additions, m·k numbers; no m×m matrix: one column of G at a time.
Equals    for balance ½ and shrink 0: the k largest off-diagonal entries per column of the cosines of X's columns.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.gramian import layout
from offdiag.progress import Progress, of_tasks

ITEMS_AT_ONCE = 64  # a task for one core


def from_data(
    matrix: sparse.csr_array,
    weight: NDArray[np.float64],
    *,
    neighbours: int,
    balance: float,
    shrink: float,
    dtype: Any,
    progress: Progress | None = None,
) -> sparse.csc_array:
    """Column i holds the similarities of its neighbours; user u counts ``weight[u]`` times."""
    from offdiag._kernels import neighbour_lists, parallel

    m = matrix.shape[1]
    by_item = matrix.tocsc()
    with np.errstate(over="ignore"):  # an overflow shows in the similarities
        squares = np.repeat(weight, np.diff(matrix.indptr)) * matrix.data.astype(np.float64) ** 2
        g = np.bincount(matrix.indices, weights=squares, minlength=m).astype(np.float64)
    said, heard = _powers(g, balance)
    who, best = _rooms(m, neighbours, dtype)

    def work(lo: int, hi: int) -> None:
        neighbour_lists.neighbours_from_data(
            matrix.indptr, matrix.indices, matrix.data, weight, by_item.indptr, by_item.indices, by_item.data,
            said, heard, shrink, lo, hi, who, best,
        )  # fmt: skip

    tasks = parallel.ranges(m, -(-m // ITEMS_AT_ONCE))
    parallel.run_parallel(work, tasks, of_tasks(progress, "comparing items", len(tasks)))
    return _columns(who, best)


def from_gram(
    values: NDArray[np.floating],
    m: int,
    scale: float,
    *,
    neighbours: int,
    balance: float,
    shrink: float,
    dtype: Any,
    progress: Progress | None = None,
) -> sparse.csc_array:
    """The same from the packed G = scale·values, a block of its rows at a time."""
    from offdiag._kernels import neighbour_lists, parallel

    said, heard = _powers(values[layout.diagonal_positions(m)].astype(np.float64) * scale, balance)
    who, best = _rooms(m, neighbours, dtype)
    items = np.arange(m)

    def work(lo: int, hi: int) -> None:
        rows = values[layout.positions(m, items[lo:hi], items)].astype(np.float64) * scale
        neighbour_lists.neighbours_from_rows(rows, said, heard, shrink, lo, hi, who, best)

    tasks = parallel.ranges(m, -(-m // ITEMS_AT_ONCE))
    parallel.run_parallel(work, tasks, of_tasks(progress, "comparing items", len(tasks)))
    return _columns(who, best)


def _powers(g: NDArray[np.float64], balance: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The divisor of a similarity, as one factor for the predicting item and one for the predicted item."""
    return g**balance, g ** (1 - balance)


def _rooms(m: int, neighbours: int, dtype: Any) -> tuple[NDArray[np.int32], NDArray[np.floating]]:
    k = max(min(neighbours, m - 1), 1)
    return np.empty((m, k), dtype=np.int32), np.empty((m, k), dtype=dtype)


def _columns(who: NDArray[np.int32], best: NDArray[np.floating]) -> sparse.csc_array:
    found = who >= 0
    ptr = np.concatenate([[0], np.cumsum(found.sum(axis=1))])
    B = sparse.csc_array((best[found], who[found], ptr), shape=(len(who), len(who)))
    B.sort_indices()
    return B
