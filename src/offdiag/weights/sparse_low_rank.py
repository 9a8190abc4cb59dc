"""Sparse W plus a low-rank part; the sum is never formed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.weights.protocol import Floats, Ints, Scores, Tile
from offdiag.weights.sparse import Sparse
from offdiag.weights.tiles import Tiled, encode_rows, inner_products


@dataclass(frozen=True, eq=False)
class Smoothed(Tiled):
    """W = B + diag(said) Q Qᵀ diag(heard) off the diagonal, and W_ii = B_ii: no item predicts itself through Q.

    With said = r and heard = α/r the second part is α·R Q Qᵀ R⁻¹, a low-pass filter [Shen21]; other scales of the
    columns go into ``heard``. Scores include the diagonal of the product, which is then subtracted for the items of
    the history: exact up to rounding.
    """

    kind: ClassVar[str] = "smoothed"
    per_item: ClassVar[str] = "Q"
    batch_invariant: ClassVar[bool] = False
    compound: ClassVar[bool] = True
    B: Sparse
    Q: Floats  # (m, rank)
    said: Floats  # (m,)
    heard: Floats  # (m,)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], m: int) -> Self:
        of_the_rest = ("Q", "said", "heard")
        B = Sparse.from_arrays({name: array for name, array in arrays.items() if name not in of_the_rest}, m)
        Q, said, heard = (arrays[name] for name in of_the_rest)
        if {Q.dtype, said.dtype, heard.dtype} != {B.dtype}:
            raise TypeError("the smooth part is not of the type of the sparse one")
        if Q.ndim != 2 or len(Q) != m or not 1 <= Q.shape[1] <= m or said.shape != (m,) or heard.shape != (m,):
            raise ValueError(f"the smooth part does not fit {m} items")
        return cls(B, Q, said, heard)

    def scaled(self, columns: Floats) -> Smoothed:
        heard = self.heard * columns.astype(self.dtype, copy=False)
        return Smoothed(self.B.scaled(columns), self.Q, self.said, heard)

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        said = X.data.astype(self.dtype, copy=False) * self.said[X.indices]
        Z = encode_rows(sparse.csr_array((said, X.indices, X.indptr), shape=X.shape), self.Q)
        itself = said * self._itself(X.indices)
        sharp_tile = self.B.tile_scorer(X)
        for lo, hi, smooth in inner_products(Z, self.Q):
            parts = sharp_tile(lo, hi), smooth

            def score(
                first: int, last: int, lo: int = lo, hi: int = hi, parts: tuple[Scores, Scores] = parts
            ) -> Floats:
                sharp, smooth = parts
                out = sharp(first, last)
                out += smooth(first, last) * self.heard[lo:hi]
                part = slice(X.indptr[first], X.indptr[last])
                users = np.repeat(np.arange(last - first), np.diff(X.indptr[first : last + 1]))
                inside = (X.indices[part] >= lo) & (X.indices[part] < hi)
                np.subtract.at(out, (users[inside], X.indices[part][inside] - lo), itself[part][inside])
                return out

            yield lo, hi, score

    def diagonal(self) -> Floats:
        return self.B.diagonal()

    def column(self, items: Ints, target: int) -> Floats:
        smooth = (self.Q[items] @ self.Q[target]) * self.said[items] * self.heard[target]
        smooth[items == target] = 0
        return smooth + self.B.column(items, target)  # type: ignore[no-any-return]

    def columns(self, lo: int, hi: int, out: Floats | None = None) -> Floats:
        found: Floats
        found = np.matmul(self.heard[lo:hi, None] * self.Q[lo:hi], (self.said[:, None] * self.Q).T, out=out)
        found[np.arange(hi - lo), np.arange(lo, hi)] = 0
        found += self.B.columns(lo, hi)
        return found

    def toarray(self) -> Floats:
        out: Floats = (self.said[:, None] * self.Q) @ (self.heard[:, None] * self.Q).T
        np.fill_diagonal(out, 0)
        out += self.B.toarray()
        return out

    def arrays(self) -> dict[str, NDArray[Any]]:
        return self.B.arrays() | {"Q": self.Q, "said": self.said, "heard": self.heard}

    def _itself(self, items: NDArray[Any]) -> Floats:
        """Q Qᵀ diag(heard) on the diagonal, for a history that has been multiplied by ``said``."""
        distinct = np.flatnonzero(np.bincount(items, minlength=len(self.Q)))  # items without users here are never read
        Q = self.Q[distinct]
        own = np.zeros(len(self.Q), dtype=self.dtype)
        own[distinct] = np.einsum("ij,ij->i", Q, Q) * self.heard[distinct]
        return own[items]  # type: ignore[no-any-return]
