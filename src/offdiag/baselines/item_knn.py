"""Nearest neighbours among items: the oldest method that is still worth comparing with [Sarwar01]."""

from __future__ import annotations

from typing import Any, Literal, Self, Unpack

import numpy as np

from offdiag import memory
from offdiag.errors import OffdiagError
from offdiag.gramian.packed import Gram
from offdiag.gramian.user_weights import user_weights
from offdiag.models import fields
from offdiag.models.fields import Auto
from offdiag.models.recommender import Recommender
from offdiag.models.source import Reading, Source, check_gram, read_data, read_gram
from offdiag.progress import Progress, reporter
from offdiag.solvers import neighbours
from offdiag.solvers.neighbours import Source as Similarities
from offdiag.weights import Sparse

USER_POWER = 1.0
NEAR = 200  # neighbours of a near part


@fields.model
class ItemKNN(Recommender):
    """The score of an item is the sum of its similarities to its nearest neighbours in the history [Sarwar01].

    s_ji = G_ji / (g_j^balance·g_i^(1 − balance) + shrink),  G = XᵀX, g its diagonal

    Use it as a baseline that learns nothing: a model that does not beat it is not worth its cost.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> model = od.ItemKNN(neighbours=10).fit(X)
        >>> model.similar(X.item_ids[:1], k=4).items.shape
        (1, 4)
    """

    learns_from_gram = True
    neighbours: int = fields.setting(
        100, low=1, search=fields.up_to_items(10), help="Number of nearest items that each item is compared with."
    )
    balance: float = fields.setting(
        0.7, low=0, high=1, search=fields.Range(0.0, 1.0),
        help="Whose popularity divides the similarities. 0.5: both, the cosine. 1: that of the item in the history, "
        "the share of its users who have the other. 0: that of the recommended item.",
    )  # fmt: skip
    shrink: float = fields.setting(
        0.0, low=0, help="Number of users added to the divisor, which lowers the scores of rare items."
    )
    neighbours_of: Literal["recommended", "chosen"] = fields.setting(
        "recommended", choices=("recommended", "chosen"), optional=True,
        help="Keep the neighbours of each item that may be recommended, or of each chosen one. With a balance near 1 "
        "the latter loses less.",
    )  # fmt: skip
    user_power: float | Auto = fields.user_power(auto="1, or that of the Gram in fit_gram")
    dtype: Literal["float32", "float64"] = fields.dtype()

    def fit(
        self, X: Any, y: Any = None, *, progress: Progress | bool | None = None, **reading: Unpack[Reading]
    ) -> Self:
        """Learn from Interactions, a matrix of users×items, or any table, with the options of ``od.read``.

        Memory: a copy of the interactions and two numbers per neighbour; no m×m matrix.
        """
        progress = reporter(progress)
        used = self._validate()
        matrix, source = read_data(X, reading)
        if used.user_power == "auto":
            used.user_power = USER_POWER
        self._check_memory(matrix.shape[1], matrix.nnz)
        similarities = neighbours.from_data(matrix, user_weights(matrix, used.user_power))
        return self._select(similarities, used, source, progress)

    def fit_gram(self, G: Gram, *, item_ids: Any = None, progress: Progress | bool | None = None) -> Self:
        """Learn from a Gram alone, with its ``user_power``. G is not changed.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> model = od.ItemKNN().fit_gram(od.gram(X, user_power=0.5), item_ids=X.item_ids)
            >>> model.recommend([[]], k=3).lengths
            array([3])
        """
        progress = reporter(progress)
        used = self._validate()
        check_gram(G, used.user_power)
        source = read_gram(G, item_ids)
        used.user_power = G.user_power
        self._check_memory(G.n_items, 0)
        return self._select(neighbours.from_gram(G.values, G.n_items, G.scale), used, source, progress)

    def _select(self, similarities: Similarities, used: Self, source: Source, progress: Progress | None) -> Self:
        of_chosen = used.neighbours_of == "chosen"  # s_ji with the balance of i for that of j is s_ij
        B = neighbours.nearest(
            similarities, neighbours=used.neighbours, balance=1 - used.balance if of_chosen else used.balance,
            shrink=used.shrink, dtype=used.dtype, progress=progress,
        )  # fmt: skip
        B = B.T.tocsc() if of_chosen else B
        if not np.isfinite(B.data).all():
            raise OffdiagError("the sums of squares overflow; scale the values down or binarise them")
        return self._store(Sparse.of(B), **vars(source), settings=used._settings())

    def _check_memory(self, m: int, interactions: int) -> None:
        kept = m * min(self.neighbours, m) * (4 + np.dtype(self.dtype).itemsize)
        memory.require(
            12 * interactions + 3 * kept,  # the heaps, then the same by columns, then by rows
            f"{self.neighbours:,} neighbours of each of {m:,} items",
            "lower neighbours",
        )


def near_part() -> ItemKNN:
    """What a blend adds to sharp neighbours and a smooth part: first-order propagation, R Rᵀ with no decomposition.

    Popular items have thousands of neighbours that all count, so neighbours of the chosen items are kept: 200 of these
    rank as well as 2,000 (docs/models.md).
    """
    return ItemKNN(neighbours=NEAR, balance=1.0, neighbours_of="chosen")
