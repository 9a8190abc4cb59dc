"""A symmetric positive definite matrix as tiles on workers, and its inverse; no worker ever holds a whole one.

Problem   C = H⁻¹ by H = RᵀR, M = R⁻ᵀ, C = MᵀM, upper tiles of R and C, lower tiles of M.
Cost      m³ flops over all workers; m² numbers at the peak, two triangles; each worker receives 3 triangles in all.
Equals    ``scipy.linalg.inv`` of the whole, to rounding.

The tiles of column j belong to worker j mod W: a task runs where the column it adds to is, and the other tiles it
needs, those of one row of R or one column of M, come once to every worker. The parts are waited for in turn, because
Dask drops a copy only when no task that it knows of will need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offdiag.cluster import tiles
from offdiag.cluster.placement import Homes
from offdiag.cluster.stages import Stage

if TYPE_CHECKING:
    from distributed import Future

DEPTH = 4  # products that one task adds: fewer tasks, and 2·DEPTH + 2 tiles in a worker's memory at once
Tiles = dict[tuple[int, int], "Future"]


def invert(work: Stage, A: Tiles, H_ii: list[NDArray[np.float64]]) -> Tiles:
    """The upper tiles of the inverse; ``A``, the upper tiles of H, is emptied on the way."""
    n, homes = len(H_ii), Homes.of(work.client)
    R = _factor(work, homes, A, H_ii)
    work.wait(list(R.values()), 0.0, 1 / 3)
    M = _triangle(work, homes, R, n)
    work.wait(list(M.values()), 1 / 3, 2 / 3)
    C = _square(work, homes, M, n)
    work.wait(list(C.values()), 2 / 3, 1.0)
    return C


def _factor(work: Stage, homes: Homes, A: Tiles, H_ii: list[NDArray[np.float64]]) -> Tiles:
    """R of RᵀR = A, row by row; what finished rows take from the rest is subtracted DEPTH rows at a time."""
    n = len(H_ii)
    R: Tiles = {}
    for k in range(n):
        pending = range(k - k % DEPTH, k)
        for j in range(k, n):
            home = homes.near(j)
            if pending:
                A[k, j] = work.submit(tiles.less, A[k, j], *_pairs(R, R, pending, k, j), **home)
            if j == k:
                R[k, k] = work.submit(tiles.factor, A.pop((k, k)), H_ii[k], **home)
            else:
                R[k, j] = work.submit(tiles.solved, R[k, k], A.pop((k, j)), **home)
        if k % DEPTH == DEPTH - 1:
            rows = range(k - DEPTH + 1, k + 1)
            for i in range(k + 1, n):
                for j in range(i, n):
                    A[i, j] = work.submit(tiles.less, A[i, j], *_pairs(R, R, rows, i, j), **homes.near(j))
    return R


def _triangle(work: Stage, homes: Homes, R: Tiles, n: int) -> Tiles:
    """M = R⁻ᵀ: M_ij = −R_iiᵀ⁻¹ Σ_{j ≤ k < i} R_kiᵀ M_kj; column i of R is let go once row i of M is asked for."""
    M: Tiles = {}
    for i in range(n):
        for j in range(i):
            home = homes.near(j)
            total = _chain(work, home, R, M, range(j, i), i, j)
            M[i, j] = work.submit(tiles.solved, R[i, i], total, -1.0, **home)
        M[i, i] = work.submit(tiles.inverted, R[i, i], **homes.near(i))
        for k in range(i + 1):
            del R[k, i]
    return M


def _square(work: Stage, homes: Homes, M: Tiles, n: int) -> Tiles:
    """C = MᵀM: C_ij = Σ_{k ≥ j} M_kiᵀ M_kj for i ≤ j, column i of M after column."""
    C: Tiles = {}
    for i in range(n):
        for j in range(i, n):
            C[i, j] = _chain(work, homes.near(j), M, M, range(j, n), i, j)
        C[i, i] = work.submit(tiles.mirrored, C[i, i], **homes.near(i))
    return C


def _chain(work: Stage, home: dict[str, Any], left: Tiles, right: Tiles, rows: range, i: int, j: int) -> Future:
    """Σ left_kiᵀ right_kj over k, a few at a time."""
    total: Future | None = None
    for lo in range(rows.start, rows.stop, DEPTH):
        some = range(lo, min(lo + DEPTH, rows.stop))
        total = work.submit(tiles.products, total, *_pairs(left, right, some, i, j), **home)
    assert total is not None
    return total


def _pairs(left: Tiles, right: Tiles, rows: range, i: int, j: int) -> list[Future]:
    return [tile for k in rows for tile in (left[k, i], right[k, j])]
