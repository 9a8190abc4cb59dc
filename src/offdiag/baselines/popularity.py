"""The same list for all users: the baseline that any model must beat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from offdiag.errors import OffdiagError
from offdiag.gramian.packed import Gram
from offdiag.gramian.sparse import SparseGram, sparse_gram
from offdiag.living.exact_change import Change, NewWeights
from offdiag.models import fields
from offdiag.models.fields import check_not_empty
from offdiag.models.recommender import Recommender
from offdiag.models.source import Reading, Source, read_data, read_gram
from offdiag.progress import Progress, reporter
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

    def fit(
        self, X: Any, y: Any = None, *, progress: Progress | bool | None = None, **reading: Unpack[Reading]
    ) -> Self:
        progress = reporter(progress)
        return self._finish(read_data(X, reading)[1])

    def fit_gram(self, G: Gram | SparseGram, *, item_ids: Any = None, progress: Progress | bool | None = None) -> Self:
        """Learn from the item sums of a Gram; its ``user_power`` does not matter.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> model = od.Popularity().fit_gram(od.gram(X, user_power=0.5), item_ids=X.item_ids)
            >>> model.recommend([[]], k=3).lengths
            array([3])
        """
        progress = reporter(progress)
        return self._finish(read_gram(G, item_ids))

    def _finish(self, source: Source) -> Self:
        settings = {"user_power": 0.0}  # no user weights
        return self._store(_shares(source.popularity), **vars(source), settings=settings)

    def _count_gram(self, matrix: Any, user_power: float, progress: Progress | None) -> SparseGram:
        """Only its counts are used, and its pairs to check whether a user to forget was ever in the model."""
        return matrix if isinstance(matrix, SparseGram) else sparse_gram(matrix, user_power, progress=progress)

    def _follow(self, change: Change, progress: Progress | None) -> NewWeights:
        G = change.G
        check_not_empty(G.n_interactions, G.n_users, G.n_items)
        return NewWeights({"weights_": _shares(G.item_sums)}, "counts", 0.0, 0.0)

    def _tolerances(self) -> tuple[float, float]:
        return 0.0, 0.0

    def explain(self, history: Any, item: Any, **words: Any) -> Explanation:
        raise OffdiagError("Popularity gives everyone the same list: no item of the history contributes to a score")


def _shares(sums: NDArray[np.float64]) -> Constant:
    return Constant((sums / sums.sum()).astype(np.float32))
