"""The same list for all users: the baseline that any model must beat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from offdiag.errors import OffdiagError
from offdiag.gramian.packed import Gram, as_matrix
from offdiag.gramian.sparse import SparseGram, sparse_gram
from offdiag.living.exact_change import Change, NewWeights
from offdiag.living.past import Past
from offdiag.models import fields
from offdiag.models.fields import check_not_empty, checked_item_ids
from offdiag.models.recommender import Recommender
from offdiag.progress import Progress
from offdiag.weights import Constant

if TYPE_CHECKING:
    from offdiag.ranking import Explanation


@fields.model
class Popularity(Recommender):
    """Scores every item by its share of all interactions, whatever the history.

    score_i = Σ_u x_ui / Σ_u,j x_uj

    Use it as the baseline that any model must beat. It has no settings.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> od.Popularity().fit(X).recommend(X, k=5).items.shape
        (300, 5)
    """

    learns_from_gram = True
    can_change = True

    def fit(self, X: Any, *, progress: Progress | None = None) -> Self:
        matrix = as_matrix(X)
        n, m = matrix.shape
        check_not_empty(matrix.nnz, n, m)
        item_ids = checked_item_ids(getattr(X, "item_ids", None), m)
        sums = np.bincount(matrix.indices, weights=matrix.data, minlength=m).astype(np.float64)
        return self._learned(sums, item_ids, n, Past.of_fit(matrix, X))

    def fit_gram(self, G: Gram | SparseGram, *, item_ids: Any = None, progress: Progress | None = None) -> Self:
        """Learn from the item sums of a Gram; its ``user_power`` does not matter."""
        check_not_empty(G.n_interactions, G.n_users, G.n_items)
        item_ids = checked_item_ids(item_ids, G.n_items)
        return self._learned(G.item_sums.copy(), item_ids, G.n_users, Past.of_fit(G))

    def _learned(self, sums: NDArray[np.float64], item_ids: NDArray[Any], n_users: int, past: Past) -> Self:
        settings = {"user_power": 0.0}  # no user weights
        return self._store(_shares(sums), item_ids, sums, n_users, settings, past)

    def _count_gram(self, matrix: Any, user_power: float, progress: Progress | None) -> SparseGram:
        """Only its counts are used, and its pairs to check whether a user to forget was ever in the model."""
        return matrix if isinstance(matrix, SparseGram) else sparse_gram(matrix, user_power, progress=progress)

    def _follow(self, change: Change, progress: Progress | None) -> NewWeights:
        G = change.G
        check_not_empty(G.n_interactions, G.n_users, G.n_items)
        return NewWeights({"weights_": _shares(G.item_sums)}, "counts", 0.0, 0.0)

    def _tolerances(self) -> tuple[float, float]:
        return 0.0, 0.0

    def explain(self, history: Any, item: Any) -> Explanation:
        raise OffdiagError("Popularity gives everyone the same list: no item of the history contributes to a score")


def _shares(sums: NDArray[np.float64]) -> Constant:
    return Constant((sums / sums.sum()).astype(np.float32))
