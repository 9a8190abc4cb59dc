"""DropConnect: single connections of V are dropped, not units; the net is U(Z∘V/θ)ᵀA [Pal20 sec. 4].

A is b×N: the inputs, or the output of the layers before. ``drop`` is the probability that a connection is cut, and
θ = 1 − drop. ``keep`` = θ is the older name of the argument; it still works as a keyword, with a warning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from offdiag.checks import number, whole
from offdiag.errors import OffdiagError
from offdiag.lab import checks, descent, dropblock, equalizer
from offdiag.lab.checks import Matrix
from offdiag.solvers import shrinkage

EXACT = 1e-9  # a gap below this share of ‖Y‖² is rounding
PRECISE = 1e-13  # the share of ‖Y‖² at which the descent stops
MOST_STEPS = 50_000


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best net of its width, and the certified bound below every net of any width with this penalty.

    Example:
        >>> od.lab.dropconnect.optimum(3 * np.eye(2), np.eye(2), width=2, drop=0.5).tight
        True
    """

    product: Matrix  # UVᵀ, (a, b)
    U: Matrix  # (a, width)
    V: Matrix  # (b, width)
    value: float  # the mean loss of U, V
    bound: float  # the value of the dual problem: no net has a smaller mean loss
    rank: int  # of the solution of the convex problem; a net of fewer units cannot attain its value
    tight: bool  # whether value = bound, up to rounding

    @property
    def gap(self) -> float:
        return max(self.value - self.bound, 0.0)


@checks.finite
def expected_loss(Y: Any, U: Any, V: Any, A: Any, drop: float | None = None, *, keep: float | None = None) -> float:
    """E‖Y − U(Z∘V/θ)ᵀA‖² over all masks: ‖Y − UVᵀA‖² + (1−θ)/θ·Σ_k ‖u_k‖² Σ_j V_jk² ‖row j of A‖².

    The noise of each connection is independent, so only the sizes of the inputs count, not how they vary together.

    Example:
        >>> od.lab.dropconnect.expected_loss([[0.0]], [[1.0]], [[1.0], [1.0]], [[1.0], [1.0]], drop=0.5)
        6.0
    """
    odds = _odds(drop, keep)
    Y, U, V, A = checks.net(Y, U, V, A, "A")
    return _mean_loss(Y, U, V, A, odds)


@checks.finite
def papers_form(Y: Any, U: Any, V: Any, A: Any, drop: float | None = None, *, keep: float | None = None) -> float:
    """The same formula as printed: the penalty of dropout, (1−θ)/θ·Σ_k ‖u_k‖² ‖Aᵀv_k‖² [Pal20 Thm. 4.1, Cor. 4.2].

    It treats a column of connections as if they were dropped together. Correct when ``agree(A)``.

    Example:
        >>> od.lab.dropconnect.papers_form([[0.0]], [[1.0]], [[1.0], [1.0]], [[1.0], [1.0]], drop=0.5)
        8.0
    """
    odds = _odds(drop, keep)
    Y, U, V, A = checks.net(Y, U, V, A, "A")
    return _fit(Y, U, V, A) + odds * float(np.sum(U**2, axis=0) @ np.sum((V.T @ A) ** 2, axis=1))


def agree(A: Any, tolerance: float = 1e-9) -> bool:
    """Whether the rows of A are orthogonal, the only case in which both forms are equal for all U, V.

    ``tolerance`` is the largest cosine between two rows that still counts as 0.

    Example:
        >>> od.lab.dropconnect.agree([[1.0, 1.0], [1.0, -1.0]]), od.lab.dropconnect.agree([[1.0, 1.0], [1.0, 0.0]])
        (True, False)
    """
    A = checks.matrix(A, "A", largest=np.inf)
    tolerance = number("tolerance, a cosine,", tolerance, 0, 1)
    # scaled by a power of 2 per row, which is exact: squares neither overflow nor vanish
    A = np.ldexp(A, -np.frexp(np.abs(A).max(axis=1, keepdims=True))[1])
    lengths = np.linalg.norm(A, axis=1, keepdims=True)
    rows = np.divide(A, lengths, out=np.zeros_like(A), where=lengths > 0)
    cosines = rows @ rows.T
    return bool(np.abs(cosines - np.diag(np.diag(cosines))).max() <= tolerance)


