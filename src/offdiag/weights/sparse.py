"""W with few nonzero entries: only those are stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.errors import OffdiagError
from offdiag.weights.protocol import Floats, Ints
from offdiag.weights.stored_rows import StoredRows


@dataclass(frozen=True, eq=False)
class Sparse(StoredRows):
    """W by rows: row j, the weights from item j to others, is data[indptr[j]:indptr[j + 1]] in ascending columns."""

    kind: ClassVar[str] = "sparse"
    indptr: Ints  # (m + 1,)
    indices: NDArray[np.int32]  # (nnz,)
    data: Floats  # (nnz,)

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
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], m: int) -> Self:
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
    def nnz(self) -> int:
        return len(self.data)

    def _kernels(self) -> ModuleType:
        from offdiag._kernels import sparse_rows

        return sparse_rows

    def _entry_arrays(self) -> tuple[NDArray[Any], ...]:
        return self.indices, self.data

    def _row_starts(self, rows: NDArray[Any]) -> tuple[Ints, ...]:
        return (self.indptr[rows],)

    def scaled(self, columns: Floats) -> Sparse:
        return Sparse(self.indptr, self.indices, self.data * columns.astype(self.dtype, copy=False)[self.indices])

    def column(self, items: Ints, target: int) -> Floats:
        out = np.zeros(len(items), dtype=self.dtype)
        for at, item in enumerate(items.tolist()):
            lo, hi = self.indptr[item], self.indptr[item + 1]
            place = lo + np.searchsorted(self.indices[lo:hi], target)
            if place < hi and self.indices[place] == target:
                out[at] = self.data[place]
        return out

    def tocsr(self) -> sparse.csr_array:
        """As a scipy array; the arrays are shared if their types allow it."""
        return sparse.csr_array((self.data, self.indices, self.indptr), shape=self.shape)
