"""Item vectors of implicit factorisation: least squares turns a history into a vector; scores are inner products."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.errors import OffdiagError
from offdiag.weights.protocol import Floats, Ints, Tile
from offdiag.weights.tiles import Tiled, inner_products


@dataclass(frozen=True, eq=False)
class ImplicitFactors(Tiled):
    """Scores V z, z = argmin Σ_i α x_i (z·v_i − 1)² + Σ_j (z·v_j)² + λ ‖z‖², i over the history and j over all items.

    λ = l2·(α Σ_i x_i + items)^power [Rendle22], where ``items`` counts items with users. The minimum is exact: one
    rank×rank system per history, whether or not the user was seen in training. An empty history has z = 0.
    """

    kind: ClassVar[str] = "implicit_factors"
    per_item: ClassVar[str] = "V"
    linear: ClassVar[bool] = False
    batch_invariant: ClassVar[bool] = False
    V: Floats  # (m, rank)
    alpha: float
    l2: float
    power: float
    items: float

    @property
    def nbytes(self) -> int:
        return self.V.nbytes

    @cached_property
    def G(self) -> Floats:  # noqa: N802
        """VᵀV, computed once."""
        return gram_of(self.V)

    def encode(self, X: sparse.csr_array) -> Floats:
        """The vector of each history (n, rank)."""
        from offdiag._kernels import als

        Z = np.empty((X.shape[0], self.V.shape[1]), dtype=self.dtype)
        given = *rows_of(X), self.V, self.G, self.alpha, self.l2, self.power, self.items

        def part(first: int, last: int) -> None:
            als.solve_rows(*given, first, last, Z[first:last])

        als.run(part, X.indptr, self.V.shape[1])
        return Z

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        return inner_products(self.encode(X), self.V)

    def scaled(self, columns: Floats) -> ImplicitFactors:
        raise OffdiagError("these factors cannot be scaled: the vector of a history is solved for with them, too")

    def column(self, items: Ints, target: int) -> Floats:
        raise OffdiagError("these factors have no matrix: what one item adds to a score depends on the whole history")

    def toarray(self) -> Floats:
        raise OffdiagError("these factors have no matrix: the vector of a history is solved for; use predict")

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"V": self.V, "confidence": np.array([self.alpha, self.l2, self.power, self.items])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], m: int) -> Self:
        V, confidence = arrays["V"], arrays["confidence"]
        if len(arrays) != 2 or V.ndim != 2 or len(V) != m or V.shape[1] < 1 or confidence.shape != (4,):
            raise ValueError(f"the implicit factors do not fit {m} items")
        if V.dtype.name not in ("float32", "float64") or confidence.dtype != np.float64:
            raise TypeError("the implicit factors are not real numbers of the expected types")
        alpha, l2, power, items = confidence.tolist()
        if not (alpha > 0 and l2 > 0 and items >= 0 and np.isfinite(confidence).all()):
            raise ValueError("alpha and l2 of the implicit factors must be above 0")
        return cls(V, alpha, l2, power, items)


Rows = tuple[Ints, NDArray[np.int32], NDArray[np.float64]]


def rows_of(X: sparse.csr_array) -> Rows:
    """One type for each part, whatever the input: each combination would be compiled separately."""
    return X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data.astype(np.float64)


def gram_of(V: Floats) -> Floats:
    """VᵀV in double precision over blocks of rows, rounded once: rounding must not make it indefinite."""
    total = np.zeros((V.shape[1], V.shape[1]))
    for lo in range(0, len(V), 4096):
        block = V[lo : lo + 4096].astype(np.float64)
        total += block.T @ block
    return total.astype(V.dtype)
