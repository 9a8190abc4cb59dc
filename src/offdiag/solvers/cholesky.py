"""One in-place packed inverse, and from it every full-rank linear autoencoder with emphasis a ≥ b ≥ 0.

Problem   min_B  w⁻¹·E‖A^½ ∘ (X − Z B/q)‖²  over dropout masks Z, plus l2: [Steck20 Eq. 1, 6]; docs/models.md.
Cost      m³ flops, m(m+1)/2 numbers, nothing else of order m².
Equals    for b = 0: ``C = inv(G + diag(Λ)); B = -C / diag(C)`` with zero diagonal, Λ = c·diag(G) + l2, c = p/(1−p).
"""

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from offdiag import memory
from offdiag.errors import OffdiagError
from offdiag.gramian import layout
from offdiag.progress import Progress
from offdiag.solvers import Doubles, Floats, lapack, precision


@dataclass(frozen=True, eq=False)
class Solution:
    """B_ji = C_ji·scale_i off the diagonal, B_ii = diagonal_i."""

    C: Floats  # packed inverse of H = G + diag(Λ)
    scale: Floats  # (m,) −ν
    diagonal: Floats  # (m,)
    objective: float  # the value at the optimum, in the units of the given G


SMALLER = (
    "use a model without an m×m inverse (od.SparseEDLAE, od.LowRankEDLAE) "
    "or keep fewer items with od.prepare.min_counts(items=...)"
)


def check_feasible(m: int, itemsize: int, *, extra: int = 0, instead: str = SMALLER) -> None:
    """Raise, before anything is computed, when a packed m×m problem cannot be solved on this machine."""
    memory.require(layout.size(m) * itemsize + extra, f"a full-rank model of {m:,} items", instead)


def invert(values: Floats, m: int, progress: Progress | None = None) -> None:
    """Replace a packed positive definite matrix by its inverse."""
    factor(values, m, tick(progress, 0.0, 1 / 3, m**3))
    lapack.pftri(values, m, tick(progress, 1 / 3, 1.0, m**3))
    check_inverse(values[layout.diagonal_positions(m)])


def factor(values: Floats, m: int, report: Callable[[float], None] | None = None) -> None:
    """Replace a packed positive definite matrix by its Cholesky factor."""
    where = layout.diagonal_positions(m)
    h = values[where].astype(np.float64)
    info = lapack.pftrf(values, m, report)
    check_factor(values[where] if info == 0 else None, h, values.dtype)


def check_factor(L_ii: Floats | None, h: Doubles, dtype: np.dtype[Any]) -> None:
    """Reject a Cholesky factor that is missing or made of rounding errors; h = diag(H)."""
    # L_ii² / H_ii is the residual share of item i, regressed on the items before it: at rounding level it is noise.
    pivots = np.zeros(1) if L_ii is None else L_ii.astype(np.float64) ** 2 / h
    if not pivots.min(initial=1.0) > 8 * np.finfo(dtype).eps:
        raise precision.singular(dtype)


def check_inverse(C_ii: Floats) -> None:
    if not np.isfinite(C_ii).all():
        raise OffdiagError("the inverse overflowed; increase l2 or use dtype='float64'")


def solve(
    values: Floats,
    m: int,
    *,
    dropout: float,
    l2: float | Doubles,
    kept_weight: float,
    max_diagonal: float | None = None,
    progress: Progress | None = None,
) -> Solution:
    """All full-rank models from packed G, which is overwritten by C.

    ``dropout`` is p, ``kept_weight`` is b/a (0: full emphasis, EDLAE; 1: none, DLAE), ``l2`` a number or one per item.
    With ``max_diagonal`` = ξ it solves the problem without emphasis under |B_ii| ≤ ξ instead [Moon23].
    """
    where = layout.diagonal_positions(m)
    g = values[where].astype(np.float64)
    precision.check_squares(g)
    problem: Any = {"dropout": dropout, "l2": l2, "kept_weight": kept_weight, "max_diagonal": max_diagonal}
    values[where] = regularised(g, values.dtype, **problem)
    invert(values, m, progress)
    return Solution(values, *read(values[where], g, **problem))


