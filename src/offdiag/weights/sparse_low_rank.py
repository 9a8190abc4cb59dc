"""Sparse W plus a low-rank part, neither of them ever added up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.weights.sparse import Sparse
from offdiag.weights.tiles import Tile, Tiled, encoded, inner_products


@dataclass(frozen=True, eq=False)
class Smoothed(Tiled):
    """W = B + diag(said) Q Qᵀ diag(heard) off the diagonal, and W_ii = B_ii: no item speaks for itself.

    With said = r and heard = α/r the second part is α·R Q Qᵀ R⁻¹, a low-pass filter [Shen21]; other scales of the
    columns go into ``heard``. Scores are made with the diagonal of the product, which is then taken off again for the
    items of the history: exact up to rounding. The products are BLAS's, which may round the last bits of a score
    differently in a batch of another size.
    """

    kind: ClassVar[str] = "smoothed"
    B: Sparse
    Q: NDArray[np.floating]  # (m, rank)
    said: NDArray[np.floating]  # (m,)
    heard: NDArray[np.floating]  # (m,)

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], m: int) -> Smoothed:
        """From the arrays of a file, checked in full, since the compiled loops take them for granted."""
        of_the_rest = ("Q", "said", "heard")
        B = Sparse.from_arrays({name: array for name, array in arrays.items() if name not in of_the_rest}, m)
        Q, said, heard = (arrays[name] for name in of_the_rest)
        if {Q.dtype, said.dtype, heard.dtype} != {B.dtype}:
            raise TypeError("the smooth part is not of the type of the sparse one")
        if Q.ndim != 2 or len(Q) != m or not 1 <= Q.shape[1] <= m or said.shape != (m,) or heard.shape != (m,):
            raise ValueError(f"the smooth part does not fit {m} items")
        return cls(B, Q, said, heard)

    @property
    def shape(self) -> tuple[int, int]:
        return self.B.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.B.dtype

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())

    def scaled(self, columns: NDArray[np.floating]) -> Smoothed:
        """W diag(columns)."""
        B = Sparse(self.B.indptr, self.B.indices, self.B.data * columns[self.B.indices])
        return Smoothed(B, self.Q, self.said, self.heard * columns)

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        from offdiag._kernels import sparse_rows

        said = X.data.astype(self.dtype, copy=False) * self.said[X.indices]
        Z = encoded(sparse.csr_array((said, X.indices, X.indptr), shape=X.shape), self.Q)
        items, place = np.unique(X.indices, return_inverse=True)  # items nobody in this batch has are never read
        itself = said * self._itself(items)[place]
        begin, last_of = self.B.indptr[items], self.B.indptr[items + 1]
        x = X.data.astype(self.dtype, copy=False)
        for lo, hi, smooth in inner_products(Z, self.Q):
            end = np.empty_like(begin)
            sparse_rows.row_ends(self.B.indices, begin, last_of, hi, end)

            def score(
                first: int,
                last: int,
                lo: int = lo,
                hi: int = hi,
                smooth: Callable[[int, int], NDArray[np.floating]] = smooth,
                begin: NDArray[np.int64] = begin,
                end: NDArray[np.int64] = end,
            ) -> NDArray[np.floating]:
                out = np.empty((last - first, hi - lo), dtype=self.dtype)
                sparse_rows.score_sparse_tile(
                    X.indptr, place, x, begin, end, self.B.indices, self.B.data, lo, first, out
                )
                out += smooth(first, last) * self.heard[lo:hi]
                part = slice(X.indptr[first], X.indptr[last])
                users = np.repeat(np.arange(last - first), np.diff(X.indptr[first : last + 1]))
                inside = (X.indices[part] >= lo) & (X.indices[part] < hi)
                np.subtract.at(out, (users[inside], X.indices[part][inside] - lo), itself[part][inside])
                return out

            yield lo, hi, score
            begin = end

    def column(self, items: NDArray[np.int64], target: int) -> NDArray[np.floating]:
        """W[items, target]: what each of the items says about the target."""
        smooth = (self.Q[items] @ self.Q[target]) * self.said[items] * self.heard[target]
        smooth[items == target] = 0
        return smooth + self.B.column(items, target)  # type: ignore[no-any-return]

    def toarray(self) -> NDArray[np.floating]:
        out: NDArray[np.floating] = (self.said[:, None] * self.Q) @ (self.heard[:, None] * self.Q).T
        np.fill_diagonal(out, 0)
        out += self.B.toarray()
        return out

    def arrays(self) -> dict[str, NDArray[Any]]:
        return self.B.arrays() | {"Q": self.Q, "said": self.said, "heard": self.heard}

    def _itself(self, items: NDArray[Any]) -> NDArray[np.floating]:
        """Q Qᵀ diag(heard) on the diagonal, for a history that has been multiplied by ``said``."""
        Q = self.Q[items]
        return np.einsum("ij,ij->i", Q, Q) * self.heard[items]  # type: ignore[no-any-return]
