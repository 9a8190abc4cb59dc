"""Each item regressed on all others with an elastic net: sparse weights, to a certified distance from the optimum.

Problem   min_B  ½‖X − XB‖² + l2/2·‖B‖² + l1·Σ|B_ji|,  diag(B) = 0, and B ≥ 0 if asked [Ning11]; docs/baselines.md.
Cost      per column, about six passes over the rows of G that belong to its weights: m·nnz(B) flops each in total.
Equals    sklearn's ElasticNet(fit_intercept=False) per column, alpha = (l1 + l2)/n, l1_ratio = l1/(l1 + l2).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from offdiag import _kernels
from offdiag._kernels import parallel
from offdiag.progress import Progress, of_tasks
from offdiag.solvers import Floats

COPIED = 1024  # items whose part of G is worth copying out (8 MB); for more, whole rows of G are read
COLUMNS_AT_ONCE = 16  # a task for one core; a column takes a few milliseconds at most


@dataclass(frozen=True, eq=False)
class Solution:
    B: sparse.csc_array  # (m, m), rows ascending in each column
    objective: float  # in the units of the given G
    gap: float  # certified, the largest over the columns, relative to the column's value without any weight, ½g_i
    total_gap: float  # certified, of all columns together: the objective is at most this far above its minimum
    passes: int  # over all items, maximum over the columns


def solve(
    G: Floats,
    *,
    l1: float,
    l2: float,
    non_negative: bool,
    tolerance: float,
    max_iterations: int,
    start: sparse.csc_array | None = None,
    progress: Progress | None = None,
) -> Solution:
    """All columns from the full symmetric G, each until its gap is at most tolerance·½g_i; ``start`` speeds it up.

    The working set of a column grows by the items that would gain most, and is solved by coordinate descent on its own
    small Gram. The gap is that of the whole problem, in float64, whatever the type of G.
    """
    m = len(G)
    diagonal = np.array(G.diagonal())  # a copy: a view of one item is read-only, for which all would compile again
    if start is None:
        start = sparse.csc_array((m, m), dtype=G.dtype)
    ptr, rows = start.indptr.astype(np.int64), start.indices.astype(np.int64)
    values = start.data.astype(G.dtype)
    facts = np.zeros((m, 3))
    found: dict[int, Any] = {}

    def columns(lo: int, hi: int) -> None:
        found[lo] = _kernels.elastic_net.elastic_net_columns(
            G, diagonal, lo, hi, l1, l2, non_negative, tolerance, max_iterations, COPIED, ptr, rows, values, facts
        )

    tasks = parallel.ranges(m, -(-m // COLUMNS_AT_ONCE))
    parallel.run_parallel(columns, tasks, of_tasks(progress, "solving columns", len(tasks)))
    parts = [found[lo] for lo, _ in tasks]
    counts, rows, data = (np.concatenate([part[n] for part in parts]) for n in range(3))
    B = sparse.csc_array((data, rows, np.concatenate([[0], np.cumsum(counts)])), shape=(m, m))
    primal, gaps, passes = facts.T
    used = diagonal > 0
    worst = float((gaps[used] / (0.5 * diagonal[used].astype(np.float64))).max(initial=0.0))
    return Solution(B, float(primal.sum()), worst, float(gaps.sum()), int(passes.max(initial=0)))
