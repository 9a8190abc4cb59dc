"""W stored as a matrix: all of it, or the packed half of a symmetric one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.gramian import layout
from offdiag.weights import tiles
from offdiag.weights.tiles import Tile, Tiled


class _Matrix(Tiled):
    """What Dense and Packed share: everything that follows from reading any tile W[rows, lo:hi]."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    # tile(rows, places, lo, hi, out, first, last): out[places[r]] = W[rows[r], lo:hi] for r in first..last; rows ascend
    tile: Callable[..., None]

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        """The items in blocks, each with a function that scores any range of users on it until the next block."""
        from offdiag._kernels import parallel, topk

        m = X.shape[1]
        counts = np.bincount(X.indices, minlength=m)
        rows = np.flatnonzero(counts)  # items nobody in this batch has are never read
        places = np.empty(len(rows), dtype=np.int64)  # the items of many histories lie together, in few cache pages
        places[np.argsort(-counts[rows], kind="stable")] = np.arange(len(rows))
        place_of = np.zeros(m, dtype=np.uint32)
        place_of[rows] = places
        history = place_of[X.indices]
        data = X.data.astype(self.dtype, copy=False)
        width = min(m, max(64, tiles.TILE_BYTES // (max(len(rows), 1) * self.dtype.itemsize)))
        weights = np.empty(len(rows) * width, dtype=self.dtype)
        parts = parallel.n_threads() if len(rows) * m > 1 << 22 else 1  # small requests are not worth a thread
        for lo in range(0, m, width):
            hi = min(lo + width, m)
            W = weights[: len(rows) * (hi - lo)].reshape(len(rows), hi - lo)
            fill = [(rows, places, lo, hi, W, first, last) for first, last in parallel.ranges(len(rows), parts)]
            parallel.run_parallel(self.tile, fill)

            def score(first: int, last: int, W: NDArray[np.floating] = W) -> NDArray[np.floating]:
                out = np.empty((last - first, W.shape[1]), dtype=self.dtype)
                topk.score_tile(X.indptr, history, data, W, 0, W.shape[1], first, out)
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
        from offdiag._kernels import packed_rows

        m = len(self.scale)
        h, e, _ = layout.layout(m)
        P = layout.rectangle(self.C, m)
        at, to = rows.view(np.uint64), places.view(np.uint64)
        packed_rows.packed_tile(P, h, e, at, to, lo, hi, self.scale, self.diagonal, out, first, last)

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
        from offdiag._kernels import topk

        history, data = X.indices.astype(np.uint32), X.data.astype(self.dtype, copy=False)
        for lo in range(0, self.shape[1], tiles.DENSE_WIDTH):
            hi = min(lo + tiles.DENSE_WIDTH, self.shape[1])

            def score(first: int, last: int, lo: int = lo, hi: int = hi) -> NDArray[np.floating]:
                out = np.empty((last - first, hi - lo), dtype=self.dtype)
                topk.score_tile(X.indptr, history, data, self.B, lo, hi, first, out)
                return out

            yield lo, hi, score

    def toarray(self) -> NDArray[np.floating]:
        return np.array(self.B)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"B": self.B}
