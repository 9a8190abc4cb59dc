"""Weights near given ones: a full-rank linear autoencoder with a prior on B.

Problem   min_B  ‖X − XB‖² + ‖Λ^½ B‖² + w‖B − W‖²,  diag(B) = 0, free, or at most ξ;  Λ = p/(1−p)·diag(G) + l2
Cost      m³ flops for the inverse and 2m³ for its product with W; packed C, W and B in memory
Equals    ``C = inv(G + diag(Λ + w)); M = C @ (G + w*W); B = M - C * (diag(M) / diag(C))`` for a zero diagonal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from offdiag.gramian import layout
from offdiag.progress import Progress
from offdiag.solvers import Doubles, Floats, blas, cholesky, precision

ROWS = 1024  # of B that are completed at a time


class Solution(NamedTuple):
    B: Floats
    objective: float  # at the optimum, in the units of the given G


def solve(
    values: Floats,
    W: Floats,
    weight: float,
    *,
    dropout: float,
    l2: float | Doubles,
    kept_weight: float = 0.0,
    max_diagonal: float | None = None,
    progress: Progress | None = None,
) -> Solution:
    """B from packed G, which is overwritten by the inverse, and C-ordered W, which is not; ``weight`` is above 0.

    ``kept_weight`` is 0 for a zero diagonal or 1 for a free one; ``max_diagonal`` = ξ bounds it instead.
    """
    m = len(W)
    where = layout.diagonal_positions(m)
    g = values[where].astype(np.float64)
    precision.check_squares(g)
    lam = cholesky.penalties(g, dropout, l2) + weight
    precision.check_penalty(g, lam, values.dtype, dropout=dropout, inverse=True, diagonal=True)
    values[where] = g + lam
    cholesky.invert(values, m, progress)
    B = blas.symmetric_product(values, W, weight)  # w C W
    C_ii, own = values[where].astype(np.float64), np.diag(B).astype(np.float64)
    # C G = I − C dMat(Λ + w), so M = I − C dMat(Λ + w) + w C W, and a column of B is M less a multiple of C's.
    free = 1 - lam * C_ii + own
    diagonal = free if kept_weight else np.zeros(m)
    if max_diagonal is not None:
        diagonal = np.clip(free, -max_diagonal, max_diagonal)
    nu = (1 + own - diagonal) / C_ii
    explained = np.zeros(m)
    for lo in range(0, m, ROWS):
        rows = np.arange(lo, min(lo + ROWS, m))
        part = B[rows] - (values[layout.positions(m, rows, np.arange(m))] * nu).astype(B.dtype)
        part[np.arange(len(rows)), rows] = diagonal[rows]
        B[rows] = part
        prior = W[rows].astype(np.float64)
        explained += (prior * (prior - part)).sum(axis=0)
    # Column i: the normal equations leave w(‖W_i‖² − W_i·B_i − W_ii) + (ν_i − λ_i)(1 − B_ii) + λ_i B_ii.
    objective = weight * (explained - np.diag(W)) + (nu - lam) * (1 - diagonal) + lam * diagonal
    return Solution(B, float(objective.sum()))
