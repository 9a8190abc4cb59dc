"""The smoothest directions of the data: the leading eigenvectors of a Gram, by a fixed number of products.

For an ideal low-pass filter [Shen21] only the projector Q Qᵀ matters, not the last digits of its smallest directions;
``solvers.spectral`` finds those too, but takes several times as long.
Method    subspace iteration: a random block, and in each round a Chebyshev polynomial of G that is small on [0, c] and
          grows fast above; c is the smallest Ritz value of the block. If the block is a large share of all items, the
          full eigenproblem is solved instead.
Cost      DEGREES + 2 products G @ (m×width), ARRAYS of m×width, width = rank and an eighth more.
"""

import math

import numpy as np

from offdiag.progress import Progress
from offdiag.solvers import Doubles, Floats, Ints, blas
from offdiag.solvers.products import Product
from offdiag.solvers.subspace import unit_columns, whitener

DEGREES = 12  # of all polynomials together
DEGREE = 4  # of one, at most
GROWTH = 1e5  # of the first direction over the last in a round, at most: with more, rounding would hide the last ones
ARRAYS = 8  # of m×width at the peak
SPARE = 16  # columns beyond the rank, at least: they protect the last requested directions
STAGE = "finding smooth directions"


def width(rank: int, m: int) -> int:
    """Number of working columns."""
    return min(m, rank + max(SPARE, rank // 8))


def leading(product: Product, rank: int, *, seed: int = 0, progress: Progress | None = None) -> Floats:
    """Q (m×rank): orthonormal columns, largest eigenvalue first; fewer if X has fewer directions.

    The rows of items without users are 0.
    """
    return leading_pairs(product, rank, seed=seed, progress=progress)[1]


def leading_pairs(
    product: Product, rank: int, *, seed: int = 0, progress: Progress | None = None
) -> tuple[Doubles, Floats]:
    """The same with the eigenvalues, which are exact within the span of Q."""
    live = np.flatnonzero(product.g > 0)
    rank = min(rank, len(live))
    columns = width(rank, len(live))
    if len(live) <= DEGREE * columns:
        return _all(product, live, rank, progress)
    rng = np.random.default_rng(seed)
    spent, V = 0, np.zeros((product.m, 0), dtype=product.dtype)
    while True:
        if V.shape[1] < columns:  # at the start, or when two directions have merged
            fresh = rng.standard_normal((product.m, columns - V.shape[1]), dtype=product.dtype)
            V = np.hstack([V, _orthonormal(product(fresh), V)])
            del fresh
        theta, V, GV = _ritz(V, product)
        if progress:
            progress(STAGE, spent / DEGREES)
        if spent == DEGREES:
            break
        degree, cut = _polynomial(theta, DEGREES - spent)
        V = _orthonormal(_apply_filter(product, V, GV, cut, degree), V[:, :0])
        spent += degree
    real = int(np.count_nonzero(theta[:rank] > _noise(theta, product.m, product.dtype)))
    return theta[:real], np.ascontiguousarray(V[:, :real])


def _all(product: Product, live: Ints, rank: int, progress: Progress | None) -> tuple[Doubles, Floats]:
    """Compute all eigenvectors and keep the first."""
    E = np.zeros((product.m, len(live)), dtype=product.dtype)
    E[live, np.arange(len(live))] = 1
    theta, Y = _eigen(product(E)[live])
    real = int(np.count_nonzero(theta[:rank] > _noise(theta, product.m, product.dtype)))
    Q = np.zeros((product.m, real), dtype=product.dtype)
    Q[live] = Y[:, :real]
    if progress:
        progress(STAGE, 1.0)
    return theta[:real], Q


def _polynomial(theta: Doubles, most: int) -> tuple[int, float]:
    """The degree of the next polynomial and the end of the range in which it stays small."""
    cut = max(float(theta[-1]), 1e-3 * float(theta[0]))
    speed = np.arccosh(max(2 * float(theta[0]) / cut - 1, 1.0))
    degree = DEGREE if speed == 0 else int(np.clip(np.arccosh(GROWTH) / speed, 1, DEGREE))
    return min(degree, most), cut


def _apply_filter(product: Product, V: Floats, GV: Floats, cut: float, degree: int) -> Floats:
    """T(2G/cut − I) V for the Chebyshev polynomial T of this degree."""
    two, four = V.dtype.type(2 / cut), V.dtype.type(4 / cut)
    before: Floats = V
    now: Floats = two * GV - V
    for _ in range(degree - 1):
        after = product(now)
        after *= four
        after -= 2 * now
        after -= before
        before, now = now, after
    return now


def _orthonormal(W: Floats, Q: Floats) -> Floats:
    """An orthonormal basis of the part of span(W) outside span(Q)."""
    eps = float(np.finfo(W.dtype).eps)
    W, _ = unit_columns(W, W, float(np.finfo(W.dtype).tiny))
    for least in (1e4 * eps, 0.5):  # a column that the second pass still shortens is rounding error of the first
        if Q.shape[1]:
            W = blas.product(Q, blas.product(Q, W, transposed=True), alpha=-1, add_to=W)
            W, _ = unit_columns(W, W, least)
        W = blas.product(W, whitener(blas.product(W, W, transposed=True), 100 * eps).astype(W.dtype))
    return W


def _ritz(V: Floats, product: Product) -> tuple[Doubles, Floats, Floats]:
    """The eigenvalues of G within span(V), largest first, their vectors, and G times these."""
    GV = product(V)
    theta, Y = _eigen(blas.product(V, GV, transposed=True))
    Y = np.ascontiguousarray(Y).astype(V.dtype)
    return theta, blas.product(V, Y), blas.product(GV, Y)


def _eigen(T: Floats) -> tuple[Doubles, Doubles]:
    """Largest first."""
    from scipy import linalg

    T = T.astype(np.float64)
    theta, Y = linalg.eigh((T + T.T) / 2, driver="evd")
    return theta[::-1], Y[:, ::-1]


def _noise(theta: Doubles, m: int, dtype: np.dtype[np.floating]) -> float:
    """Eigenvalues up to this one are rounding errors."""
    return 10 * float(np.finfo(dtype).eps) * float(theta[0]) * max(math.sqrt(m), 10.0)