def whitened(A: Any) -> Matrix:
    """A rotated and scaled so that its rows are orthonormal: the inputs for which DropConnect is dropout.

    Example:
        >>> A = od.lab.dropconnect.whitened([[2.0, 1.0], [1.0, 2.0]])
        >>> np.allclose(A @ A.T, np.eye(2))
        True
    """
    A = checks.matrix(A, "A")
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    if len(A) > A.shape[1] or s[-1] <= s[0] * max(A.shape) * np.finfo(np.float64).eps:
        raise OffdiagError(
            f"rows that depend on each other cannot be whitened: A is {A.shape[0]}×{A.shape[1]} and needs full row "
            "rank; leave out rows or add samples"
        )
    return np.asarray(U @ Vt)


def optimum(Y: Any, X: Any, width: int, drop: float) -> Optimum:
    """The least mean loss over all U, V of this width: min_A ‖Y − AX‖² + (1−θ)/(θ·width)·‖A·diag(XXᵀ)^½‖_*².

    The penalty of a net is at least that of its product A = UVᵀ, by Cauchy–Schwarz over the units, and equalised
    factors of A attain it if they have as many columns as A has ranks. The problem in A is convex. With B = A·D,
    D = diag(XXᵀ)^½, it is solved by proximal gradient steps with momentum; each prox shrinks singular values by the
    squared nuclear norm, as dropout does. The residual, scaled, is a point of the dual problem, whose value is
    ``bound``. When the rank exceeds the width, the bound is below what a net attains: the net is then polished by
    L-BFGS, ``tight`` is False and ``gap`` the distance.

    Example:
        >>> found = od.lab.dropconnect.optimum([[2.0, 1.0]], [[1.0, 1.0], [1.0, 0.0]], width=1, drop=0.5)
        >>> round(found.value, 6), found.product.round(6).tolist()
        (1.857143, [[0.571429, 0.714286]])
    """
    Y, X = checks.samples(Y, X)
    width, odds = whole("width", width, 1), checks.odds(drop)
    lengths = np.linalg.norm(X, axis=1)
    used = lengths > 0
    if odds < 1e-300 or not used.any() or not Y.any():
        plain = dropblock.optimum(Y, X, width, 1, 0.0 if used.any() and Y.any() else drop)  # no noise, or no signal
        rank = int(np.linalg.matrix_rank(plain.product))
        return Optimum(plain.product, plain.U, plain.V, plain.value, plain.bound, rank, plain.tight)
    size = float(np.linalg.norm(Y))
    R = X[used] / lengths[used, None]
    problem = _Convex((Y / size) @ R.T, R @ R.T, odds / width)
    B, bound = problem.solve()
    W, s, Qt = np.linalg.svd(B, full_matrices=False)
    rank = int(np.count_nonzero(s > s[0] * 1e-9))
    U, T = equalizer.balanced(W, s, Qt.T, width)
    if rank > width:
        U, T = _polished(problem, U, T)
    V = np.zeros((len(X), width))
    V[used] = T / lengths[used, None]
    U, V = U * np.sqrt(size), V * np.sqrt(size)
    value = _mean_loss(Y, U, V, X, odds)
    bound *= size**2
    product = U @ V.T
    checks.in_range(product, "the optimum")
    return Optimum(product, U, V, value, bound, rank, value - bound <= EXACT * size**2)


