"""W from the packed half of a symmetric matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from offdiag.gramian import layout
from offdiag.weights.byte_copy import Rank
from offdiag.weights.dense import Dense
from offdiag.weights.matrices import Matrix
from offdiag.weights.protocol import Floats, Ints
from offdiag.weights.tiles import check_arrays


@dataclass(frozen=True, eq=False)
class Packed(Matrix):
    """W[j, i] = C[j, i]·scale[i] off the diagonal, W[i, i] = own[i], with C symmetric and packed: m²/2 numbers."""

    kind: ClassVar[str] = "packed"
    per_item: ClassVar[str] = "scale"
    C: Floats
    scale: Floats
    own: Floats

    def tile(self, rows: Ints, places: Ints, lo: int, hi: int, out: Floats, first: int, last: int) -> None:
        from offdiag._kernels import packed_rows

        m = len(self.scale)
        h, e, _ = layout.layout(m)
        P = layout.rectangle(self.C, m)
        at, to = rows.view(np.uint64), places.view(np.uint64)
        packed_rows.packed_tile(P, h, e, at, to, lo, hi, self.scale, self.own, out, first, last)

    def row(self, item: int) -> Floats:
        m = len(self.scale)
        found: Floats = self.C[layout.positions(m, np.array([item]), np.arange(m))[0]] * self.scale
        found[item] = self.own[item]
        return found

    def rank_exactly(self) -> Rank:
        from offdiag._kernels import byte_rows

        h, e, _ = layout.layout(len(self.scale))
        return partial(byte_rows.rank_packed, layout.rectangle(self.C, len(self.scale)), h, e, self.scale, self.own)

    def scaled(self, columns: Floats) -> Packed:
        columns = columns.astype(self.dtype, copy=False)
        return Packed(self.C, self.scale * columns, self.own * columns)

    def diagonal(self) -> Floats:
        return self.own.copy()

    def todense(self) -> Dense:
        """The same weights with every number stored: twice the memory, faster single requests."""
        return Dense(self.toarray())

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"C": self.C, "scale": self.scale, "diagonal": self.own}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], m: int) -> Self:
        check_arrays(cls.kind, arrays, m, {"C": (layout.size(m),), "scale": (m,), "diagonal": (m,)})
        return cls(arrays["C"], arrays["scale"], arrays["diagonal"])
