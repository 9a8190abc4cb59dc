"""What a fitted model says about single items: scores, similar items, reasons."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import checks, ranking, rerank
from offdiag.data.catalogue import Catalogue
from offdiag.errors import OffdiagError, not_fitted
from offdiag.models import wide_frames
from offdiag.models.grouping import listed_groups
from offdiag.models.lists import Lists
from offdiag.ranking.dislikes import encode_dislikes, signed_rows
from offdiag.weights import Weights

if TYPE_CHECKING:
    from offdiag.ranking import Explanation
    from offdiag.recommendations import Recommendations


class Scores(Lists):
    """What needs only the weights of a fitted model and the ids of its items."""

    weights_: Weights
    item_ids_: NDArray[Any]
    _groups: Catalogue | None = None
    popularity_: NDArray[np.float64]  # column sums of the training data

    @property
    def groups_(self) -> Catalogue | None:
        """The groups of items that it was fitted with: items of one group never explain each other (docs/groups.md)."""
        return self._groups

    def predict(
        self, X: Any, *, history_decay: float | None = None, history_half_life: float | None = None
    ) -> NDArray[np.floating]:
        """Scores of all items for each row of X: a dense users×items array. For lists, ``recommend`` needs far less.

        ``history_decay`` and ``history_half_life`` are as in ``recommend``.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> od.EASE(l2=10.0).fit(X).predict(X).shape
            (300, 40)
        """
        recency = self._chosen_recency(history_decay, history_half_life)
        return self._rows(X, stacklevel=4, recency=recency) @ self.weights_

    def _rows(self, X: Any, stacklevel: int, recency: ranking.Recency | None) -> sparse.csr_array:
        """Users as rows over the items of the model. A matrix or a frame must have its columns."""
        model = self._require_fit()
        m, shape = len(model.item_ids_), getattr(X, "shape", None)
        if wide_frames.is_wide(X):
            wide_frames.check_names(X, model.item_ids_, type(self).__name__)
        elif isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype.kind == "f":
            raise OffdiagError(
                f"expected users×items, received a 1-D array of {X.dtype}; Reshape your data, X.reshape(1, -1), if it "
                "is one user, or give item ids, which are whole numbers or text"
            )
        elif (sparse.issparse(X) or isinstance(X, np.ndarray)) and shape is not None and shape[1:] not in ((), (m,)):
            raise OffdiagError(
                f"X has {shape[1]} features, but {type(self).__name__} is expecting {m} features as input: a matrix "
                "has a column for each item of the fit; give Interactions or lists of item ids to match items by id"
            )
        X = self._read(X, recency is not None)
        rows, unknown = ranking.encode(X, model.item_ids_, recency)
        ranking.report_unknown(unknown, stacklevel=stacklevel)
        found = encode_dislikes(X, None, model.item_ids_, rows.shape[0]) if model.weights_.takes_dislikes else None
        return rows if found is None else signed_rows(rows, found[0])

    def _require_fit(self) -> Self:
        if not hasattr(self, "weights_"):
            raise not_fitted(f"this {type(self).__name__} is not fitted yet; call fit(X) first")
        return self

    def _recency(self) -> ranking.Recency | None:
        """How the age of a choice weighs in a history, as learned; None if the order does not matter."""
        return None if self.history_decay_ is None else ranking.Recency(self.history_decay_)

    def with_history_decay(self, decay: float | None) -> Self:
        """The same fit, whose lists let older choices fade by default; ``None`` or 1: all count alike.

        It is kept in the file of the model. Histories must then come in order; a ``history_decay`` in a call replaces
        it. Large arrays are shared.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, times=True, seed=0)
            >>> model = od.EASE(l2=10.0).fit(X)
            >>> recent = model.with_history_decay(0.8)
            >>> bool((recent.recommend(X, k=5).indices == model.recommend(X, k=5, history_decay=0.8).indices).all())
            True
        """
        model = copy.copy(self._require_fit())
        if model.knows_order:
            raise OffdiagError(
                f"{type(self).__name__} chooses how a history fades by itself; give history_decay to the model or to "
                "recommend"
            )
        model.history_decay_ = None
        recency = model._chosen_recency(decay, None)
        model.history_decay_ = None if recency is None else recency.decay
        return model

    def _chosen_recency(self, history_decay: float | None, history_half_life: float | None) -> ranking.Recency | None:
        """How the age of a choice weighs: as the caller says, or else as learned."""
        model = self._require_fit()
        learned = model._recency()
        recency = ranking.checked_recency(history_decay, history_half_life, learned)
        if recency not in (None, learned) and not model.weights_.additive:
            raise OffdiagError(
                f"history_decay and history_half_life need a linear model, and {type(self).__name__} is not: what it "
                "makes of a history with weights is unknown; leave them out"
            )
        return recency

    def ask(
        self,
        k: int,
        *,
        one_per_group: bool = False,
        history_decay: float | None = None,
        history_half_life: float | None = None,
        **words: Any,
    ) -> ranking.Question:
        """What ``recommend`` asks for any histories; for other ways to read the lists, see ``offdiag.ranking.ask``.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> question = od.EASE(l2=10.0).fit(X).ask(k=5)
            >>> sum(len(lists) for lists in question.batches(X))
            300
        """
        model = self._require_fit()
        recency = self._chosen_recency(history_decay, history_half_life)
        if checks.flag("one_per_group", one_per_group):
            words["reranked"] = rerank.with_one_per_group(words.get("reranked"), listed_groups(model))
        return ranking.ask(model.weights_, model.item_ids_, model.popularity_, k, recency=recency, **words)

    def similar(
        self,
        items: Any,
        k: int = 10,
        *,
        space: str = "score",
        allow: Any = None,
        block: Any = None,
        strict: bool = False,
    ) -> Recommendations:
        """For each item id, the k items that a history of only that item leads to.

        Low-rank models also compare embeddings: the cosine of the rows of ``encoder_`` (items that predict the same
        items) with ``space="encoder"``, or of ``decoder_`` (items predicted by the same items) with "decoder".
        ``allow``, ``block`` and ``strict`` are as in ``recommend``.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> model = od.EASE(l2=10.0).fit(X)
            >>> [len(pairs) for pairs in model.similar(X.item_ids[:2], k=3)]
            [3, 3]
            >>> model.similar(X.item_ids[0], allow=X.item_ids[1:3]).lengths
            array([2])
        """
        model = self._require_fit()
        lists = ranking.similar(
            model.weights_, model.item_ids_, items, k, space=space, allow=allow, block=block, strict=strict
        )
        return lists.with_catalogue(self.catalogue_)

    def explain(
        self,
        history: Any,
        item: Any,
        *,
        disliked: Any = None,
        history_decay: float | None = None,
        history_half_life: float | None = None,
    ) -> Explanation:
        """What each item of one history contributes to the score of ``item``; the parts sum to the score exactly.

        ``.rank`` is its place in the list, ``.rank_without`` its place without each item of the history. Where age
        counts (``history_decay`` and ``history_half_life`` are as in ``recommend``), ``.age_weights`` says how much.
        ``disliked`` items contribute too, if the model learned from dislikes.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> reasons = od.EASE(l2=10.0).fit(X).explain(X.item_ids[:3].tolist(), X.item_ids[3])
            >>> bool(reasons.score == reasons.contributions.sum())
            True
        """
        model = self._require_fit()
        recency = self._chosen_recency(history_decay, history_half_life)
        found = ranking.explain(model.weights_, model.item_ids_, history, item, model.popularity_, recency, disliked)
        return found.with_catalogue(self.catalogue_)
