"""How well each l2 would predict an unseen user, exactly and for all l2 from one eigendecomposition.

Problem   the l2 whose ridge regressions (EASE) have the least error on a left-out user; docs/models.md.
Cost      one eigendecomposition of m³ and two products of rows·m² per l2, for the m items given (≤ 1,000 suffice).
Equals    refitting without each user in turn and predicting each of their items from the others.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from offdiag.solvers import Doubles, penalty_path


def user_loss(G: Doubles, X: NDArray[np.float32], weight: Doubles) -> Callable[[float], float]:
    """l2 → mean over the rows x of X of ‖leave-one-out error‖²/‖x‖²; G sums weight·x xᵀ over these and other users."""
    ray = penalty_path.ray(G, np.ones(len(G)))
    Z = ray.project(X)  # (users, m) histories in the eigenbasis

    def loss(l2: float) -> float:
        y, t = ray.apply(Z, l2), ray.quadratic(Z, l2)
        return float(np.mean(penalty_path.left_out(X, y, ray.diagonal(l2), t, weight)))

    return loss


def gram_loss(G: Doubles, n_users: int, leverage: float) -> Callable[[float], float]:
    """l2 → generalised cross-validation from G alone: every user gets the mean leverage, times ``leverage``."""
    theta, Q = np.linalg.eigh(G)
    theta = np.maximum(theta, 0.0)
    Q2 = Q * Q

    def loss(l2: float) -> float:
        D = 1 / (theta + l2)
        C_ii = Q2 @ D
        residual = C_ii - l2 * (Q2 @ (D * D))
        freedom = (theta * D).sum() - residual / C_ii  # degrees of freedom of item i's regression
        return float(np.sum(residual / C_ii**2 / np.maximum(1 - leverage * freedom / n_users, 1e-9) ** 2))

    return loss


def minimum(loss: Callable[[float], float], unit: float) -> float:
    """The l2 with the least loss on unit·2^k, −4 ≤ k ≤ 12: steps of four, then of two, then a parabola in log l2."""
    value = {k: loss(unit * 2.0**k) for k in range(-4, 13, 2)}
    best = min(value, key=lambda k: value[k])
    value |= {k: loss(unit * 2.0**k) for k in (best - 1, best + 1) if -4 <= k <= 12}
    best = min(value, key=lambda k: value[k])
    if best - 1 in value and best + 1 in value:
        left, middle, right = value[best - 1], value[best], value[best + 1]
        bend = left - 2 * middle + right
        if np.isfinite(bend) and bend > 0:
            return float(unit * 2.0 ** (best + np.clip(0.5 * (left - right) / bend, -1, 1)))
    return float(unit * 2.0**best)
