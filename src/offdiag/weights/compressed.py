"""W with only its strong entries stored, in few bits each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.errors import OffdiagError
from offdiag.weights.protocol import Floats, Ints
from offdiag.weights.stored_rows import StoredRows

STORAGES = ("float32", "float16", "int8")
_GAPS = ("uint8", "uint16", "uint32")


@dataclass(frozen=True, eq=False)
class Compressed(StoredRows):
    """W by rows: entry p of row j is codes[p]·scale[column], ``gaps[p] + 1`` columns after the previous entry.

    Row j is at indptr[j]..indptr[j + 1]. Steps too long for one gap are split by stored zeros. Scores are
    summed in float32 straight from the codes; nothing is unpacked.
    """

    kind: ClassVar[str] = "compressed"
    per_item: ClassVar[str] = "scale"
    lossy: ClassVar[bool] = True
    indptr: NDArray[np.unsignedinteger]  # (m + 1,) uint32, or int64 from 2³² entries
    gaps: NDArray[np.unsignedinteger]  # (nnz,) uint8, uint16 or uint32
    codes: NDArray[Any]  # (nnz,) float32, float16 or int8
    scale: NDArray[np.float32]  # (m,)

    def scaled(self, columns: Floats) -> Compressed:
        return Compressed(self.indptr, self.gaps, self.codes, self.scale * columns.astype(np.float32))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], m: int) -> Self:
        weights = cls(**arrays)
        known = weights.indptr.dtype.name in ("uint32", "int64") and weights.gaps.dtype.name in _GAPS
        if not known or weights.codes.dtype.name not in STORAGES or weights.scale.dtype != np.float32:
            raise TypeError("the compressed weights are not of their types")
        if weights.indptr.shape != (m + 1,) or weights.scale.shape != (m,):
            raise ValueError(f"the compressed weights do not fit {m} items")
        if weights.gaps.ndim != 1 or weights.gaps.shape != weights.codes.shape:
            raise ValueError("the compressed weights do not fit each other")
        weights.check()
        return weights

    @property
    def storage(self) -> str:
        return self.codes.dtype.name

    @property
    def nnz(self) -> int:
        return len(self.codes)

    def _kernels(self) -> ModuleType:
        from offdiag._kernels import coded_rows

        return coded_rows

    def _entry_arrays(self) -> tuple[NDArray[Any], ...]:
        """Gaps, codes, the value of each code (empty if it is the code itself), and the scales."""
        if self.storage == "float16":  # processors without half precision would emulate it number by number
            return self.gaps, self.codes.view(np.uint16), halves(), self.scale
        return self.gaps, self.codes, np.empty(0, dtype=np.float32), self.scale

    def _row_starts(self, rows: NDArray[Any]) -> tuple[Ints, ...]:
        return self.indptr[rows].astype(np.int64), np.full(len(rows), -1, dtype=np.int64)

    def column(self, items: Ints, target: int) -> Floats:
        from offdiag._kernels import coded_rows

        places = np.empty(len(items), dtype=np.int64)
        coded_rows.find(self.indptr, self.gaps, items, target, places)
        out = np.zeros(len(items), dtype=np.float32)
        stored = places >= 0
        out[stored] = self.codes[places[stored]].astype(np.float32) * self.scale[target]
        return out

    def tocsr(self) -> sparse.csr_array:
        """Unpacked into scipy's format, eight bytes per entry; the zeros of long steps are left out."""
        from offdiag._kernels import coded_rows

        columns = np.empty(len(self.gaps), dtype=np.int32)
        coded_rows.columns_of(self.indptr, self.gaps, 0, self.shape[0], columns)
        values = self.codes.astype(np.float32)
        values *= self.scale[columns]
        out = sparse.csr_array((values, columns, self.indptr.astype(np.int64)), shape=self.shape)
        out.eliminate_zeros()
        return out

    def __getattr__(self, name: str) -> Any:
        if name in ("U", "V", "Q", "sigma"):
            raise OffdiagError(
                "compressed weights are entries of W without embeddings or a spectrum; use the model they were made of"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


@cache
def halves() -> NDArray[np.float32]:
    """The value of each of the 65,536 half-precision codes: 256 kB, which stays in the cache."""
    with np.errstate(invalid="ignore"):  # some codes are NaN
        return np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
