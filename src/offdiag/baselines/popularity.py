"""The same list for everyone: the baseline any model must beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from offdiag.errors import OffdiagError
from offdiag.gramian import as_matrix
from offdiag.models.recommender import Recommender, checked_item_ids
from offdiag.progress import Progress
from offdiag.weights import Constant

if TYPE_CHECKING:
    from offdiag.ranking import Explanation


@dataclass(kw_only=True, eq=False)
class Popularity(Recommender):
    """Scores every item by its share of all interactions, whatever the history."""

    def fit(self, X: Any, *, progress: Progress | None = None) -> Self:
        matrix = as_matrix(X)
        m = matrix.shape[1]
        if matrix.nnz == 0:
            raise OffdiagError(
                f"there is nothing to learn from: {matrix.shape[0]} users × {m} items without any interaction"
            )
        sums = np.bincount(matrix.indices, weights=matrix.data, minlength=m).astype(np.float64)
        self.weights_ = Constant((sums / sums.sum()).astype(np.float32))
        self.item_ids_ = checked_item_ids(getattr(X, "item_ids", None), m)
        self.popularity_ = sums
        self.n_users_ = matrix.shape[0]
        self.settings_ = {}
        return self

    def explain(self, history: Any, item: Any) -> Explanation:
        raise OffdiagError("Popularity gives everyone the same list: no item of the history contributes to a score")
