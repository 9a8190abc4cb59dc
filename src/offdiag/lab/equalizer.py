"""Rotations that give all columns of a matrix the same norm, so that no hidden unit matters more than another.

Any U can be equalised by an orthogonal Q [Mianjy18 Thm. 2.2], and UQ(UQ)ᵀ = UUᵀ: the net stays the same. Three ways:
``equalize`` (rotations of two columns at a time, O(dr + r²) for a d×r matrix), ``eqz`` (Algorithm 2 of the paper, an
eigendecomposition per column, O(r⁴)) and ``universal`` (one fixed matrix after an SVD, for r a power of two).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from offdiag.checks import whole
from offdiag.errors import OffdiagError
from offdiag.lab.checks import Matrix, matrix


def equalize(U: Any) -> Matrix:
    """Orthogonal Q (r×r) such that the columns of UQ have equal norms; U is d×r, of any rank, zero included.

    t is the mean of the squared norms. While columns differ, rotate the longest and the shortest into each other
    until one of them has t, and leave that one alone from then on: at most r − 1 rotations.

    Example:
        >>> np.linalg.norm(np.diag([3.0, 1.0]) @ od.lab.equalizer.equalize(np.diag([3.0, 1.0])), axis=0).round(6)
        array([2.236068, 2.236068])
    """
    Q, _ = rotations(U)
    return Q


def rotations(U: Any) -> tuple[Matrix, int]:
    """``equalize``, and the number of rotations it took.

    Example:
        >>> od.lab.equalizer.rotations(np.diag([3.0, 2.0, 1.0]))[1]
        2
    """
    U = _normalise(U)
    d, r = U.shape
    A = np.hstack([U.T, np.eye(r)])  # one row per column of [U; Q]: a rotation touches two contiguous rows
    squares = np.square(U).sum(axis=0)
    t = squares.sum() / r
    count = 0
    while count < r - 1:
        i, j = int(squares.argmax()), int(squares.argmin())  # a column that has t is neither, until all have it
        above, below = squares[i] - t, t - squares[j]
        if min(above, below) <= 4e-16 * t:  # only rounding error is left
            break
        c, s = _angle(above, below, float(A[i, :d] @ A[j, :d]))
        A[[i, j]] = np.array([[c, s], [-s, c]]) @ A[[i, j]]
        squares[i], squares[j] = t, t + above - below
        count += 1
    return np.ascontiguousarray(A[:, d:].T), count


def eqz(U: Any) -> Matrix:
    """Orthogonal Q by the paper's method: one eigendecomposition per column [Mianjy18 Alg. 2]; for comparison.

    The mean of the eigenvectors, scaled to length 1, has the mean eigenvalue as its Rayleigh quotient: it becomes a
    column, and the rest is done on its orthogonal complement. As printed, one index has two meanings, and the comment
    says that the diagonal element becomes zero: it becomes the mean, because the trace is not subtracted.

    Example:
        >>> np.linalg.norm(np.diag([3.0, 1.0]) @ od.lab.equalizer.eqz(np.diag([3.0, 1.0])), axis=0).round(6)
        array([2.236068, 2.236068])
    """
    U = _normalise(U)
    G, r = U.T @ U, U.shape[1]
    Q = np.eye(r)
    for done in range(r - 1):
        vectors = np.linalg.eigh(G)[1]
        w = vectors.sum(axis=1) / np.sqrt(r - done)
        step = np.linalg.qr(w[:, None], mode="complete")[0]  # ±w, then a basis of its orthogonal complement
        G = (step.T @ G @ step)[1:, 1:]
        Q[:, done:] = Q[:, done:] @ step
    return Q


def hadamard(r: int) -> Matrix:
    """Z with entries ±1/√r, orthogonal, for r a power of two: ZᵀDZ has a constant diagonal for every diagonal D.

    Z_{2n} = [[Z_n, Z_n], [−Z_n, Z_n]]/√2 from Z_1 = 1 [Mianjy18 Remark 5.2]; the printed factor, 2^((1−k)/2), is that
    of the whole matrix and must not be applied again at each level.

    Example:
        >>> od.lab.equalizer.hadamard(4)[1]
        array([-0.5,  0.5, -0.5,  0.5])
    """
    r = whole("r", r, 1)
    if r & (r - 1):
        raise OffdiagError(f"r must be a power of two for the universal equaliser, received {r}; use equalize")
    Z = np.ones((1, 1))
    while len(Z) < r:
        Z = np.block([[Z, Z], [-Z, Z]])
    return np.asarray(Z / np.sqrt(r))


def universal(U: Any) -> Matrix:
    """Q = VZ with V the full r×r basis of right singular vectors of U and Z = ``hadamard(r)`` [Mianjy18 Remark 5.2].

    Example:
        >>> np.linalg.norm(np.diag([3.0, 1.0]) @ od.lab.equalizer.universal(np.diag([3.0, 1.0])), axis=0).round(6)
        array([2.236068, 2.236068])
    """
    U = matrix(U, "U", largest=np.inf)
    Z = hadamard(U.shape[1])
    V = np.linalg.svd(U, full_matrices=True)[2].T  # with fewer rows than columns, the compact basis is too small
    return V @ Z


def joint(U: Any, V: Any) -> tuple[Matrix, Matrix]:
    """Another (U, V) with the same width and UVᵀ, all squared norms equal to ‖UVᵀ‖_*/r [Mianjy18 Thm. 3.3].

    Example:
        >>> U, V = od.lab.equalizer.joint(np.diag([3.0, 1.0]), np.eye(2))
        >>> np.square([U, V]).sum(axis=1).round(6).tolist()
        [[2.0, 2.0], [2.0, 2.0]]
    """
    U = matrix(U, "U")
    V = matrix(V, "V", (None, U.shape[1]))
    W, s, Yt = np.linalg.svd(U @ V.T, full_matrices=False)
    return balanced(W, s, Yt.T, U.shape[1])


def balanced(W: Matrix, s: Matrix, Y: Matrix, width: int) -> tuple[Matrix, Matrix]:
    """Equalised factors, ``width`` columns each, of W·diag(s)·Yᵀ; at most ``width`` of the s may differ from 0.

    W√s and Y√s are padded with zero columns before the rotation: without them the norm would be shared among the
    non-zero columns only [Mianjy18 Alg. 3].

    Example:
        >>> U, V = od.lab.equalizer.balanced(np.eye(2), np.array([3.0, 1.0]), np.eye(2), width=4)
        >>> np.square(U).sum(axis=0).round(6)
        array([1., 1., 1., 1.])
    """
    rank = min(len(s), width)
    half = np.zeros((width, width))
    half[np.arange(rank), np.arange(rank)] = np.sqrt(s[:rank])
    Q = equalize(half)  # (W√s)ᵀ(W√s) = diag(s)
    root = half[:rank] @ Q
    return W[:, :rank] @ root, Y[:, :rank] @ root


def spread(U: Any) -> float:
    """(largest − smallest)/mean of the squared column norms; 0 for an equalised matrix, the zero matrix included.

    Example:
        >>> od.lab.equalizer.spread([[1.0, 2.0]])
        1.2
    """
    squares = np.square(_normalise(U)).sum(axis=0)
    return float(np.ptp(squares) / squares.mean()) if squares.any() else 0.0


def _normalise(U: Any) -> Matrix:
    U = matrix(U, "U", largest=np.inf)
    return np.asarray(U / (np.abs(U).max() or 1.0))  # squares neither overflow nor vanish; Q ignores the scale


def _angle(above: float, below: float, g: float) -> tuple[float, float]:
    """Cosine and sine that bring the longer column to the mean: the smaller root of −below·x² + 2gx + above = 0."""
    root = np.sqrt(g * g + above * below)
    x = -above / (g + root if g >= 0 else g - root)
    c = 1 / np.sqrt(1 + x * x)
    return float(c), float(x * c)