@dataclass(frozen=True, eq=False)
class _Convex:
    """‖Y − BR‖² + beta·‖B‖_*² for Y of norm 1, by C = YRᵀ and K = RRᵀ, whose diagonal is 1."""

    C: Matrix  # (a, b)
    K: Matrix  # (b, b)
    beta: float

    def solve(self) -> tuple[Matrix, float]:
        """B, and the largest dual value met on the way."""
        step = 1 / float(np.linalg.eigvalsh(self.K)[-1])
        B = ahead = np.zeros_like(self.C)
        momentum, bound = 1.0, 0.0
        for count in range(MOST_STEPS):
            if count % 10 == 0:
                value, dual = self.values(B)
                bound = max(bound, dual)
                if value - bound <= PRECISE:
                    break
            W, m, Qt = np.linalg.svd(ahead + step * (self.C - ahead @ self.K), full_matrices=False)
            shrunk, _ = shrinkage.k_support_prox(m, 1, step * self.beta)
            new = (W * shrunk) @ Qt
            if np.sum((ahead - new) * (new - B)) > 0:  # the momentum points uphill: drop it
                momentum = 1.0
            following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            ahead = new + (momentum - 1) / following * (new - B)
            B, momentum = new, following
        return B, bound

    def values(self, B: Matrix) -> tuple[float, float]:
        """The objective, and the dual value of the residual E = Y − BR scaled as well as possible.

        max_W ⟨W, Y⟩ − ‖W‖²/4 − ‖WRᵀ‖₂²/(4·beta) bounds the minimum from below; along W = 2αE the best value is
        ⟨E, Y⟩²/(‖E‖² + ‖ERᵀ‖₂²/beta).
        """
        fitted, slope = float(np.sum(B * self.C)), self.C - B @ self.K
        error = max(1 - fitted - float(np.sum(B * slope)), 0.0)  # ‖E‖²
        penalty = self.beta * float(np.linalg.svd(B, compute_uv=False).sum()) ** 2
        largest = float(np.linalg.norm(slope, 2))
        below = error + largest**2 / self.beta
        return error + penalty, (1 - fitted) ** 2 / below if below else 0.0


def _polished(problem: _Convex, U: Matrix, T: Matrix) -> tuple[Matrix, Matrix]:
    """Descend on the net itself, from these factors and from two random ones."""
    from scipy.optimize import minimize

    odds = problem.beta * U.shape[1]

    def loss(x: Matrix) -> tuple[float, Matrix]:
        U, T = x[:cut].reshape(shape), x[cut:].reshape(len(problem.K), -1)
        u, v = np.sum(U**2, axis=0), np.sum(T**2, axis=0)
        KT = problem.K @ T
        value = 1 - 2 * np.sum((U.T @ problem.C) * T.T) + np.sum((U.T @ U) * (T.T @ KT)) + odds * float(u @ v)
        by_U = U @ (T.T @ KT) - problem.C @ T + odds * U * v
        by_T = KT @ (U.T @ U) - problem.C.T @ U + odds * T * u
        return float(value), 2 * np.concatenate([by_U.ravel(), by_T.ravel()])

    shape, cut = U.shape, U.size
    rng = np.random.default_rng(0)
    start = np.concatenate([U.ravel(), T.ravel()])
    starts = [start, *(rng.standard_normal(len(start)) * np.sqrt(np.mean(start**2)) for _ in range(2))]
    options: Any = {"maxiter": 5000, "maxfun": 20_000, "gtol": 1e-13, "ftol": 1e-15, "maxcor": 30}
    ends = [minimize(loss, x, jac=True, method="L-BFGS-B", options=options) for x in starts]
    best = min(ends, key=lambda end: float(end.fun)).x
    return best[:cut].reshape(shape), best[cut:].reshape(len(problem.K), -1)


def sgd(
    Y: Any, X: Any, width: int, drop: float | None = None, *, keep: float | None = None, **settings: Any
) -> descent.Trace:
    """Stochastic gradient descent under DropConnect; see ``lab.descent.descend`` for the settings.

    Example:
        >>> run = od.lab.dropconnect.sgd(np.eye(2), np.eye(2), width=2, drop=0.5, learning_rate=0.05)
        >>> bool(run.deterministic[-1] < run.deterministic[0])
        True
    """
    odds = _odds(drop, keep)
    theta = 1 / (1 + odds)
    width = whole("width", width, 1)
    Y, X = checks.samples(Y, X)

    def noise(_count: int, rng: descent.Rng) -> Matrix:
        return (rng.random((len(X), width)) < theta) / theta

    def objective(U: Matrix, V: Matrix) -> float:
        return _mean_loss(Y, U, V, X, odds)

    return descent.descend(Y, X, width, noise, objective, connections=True, **descent.known(settings))


def _odds(drop: Any, keep: Any) -> float:
    """drop/(1 − drop) from either argument."""
    return checks.odds(checks.drop_or_keep(drop, keep, stacklevel=5))


def _mean_loss(Y: Matrix, U: Matrix, V: Matrix, A: Matrix, odds: float) -> float:
    return _fit(Y, U, V, A) + odds * float(np.sum(U**2, axis=0) @ (V**2).T @ np.sum(A**2, axis=1))


def _fit(Y: Matrix, U: Matrix, V: Matrix, A: Matrix) -> float:
    return float(np.sum((Y - U @ (V.T @ A)) ** 2))
