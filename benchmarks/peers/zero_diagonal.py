"""The published alternation for Eq. 11, as [Steck20S, section 4] prints it. For comparison only.

    min ‖X − XUVᵀ‖² + ‖Λ^½UVᵀ‖²   subject to diag(UVᵀ) = 0

Each half step minimises exactly under the constraint, so the diagonal is 0 after every one and the objective never
rises. But the constraint ties the two blocks together: the alternation can stop at a point that is not stationary for
both at once, where the multipliers of the two half steps (`eta_v`, `eta_u`) still differ. An iteration costs O(m³), for
the m×m system of Eq. 32.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
SCALE = 1e-2  # of the random start
VOID = 1e-6  # a diagonal entry of the projector K below this is a row v_i = 0: nothing to constrain


@dataclass(frozen=True, eq=False)
class Outcome:
    """The factors, the multipliers of both half steps, and Eq. 11's objective after each half step."""

    U: Array  # (m, k)
    V: Array  # (m, k)
    eta_v: Array  # (m,) Eq. 30
    eta_u: Array  # (m,) Eq. 32
    objectives: list[float]  # V, U, V, U, …


def objective(G: Array, lam: Array, U: Array, V: Array) -> float:
    """tr G − 2 tr(GB) + tr(BᵀHB) with B = UVᵀ, from one product G·U; sums in float64."""
    GU = G @ U
    square = (U.T @ (GU + lam[:, None] * U)).astype(np.float64) * (V.T @ V).astype(np.float64)
    return float(np.diag(G).sum(dtype=np.float64) - 2 * np.sum(GU * V, dtype=np.float64) + square.sum())


def minimise(
    G: Array,
    rank: int,
    *,
    dropout: float,
    l2: float,
    iterations: int,
    start: Array | None = None,
    seed: int = 0,
    track: bool = True,
) -> Outcome:
    """V given U, then U given V, `iterations` times. `start` is the initial U; by default, small random numbers."""
    if rank < 2:
        raise ValueError(
            "with rank 1 a zero diagonal leaves v_i = 0 wherever u_i is not: there is nothing to alternate"
        )
    m, dtype = len(G), G.dtype
    lam = (dropout / (1 - dropout) * np.diag(G) + l2).astype(dtype)  # [Steck20 Eq. 4]
    H = np.array(G)
    H[np.diag_indices(m)] += lam
    C = np.linalg.inv(H)
    if start is None:
        start = SCALE * np.random.default_rng(seed).standard_normal((m, rank), dtype=np.float32)
    U = np.array(start, dtype=dtype)
    V = np.zeros_like(U)
    eta_v = eta_u = np.zeros(m, dtype=dtype)
    objectives: list[float] = []
    for _ in range(iterations):
        D = np.linalg.inv(U.T @ (H @ U))  # (k, k)
        GU, UD = G @ U, U @ D
        own = np.einsum("ij,ij->i", UD, U)  # diag(UDUᵀ)
        eta_v = np.einsum("ij,ij->i", UD, GU) / np.where(own > 0, own, 1)  # [Steck20S Eq. 30]; u_i = 0: no constraint
        V = (GU - eta_v[:, None] * U) @ D  # [Steck20S Eq. 29]
        if track:
            objectives.append(objective(G, lam, U, V))
        W = V @ np.linalg.inv(V.T @ V)
        GW = G @ W
        K = W @ V.T  # (m, m), the projector onto the columns of V
        void = np.diag(K) < VOID
        right = np.where(void, 0, np.einsum("ij,ij->i", C @ GW, V))
        K *= C
        K[void, void] = 1
        eta_u = np.linalg.solve(K, right)  # [Steck20S Eq. 32]
        U = C @ (GW - eta_u[:, None] * W)  # [Steck20S Eq. 31]
        if track:
            objectives.append(objective(G, lam, U, V))
    return Outcome(U, V, eta_v, eta_u, objectives)
