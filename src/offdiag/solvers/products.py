"""G @ V, the only thing a low-rank solver asks of the data: from the packed Gram, or from X alone.

``GramProduct``  2m² flops per column at the speed of BLAS; needs the m(m+1)/2 numbers of G.
``DataProduct``  Xᵀ(W(X V)), two multiply-adds per interaction and column; needs X twice (by user and by item) and one
                 block of users × rank, so no m×m and no users×rank array is ever held.
Both have ``g`` = diag(G), in float64, and G carries the scale that makes the mean weight of an interaction 1.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import packed
from offdiag.gramian import Gram
from offdiag.solvers import blas

BLOCK_BYTES = 16 << 20  # of X V: the part written for a block of users is still in the cache when Xᵀ reads it
TASKS_PER_THREAD = 8  # ranges of equal work, so that no core waits for the other
# One multiply-add of DataProduct takes about as long as six of a dense product: it is bound by the cache's bandwidth.
DENSE_ADVANTAGE = 6


class Product(Protocol):
    """What the solvers know of the data."""

    m: int
    g: NDArray[np.float64]

    @property
    def dtype(self) -> np.dtype[Any]: ...
    def __call__(self, V: NDArray[np.floating]) -> NDArray[np.floating]: ...


def data_is_cheaper(matrix: sparse.csr_array) -> bool:
    """Whether X and Xᵀ cost less per column than the m×m Gram would (its making not counted)."""
    return 2 * matrix.nnz * DENSE_ADVANTAGE < matrix.shape[1] ** 2


class GramProduct:
    """V → G V from packed storage."""

    def __init__(self, G: Gram) -> None:
        self.m = G.n_items
        self._values, self._scale = G.values, G.scale
        self.g = self._values[packed.diagonal_positions(self.m)].astype(np.float64) * self._scale

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._values.dtype

    def __call__(self, V: NDArray[np.floating]) -> NDArray[np.floating]:
        return blas.symmetric_product(self._values, V, self._scale)


@dataclass(frozen=True, eq=False)
class _Block:
    """Users lo..hi, and their rows transposed: items[r] has the users columns[ptr[r] : ptr[r + 1]] of this block."""

    lo: int
    hi: int
    items: NDArray[np.uint32]
    ptr: NDArray[Any]
    columns: NDArray[np.uint32]
    data: NDArray[np.floating]


class DataProduct:
    """V → Xᵀ diag(w) X V, w_u = n_u^(−user_power) scaled to an interaction-mean of 1, by blocks of users."""

    def __init__(
        self, matrix: sparse.csr_array, user_power: float = 0.0, dtype: Any = np.float32, *, rank: int = 128
    ) -> None:
        n, self.m = matrix.shape
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self._ptr, self._data = matrix.indptr, matrix.data
        self._columns = matrix.indices.astype(np.int32, copy=False).view(np.uint32)
        weight = user_weights(matrix, user_power)
        self._weight = weight.astype(self.dtype)
        squares = matrix.data.astype(np.float64) ** 2 * np.repeat(weight, np.diff(matrix.indptr))
        self.g = np.bincount(matrix.indices, weights=squares, minlength=self.m).astype(np.float64, copy=False)
        self._users = int(min(max(BLOCK_BYTES // (rank * self.dtype.itemsize), 64), max(n, 1)))
        ones = bool((matrix.data == 1).all())
        self._blocks = [self._block(matrix, lo, min(lo + self._users, n), ones) for lo in range(0, n, self._users)]

    @staticmethod
    def _block(matrix: sparse.csr_array, lo: int, hi: int, ones: bool) -> _Block:
        by_item = sparse.csr_array(matrix[lo:hi].T)
        items = np.flatnonzero(np.diff(by_item.indptr))
        ptr = np.append(by_item.indptr[items], by_item.indptr[-1])
        # 0/1 data needs no second copy of its values: any of them will do
        data = matrix.data[: by_item.nnz] if ones else by_item.data
        columns = by_item.indices.astype(np.int32, copy=False).view(np.uint32)
        return _Block(lo, hi, items.astype(np.uint32), ptr, columns, data)

    def __call__(self, V: NDArray[np.floating]) -> NDArray[np.floating]:
        from offdiag import kernels

        if V.ndim != 2 or len(V) != self.m or V.dtype != self.dtype:
            raise ValueError(f"expected {self.m} rows of {self.dtype}, received {V.shape} of {V.dtype}")
        V = np.ascontiguousarray(V)
        out = np.zeros_like(V)
        Y = np.empty((self._users, V.shape[1]), dtype=self.dtype)
        users, ones = np.arange(self._users, dtype=np.uint32), np.ones(1, dtype=self.dtype)
        for block in self._blocks:
            ptr, weight = self._ptr[block.lo : block.hi + 1], self._weight[block.lo : block.hi]
            forward = [
                (ptr, self._columns, self._data, V, users, weight, False, Y, first, last)
                for first, last in _shares(ptr)
            ]
            kernels.run_parallel(kernels.gather_rows, forward)
            back = [
                (block.ptr, block.columns, block.data, Y, block.items, ones, True, out, first, last)
                for first, last in _shares(block.ptr)
            ]
            kernels.run_parallel(kernels.gather_rows, back)
        return out


def user_weights(matrix: sparse.csr_array, user_power: float) -> NDArray[np.float64]:
    """n_u^(−user_power), scaled so that the mean weight of an interaction is 1; 0 for users without any."""
    n_u = np.diff(matrix.indptr).astype(np.float64)
    weight = np.zeros(len(n_u))
    np.power(n_u, -float(user_power), where=n_u > 0, out=weight)
    total = float(weight @ n_u)
    return weight * (n_u.sum() / total) if total else weight


def _shares(ptr: NDArray[Any]) -> list[tuple[int, int]]:
    """Ranges of rows with about equal numbers of entries, covering all rows."""
    from offdiag import kernels

    n = len(ptr) - 1
    parts = TASKS_PER_THREAD * kernels.n_threads() if ptr[-1] - ptr[0] > 1 << 14 else 1
    edges = np.searchsorted(ptr, np.linspace(ptr[0], ptr[-1], parts + 1)[1:-1])
    edges = np.unique(np.concatenate([[0], np.minimum(edges, n), [n]]))
    return [(int(a), int(b)) for a, b in pairwise(edges)]