def penalties(g: Doubles, dropout: float, l2: float | Doubles) -> Doubles:
    """Λ = p/(1−p)·g + l2 [Steck20 Eq. 7]."""
    return np.asarray(dropout / (1 - dropout) * g + l2)


def regularised(
    g: Doubles,
    dtype: np.dtype[Any],
    *,
    dropout: float,
    l2: float | Doubles,
    kept_weight: float,
    max_diagonal: float | None = None,
) -> Doubles:
    """diag(H) for g = diag(G), after checking that a matrix of this type can express the penalty."""
    lam = penalties(g, dropout, l2)
    diagonal = kept_weight > 0 or max_diagonal is not None
    precision.check_penalty(g, lam, dtype, dropout=dropout, inverse=True, diagonal=diagonal)
    # A cold item with l2 = 0 would make H singular; its row and column are zero, so any pivot leaves the rest as is.
    return np.where((g == 0) & (lam == 0), 1.0, g + lam)


def read(
    C_diagonal: Floats,
    g: Doubles,
    *,
    dropout: float,
    l2: float | Doubles,
    kept_weight: float,
    max_diagonal: float | None = None,
) -> tuple[Floats, Floats, float]:
    """Scale, diagonal and objective of a ``Solution``, from the diagonals of C and G alone, in the precision of C."""
    lam = penalties(g, dropout, l2)
    cold = g == 0
    C_ii = C_diagonal.astype(np.float64)
    free = lam * C_ii  # in (0, 1]: the share of item i that the others cannot explain
    nu, diagonal = emphasis(lam, C_ii, dropout=dropout, kept_weight=kept_weight, max_diagonal=max_diagonal)
    diagonal[cold] = 0.0
    # Column i contributes g_i − r·β' = ν_i (1 − Λ_i C_ii), and more if its diagonal is at a bound.
    column = nu * (1 - free) if max_diagonal is None else lam + nu * C_ii * (nu - 2 * lam)
    objective = float(np.sum(column[~cold]))
    return (-nu).astype(C_diagonal.dtype), diagonal.astype(C_diagonal.dtype), objective


def emphasis(
    lam: Doubles, C_ii: Doubles, *, dropout: float, kept_weight: float, max_diagonal: float | None = None
) -> tuple[Doubles, Doubles]:
    """ν and the diagonal of B = −C·dMat(ν) off the diagonal, for Λ and the diagonal of C; docs/models.md."""
    if max_diagonal is not None:
        # Column i is the free optimum if its diagonal 1 − Λ_i C_ii is below ξ; otherwise it is at the bound.
        nu = np.maximum(lam, (1 - max_diagonal) / C_ii)
        return nu, 1 - nu * C_ii
    a, b = 1.0, float(kept_weight)
    if b == 0:
        return 1 / C_ii, np.zeros(len(lam))  # [Steck20 Eq. 8]; the diagonal is free here, 0 by convention
    free = lam * C_ii
    w = a * dropout + b * (1 - dropout)
    return a * lam / (b + (a - b) * free), w * (1 - free) / (b + (a - b) * free)  # exact for every b


def tick(progress: Progress | None, start: float, stop: float, flops: float) -> Callable[[float], None] | None:
    """Progress inside LAPACK calls, which report none: elapsed time against all flops at the measured rate."""
    if progress is None:
        return None
    rate = _flops_per_second()

    def report(elapsed: float) -> None:
        progress("inverting", min(start + elapsed * rate / flops, stop))

    return report


@functools.cache
def _flops_per_second() -> float:
    """This machine's matrix product rate, from one product that takes a few hundredths of a second."""
    A = np.ones((1024, 1024), dtype=np.float32)
    A @ A  # the first product also starts the threads
    start = time.perf_counter()
    A @ A
    return float(2 * 1024**3 / (time.perf_counter() - start))
