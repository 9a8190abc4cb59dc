"""OrderGram: the Gram of a model of order, with the sums over ordered histories, to which users can be added exactly.

Both sums are whole numbers of a unit that stays the same for the life of a model (``gramian.order``). Doubles hold
whole numbers up to 2^53, so adding and removing users in any order leaves no trace.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from offdiag import _kernels
from offdiag.errors import OffdiagError
from offdiag.gramian import layout
from offdiag.gramian.exact import TOO_WIDE
from offdiag.gramian.order import OrderSums, spread
from offdiag.gramian.packed import Gram
from offdiag.gramian.user_weights import add_histograms, scale_of

LARGEST = 2.0**53  # whole numbers up to here are exact
ROWS = 256  # of K converted at a time


@dataclass(frozen=True, eq=False, repr=False)
class OrderGram(Gram):
    """The Gram of the pairs of user and item, and A and K of their histories in units."""

    kind: ClassVar[str] = "order"
    sources: NDArray[np.floating] = field(kw_only=True)  # Σ sᵀs, packed, in float64
    targets: NDArray[np.floating] = field(kw_only=True)  # Σ sᵀy, m×m, in float64
    examples: NDArray[np.int64] = field(kw_only=True)  # examples[n] = number of users with n examples
    unit: NDArray[np.float64] = field(kw_only=True)  # one number

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.sources.nbytes + self.targets.nbytes

    def with_users(self, pairs: Gram, sums: OrderSums, examples: NDArray[np.int64], sign: int) -> OrderGram:
        """After users are added (+1) or removed (−1): ``pairs`` after the change, the others of these users alone."""
        A, K = self.sources + sign * sums.A, self.targets + sign * sums.K
        if max(A.max(initial=0.0), K.max(initial=0.0)) > LARGEST:
            raise OffdiagError(TOO_WIDE)
        facts = {name: getattr(pairs, name) for name in ("values", "activity", "item_counts", "item_sums")}
        both = add_histograms(self.examples, sign * examples)
        return replace(self, **facts, sources=A, targets=K, examples=both)

    def moved(self, at: NDArray[np.int64]) -> OrderGram:
        """The same users over another catalogue: its item i is item at[i] of this one, or new (−1)."""
        pairs = super().moved(at)
        assert isinstance(pairs, OrderGram)
        known = np.flatnonzero(at >= 0)
        targets = np.zeros((len(at), len(at)))
        targets[np.ix_(known, known)] = self.targets[np.ix_(at[known], at[known])]
        sources = _kernels.packed_rows.moved(self.sources, self.n_items, at)
        return replace(pairs, sources=sources, targets=targets)

    def mixed(self, mix: float, dtype: Any) -> OrderSums:
        """The sums that ``count_order`` returns for all these users."""
        m = self.n_items
        A, K = self.values.astype(dtype), np.empty((m, m), dtype=dtype)
        spread(A, mix * self.scale, K)
        weight = (1 - mix) * scale_of(self.examples, self.user_power) * float(self.unit[0])
        for lo in range(0, m, ROWS):
            K[lo : lo + ROWS] += weight * self.targets[lo : lo + ROWS]
        for lo in range(0, len(A), ROWS * m):
            A[lo : lo + ROWS * m] += weight * self.sources[lo : lo + ROWS * m]
        return OrderSums(A, K)

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], about: dict[str, Any]) -> OrderGram:
        """From the arrays of a file, whose shapes are checked because compiled loops trust them."""
        G = super().from_arrays(arrays, about)
        assert isinstance(G, OrderGram)
        m = G.n_items
        kinds = [array.dtype.name for array in (G.sources, G.targets, G.examples, G.unit)]
        shapes = (G.sources.shape, G.targets.shape, G.examples.ndim, G.unit.shape)
        if kinds != ["float64", "float64", "int64", "float64"] or shapes != ((layout.size(m),), (m, m), 1, (1,)):
            raise ValueError("the sums over histories do not fit their items")
        if not G.unit[0] > 0:
            raise ValueError("the unit of the sums is not a positive number")
        return G
