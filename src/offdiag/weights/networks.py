"""Networks that are scored as if they were matrices: an embedding of the history, then inner products."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.errors import OffdiagError
from offdiag.weights.tiles import Tile, Tiled, encoded, inner_products


@dataclass(frozen=True, eq=False)
class TanhNetwork(Tiled):
    """tanh(x/‖x‖·W1 + b1)·W2ᵀ + b2: not a matrix, but scored as one, an embedding of the history at a time."""

    kind: ClassVar[str] = "tanh_network"
    W1: NDArray[np.floating]  # (m, width)
    b1: NDArray[np.floating]  # (width,)
    W2: NDArray[np.floating]  # (m, width)
    b2: NDArray[np.floating]  # (m,)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.W1), len(self.W2)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.W1.dtype

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())

    def encode(self, X: sparse.csr_array) -> NDArray[np.floating]:
        norms = np.sqrt(np.add.reduceat(np.append(X.data, 0).astype(np.float64) ** 2, X.indptr[:-1]))
        lengths = np.diff(X.indptr)
        per_entry = np.repeat(np.where(lengths > 0, norms, 1.0), lengths)
        scaled = (X.data / per_entry).astype(self.dtype)
        Z = encoded(sparse.csr_array((scaled, X.indices, X.indptr), shape=X.shape), self.W1)
        Z += self.b1
        np.tanh(Z, out=Z)
        return Z

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        return inner_products(self.encode(X), self.W2, add=self.b2)

    def column(self, items: NDArray[np.int64], target: int) -> NDArray[np.floating]:
        raise OffdiagError("a non-linear net has no matrix: what one item adds to a score depends on the others")

    def toarray(self) -> NDArray[np.floating]:
        raise OffdiagError("a non-linear net has no matrix; score histories with predict")

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"W1": self.W1, "b1": self.b1, "W2": self.W2, "b2": self.b2}
