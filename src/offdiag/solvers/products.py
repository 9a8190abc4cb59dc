"""G @ V, the only thing a low-rank solver needs from the data: from the packed Gram, or from X alone.

``GramProduct``  2m² flops per column at the speed of BLAS; needs the m(m+1)/2 numbers of G.
``PairProduct``  the same from a Gram that stores only pairs of items that share a user, one multiply-add for each.
``DataProduct``  Xᵀ(W(X V)), two multiply-adds per interaction and column; needs X by item and blocks of users × rank
                 that fit in the cache, so no m×m and no users×rank array is ever held.
All have ``g`` = diag(G), in float64, and G carries the scale of the user weights (``gramian.user_weights.scale_of``).
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import _kernels
from offdiag._kernels import parallel
from offdiag.errors import OffdiagError
from offdiag.gramian.packed import Gram
from offdiag.gramian.sparse import SparseGram
from offdiag.gramian.user_weights import diagonal, scale_of, weights_of
from offdiag.solvers import Doubles, Floats, blas

BLOCK_BYTES = 8 << 20  # of X V for the users of one thread: written and read at random, so it must stay in the cache
TASKS_PER_THREAD = 8  # ranges of items of equal work, so that no core waits for another
# One multiply-add of DataProduct takes about as long as six of a dense product: it is bound by the cache's bandwidth.
DENSE_ADVANTAGE = 6


class Product(Protocol):
    """What the solvers know about the data."""

    m: int
    g: Doubles

    @property
    def dtype(self) -> np.dtype[Any]: ...
    def __call__(self, V: Floats) -> Floats: ...


def data_is_cheaper(matrix: sparse.csr_array) -> bool:
    """Whether X and Xᵀ cost less per column than the m×m Gram would (not counting its computation)."""
    return 2 * matrix.nnz * DENSE_ADVANTAGE < matrix.shape[1] ** 2


def check_range(product: Product) -> None:
    """Raise unless squares of the numbers in the solvers stay finite and do not all underflow."""
    most, limit = float(product.g.max(initial=0.0)), float(np.finfo(product.dtype).max) ** 0.5  # they are squared
    if product.m and not most > 0:
        raise OffdiagError(
            f"the squares of the values vanish in {product.dtype}; scale the values up, binarise them, or use "
            "dtype='float64'"
        )
    if not most < limit:
        raise OffdiagError(
            f"the sums of squares overflow ({most:g}, the limit of {product.dtype} is {limit:.0e}); "
            "scale the values down, binarise them, or use dtype='float64'"
        )


class GramProduct:
    """V → G V from packed storage."""

    def __init__(self, G: Gram) -> None:
        self.m = G.n_items
        self.dtype: np.dtype[Any] = G.dtype
        self._values, self._scale = G.values, G.scale
        self.g = G.own_diagonal() * self._scale

    def __call__(self, V: Floats) -> Floats:
        return blas.symmetric_product(self._values, V, self._scale)


class PairProduct:
    """V → G V from a SparseGram, in the requested precision."""

    def __init__(self, G: SparseGram, dtype: Any = np.float32) -> None:
        self.m = G.n_items
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self._G, self._scale = G, G.scale
        self.g = G.own_diagonal() * self._scale
        self._edges = _shares(np.diff(G.indptr))

    def __call__(self, V: Floats) -> Floats:
        V, G = _checked(V, self), self._G
        out = np.empty_like(V)

        def work(lo: int, hi: int) -> None:
            _kernels.sparse_gram_rows.times(G.indptr, G.indices, G.values, self._scale, V, lo, hi, out)

        parallel.run_parallel(work, self._edges)
        return out


@dataclass(frozen=True, eq=False)
class _Block:
    """Some users, by item: items[r] has the users columns[ptr[r] : ptr[r + 1]], counted from the block's first."""

    weight: Floats  # of each user
    items: NDArray[np.uint32]  # those that occur, ascending
    ptr: NDArray[Any]
    columns: NDArray[np.uint32]
    data: Floats


