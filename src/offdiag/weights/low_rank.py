"""W as a product of two embeddings, U Vᵀ, never formed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.weights.protocol import Floats, Ints, Side, Tile
from offdiag.weights.tiles import Tiled, check_arrays, check_rank, encode_rows, inner_products


class Factored(Tiled):
    """W = U Vᵀ, whether both factors are stored or computed."""

    batch_invariant: ClassVar[bool] = False
    if TYPE_CHECKING:  # fields of one shape, properties of the other

        @property
        def U(self) -> Floats: ...  # noqa: N802
        @property
        def V(self) -> Floats: ...  # noqa: N802

    def embedding(self, side: Side) -> Floats:
        return self.U if side == "encoder" else self.V

    def toarray(self) -> Floats:
        return self.U @ self.V.T


@dataclass(frozen=True, eq=False)
class LowRank(Factored):
    """W = U Vᵀ with an embedding of rank numbers per item on either side; the m×m product is never formed.

    Row u of X is encoded as z = x U, and item i scores z·v_i: the inner product any nearest-neighbour index searches.
    """

    kind: ClassVar[str] = "low_rank"
    per_item: ClassVar[str] = "V"
    U: Floats  # (m, rank), the encoder
    V: Floats  # (m, rank), the decoder

    @property
    def warm_start(self) -> tuple[Floats, Floats]:
        """The starting point for a fit of nearly the same data."""
        return self.U, self.V

    def encode(self, X: sparse.csr_array) -> Floats:
        """Z = X U, a row of rank numbers per user."""
        return encode_rows(X, self.U)

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        return inner_products(self.encode(X), self.V)

    def scaled(self, columns: Floats) -> LowRank:
        return LowRank(self.U, self.V * columns.astype(self.dtype, copy=False)[:, None])

    def diagonal(self) -> Floats:
        own: Floats = np.einsum("ik,ik->i", self.U, self.V)
        return own

    def column(self, items: Ints, target: int) -> Floats:
        return self.U[items] @ self.V[target]  # type: ignore[no-any-return]

    def columns(self, lo: int, hi: int, out: Floats | None = None) -> Floats:
        return np.matmul(self.V[lo:hi], self.U.T, out=out)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], m: int) -> Self:
        rank = check_rank(arrays["U"], m)
        check_arrays(cls.kind, arrays, m, {"U": (m, rank), "V": (m, rank)})
        return cls(**arrays)
