"""The published ADMM for low-rank EDLAE, as [Steck20S, section 3] prints it. For comparison only: no part of
offdiag uses it.

It is meant to minimise Eq. 10 of the paper,

    J(U, V) = ‖X − X·off(UVᵀ)‖² + ‖Λ^½·off(UVᵀ)‖²,      off(B) = B without its diagonal,

by giving the diagonal a name, β = diag(UVᵀ), and updating U, V, β and a multiplier γ in turn. The iteration below is
the printed one. Three things about it are worth knowing before its numbers are read:

1. **The printed Lagrangian has the other sign** (its Eq. 27). The printed updates belong to the multiplier term
   +2γᵀΩ(diag(UVᵀ) − β), not to +2γᵀΩ(β − diag(UVᵀ)). The updates are consistent among themselves, so nothing is
   changed here.
2. **The updates of U and V minimise something else.** They are exact for the penalty ‖Ω^½(dMat(β) − UVᵀ)‖² over the
   whole matrix, while Eq. 27 penalises only the diagonal. So Ω shrinks the off-diagonal too, and the points at which
   the iteration rests are stationary for Eq. 10 with Λ + Ω = 2Λ + ωI instead of Λ: the paper's model, regularised
   about twice as much as intended, plus ω. Its dropout, l2 and ω therefore do not carry over to a solver of Eq. 10.
3. **The author's public program differs from the supplement.** Its U step inverts H = G + Λ where the V step uses
   H + Ω, so the two steps disagree, and the objective often rises again after some ten iterations. It clips β at 0,
   although the optimum of Eq. 10 has negative diagonal entries. And it forms the m×m product G·(UVᵀ) only to read its
   diagonal, which `diagonal="product"` does here; `diagonal="rows"` gets the same m numbers from G·U.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = NDArray[np.floating]
SCALE = 1e-2  # of the random start


@dataclass(frozen=True, eq=False)
class Outcome:
    """The factors, the named diagonal, its multipliers, and Eq. 10 after each iteration (where it was tracked)."""

    U: Array  # (m, k)
    V: Array  # (m, k)
    beta: Array  # (m,) what the iteration believes diag(UVᵀ) to be
    gamma: Array  # (m,)
    objectives: list[float]

    @property
    def gap(self) -> float:
        """The largest violation of β = diag(UVᵀ): 0 where the iteration has converged."""
        return float(np.abs(row_dots(self.U, self.V) - self.beta).max(initial=0.0))


def gram(X: Any, dtype: DTypeLike = np.float32) -> Array:
    """G = XᵀX as a full array, from a scipy sparse matrix or an array."""
    product = X.T @ X
    return np.asarray(product.toarray() if hasattr(product, "toarray") else product, dtype=dtype)


def penalty(G: Array, dropout: float, l2: float) -> Array:
    """The diagonal of Λ = p/(1 − p)·diag(G) + l2  # [Steck20 Eq. 4]."""
    return (dropout / (1 - dropout) * np.diag(G) + l2).astype(G.dtype)


def row_dots(A: Array, B: Array) -> Array:
    """diag(ABᵀ) without the m×m product."""
    dots: Array = np.einsum("ij,ij->i", A, B)
    return dots


def objective(G: Array, lam: Array, U: Array, V: Array, GU: Array | None = None) -> float:
    """Eq. 10 at the cost of one product G·U, or none if the caller already has it; sums in float64."""
    GU = G @ U if GU is None else GU
    g = np.diag(G).astype(np.float64)
    HU = GU + lam[:, None] * U
    h = g + lam
    beta = row_dots(U, V).astype(np.float64)
    fits = row_dots(GU, V).astype(np.float64)  # diag(GB)
    square = np.sum((U.T @ HU).astype(np.float64) * (V.T @ V).astype(np.float64))  # tr BᵀHB
    return float(
        g.sum()
        - 2 * (fits.sum() - g @ beta)
        + square
        - 2 * beta @ (fits + lam * beta)  # diag(HB) = diag(GB) + Λβ
        + h @ beta**2
    )


def minimise(
    G: Array,
    rank: int,
    *,
    dropout: float,
    l2: float,
    omega: float,
    iterations: int,
    diagonal: Literal["product", "rows"] = "rows",
    start: Array | None = None,
    seed: int = 0,
    track: bool = True,
) -> Outcome:
    """The printed updates, `iterations` times, with Ω = Λ + ωI.

    `start` is the first V; without it, small random numbers from `seed` (U follows from V, and β and γ start at 0).
    `track=False` leaves out the objective, for timing: with diagonal="product" it costs one extra product.
    """
    if diagonal not in ("product", "rows"):
        raise ValueError(f"diagonal must be 'product' or 'rows', received {diagonal!r}")
    m, dtype = len(G), G.dtype
    g, lam = np.diag(G).copy(), penalty(G, dropout, l2)
    Omega = lam + dtype.type(omega)
    A = np.array(G)
    A[np.diag_indices(m)] += lam + Omega
    A = np.linalg.inv(A)  # (G + Λ + Ω)⁻¹, once
    if start is None:
        start = SCALE * np.random.default_rng(seed).standard_normal((m, rank), dtype=np.float32)
    V = np.array(start, dtype=dtype)
    beta, gamma = np.zeros(m, dtype=dtype), np.zeros(m, dtype=dtype)
    objectives: list[float] = []
    for _ in range(iterations):
        shift = (Omega * (beta - gamma))[:, None]
        U = A @ (G @ ((1 + beta)[:, None] * V) + shift * V) @ np.linalg.inv(V.T @ V)
        GU = G @ U
        P = U.T @ (GU + (lam + Omega)[:, None] * U)
        V = ((1 + beta)[:, None] * GU + shift * U) @ np.linalg.inv(P)
        own = row_dots(U, V)  # diag(UVᵀ)
        fits = np.diag(G @ (U @ V.T)) if diagonal == "product" else row_dots(GU, V)  # diag(G·UVᵀ)
        beta = (fits - g + Omega * (own + gamma)) / (g + Omega - lam)
        gamma = gamma + own - beta
        if track:
            objectives.append(objective(G, lam, U, V, GU))
    return Outcome(U, V, beta, gamma, objectives)
