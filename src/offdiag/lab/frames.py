"""The factors of a DropBlock net: projections that average to a diagonal matrix make it attain its convex bound.

We want k matrices Q_b (n×s) with orthonormal columns and Σ_b Q_b Q_bᵀ = k·diag(t), where Σ t = s and 0 < t ≤ 1, a
*fusion frame*. ``attainable`` decides whether they exist, ``averaging`` finds them. Always necessary: n ≤ k·s. For
s = 1 that is enough (Schur–Horn) and a rotation finds them; the same for s = n − 1, by complements. k = 2 needs
eigenvalues 2t in pairs (τ, 2 − τ). In general it is Horn's problem for k projections, a linear program: ``lab.hives``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from offdiag.checks import whole
from offdiag.lab import checks, hives
from offdiag.lab.checks import Matrix
from offdiag.lab.equalizer import equalize

CERTAIN = 1e-7  # the tolerance of the linear program
FOUND = 1e-13  # a residual that is rounding


def attainable(t: Matrix, s: int, k: int) -> bool | None:
    """Whether k projections of rank s can average to diag(t); None if undecided, with more than ``hives.LARGEST`` t.

    0 ≤ t ≤ 1 and Σ t = s. Entries 0 and 1 are split off: every projection contains the directions of the 1s and none
    of the 0s. What is left is decided by counting where one dimension remains (Schur–Horn, for the projections or for
    their complements), else by a linear program, which is feasible exactly if they exist [Knutson99, Fulton00].

    Example:
        >>> [od.lab.frames.attainable(np.full(5, 2 / 5), s=2, k=k) for k in (2, 3, 4)]
        [False, False, True]
    """
    t = np.asarray(t, dtype=np.float64)
    s -= int(np.count_nonzero(t == 1))
    t = t[(t > 0) & (t < 1)]
    n = len(t)
    if n == 0:
        return s == 0
    if not 0 < s < n or n > k * s or n > k * (n - s):
        return False
    if s == 1 or n - s == 1:
        return True
    return hives.violation(t * (k * s / t.sum()), s, k) <= CERTAIN if n <= hives.LARGEST else None


def averaging(
    t: Matrix, s: int, k: int, *, seed: int = 0, iterations: int = 2000, patient: bool = False
) -> tuple[Matrix, float]:
    """[Q_1 … Q_k] (n × k·s), and how far Σ_b Q_b Q_bᵀ/k is from diag(t) in its largest entry.

    For s = 1 by rotations; for s > n/2 by orthogonal complements of the solution for 1 − t; else by alternating
    projections: make every block orthonormal, then the sum right, and again; unless ``patient``, until that stalls.
    Whether a residual can reach 0 is decided by ``attainable``; else the result is a start for ``polished``.

    Example:
        >>> Q, residual = od.lab.frames.averaging(np.array([0.5, 0.3, 0.2]), s=1, k=4)
        >>> (Q @ Q.T / 4).round(6).diagonal(), residual < 1e-12
        (array([0.5, 0.3, 0.2]), True)
    """
    t = np.asarray(t, dtype=np.float64)
    n = len(t)
    if n < 2 * s < 2 * n:
        rest, _ = averaging(1 - t, n - s, k, seed=seed, iterations=iterations, patient=patient)
        full = np.linalg.qr(rest.reshape(n, k, n - s).transpose(1, 0, 2), mode="complete")[0]  # (k, n, n)
        Q = np.ascontiguousarray(full[:, :, n - s :].transpose(1, 0, 2).reshape(n, k * s))
        return Q, _residual(Q, t, k)
    lengths = np.sqrt(k * t)  # of the rows of Q
    if s == 1 and k >= n:
        Q = np.hstack([np.diag(lengths), np.zeros((n, k - n))])
        Q = Q @ equalize(Q)
        return Q, _residual(Q, t, k)
    rng = np.random.default_rng(seed)
    Q = rng.standard_normal((n, k * s))
    before = np.inf
    for step in range(iterations):
        Q = _orthonormal_blocks(lengths[:, None] * _polar(lengths[:, None] * Q), k)
        if step % 50 == 0:
            residual = _residual(Q, t, k)
            if residual < FOUND or (not patient and residual > 0.95 * before and residual > 1e-4):
                break
            before = residual
    return Q, _residual(Q, t, k)


def factors(
    m: Matrix, x: Matrix, t: Matrix, width: int, block: int, seed: int, *, balance: bool, patient: bool = False
) -> tuple[Matrix, Matrix]:
    """L (n×width) and R (width×n) with LR = diag(x) whose blocks are as small as the bound, if possible.

    Block b is W^½ [E, Q_b]/√k with W = x/t, E the coordinates with t = 1, and Q_b the projections of ``averaging``.

    Example:
        >>> L, R = od.lab.frames.factors(*np.array([[3, 2], [2, 1], [1, 1]]), 4, 2, seed=0, balance=True)
        >>> (L @ R).round(6).tolist()
        [[2.0, 0.0], [0.0, 1.0]]
    """
    n, k = len(m), width // block
    F = np.zeros((n, width))
    if not balance or n == 0:  # without noise every factorisation is as good
        F[:, :n] = np.diag(np.sqrt(x))
        return F, F.T.copy()
    whole, part = np.flatnonzero(t == 1), np.flatnonzero((t > 0) & (t < 1))
    scale = np.sqrt(np.divide(x, t * k, out=np.zeros(n), where=t > 0))
    blocks = np.zeros((n, k, block))
    blocks[whole, :, np.arange(len(whole))] = 1.0
    s = block - len(whole)
    if len(part) and s:
        Q, _ = averaging(t[part], s, k, seed=seed, iterations=8000 if patient else 2000, patient=patient)
        blocks[part, :, len(whole) :] = Q.reshape(len(part), k, s)
    F = scale[:, None] * blocks.reshape(n, width)
    return F, F.T.copy()


def value(m: Matrix, L: Matrix, R: Matrix, block: int, odds: float) -> float:
    """‖diag(m) − LR‖² + odds·Σ‖L_i R_i‖²; L and R may leave out the last entries of m.

    Example:
        >>> od.lab.frames.value(np.array([3.0, 1.0]), np.eye(2), 2 * np.eye(2), block=1, odds=0.5)
        6.0
    """
    n = len(L)
    fit = np.diag(m[:n]) - L @ R
    return float(np.sum(fit**2) + np.sum(m[n:] ** 2)) + odds * float(np.sum(block_squares(L, R, block)))


def polished(m: Matrix, L: Matrix, R: Matrix, block: int, odds: float) -> tuple[Matrix, Matrix]:
    """The best of a few descents on the reduced problem, one of them from L, R.

    Example:
        >>> L, R = od.lab.frames.polished(np.array([3.0, 1.0]), np.eye(2), np.eye(2), block=1, odds=1.0)
        >>> round(float(np.trace(L @ R)), 4)
        2.0
    """
    from scipy.optimize import minimize

    n, width = len(m), L.shape[1]
    C = np.kron(np.eye(width // block), np.full((block, block), odds))
    scale = float(m @ m)

    def loss(theta: Matrix) -> tuple[float, Matrix]:
        left, right = theta[: n * width].reshape(n, width), theta[n * width :].reshape(width, n)
        error = left @ right - np.diag(m)
        inner, hidden = left.T @ left, right @ right.T
        value = np.sum(error**2) + np.sum(C * inner * hidden)
        by_left = error @ right.T + left @ (C * hidden)
        by_right = left.T @ error + (C * inner) @ right
        return float(value) / scale, np.concatenate([by_left.ravel(), by_right.ravel()]) * (2 / scale)

    rng = np.random.default_rng(0)
    size = np.sqrt(m.max() / width)
    start = np.zeros((2, n, width))
    start[0, : len(L)], start[1, : len(L)] = L, R.T
    large = n * width > 400  # local minima differ little there, and descents are expensive
    options: Any = {"maxiter": 600 if large else 5000, "maxfun": 20_000, "gtol": 1e-13, "ftol": 1e-14, "maxcor": 30}
    found = []
    for trial in (0, 3) if large else range(4):
        nudged = start + size * (0.03 if trial < 2 else 1.0) * rng.standard_normal(start.shape) * (trial > 0)
        x0 = np.concatenate([nudged[0].ravel(), nudged[1].T.ravel()])
        found.append(minimize(loss, x0, jac=True, method="L-BFGS-B", options=options))
    best = min(found, key=lambda descent: descent.fun)
    return best.x[: n * width].reshape(n, width), best.x[n * width :].reshape(width, n)


def block_squares(U: Matrix, T: Matrix, block: int) -> Matrix:
    """‖U_i T_i‖² of each block, where T is the hidden layer (width×N).

    Example:
        >>> od.lab.frames.block_squares(np.eye(2), np.diag([3.0, 4.0]), block=1)
        array([ 9., 16.])
    """
    whole("block", block, 1)
    k = checks.blocks(U.shape[1], block)
    left, right = (M.reshape(len(M), k, block).transpose(1, 2, 0) for M in (U, T.T))  # (k, block, rows)
    inner, hidden = (part @ part.transpose(0, 2, 1) for part in (left, right))
    return np.asarray(np.maximum(np.sum(inner * hidden, axis=(1, 2)), 0.0))


def _residual(Q: Matrix, t: Matrix, k: int) -> float:
    return float(np.abs(Q @ Q.T / k - np.diag(t)).max())


def _polar(M: Matrix) -> Matrix:
    """The nearest matrix with orthonormal rows or columns."""
    U, _, Vt = np.linalg.svd(M, full_matrices=False)
    return np.asarray(U @ Vt)


def _orthonormal_blocks(Q: Matrix, k: int) -> Matrix:
    n, columns = Q.shape
    parts = Q.reshape(n, k, columns // k).transpose(1, 0, 2)  # (k, n, s)
    U, _, Vt = np.linalg.svd(parts, full_matrices=False)
    return np.ascontiguousarray((U @ Vt).transpose(1, 0, 2).reshape(n, columns))
