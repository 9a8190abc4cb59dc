"""W as a product of embeddings: U Vᵀ, never formed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.weights.tiles import Tile, Tiled, encoded, inner_products


@dataclass(frozen=True, eq=False)
class LowRank(Tiled):
    """W = U Vᵀ with an embedding of rank numbers per item on either side; the m×m product is never formed.

    Row u of X is encoded as z = x U, and item i scores z·v_i: the inner product any nearest-neighbour index searches.
    The products are BLAS's, which may round the last bits of a score differently in a batch of another size.
    """

    kind: ClassVar[str] = "low_rank"
    U: NDArray[np.floating]  # (m, rank), the encoder
    V: NDArray[np.floating]  # (m, rank), the decoder

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.U), len(self.V)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.U.dtype

    @property
    def nbytes(self) -> int:
        return self.U.nbytes + self.V.nbytes

    def encode(self, X: sparse.csr_array) -> NDArray[np.floating]:
        """Z = X U, a row of rank numbers per user."""
        return encoded(X, self.U)

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        return inner_products(self.encode(X), self.V)

    def column(self, items: NDArray[np.int64], target: int) -> NDArray[np.floating]:
        """W[items, target]: what each of the items says about the target."""
        return self.U[items] @ self.V[target]  # type: ignore[no-any-return]

    def toarray(self) -> NDArray[np.floating]:
        return self.U @ self.V.T

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"U": self.U, "V": self.V}


@dataclass(frozen=True, eq=False)
class Symmetric(Tiled):
    """W = R Q diag(shrink) Qᵀ R⁻¹, R = diag(scale): one embedding per item, used on both sides."""

    kind: ClassVar[str] = "symmetric"
    Q: NDArray[np.floating]  # (m, rank), orthonormal columns
    sigma: NDArray[np.float64]  # (rank,) singular values of the scaled data, largest first
    shrink: NDArray[np.float64]  # (rank,)
    scale: NDArray[np.floating]  # (m,)

    @property
    def U(self) -> NDArray[np.floating]:  # noqa: N802
        """The encoder, made anew at each call."""
        out: NDArray[np.floating] = self.Q * self.shrink.astype(self.dtype) * self.scale[:, None]
        return out

    @property
    def V(self) -> NDArray[np.floating]:  # noqa: N802
        """The decoder, made anew at each call."""
        return self.Q / self.scale[:, None]

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.Q), len(self.Q)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.Q.dtype

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())

    def encode(self, X: sparse.csr_array) -> NDArray[np.floating]:
        scaled = X.data.astype(self.dtype) * self.scale[X.indices]
        Z = encoded(sparse.csr_array((scaled, X.indices, X.indptr), shape=X.shape), self.Q)
        Z *= self.shrink.astype(self.dtype)
        return Z

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        return inner_products(self.encode(X), self.Q, self.scale)

    def column(self, items: NDArray[np.int64], target: int) -> NDArray[np.floating]:
        said = self.Q[items] @ (self.shrink.astype(self.dtype) * self.Q[target])
        return said * self.scale[items] / self.scale[target]  # type: ignore[no-any-return]

    def toarray(self) -> NDArray[np.floating]:
        return self.U @ self.V.T

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"Q": self.Q, "sigma": self.sigma, "shrink": self.shrink, "scale": self.scale}
