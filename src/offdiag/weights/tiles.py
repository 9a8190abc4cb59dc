"""Shared code of all shapes of W: tiles of scores, products assembled from them, and checks of file contents."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.errors import OffdiagError
from offdiag.weights.protocol import Floats, Ints, Side, Tile, Weights

TILE_BYTES = 96 << 20  # of weights: wide enough to read packed rows at full speed

DENSE_WIDTH = 2048  # columns at a time from dense weights: long reads, and the scores stay in the cache
USERS_AT_ONCE = 128  # their scores on a tile stay in the second-level cache until they are ranked

KINDS: dict[str, type[Weights]] = {}  # the shapes that a file can name, by kind


class Tiled(Weights):
    """Default methods of a shape. Each shape is a frozen dataclass of its arrays."""

    per_item: ClassVar[str]  # the name of an array of the type of W with one row per item
    __array_ufunc__ = None  # let ``X @ W`` reach __rmatmul__ instead of NumPy's broadcasting
    linear: ClassVar[bool] = True
    batch_invariant: ClassVar[bool] = True
    compound: ClassVar[bool] = False
    lossy: ClassVar[bool] = False
    takes_dislikes: ClassVar[bool] = False
    in_files: ClassVar[bool] = True  # False: it holds rows of users, which no file may contain

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "kind" in vars(cls) and cls.in_files:
            KINDS[cls.kind] = cls

    def __rmatmul__(self, X: Any) -> Floats:
        """X @ W, dense."""
        X = _rows(X, self.shape[0])
        out = np.empty((X.shape[0], self.shape[1]), dtype=self.dtype)
        for lo, hi, score in self.score_tiles(X):
            for first in range(0, X.shape[0], USERS_AT_ONCE):
                last = min(first + USERS_AT_ONCE, X.shape[0])
                out[first:last, lo:hi] = score(first, last)
        return out

    @property
    def shape(self) -> tuple[int, int]:
        m = len(getattr(self, self.per_item))
        return m, m

    @property
    def dtype(self) -> np.dtype[Any]:
        return getattr(self, self.per_item).dtype  # type: ignore[no-any-return]

    def blended(self) -> tuple[Weights, ...]:
        return ()

    def with_parts(self, parts: Sequence[Weights]) -> Weights:
        raise OffdiagError(f"{self.kind} weights are no blend")

    @property
    def additive(self) -> bool:
        return self.linear

    def linear_parts(self, X: sparse.csr_array) -> list[tuple[Weights, sparse.csr_array]]:
        return [(self, X)]

    @property
    def learned(self) -> Weights:
        return self

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())

    @property
    def nnz(self) -> int | None:
        return None

    def prepare_lists(self) -> bool:
        return False

    def diagonal(self) -> Floats:
        return np.array([self.column(np.array([i]), i)[0] for i in range(self.shape[0])], dtype=self.dtype)

    def contributions(self, items: Ints, values: Floats, target: int) -> NDArray[np.float64]:
        return values.astype(np.float64) * self.column(items, target)

    def columns(self, lo: int, hi: int, out: Floats | None = None) -> Floats:
        out = np.empty((hi - lo, self.shape[0]), dtype=self.dtype) if out is None else out
        items = np.arange(self.shape[0])
        for row, target in zip(out, range(lo, hi), strict=True):
            row[:] = self.column(items, target)
        return out

    def embedding(self, side: Side) -> Floats | None:
        return None

    def tocsr(self) -> sparse.csr_array:
        return sparse.csr_array(self.toarray())

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


def check_arrays(
    kind: str,
    arrays: Mapping[str, NDArray[Any]],
    m: int,
    shapes: Mapping[str, tuple[int, ...]],
    double: Collection[str] = (),
) -> None:
    """Raise unless each array has its shape and all have the same real type; ``double``: always float64."""
    if {name: array.shape for name, array in arrays.items()} != shapes:
        raise ValueError(f"the {kind} weights do not fit {m} items")
    if any(arrays[name].dtype != np.float64 for name in double):
        raise TypeError(f"{' and '.join(double)} of the {kind} weights are not in double precision")
    if {array.dtype.name for name, array in arrays.items() if name not in double} not in ({"float32"}, {"float64"}):
        raise TypeError(f"the {kind} weights are not real numbers of one type")


def check_rank(factor: NDArray[Any], m: int) -> int:
    """The rank of embeddings, a row per item."""
    rank = factor.shape[-1] if factor.ndim else 0
    if not 1 <= rank <= m:
        raise ValueError(f"the embeddings of {m} items cannot be of rank {rank}")
    return rank


def _rows(X: Any, m: int) -> sparse.csr_array:
    """X as rows over m items; the compiled loops trust the shape."""
    if getattr(X, "ndim", 0) != 2 or X.shape[1] != m:
        raise OffdiagError(f"expected users × {m} items, received {getattr(X, 'shape', type(X).__name__)}")
    return sparse.csr_array(X)


def encode_rows(X: sparse.csr_array, U: Floats) -> Floats:
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
    Z: Floats,
    V: Floats,
    scale: Floats | None = None,
    add: Floats | None = None,
) -> Iterator[Tile]:
    """Z Vᵀ, column i divided by scale_i or increased by add_i: one product for all users of a block of items.

    BLAS has its own threads, so ours only read its results. It may round the last bits of a score differently in a
    batch of another size, so shapes that call this are not ``batch_invariant``.
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

        def score(first: int, last: int, scores: Floats = scores) -> Floats:
            return scores[first:last]

        yield lo, hi, score
