"""The shapes of W. All answer ``X @ W``, and yield the scores of many users tile by tile, never all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import packed
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


class _Tiled:
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


class _Matrix(_Tiled):
    """What Dense and Packed share: everything that follows from reading any tile W[rows, lo:hi]."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    # tile(rows, places, lo, hi, out, first, last): out[places[r]] = W[rows[r], lo:hi] for r in first..last; rows ascend
    tile: Callable[..., None]

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        """The items in blocks, each with a function that scores any range of users on it until the next block."""
        from offdiag import kernels

        m = X.shape[1]
        counts = np.bincount(X.indices, minlength=m)
        rows = np.flatnonzero(counts)  # items nobody in this batch has are never read
        places = np.empty(len(rows), dtype=np.int64)  # the items of many histories lie together, in few cache pages
        places[np.argsort(-counts[rows], kind="stable")] = np.arange(len(rows))
        place_of = np.zeros(m, dtype=np.uint32)
        place_of[rows] = places
        history = place_of[X.indices]
        data = X.data.astype(self.dtype, copy=False)
        width = min(m, max(64, TILE_BYTES // (max(len(rows), 1) * self.dtype.itemsize)))
        weights = np.empty(len(rows) * width, dtype=self.dtype)
        parts = kernels.n_threads() if len(rows) * m > 1 << 22 else 1  # small requests are not worth a thread
        for lo in range(0, m, width):
            hi = min(lo + width, m)
            W = weights[: len(rows) * (hi - lo)].reshape(len(rows), hi - lo)
            fill = [(rows, places, lo, hi, W, first, last) for first, last in kernels.ranges(len(rows), parts)]
            kernels.run_parallel(self.tile, fill)

            def score(first: int, last: int, W: NDArray[np.floating] = W) -> NDArray[np.floating]:
                out = np.empty((last - first, W.shape[1]), dtype=self.dtype)
                kernels.score_tile(X.indptr, history, data, W, 0, W.shape[1], first, out)
                return out

            yield lo, hi, score

    def column(self, items: NDArray[np.int64], target: int) -> NDArray[np.floating]:
        """W[items, target]: what each of the items says about the target; items ascend."""
        out = np.empty((len(items), 1), dtype=self.dtype)
        self.tile(items, np.arange(len(items)), target, target + 1, out, 0, len(items))
        return out[:, 0]

    def toarray(self) -> NDArray[np.floating]:
        m = self.shape[0]
        out = np.empty(self.shape, dtype=self.dtype)
        self.tile(np.arange(m), np.arange(m), 0, m, out, 0, m)
        return out


@dataclass(frozen=True, eq=False)
class Packed(_Matrix):
    """W[j, i] = C[j, i]·scale[i] off the diagonal, W[i, i] = diagonal[i], with C symmetric and packed: m²/2 numbers."""

    kind: ClassVar[str] = "packed"
    C: NDArray[np.floating]
    scale: NDArray[np.floating]
    diagonal: NDArray[np.floating]

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return len(self.scale), len(self.scale)

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        return self.C.dtype

    @property
    def nbytes(self) -> int:
        return self.C.nbytes + self.scale.nbytes + self.diagonal.nbytes

    def tile(
        self,
        rows: NDArray[np.int64],
        places: NDArray[np.int64],
        lo: int,
        hi: int,
        out: NDArray[np.floating],
        first: int,
        last: int,
    ) -> None:
        from offdiag import kernels

        m = len(self.scale)
        h, e, _ = packed.layout(m)
        P = packed.rectangle(self.C, m)
        at, to = rows.view(np.uint64), places.view(np.uint64)
        kernels.packed_tile(P, h, e, at, to, lo, hi, self.scale, self.diagonal, out, first, last)

    def todense(self) -> Dense:
        """The same weights with every number stored: twice the memory, faster single requests."""
        return Dense(self.toarray())

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"C": self.C, "scale": self.scale, "diagonal": self.diagonal}


@dataclass(frozen=True, eq=False)
class Dense(_Matrix):
    """W as it is, m² numbers."""

    kind: ClassVar[str] = "dense"
    B: NDArray[np.floating]

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return self.B.shape[0], self.B.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        return self.B.dtype

    @property
    def nbytes(self) -> int:
        return self.B.nbytes

    def tile(
        self,
        rows: NDArray[np.int64],
        places: NDArray[np.int64],
        lo: int,
        hi: int,
        out: NDArray[np.floating],
        first: int,
        last: int,
    ) -> None:
        out[places[first:last]] = self.B[rows[first:last], lo:hi]

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        """As above, but straight from B: its rows are what a tile would have to be filled with."""
        from offdiag import kernels

        history, data = X.indices.astype(np.uint32), X.data.astype(self.dtype, copy=False)
        for lo in range(0, self.shape[1], DENSE_WIDTH):
            hi = min(lo + DENSE_WIDTH, self.shape[1])

            def score(first: int, last: int, lo: int = lo, hi: int = hi) -> NDArray[np.floating]:
                out = np.empty((last - first, hi - lo), dtype=self.dtype)
                kernels.score_tile(X.indptr, history, data, self.B, lo, hi, first, out)
                return out

            yield lo, hi, score

    def toarray(self) -> NDArray[np.floating]:
        return np.array(self.B)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"B": self.B}


