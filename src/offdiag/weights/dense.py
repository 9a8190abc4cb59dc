"""W with every number stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.weights import tiles
from offdiag.weights.byte_copy import Rank
from offdiag.weights.matrices import Matrix
from offdiag.weights.protocol import Floats, Ints, Tile
from offdiag.weights.tiles import check_arrays


@dataclass(frozen=True, eq=False)
class Dense(Matrix):
    """W in full, m² numbers."""

    kind: ClassVar[str] = "dense"
    per_item: ClassVar[str] = "B"
    B: Floats

    def tile(self, rows: Ints, places: Ints, lo: int, hi: int, out: Floats, first: int, last: int) -> None:
        out[places[first:last]] = self.B[rows[first:last], lo:hi]

    def row(self, item: int) -> Floats:
        found: Floats = self.B[item]
        return found

    def rank_exactly(self) -> Rank:
        from offdiag._kernels import byte_rows

        return partial(byte_rows.rank_dense, self.B)

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        """Straight from B: a tile would only copy its rows."""
        from offdiag._kernels import topk

        history, data = X.indices.astype(np.uint32), X.data.astype(self.dtype, copy=False)
        for lo in range(0, self.shape[1], tiles.DENSE_WIDTH):
            hi = min(lo + tiles.DENSE_WIDTH, self.shape[1])

            def score(first: int, last: int, lo: int = lo, hi: int = hi) -> Floats:
                out = np.empty((last - first, hi - lo), dtype=self.dtype)
                topk.score_tile(X.indptr, history, data, self.B, lo, hi, first, out)
                return out

            yield lo, hi, score

    def scaled(self, columns: Floats) -> Dense:
        return Dense(self.B * columns.astype(self.dtype, copy=False))

    def diagonal(self) -> Floats:
        return np.diag(self.B).copy()

    def toarray(self) -> Floats:
        return np.array(self.B)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], m: int) -> Self:
        check_arrays(cls.kind, arrays, m, {"B": (m, m)})
        return cls(**arrays)
