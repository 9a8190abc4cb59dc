"""The same scores for everybody."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.weights.tiles import Tile, Tiled


@dataclass(frozen=True, eq=False)
class Constant(Tiled):
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
