"""W of likes and dislikes: a row for what a user liked, and another for what they disliked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.weights import tiles
from offdiag.weights.protocol import Floats, Ints, Tile
from offdiag.weights.tiles import Tiled, check_arrays


@dataclass(frozen=True, eq=False)
class Signed(Tiled):
    """Scores of rows in which a negative number is a dislike: X⁺ B + |X⁻| N. As a matrix it is B, m² numbers.

    N has a row for each item that somebody disliked; the dislikes of other items have no effect on scores.
    """

    kind: ClassVar[str] = "signed"
    per_item: ClassVar[str] = "B"
    compound: ClassVar[bool] = True
    takes_dislikes: ClassVar[bool] = True
    B: Floats  # (m + d, m): the rows of B, then those of N
    disliked: Ints  # (d,) the items that N has a row for, ascending

    @property
    def shape(self) -> tuple[int, int]:
        m = self.B.shape[1]
        return m, m

    def _inputs(self, items: NDArray[Any], values: NDArray[Any]) -> Ints:
        """The row of each entry of a history, -1 for a dislike without one."""
        m = self.B.shape[1]
        row = np.full(m, -1, dtype=np.int64)
        row[self.disliked] = m + np.arange(len(self.disliked))
        return np.where(values < 0, row[items], items)

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        from offdiag._kernels import topk

        inputs = self._inputs(X.indices, X.data)
        known = inputs >= 0
        ends = np.concatenate([[0], np.cumsum(known)])[X.indptr]
        history, data = inputs[known].astype(np.uint32), np.abs(X.data[known]).astype(self.dtype, copy=False)
        for lo in range(0, self.shape[1], tiles.DENSE_WIDTH):
            hi = min(lo + tiles.DENSE_WIDTH, self.shape[1])

            def score(first: int, last: int, lo: int = lo, hi: int = hi) -> Floats:
                out = np.empty((last - first, hi - lo), dtype=self.dtype)
                topk.score_tile(ends, history, data, self.B, lo, hi, first, out)
                return out

            yield lo, hi, score

    def contributions(self, items: Ints, values: Floats, target: int) -> NDArray[np.float64]:
        inputs = self._inputs(items, values)
        found = np.where(inputs >= 0, self.B[inputs, target], 0)
        return np.abs(values).astype(np.float64) * found

    def scaled(self, columns: Floats) -> Signed:
        return Signed(self.B * columns.astype(self.dtype, copy=False), self.disliked)

    def diagonal(self) -> Floats:
        return np.diag(self.B).copy()

    def column(self, items: Ints, target: int) -> Floats:
        found: Floats = self.B[items, target]
        return found

    def columns(self, lo: int, hi: int, out: Floats | None = None) -> Floats:
        found = np.ascontiguousarray(self.B[: self.shape[0], lo:hi].T)
        if out is None:
            return found
        out[:] = found
        return out

    def toarray(self) -> Floats:
        return np.array(self.B[: self.shape[0]])

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], m: int) -> Self:
        disliked = arrays["disliked"]
        if disliked.ndim != 1 or disliked.dtype != np.int64 or np.any(np.diff(disliked) <= 0):
            raise ValueError("the disliked items are not ascending numbers")
        if len(disliked) and (disliked[0] < 0 or disliked[-1] >= m):
            raise ValueError(f"the disliked items do not fit {m} items")
        numbers = {name: array for name, array in arrays.items() if name != "disliked"}
        check_arrays(cls.kind, numbers, m, {"B": (m + len(disliked), m)})
        return cls(numbers["B"], disliked)