class DataProduct:
    """V → Xᵀ diag(w) X V, w_u = n_u^(−user_power) with a mean near 1 per interaction, by blocks of users.

    Takes as many blocks as threads at a time. First each thread computes its rows of X V, going through the items in
    order; then the threads share the items and add the rows of these users to Xᵀ(X V). X itself is held once, by item.
    If the matrix has some of the users only, ``scale`` is that of the weights of all.
    """

    def __init__(
        self,
        matrix: sparse.csr_array,
        user_power: float = 0.0,
        dtype: Any = np.float32,
        *,
        rank: int = 128,
        scale: float | None = None,
    ) -> None:
        n, self.m = matrix.shape
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        n_u = np.diff(matrix.indptr)
        weight = weights_of(n_u, user_power) * (scale_of(np.bincount(n_u), user_power) if scale is None else scale)
        self.g = diagonal(matrix.indptr, matrix.indices, matrix.data, weight, self.m)
        self._users = int(min(max(BLOCK_BYTES // (rank * self.dtype.itemsize), 64), max(n, 1)))
        weight = weight.astype(self.dtype)
        ones = bool((matrix.data == 1).all())
        edges = [*range(0, n, self._users), n]
        self._blocks = [_block(matrix, weight, lo, hi, ones) for lo, hi in pairwise(edges)]
        self._edges = _shares(np.bincount(matrix.indices, minlength=self.m))

    def __call__(self, V: Floats) -> Floats:
        V = _checked(V, self)
        out = np.zeros_like(V)
        threads = min(parallel.n_threads(), max(len(self._blocks), 1))
        Y = [np.empty((self._users, V.shape[1]), dtype=self.dtype) for _ in range(threads)]
        for first in range(0, len(self._blocks), threads):
            blocks = self._blocks[first : first + threads]
            push = [(b.items, b.ptr, b.columns, b.data, b.weight, V, y) for b, y in zip(blocks, Y, strict=False)]
            parallel.run_parallel(_kernels.embeddings.push_rows, push)

            def gather(lo: int, hi: int, blocks: list[_Block] = blocks) -> None:
                for b, y in zip(blocks, Y, strict=False):
                    start, stop = np.searchsorted(b.items, (lo, hi))
                    _kernels.embeddings.gather_rows(b.items, b.ptr, b.columns, b.data, y, out, start, stop)

            parallel.run_parallel(gather, self._edges)
        return out


class ScaledProduct:
    """V → R G R V with R = diag(scale): the Gram of X R, whose columns are those of X, rescaled."""

    def __init__(self, product: Product, scale: Doubles) -> None:
        self.m, self.dtype = product.m, product.dtype
        self.g = product.g * scale**2
        self._product, self._scale = product, scale.astype(product.dtype)[:, None]

    def __call__(self, V: Floats) -> Floats:
        out = self._product(self._scale * V)
        out *= self._scale
        return out


def item_scale(g: Doubles, item_power: float) -> Doubles:
    """g_i^(−item_power/2), in a unit that preserves the sum of all squares; 1 for items without users."""
    live = g > 0
    scale: Doubles = np.power(g, -item_power / 2, where=live, out=np.ones_like(g))
    total = float((g[live] * scale[live] ** 2).sum())
    scale[live] *= np.sqrt(g.sum() / total) if total else 1.0
    return scale


def item_l2(l2: float, g: Doubles, item_power: float) -> float | Doubles:
    """l2 for items that are normalised before the fit and scaled back after it: with ``item_power``, one per item."""
    return l2 / item_scale(g, item_power) ** 2 if item_power else l2


def _block(matrix: sparse.csr_array, weight: Floats, lo: int, hi: int, ones: bool) -> _Block:
    by_item = sparse.csr_array(matrix[lo:hi].T)
    items = np.flatnonzero(np.diff(by_item.indptr))
    ptr = np.append(by_item.indptr[items], by_item.indptr[-1])
    # 0/1 data needs no second copy of its values: all are 1
    data = matrix.data[: by_item.nnz] if ones else by_item.data
    columns = by_item.indices.astype(np.int32, copy=False).view(np.uint32)
    return _Block(weight[lo:hi], items.astype(np.uint32), ptr, columns, data)


def _checked(V: Floats, product: Product) -> Floats:
    """V in C order; the compiled loops trust its shape and type."""
    if V.ndim != 2 or len(V) != product.m or V.dtype != product.dtype:
        raise ValueError(f"expected {product.m} rows of {product.dtype}, received {V.shape} of {V.dtype}")
    return np.ascontiguousarray(V)


def _shares(counts: NDArray[Any]) -> list[tuple[int, int]]:
    """Ranges of items with about equal numbers of interactions, covering all items."""
    return parallel.shares(counts, TASKS_PER_THREAD * parallel.n_threads() if counts.sum() > 1 << 14 else 1)