@dataclass(frozen=True, eq=False)
class LowRank(_Tiled):
    """W = U Vᵀ with an embedding of rank numbers per item on either side; the m×m product is never formed.

    Row u of X is encoded as z = x U, and item i scores z·v_i: the inner product any nearest-neighbour index searches.
    The products are BLAS's, which may round the last bits of a score differently in a batch of another size.
    """

    kind: ClassVar[str] = "low_rank"
    U: NDArray[np.floating]  # (m, rank), the encoder
    V: NDArray[np.floating]  # (m, rank), the decoder

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.U), len(self.V)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.U.dtype

    @property
    def nbytes(self) -> int:
        return self.U.nbytes + self.V.nbytes

    def encode(self, X: sparse.csr_array) -> NDArray[np.floating]:
        """Z = X U, a row of rank numbers per user."""
        return _encoded(X, self.U)

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        return _inner_products(self.encode(X), self.V)

    def column(self, items: NDArray[np.int64], target: int) -> NDArray[np.floating]:
        """W[items, target]: what each of the items says about the target."""
        return self.U[items] @ self.V[target]  # type: ignore[no-any-return]

    def toarray(self) -> NDArray[np.floating]:
        return self.U @ self.V.T

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"U": self.U, "V": self.V}


@dataclass(frozen=True, eq=False)
class Symmetric(_Tiled):
    """W = R Q diag(shrink) Qᵀ R⁻¹, R = diag(scale): one embedding per item, used on both sides."""

    kind: ClassVar[str] = "symmetric"
    Q: NDArray[np.floating]  # (m, rank), orthonormal columns
    sigma: NDArray[np.float64]  # (rank,) singular values of the scaled data, largest first
    shrink: NDArray[np.float64]  # (rank,)
    scale: NDArray[np.floating]  # (m,)

    @property
    def U(self) -> NDArray[np.floating]:  # noqa: N802
        """The encoder, made anew at each call."""
        out: NDArray[np.floating] = self.Q * self.shrink.astype(self.dtype) * self.scale[:, None]
        return out

    @property
    def V(self) -> NDArray[np.floating]:  # noqa: N802
        """The decoder, made anew at each call."""
        return self.Q / self.scale[:, None]

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.Q), len(self.Q)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.Q.dtype

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())

    def encode(self, X: sparse.csr_array) -> NDArray[np.floating]:
        scaled = X.data.astype(self.dtype) * self.scale[X.indices]
        Z = _encoded(sparse.csr_array((scaled, X.indices, X.indptr), shape=X.shape), self.Q)
        Z *= self.shrink.astype(self.dtype)
        return Z

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        return _inner_products(self.encode(X), self.Q, self.scale)

    def column(self, items: NDArray[np.int64], target: int) -> NDArray[np.floating]:
        said = self.Q[items] @ (self.shrink.astype(self.dtype) * self.Q[target])
        return said * self.scale[items] / self.scale[target]  # type: ignore[no-any-return]

    def toarray(self) -> NDArray[np.floating]:
        return self.U @ self.V.T

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"Q": self.Q, "sigma": self.sigma, "shrink": self.shrink, "scale": self.scale}


