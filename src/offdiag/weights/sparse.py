"""W of which few entries are not zero: only those are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.errors import OffdiagError
from offdiag.weights import tiles
from offdiag.weights.tiles import Tile, Tiled


@dataclass(frozen=True, eq=False)
class Sparse(Tiled):
    """W by rows: row j, what item j says about others, is data[indptr[j]:indptr[j + 1]] in ascending columns.

    A score costs one addition per stored weight of the history's items; lists need no other scores (``selector``).
    """

    kind: ClassVar[str] = "sparse"
    indptr: NDArray[np.int64]  # (m + 1,)
    indices: NDArray[np.int32]  # (nnz,)
    data: NDArray[np.floating]  # (nnz,)

    @classmethod
    def of(cls, W: Any) -> Sparse:
        """From any square scipy sparse matrix; entries of 0 are left out."""
        rows = sparse.csr_array(W)
        if rows.shape[0] != rows.shape[1]:
            raise OffdiagError(f"expected weights of items × items, received {rows.shape[0]} × {rows.shape[1]}")
        if not rows.has_canonical_format or not rows.data.all():
            rows = rows.copy()
            rows.sum_duplicates()
            rows.eliminate_zeros()
        return cls(rows.indptr.astype(np.int64, copy=False), rows.indices.astype(np.int32, copy=False), rows.data)

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], m: int) -> Sparse:
        """From the arrays of a file, checked in full, since the compiled loops take them for granted."""
        weights = cls(**arrays)
        types = (weights.indptr.dtype.name, weights.indices.dtype.name)
        if types != ("int64", "int32") or weights.dtype.name not in ("float32", "float64"):
            raise TypeError("the sparse weights are not of their types")
        if weights.indptr.shape != (m + 1,) or weights.data.ndim != 1 or weights.data.shape != weights.indices.shape:
            raise ValueError(f"the sparse weights do not fit {m} items")
        weights.check()
        return weights

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.indptr) - 1, len(self.indptr) - 1

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.data.dtype

    @property
    def nbytes(self) -> int:
        return self.indptr.nbytes + self.indices.nbytes + self.data.nbytes

    @property
    def nnz(self) -> int:
        return len(self.data)

    def check(self) -> None:
        """Raise ValueError unless rows, columns and their order are what the compiled loops take for granted."""
        from offdiag._kernels import parallel, sparse_rows

        m, ends = len(self.indptr) - 1, []

        def part(first: int, last: int) -> None:
            ends.append(sparse_rows.valid_rows(self.indptr, self.indices, m, first, last))

        if self.indptr[0] != 0 or self.indptr[-1] != len(self.indices):
            raise ValueError("the rows do not fit the entries")
        parallel.run_parallel(part, parallel.ranges(m, 4 * parallel.n_threads()))
        if not all(ends):
            raise ValueError("the rows are not in order")

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        from offdiag._kernels import sparse_rows

        m = self.shape[0]
        rows, history = np.unique(X.indices, return_inverse=True)  # items nobody in this batch has are never read
        data = X.data.astype(self.dtype, copy=False)
        begin, last_of = self.indptr[rows], self.indptr[rows + 1]
        few = max(1, tiles.USERS_AT_ONCE // max(X.shape[0], 1))  # for few users, wider tiles in the same room
        for lo in range(0, m, tiles.DENSE_WIDTH * few):
            hi = min(lo + tiles.DENSE_WIDTH * few, m)
            end = np.empty_like(begin)
            sparse_rows.row_ends(self.indices, begin, last_of, hi, end)

            def score(
                first: int,
                last: int,
                lo: int = lo,
                hi: int = hi,
                begin: NDArray[np.int64] = begin,
                end: NDArray[np.int64] = end,
            ) -> NDArray[np.floating]:
                out = np.empty((last - first, hi - lo), dtype=self.dtype)
                sparse_rows.score_sparse_tile(
                    X.indptr, history, data, begin, end, self.indices, self.data, lo, first, out
                )
                return out

            yield lo, hi, score
            begin = end

    def selector(
        self,
        X: sparse.csr_array,
        seen_ptr: NDArray[Any],
        allowed: NDArray[np.bool_],
        heap_scores: NDArray[np.floating],
        heap_items: NDArray[np.int64],
    ) -> Callable[[int, int], None]:
        """A function that puts the k best items of users first..last into their heaps, from any thread.

        Only items that the history leads to are looked at, and as many others, whose score is 0, as a list needs.
        """
        from offdiag._kernels import sparse_rows

        data = X.data.astype(self.dtype, copy=False)

        def select(first: int, last: int) -> None:
            sparse_rows.select_sparse(
                X.indptr, X.indices, data, seen_ptr, self.indptr, self.indices, self.data,
                allowed, first, last, heap_scores, heap_items,
            )  # fmt: skip

        return select

    def column(self, items: NDArray[np.int64], target: int) -> NDArray[np.floating]:
        """W[items, target]: what each of the items says about the target."""
        out = np.zeros(len(items), dtype=self.dtype)
        for at, item in enumerate(items.tolist()):
            lo, hi = self.indptr[item], self.indptr[item + 1]
            place = lo + np.searchsorted(self.indices[lo:hi], target)
            if place < hi and self.indices[place] == target:
                out[at] = self.data[place]
        return out

    def tocsr(self) -> sparse.csr_array:
        """The same as scipy's; the arrays are shared where the types allow."""
        return sparse.csr_array((self.data, self.indices, self.indptr), shape=self.shape)

    def toarray(self) -> NDArray[np.floating]:
        return self.tocsr().toarray()

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"indptr": self.indptr, "indices": self.indices, "data": self.data}
