"""The same scores for every user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.weights.protocol import Floats, Ints, Tile
from offdiag.weights.tiles import Tiled, check_arrays


@dataclass(frozen=True, eq=False)
class Constant(Tiled):
    """The same score for every user, whatever the history: not linear, but with the same interface (popularity)."""

    kind: ClassVar[str] = "constant"
    per_item: ClassVar[str] = "scores"
    linear: ClassVar[bool] = False
    scores: Floats

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        yield 0, len(self.scores), lambda first, last: np.tile(self.scores, (last - first, 1))

    def scaled(self, columns: Floats) -> Constant:
        return Constant(self.scores * columns.astype(self.dtype, copy=False))

    def column(self, items: Ints, target: int) -> Floats:
        return np.zeros(len(items), dtype=self.dtype)  # no item predicts another

    def toarray(self) -> Floats:
        return np.zeros(self.shape, dtype=self.dtype)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], m: int) -> Self:
        check_arrays(cls.kind, arrays, m, {"scores": (m,)})
        return cls(**arrays)
