"""A model whose lists are more varied: the same interface, with the cost in accuracy one call away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import notebook, ranking, rerank
from offdiag.data.catalogue import Catalogue
from offdiag.data.columns import Roles
from offdiag.errors import OffdiagError
from offdiag.evaluation import Comparison, HasTargets, evaluate
from offdiag.models.lists import Lists
from offdiag.progress import Progress, reporter
from offdiag.rerank import Rerank

if TYPE_CHECKING:
    from offdiag.models.recommender import Recommender


@dataclass(frozen=True, eq=False)
class Reranked(Lists):
    """A fitted model, reranked for variety: maximal marginal relevance and quotas [Carbonell98].

    A list is chosen one item at a time from the model's best 5·k items (at least 100): the next one maximises
    (1 − diversity)·relevance − diversity·(largest similarity to an item already chosen), where the relevance of the
    candidates goes from 0 to 1. Scores are still the model's, so they no longer descend along a list.

    diversity  0: the model's order; 1: only dissimilarity counts.
    by         "weights": two items are similar if the model's weight between them is large, relative to the strongest
               weight of either; "categories": if they share a category.
    at_most    a list has at most this many items of one category.
    categories item id → category; items without one are not limited.

    Example:
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> split = od.split.strong(X, held_out=0.2)
        >>> varied = od.Reranked(od.EASE(l2=10.0).fit(split.train), diversity=0.3)
        >>> varied.recommend(split.test.histories, k=5).items.shape
        (60, 5)
        >>> varied.ask(k=5).k
        5
        >>> varied.recommend_to("varied.csv", split.test.histories, k=5).n_rows
        300
        >>> kinds = {0: "film", 1: "film", 2: "book"}
        >>> popular = od.Popularity().fit(np.array([[1, 1, 1, 0], [1, 1, 0, 1]]))
        >>> od.Reranked(popular, at_most=1, categories=kinds).recommend([[]], k=2).items.tolist()
        [[0, 2]]
        >>> sorted(varied.cost(split.test, "ndcg@5").difference)
        ['ndcg@5']
    """

    model: Recommender
    diversity: float = 0.0
    at_most: int | None = None
    categories: Mapping[Any, Any] | None = None
    by: str = "weights"

    def __post_init__(self) -> None:
        rerank.check(self.diversity, self.at_most, self.categories, self.by)

    @property
    def columns_(self) -> Roles | None:  # type: ignore[override]  # which a model sets
        """The columns that the model remembers."""
        return self.model.columns_

    @property
    def knows_order(self) -> bool:  # type: ignore[override]  # which a class of models sets
        """Whether the order of a history matters to the model."""
        return self.model.knows_order

    @property
    def reads_order(self) -> bool:
        """Whether the order of a history matters to its lists."""
        return self.model.reads_order

    @property
    def catalogue_(self) -> Catalogue | None:
        """The products of the model."""
        return self.model.catalogue_

    @property
    def item_ids_(self) -> NDArray[Any]:
        """The items of the model."""
        return self.model.item_ids_

    @property
    def popularity_(self) -> NDArray[np.float64]:
        """Column sums of the training data of the model."""
        return self.model.popularity_

    @cached_property
    def _rerank(self) -> Rerank:
        diversity, at_most = rerank.check(self.diversity, self.at_most, self.categories, self.by)
        codes = None if self.categories is None else rerank.category_codes(self.categories, self.item_ids_)
        similarity = None
        if diversity and self.by == "categories" and codes is not None:
            similarity = rerank.from_categories(codes)
        elif diversity:
            similarity = rerank.from_neighbours(*self._neighbours())
        return Rerank(diversity, similarity, codes, at_most)

    def _neighbours(self) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
        """The items with the largest weights of each item, and those weights."""
        weights, m = self.model.weights_, len(self.item_ids_)
        if not weights.linear:
            raise OffdiagError(
                "diversity by weights needs a linear model, whose weights say which items are similar; "
                "give categories and by='categories'"
            )
        one_each = sparse.eye_array(m, format="csr", dtype=np.float32)
        return ranking.top_k(weights, one_each, min(rerank.NEIGHBOURS, m - 1))

    def ask(self, k: int, **words: Any) -> ranking.Question:
        return self.model.ask(k, reranked=self._rerank, **words)

    def _repr_html_(self) -> str:
        facts = {"model": repr(self.model), "diversity": self.diversity, "by": self.by}
        if self.at_most is not None:
            facts["at most"] = f"{self.at_most:,} of a category"
        return notebook.card("Reranked", facts, note="cost(held_out) measures what the reranking costs")

    def cost(
        self,
        held_out: HasTargets,
        metrics: Sequence[str] | str = "ndcg@10",
        *,
        progress: Progress | bool | None = None,
    ) -> Comparison:
        """What the reranking costs on held-out users: this minus the model, user by user."""
        progress = reporter(progress)
        ours, plain = (evaluate(one, held_out, metrics, progress=progress) for one in (self, self.model))
        return ours.compare(plain)
