"""W as a shrunk projection: one embedding per item, used on both sides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.weights.low_rank import Factored, LowRank
from offdiag.weights.protocol import Floats, Ints, Tile
from offdiag.weights.tiles import check_arrays, check_rank, encode_rows, inner_products


@dataclass(frozen=True, eq=False)
class Symmetric(Factored):
    """W = R Q diag(shrink) Qᵀ R⁻¹, R = diag(scale)."""

    kind: ClassVar[str] = "symmetric"
    per_item: ClassVar[str] = "Q"
    Q: Floats  # (m, rank), orthonormal columns
    sigma: NDArray[np.float64]  # (rank,) singular values of the scaled data, largest first
    shrink: NDArray[np.float64]  # (rank,)
    scale: Floats  # (m,)

    @property
    def U(self) -> Floats:  # noqa: N802
        """The encoder, computed on each call."""
        out: Floats = self.Q * self.shrink.astype(self.dtype) * self.scale[:, None]
        return out

    @property
    def V(self) -> Floats:  # noqa: N802
        """The decoder, computed on each call."""
        return self.Q / self.scale[:, None]

    @property
    def warm_start(self) -> tuple[Floats, Floats]:
        """The starting point for a fit of nearly the same data."""
        return self.Q, self.Q

    def encode(self, X: sparse.csr_array) -> Floats:
        scaled = X.data.astype(self.dtype) * self.scale[X.indices]
        Z = encode_rows(sparse.csr_array((scaled, X.indices, X.indptr), shape=X.shape), self.Q)
        Z *= self.shrink.astype(self.dtype)
        return Z

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        return inner_products(self.encode(X), self.Q, self.scale)

    def scaled(self, columns: Floats) -> LowRank:
        """No longer symmetric: separate encoder and decoder."""
        return LowRank(self.U, self.V).scaled(columns)

    def column(self, items: Ints, target: int) -> Floats:
        weights = self.Q[items] @ (self.shrink.astype(self.dtype) * self.Q[target])
        return weights * self.scale[items] / self.scale[target]  # type: ignore[no-any-return]

    def columns(self, lo: int, hi: int, out: Floats | None = None) -> Floats:
        found: Floats
        found = np.matmul(self.Q[lo:hi] * self.shrink.astype(self.dtype), self.Q.T, out=out)
        found *= self.scale
        found /= self.scale[lo:hi, None]
        return found

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], m: int) -> Self:
        rank = check_rank(arrays["Q"], m)
        shapes = {"Q": (m, rank), "sigma": (rank,), "shrink": (rank,), "scale": (m,)}
        check_arrays(cls.kind, arrays, m, shapes, double=("sigma", "shrink"))
        return cls(**arrays)
