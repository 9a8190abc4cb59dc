"""What every shape of W shares: tiles of scores, and products put together from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.errors import OffdiagError

# (lo, hi, score): score(first, last) gives the scores of items lo..hi for users first..last, from any thread
Tile = tuple[int, int, Callable[[int, int], NDArray[np.floating]]]

TILE_BYTES = 96 << 20  # of weights: wide enough that reading the packed rows runs at full speed

DENSE_WIDTH = 2048  # columns at a time straight from dense weights: long runs, and the scores still in the cache
USERS_AT_ONCE = 128  # their scores on a tile stay in the second-level cache until they are ranked


class Weights(Protocol):
    """What ranking, models and persist ask of W."""

    kind: ClassVar[str]

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def nbytes(self) -> int: ...
    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]: ...
    def column(self, items: NDArray[np.int64], target: int) -> NDArray[np.floating]: ...
    def toarray(self) -> NDArray[np.floating]: ...
    def arrays(self) -> dict[str, NDArray[Any]]: ...


def _rows(X: Any, m: int) -> sparse.csr_array:
    """X as rows over m items; the compiled loops trust the shape."""
    if getattr(X, "ndim", 0) != 2 or X.shape[1] != m:
        raise OffdiagError(f"expected users × {m} items, received {getattr(X, 'shape', type(X).__name__)}")
    return sparse.csr_array(X)


class Tiled:
    """What all share: the product ``X @ W``, put together from the tiles."""

    __array_ufunc__ = None  # let ``X @ W`` reach __rmatmul__ instead of NumPy's broadcasting

    def __rmatmul__(self: Weights, X: Any) -> NDArray[np.floating]:
        """X @ W, dense."""
        X = _rows(X, self.shape[0])
        out = np.empty((X.shape[0], self.shape[1]), dtype=self.dtype)
        for lo, hi, score in self.score_tiles(X):
            for first in range(0, X.shape[0], USERS_AT_ONCE):
                last = min(first + USERS_AT_ONCE, X.shape[0])
                out[first:last, lo:hi] = score(first, last)
        return out


def encoded(X: sparse.csr_array, U: NDArray[np.floating]) -> NDArray[np.floating]:
    """X U for few users, in parallel over them."""
    from offdiag._kernels import parallel, topk

    n, rank = X.shape[0], U.shape[1]
    history, data = X.indices.astype(np.uint32), X.data.astype(U.dtype, copy=False)
    Z = np.empty((n, rank), dtype=U.dtype)

    def part(first: int, last: int) -> None:
        topk.score_tile(X.indptr, history, data, U, 0, rank, first, Z[first:last])

    parallel.run_parallel(part, parallel.ranges(n, -(-n // USERS_AT_ONCE)))
    return Z


def inner_products(
    Z: NDArray[np.floating],
    V: NDArray[np.floating],
    scale: NDArray[np.floating] | None = None,
    add: NDArray[np.floating] | None = None,
) -> Iterator[Tile]:
    """Z Vᵀ, column i divided by scale_i or increased by add_i: one product for all users of a block of items.

    BLAS brings its own threads, so ours only read from it.
    """
    n, m = len(Z), len(V)
    width = min(m, max(64, TILE_BYTES // (max(n, 1) * V.dtype.itemsize)))
    block = np.empty(n * width, dtype=V.dtype)
    for lo in range(0, m, width):
        hi = min(lo + width, m)
        scores = block[: n * (hi - lo)].reshape(n, hi - lo)
        np.matmul(Z, V[lo:hi].T, out=scores)
        if scale is not None:
            scores /= scale[lo:hi]
        if add is not None:
            scores += add[lo:hi]

        def score(first: int, last: int, scores: NDArray[np.floating] = scores) -> NDArray[np.floating]:
            return scores[first:last]

        yield lo, hi, score
