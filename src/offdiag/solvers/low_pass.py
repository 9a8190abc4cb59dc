"""The smoothest directions of the data: the leading eigenvectors of a Gram, by a fixed number of products.

For an ideal low-pass filter [Shen21] only the projector Q Qᵀ on the data matters, not which vectors span it, nor the
last digits of the smallest of them; ``solvers.spectral`` finds those too and takes several times as long.
Method    block Lanczos: a random block, times G, then each block times G again, orthonormal to all before; the best
          combinations of all blocks (Rayleigh-Ritz). Where the blocks could hold every item, the whole eigenproblem.
Cost      BLOCKS + 1 products G @ (m×width), BLOCKS + 2 arrays of m×width, width = rank and a little more.
"""

import numpy as np
from numpy.typing import NDArray

from offdiag.progress import Progress
from offdiag.solvers import blas
from offdiag.solvers.products import Product
from offdiag.solvers.subspace import whitener

BLOCKS = 4
SPARE = 16  # columns beyond the rank, at least: the last directions asked for are not cut off by chance
STAGE = "finding smooth directions"


def width(rank: int, m: int) -> int:
    """Columns of a block."""
    return min(m, rank + max(SPARE, rank // 16))


def leading(product: Product, rank: int, *, seed: int = 0, progress: Progress | None = None) -> NDArray[np.floating]:
    """Q (m×rank or narrower): orthonormal columns, largest eigenvalue first, none where X has no direction left.

    The rows of items nobody has are 0.
    """
    live = np.flatnonzero(product.g > 0)
    rank = min(rank, len(live))
    columns = width(rank, len(live))
    if BLOCKS * columns >= len(live):
        return _all(product, live, rank, progress)
    Q = np.zeros((product.m, BLOCKS * columns), dtype=product.dtype)
    T = np.zeros((Q.shape[1], Q.shape[1]))
    start = np.random.default_rng(seed).standard_normal((product.m, columns), dtype=product.dtype)
    W, size = product(start), 0  # one product already turns chance towards what matters
    del start
    for block in range(BLOCKS):
        W = _new_directions(W, Q[:, :size])
        if not W.shape[1]:
            break
        done, size = size, size + W.shape[1]
        Q[:, done:size] = W
        W = product(W)
        T[:size, done:size] = blas.product(Q[:, :size], W, transposed=True)  # the rest of T follows by symmetry
        T[done:size, :done] = T[:done, done:size].T
        if progress:
            progress(STAGE, (block + 1) / BLOCKS)
    Y = _largest(T[:size, :size], rank, product.dtype)
    return blas.product(Q[:, :size], Y)


def _all(product: Product, live: NDArray[np.int64], rank: int, progress: Progress | None) -> NDArray[np.floating]:
    E = np.zeros((product.m, len(live)), dtype=product.dtype)
    E[live, np.arange(len(live))] = 1
    Q = np.zeros((product.m, 0), dtype=product.dtype)
    if len(live):
        Y = _largest(product(E)[live], rank, product.dtype)
        Q = np.zeros((product.m, Y.shape[1]), dtype=product.dtype)
        Q[live] = Y
    if progress:
        progress(STAGE, 1.0)
    return Q


def _new_directions(W: NDArray[np.floating], Q: NDArray[np.floating]) -> NDArray[np.floating]:
    """An orthonormal basis of what W has and Q has not; the second time removes what rounding left of Q."""
    cut = 100 * float(np.finfo(W.dtype).eps)
    for _ in range(2):
        if Q.shape[1]:
            blas.product(Q, blas.product(Q, W, transposed=True), alpha=-1, add_to=W)
        W = blas.product(W, whitener(blas.product(W, W, transposed=True), cut).astype(W.dtype))
    return W


def _largest(T: NDArray[np.floating], rank: int, dtype: np.dtype[np.floating]) -> NDArray[np.floating]:
    """The eigenvectors of the ``rank`` largest eigenvalues, largest first, without those that are rounding."""
    from scipy import linalg

    T = T.astype(np.float64)
    first = max(len(T) - rank, 0)
    values, Y = linalg.eigh((T + T.T) / 2, subset_by_index=(first, len(T) - 1))
    real = values > len(T) * float(np.finfo(dtype).eps) * values[-1]
    return np.ascontiguousarray(Y[:, real][:, ::-1].astype(dtype))