@dataclass(frozen=True, eq=False)
class TanhNetwork(_Tiled):
    """tanh(x/‖x‖·W1 + b1)·W2ᵀ + b2: not a matrix, but scored as one, an embedding of the history at a time."""

    kind: ClassVar[str] = "tanh_network"
    W1: NDArray[np.floating]  # (m, width)
    b1: NDArray[np.floating]  # (width,)
    W2: NDArray[np.floating]  # (m, width)
    b2: NDArray[np.floating]  # (m,)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.W1), len(self.W2)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.W1.dtype

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())

    def encode(self, X: sparse.csr_array) -> NDArray[np.floating]:
        norms = np.sqrt(np.add.reduceat(np.append(X.data, 0).astype(np.float64) ** 2, X.indptr[:-1]))
        lengths = np.diff(X.indptr)
        per_entry = np.repeat(np.where(lengths > 0, norms, 1.0), lengths)
        scaled = (X.data / per_entry).astype(self.dtype)
        Z = _encoded(sparse.csr_array((scaled, X.indices, X.indptr), shape=X.shape), self.W1)
        Z += self.b1
        np.tanh(Z, out=Z)
        return Z

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        return _inner_products(self.encode(X), self.W2, add=self.b2)

    def column(self, items: NDArray[np.int64], target: int) -> NDArray[np.floating]:
        raise OffdiagError("a non-linear net has no matrix: what one item adds to a score depends on the others")

    def toarray(self) -> NDArray[np.floating]:
        raise OffdiagError("a non-linear net has no matrix; score histories with predict")

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"W1": self.W1, "b1": self.b1, "W2": self.W2, "b2": self.b2}


def _encoded(X: sparse.csr_array, U: NDArray[np.floating]) -> NDArray[np.floating]:
    """X U for few users, in parallel over them."""
    from offdiag import kernels

    n, rank = X.shape[0], U.shape[1]
    history, data = X.indices.astype(np.uint32), X.data.astype(U.dtype, copy=False)
    Z = np.empty((n, rank), dtype=U.dtype)

    def part(first: int, last: int) -> None:
        kernels.score_tile(X.indptr, history, data, U, 0, rank, first, Z[first:last])

    kernels.run_parallel(part, kernels.ranges(n, -(-n // USERS_AT_ONCE)))
    return Z


def _inner_products(
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


@dataclass(frozen=True, eq=False)
class Constant(_Tiled):
    """The same score for every user, whatever the history: not linear, but with the same face (popularity)."""

    kind: ClassVar[str] = "constant"
    scores: NDArray[np.floating]

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.scores), len(self.scores)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.scores.dtype

    @property
    def nbytes(self) -> int:
        return self.scores.nbytes

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        yield 0, len(self.scores), lambda first, last: np.tile(self.scores, (last - first, 1))

    def column(self, items: NDArray[np.int64], target: int) -> NDArray[np.floating]:
        return np.zeros(len(items), dtype=self.dtype)  # no item says anything about another

    def toarray(self) -> NDArray[np.floating]:
        return np.zeros(self.shape, dtype=self.dtype)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"scores": self.scores}


KINDS: dict[str, type[Any]] = {k.kind: k for k in (Packed, Dense, LowRank, Symmetric, TanhNetwork, Constant)}
