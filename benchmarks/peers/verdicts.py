"""Does a peer compute what it says? Its weights against the optimality condition of its model, in float64.

EASE and full-rank EDLAE minimise ‖X − XB‖² + ‖Λ^½B‖² with a zero diagonal, Λ = p/(1 − p)·diag(G) + l2, so
(G + Λ)B − G must be 0 off the diagonal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FLOAT32_IS_FINE = 1e-3  # a larger residual is not rounding


def penalty(G: NDArray[np.float64], l2: float, dropout: float) -> NDArray[np.float64]:
    """The diagonal of Λ  # [Steck20 Eq. 4]."""
    return dropout / (1 - dropout) * np.diag(G) + l2


def exact(G: NDArray[np.float64], l2: float, dropout: float) -> NDArray[np.float64]:
    """The weights that satisfy the condition."""
    C = np.linalg.inv(G + np.diag(penalty(G, l2, dropout)))
    B: NDArray[np.float64] = -C / np.diag(C)
    np.fill_diagonal(B, 0.0)
    return B


def residual(G: NDArray[np.float64], B: NDArray[np.float64], l2: float, dropout: float) -> float:
    """The largest entry of (G + Λ)B − G off the diagonal, as a part of the largest of G there.

    A diagonal of B that is not 0 is a violation as well, in units of the largest weight.
    """
    H = G + np.diag(penalty(G, l2, dropout))
    R = H @ B - G
    off = ~np.eye(len(G), dtype=bool)
    scale, weight = np.abs(G[off]).max(initial=0.0) or 1.0, np.abs(B).max(initial=0.0) or 1.0
    return max(float(np.abs(R[off]).max(initial=0.0) / scale), float(np.abs(np.diag(B)).max(initial=0.0) / weight))


def checked(X: Any, B: Any, l2: float, dropout: float) -> dict[str, float]:
    """The residual of the weights by which a package ranks, and of their transpose if that fits better."""
    X = X.astype(np.float64)
    G, B = (X.T @ X).toarray(), np.asarray(B, dtype=np.float64)
    out = {"residual": residual(G, B, l2, dropout)}
    if out["residual"] > FLOAT32_IS_FINE:
        out["residual_transposed"] = residual(G, B.T, l2, dropout)
    return out
