"""DropConnect: single connections of V are dropped, not units; the net is U(Z∘V/θ)ᵀA [Pal20 sec. 4].

A is b×N: the inputs, or the output of the layers before. ``keep`` is θ, the probability that a connection stays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from offdiag.checks import number, whole
from offdiag.errors import OffdiagError
from offdiag.lab import checks, descent
from offdiag.lab.checks import Matrix


@checks.finite
def expected_loss(Y: Any, U: Any, V: Any, A: Any, keep: float) -> float:
    """E‖Y − U(Z∘V/θ)ᵀA‖² over all masks: ‖Y − UVᵀA‖² + (1−θ)/θ·Σ_k ‖u_k‖² Σ_j V_jk² ‖row j of A‖².

    The noise of each connection is independent, so only the sizes of the inputs count, not how they vary together.

    Example:
        >>> od.lab.dropconnect.expected_loss([[0.0]], [[1.0]], [[1.0], [1.0]], [[1.0], [1.0]], keep=0.5)
        6.0
    """
    Y, U, V, A, odds = _validate(Y, U, V, A, keep)
    return _fit(Y, U, V, A) + odds * float(np.sum(U**2, axis=0) @ (V**2).T @ np.sum(A**2, axis=1))


@checks.finite
def papers_form(Y: Any, U: Any, V: Any, A: Any, keep: float) -> float:
    """The same formula as printed: the penalty of dropout, (1−θ)/θ·Σ_k ‖u_k‖² ‖Aᵀv_k‖² [Pal20 Thm. 4.1, Cor. 4.2].

    It treats a column of connections as if they were dropped together. Correct when ``agree(A)``.

    Example:
        >>> od.lab.dropconnect.papers_form([[0.0]], [[1.0]], [[1.0], [1.0]], [[1.0], [1.0]], keep=0.5)
        8.0
    """
    Y, U, V, A, odds = _validate(Y, U, V, A, keep)
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


def sgd(Y: Any, X: Any, width: int, keep: float, **settings: Any) -> descent.Trace:
    """Stochastic gradient descent under DropConnect; see ``lab.descent.descend`` for the settings.

    Example:
        >>> run = od.lab.dropconnect.sgd(np.eye(2), np.eye(2), width=2, keep=0.5, learning_rate=0.05)
        >>> bool(run.deterministic[-1] < run.deterministic[0])
        True
    """
    theta = checks.keep(keep)
    width = whole("width", width, 1)
    Y, X = checks.samples(Y, X)
    odds, inputs = (1 - theta) / theta, np.sum(X**2, axis=1)

    def noise(_count: int, rng: descent.Rng) -> Matrix:
        return (rng.random((len(X), width)) < theta) / theta

    def objective(U: Matrix, V: Matrix) -> float:
        return _fit(Y, U, V, X) + odds * float(np.sum(U**2, axis=0) @ (V**2).T @ inputs)

    return descent.descend(Y, X, width, noise, objective, connections=True, **descent.known(settings))


def _validate(Y: Any, U: Any, V: Any, A: Any, keep: float) -> tuple[Matrix, Matrix, Matrix, Matrix, float]:
    theta = checks.keep(keep)
    return *checks.net(Y, U, V, A, "A"), (1 - theta) / theta


def _fit(Y: Matrix, U: Matrix, V: Matrix, A: Matrix) -> float:
    return float(np.sum((Y - U @ (V.T @ A)) ** 2))
