"""A model as an estimator of scikit-learn, which is imported only by those who call it (docs/scikit-learn.md)."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from offdiag.data.hiding import hide
from offdiag.errors import OffdiagError
from offdiag.evaluation import evaluate
from offdiag.models import wide_frames
from offdiag.models.scores import Scores
from offdiag.models.source import is_table_in_memory

if TYPE_CHECKING:
    from sklearn.utils import Tags

METRIC = "ndcg@100"  # of ``score``
HIDDEN = 0.2  # share of each user's items that ``score`` hides


class Estimator(Scores):
    """Parameters, tags and a score, as ``clone``, ``Pipeline`` and ``GridSearchCV`` expect them."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The hyper-parameters, as scikit-learn's ``clone`` and searches expect them.

        Example:
            >>> import offdiag as od
            >>> od.EASE(l2=10.0).get_params()["l2"]
            10.0
        """
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]

    def set_params(self, **params: Any) -> Self:
        """Change some hyper-parameters; they take effect in the next fit.

        Example:
            >>> import offdiag as od
            >>> od.EASE().set_params(l2=10.0).l2
            10.0
        """
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise OffdiagError(f"{type(self).__name__} has no setting {name!r}; it has {', '.join(known)}")
            setattr(self, name, value)
        return self

    def score(self, X: Any, y: Any = None, *, metric: str = METRIC, hidden: float = HIDDEN, seed: int = 0) -> float:
        """How well the model finds items that are hidden from it: the mean of a metric over the users of X.

        A fifth of each user's items is hidden, at least one; the model recommends from the others. Which ones depends
        on the items of that user and on ``seed`` alone, so two models, or two folds, hide the same. The users should
        not be those of the fit. ``y`` is ignored. ``od.cross_validate`` also gives standard errors.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> model = od.EASE(l2=10.0).fit(X[:200])
            >>> 0.3 < model.score(X[200:]) < 0.7
            True
        """
        if is_table_in_memory(X) and not wide_frames.is_wide(X):
            raise OffdiagError(
                "expected users, as Interactions or a matrix, received a table of events, whose rows scikit-learn "
                "would divide without regard to users; read it first, od.read(table, user=…, item=…)"
            )
        held_out = hide(self._rows(X, stacklevel=4, recency=self._recency()), hidden, seed)
        return evaluate(self, held_out, metric).mean[metric]

    @property
    def n_features_in_(self) -> int:
        """The number of items."""
        return len(self._require_fit().item_ids_)

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """The ids of the items, if they are text."""
        ids = self._require_fit().item_ids_
        if ids.dtype.kind != "U":
            raise AttributeError(f"the item ids of this {type(self).__name__} are numbers, not names: see item_ids_")
        return ids.astype(object)

    def __sklearn_tags__(self) -> Tags:
        from sklearn.utils import InputTags, Tags, TargetTags

        accepted = InputTags(sparse=True, positive_only=True)
        return Tags(estimator_type=None, target_tags=TargetTags(required=False), input_tags=accepted)
