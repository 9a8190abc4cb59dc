"""The nearest neighbours of every item, by a cosine that can be asymmetric.

Problem   for each item i the k largest  s_ji = G_ji / (g_j^balance·g_i^(1 − balance) + shrink), j ≠ i, where G_ji > 0.
Cost      Σ n_u² additions, m·k numbers; no m×m matrix: one column of G at a time.
Equals    for balance ½ and shrink 0: the k largest off-diagonal entries per column of the cosines of X's columns.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from offdiag import _kernels
from offdiag._kernels import parallel
from offdiag.gramian import layout, user_weights
from offdiag.progress import Progress, of_tasks
from offdiag.solvers import Doubles, Floats

ITEMS_AT_ONCE = 64  # a task for one core


@dataclass(frozen=True, eq=False)
class Source:
    """Where similarities come from: g = diag(G), and a compiled loop that compares the items lo..hi with all."""

    g: Doubles
    compare: Callable[..., None]  # (left, right, shrink, lo, hi, who, best)


def from_data(matrix: sparse.csr_array, weight: Doubles) -> Source:
    """From interactions; user u counts ``weight[u]`` times."""
    rows, columns = ((X.indptr, X.indices, X.data) for X in (matrix, matrix.tocsc()))
    g = user_weights.diagonal(*rows, weight, matrix.shape[1])
    return Source(g, functools.partial(_kernels.neighbour_lists.neighbours_from_data, *rows, weight, *columns))


def from_gram(values: Floats, m: int, scale: float) -> Source:
    """From the packed G = scale·values, a block of its rows at a time."""
    items = np.arange(m)

    def compare(left: Doubles, right: Doubles, shrink: float, lo: int, hi: int, *best: Any) -> None:
        rows = values[layout.positions(m, items[lo:hi], items)].astype(np.float64) * scale
        _kernels.neighbour_lists.neighbours_from_rows(rows, left, right, shrink, lo, hi, *best)

    return Source(values[layout.diagonal_positions(m)].astype(np.float64) * scale, compare)


def nearest(
    source: Source, *, neighbours: int, balance: float, shrink: float, dtype: Any, progress: Progress | None = None
) -> sparse.csc_array:
    """Column i holds the similarities of its neighbours."""
    m = len(source.g)
    left, right = source.g**balance, source.g ** (1 - balance)  # of the predicting and of the predicted item
    k = max(min(neighbours, m - 1), 1)
    who, best = np.empty((m, k), dtype=np.int32), np.empty((m, k), dtype=dtype)

    def work(lo: int, hi: int) -> None:
        source.compare(left, right, shrink, lo, hi, who, best)

    tasks = parallel.ranges(m, -(-m // ITEMS_AT_ONCE))
    parallel.run_parallel(work, tasks, of_tasks(progress, "comparing items", len(tasks)))
    found = who >= 0
    ptr = np.concatenate([[0], np.cumsum(found.sum(axis=1))])
    B = sparse.csc_array((best[found], who[found], ptr), shape=(m, m))
    B.sort_indices()
    return B
