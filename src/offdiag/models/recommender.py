"""What every fitted model can do, whatever it learned: score, recommend, find similar items, save itself."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from offdiag import ranking
from offdiag.errors import OffdiagError
from offdiag.weights import Weights

if TYPE_CHECKING:
    from offdiag.ranking import Explanation, Recommendations


def checked_item_ids(item_ids: Any, m: int) -> NDArray[Any]:
    """One distinct id per column; the column numbers when none are given."""
    if item_ids is None:
        return np.arange(m)
    ids = np.asarray(item_ids)
    if ids.shape != (m,) or ids.dtype.kind not in "iuU":
        raise OffdiagError(
            f"expected one item id (whole number or text) for each of the {m} columns, "
            f"received {ids.shape} of type {ids.dtype}"
        )
    if len(np.unique(ids)) != m:
        raise OffdiagError(f"item ids must differ from each other, received {m - len(np.unique(ids))} repeated ones")
    return ids


class Recommender:
    """The common face of all models; ``fit`` of each model sets the attributes below."""

    weights_: Weights
    item_ids_: NDArray[Any]
    popularity_: NDArray[np.float64]  # column sums of the training data
    settings_: dict[str, Any]  # the hyper-parameters as used, with every "auto" replaced by its value
    n_users_: int

    def predict(self, X: Any) -> NDArray[np.floating]:
        """Scores of all items for each row of X: a dense users×items array. For lists, ``recommend`` needs far less."""
        rows, _ = ranking.encode(X, self._fitted().item_ids_)
        return rows @ self.weights_  # type: ignore[operator,no-any-return]

    def recommend(
        self, histories: Any, k: int = 10, *, exclude_seen: bool = True, allow: Any = None, block: Any = None
    ) -> Recommendations:
        """The k best items for each history (rows of a matrix, Interactions, or lists of item ids).

        ``allow`` and ``block`` are lists of item ids. Fewer than k come back only when no more are left. Ids that are
        not in the catalogue are listed in ``.unknown`` and warned about; an empty history gets the popular items.
        """
        model = self._fitted()
        return ranking.recommend(
            model.weights_, model.item_ids_, model.popularity_, histories, k,
            exclude_seen=exclude_seen, allow=allow, block=block,
        )  # fmt: skip

    def similar(self, items: Any, k: int = 10, *, space: str = "score") -> Recommendations:
        """For each item id, the k items that a history of only that item leads to.

        Low-rank models also compare embeddings: the cosine of the rows of ``encoder_`` (items that say the same about
        others) with ``space="encoder"``, or of ``decoder_`` (items that the same others speak for) with "decoder".
        """
        model = self._fitted()
        return ranking.similar(model.weights_, model.item_ids_, items, k, space=space)

    def explain(self, history: Any, item: Any) -> Explanation:
        """What each item of one history contributes to the score of ``item``; the parts sum to the score exactly."""
        model = self._fitted()
        return ranking.explain(model.weights_, model.item_ids_, history, item)

    def save(self, path: str | os.PathLike[str], *, metrics: Any = None) -> None:
        """Write the model to one file, atomically; ``od.load`` reads it back. No user row is ever stored."""
        from offdiag import persist

        persist.save(self._fitted(), path, metrics=metrics)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The hyper-parameters, as scikit-learn's ``clone`` and searches expect them."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]

    def set_params(self, **params: Any) -> Self:
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise OffdiagError(f"{type(self).__name__} has no setting {name!r}; it has {', '.join(known)}")
            setattr(self, name, value)
        return self

    def _fitted(self) -> Self:
        if not hasattr(self, "weights_"):
            raise OffdiagError(f"this {type(self).__name__} is not fitted yet; call fit(X) first")
        return self
