"""Why dropout has no bad local minima: a direction of descent at every critical point that is not a global minimum.

f(U, V) = ‖M − UVᵀ‖² + λ·Σ‖u_i‖²‖v_i‖², tied (V = U, M symmetric) or not, for every λ and every width. ``escape``
carries out the proof of docs/theory/no-bad-minima.md, which removes the condition on λ from [Mianjy18 Thm. 4.3].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from offdiag.errors import OffdiagError
from offdiag.lab import checks, landscape
from offdiag.lab.checks import Matrix

Reason = Literal["nothing learnt", "unequal units", "unused unit", "better direction"]
ZERO = 1e-6  # relative: below it a norm, or a difference of singular values, counts as zero


@dataclass(frozen=True, eq=False)
class Escape:
    """A direction of length 1 in which a critical point curves downwards, and which step of the proof found it.

    Example:
        >>> od.lab.saddles.escape([[2.0]], [[0.0]], drop=0.5).reason
        'unused unit'
    """

    F: Matrix  # moves U
    K: Matrix  # moves V; the same as F for tied weights
    curvature: float  # the second derivative of f along it, negative
    reason: Reason


@checks.finite
def curvature(M: Any, U: Any, drop: float, F: Any, V: Any = None, K: Any = None) -> float:
    """The second derivative of f(U + tF, V + tK) at t = 0; leave out V and K for tied weights.

    Example:
        >>> od.lab.saddles.curvature([[2.0]], [[0.0]], drop=0.5, F=[[1.0]])
        -8.0
    """
    lam, tied = checks.odds(drop), V is None
    M = (checks.symmetric if tied else checks.matrix)(M, "M")
    U = checks.matrix(U, "U", (M.shape[0], None))
    F = checks.matrix(F, "F", U.shape)
    V = U if tied else checks.matrix(V, "V", (M.shape[1], U.shape[1]))
    K = F if tied else checks.matrix(K, "K", V.shape)
    fit = np.sum((F @ V.T + U @ K.T) ** 2) - 2 * np.sum((M - U @ V.T) * (F @ K.T))
    units = _dots(U, U) * _dots(K, K) + _dots(V, V) * _dots(F, F) + 4 * _dots(U, F) * _dots(V, K)
    return float(2 * fit + 2 * lam * units.sum())


def escape(M: Any, U: Any, drop: float, V: Any = None) -> Escape | None:
    """A direction of negative curvature at this critical point, None if it is a global minimum.

    The direction is built, not searched for: (1) units of different importance are rotated into each other; (2) a
    combination of units that does nothing takes up a singular pair of M that is worth more than λ·‖u‖‖v‖; (3) a pair
    in use is turned towards a better one that is not. Where none of the three is possible the point is global.
    Untied weights need drop > 0.

    Example:
        >>> best = od.lab.dropout.optimum(np.diag([3.0, 1.0]), width=2, drop=0.5)
        >>> od.lab.saddles.escape(np.diag([3.0, 1.0]), best.U, 0.5, best.V) is None
        True
    """
    lam, tied = checks.odds(drop), V is None
    slope = landscape.gradient(M, U, drop, V)
    M = np.asarray(M, dtype=np.float64)
    U = np.asarray(U, dtype=np.float64)
    V = U if tied else np.asarray(V, dtype=np.float64)
    if not tied and lam == 0:
        raise OffdiagError("untied weights need drop > 0 here: without dropout units are not tied to singular pairs")
    scale = float(np.linalg.norm(M, 2)) or 1.0
    steepest = max(float(np.abs(part).max()) for part in ((slope,) if tied else slope))
    largest = float(max(np.abs(U).max(), np.abs(V).max()))
    if steepest > ZERO * scale * max(largest, float(np.sqrt(scale))):
        raise OffdiagError(f"not a critical point: the gradient has an entry of {steepest:.3g}; follow it downhill")
    c = np.ones(U.shape[1]) if tied else _balance(U, V, scale, lam)
    step = _direction(M, U * c, V / c, lam, scale, tied)
    if step is None:
        return None
    F, K, reason = step
    F, K = F / c, K * c  # f is the same for (U·c, V/c), so the curvature is, too
    length = float(np.sqrt(np.sum(F**2) + (0 if tied else np.sum(K**2))))
    F, K = F / length, K / length
    found = curvature(M, U, drop, F) if tied else curvature(M, U, drop, F, V, K)
    return Escape(F, K, found, reason) if found < 0 else None


def _direction(
    M: Matrix, U: Matrix, V: Matrix, lam: float, scale: float, tied: bool
) -> tuple[Matrix, Matrix, Reason] | None:
    """The proof, for balanced units: ‖u_i‖ = ‖v_i‖, or one of them 0 and the other small."""
    width = U.shape[1]
    importance = np.sqrt(_dots(U, U) * _dots(V, V))
    most, least = int(importance.argmax()), int(importance.argmin())
    F, K = np.zeros_like(U), np.zeros_like(V)
    if importance[most] <= ZERO * scale and not tied:  # UVᵀ = 0
        W, sigma, Yt = np.linalg.svd(M)
        if sigma[0] == 0:
            return None
        F[:, 0], K[:, 0] = W[:, 0], Yt[0]
        return F, K, "nothing learnt"
    if lam > 0 and importance[most] - importance[least] > ZERO * importance[most]:
        for unit, other, sign in ((most, least, 1.0), (least, most, -1.0)):
            F[:, unit], K[:, unit] = sign * U[:, other], sign * V[:, other]
        return F, K, "unequal units"
    left, s, Qt = np.linalg.svd(U)
    used = int(np.sum(s > np.sqrt(ZERO * scale)))
    right = left if tied else np.hstack([V @ Qt[:used].T / s[:used], np.zeros((len(V), 0))])
    right = right if tied else np.hstack([right, _complement(right)])
    free = _top(left[:, used:].T @ M @ right[:, used:], tied)
    if free is None:
        return None
    w, value, y = left[:, used:] @ free[0], free[1], right[:, used:] @ free[2]
    if used < width and value > lam * float(importance.mean()) + ZERO * scale:
        return np.outer(w, Qt[-1]), np.outer(y, Qt[-1]), "unused unit"
    worst = _bottom(left[:, :used].T @ M @ right[:, :used], tied) if used else None
    if worst is not None and value > worst[1] + ZERO * scale:
        return (
            np.outer(w, worst[0] @ left[:, :used].T @ U),
            np.outer(y, worst[2] @ right[:, :used].T @ V),
            "better direction",
        )
    return None


def _balance(U: Matrix, V: Matrix, scale: float, lam: float) -> Matrix:
    """c with ‖c·u_i‖ = ‖v_i/c‖; where one of them is 0 the other becomes short, which changes nothing in f."""
    a, b = np.sqrt(_dots(U, U)), np.sqrt(_dots(V, V))
    live = a * b > ZERO * scale
    size = float((a * b).max()) if live.any() else scale / (1 + lam)
    short = 0.5 * np.sqrt(size)
    with np.errstate(divide="ignore", invalid="ignore"):
        c = np.where(live, np.sqrt(b / a), np.where(a >= b, short / a, b / short))
    return np.where(np.isfinite(c) & (c > 0), c, 1.0)


def _complement(Q: Matrix) -> Matrix:
    """An orthonormal basis of what is orthogonal to the columns of Q, which are orthonormal."""
    return np.asarray(np.linalg.svd(Q, full_matrices=True)[0][:, Q.shape[1] :]) if Q.shape[1] else np.eye(len(Q))


def _pairs(A: Matrix, tied: bool) -> tuple[Matrix, Matrix, Matrix]:
    """Left vectors, values in decreasing order, right vectors."""
    if tied:
        values, vectors = np.linalg.eigh((A + A.T) / 2)
        return vectors[:, ::-1], values[::-1], vectors[:, ::-1]
    W, sigma, Yt = np.linalg.svd(A, full_matrices=False)
    return W, sigma, Yt.T


def _top(A: Matrix, tied: bool) -> tuple[Matrix, float, Matrix] | None:
    if not A.size:
        return None
    W, sigma, Y = _pairs(A, tied)
    return W[:, 0], float(sigma[0]), Y[:, 0]


def _bottom(A: Matrix, tied: bool) -> tuple[Matrix, float, Matrix]:
    W, sigma, Y = _pairs(A, tied)
    return W[:, -1], float(sigma[-1]), Y[:, -1]


def _dots(A: Matrix, B: Matrix) -> Matrix:
    return np.asarray(np.sum(A * B, axis=0))
