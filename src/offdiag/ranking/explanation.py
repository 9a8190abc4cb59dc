"""Why an item got its score: what each item of the history contributes, and the rank without it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag import notebook, reasons, tables
from offdiag.data.catalogue import Catalogue
from offdiag.data.ids import positions
from offdiag.errors import OffdiagError
from offdiag.ranking.histories import Recency, encode
from offdiag.weights import Weights


@dataclass(frozen=True, eq=False)
class Explanation(tables.Tabular):
    """Why an item got its score: the contribution of each item in the history. They sum to ``score`` exactly.

    As a table: item, title where known, contribution and, if it was made by a model, rank_without; strongest first.
    ``rank`` and ``rank_without`` are computed when first read, from the weights the explanation was made with.
    """

    item: Any
    score: float
    items: NDArray[Any]
    contributions: NDArray[np.float64]  # strongest first
    unknown: list[Any]
    _find: Callable[[int, int], NDArray[np.int64]] | None = field(default=None, repr=False)
    catalogue: Catalogue | None = field(default=None, repr=False)  # whose titles are shown with the items

    @cached_property
    def rank(self) -> int | None:
        """Its rank in ``recommend`` with all unseen items as candidates, from 1; None if it is in the history."""
        return int(self._places(0, 1)[0]) or None

    @cached_property
    def rank_without(self) -> NDArray[np.int64]:
        """For each of ``items``: the rank if the history lacked that item; 0 where ``item`` is in the history."""
        return self._places(1, len(self.items) + 1)

    def _columns(self, form: str) -> Mapping[str, Any]:
        columns: dict[str, Any] = {"item": self.items}
        if self.catalogue is not None and "title" in self.catalogue.columns:
            columns["title"] = self.catalogue.series("title", self.items)
        columns["contribution"] = self.contributions
        if self._find is None:
            return columns
        return columns | {"rank_without": np.ma.masked_equal(self.rank_without, 0)}

    def _repr_html_(self) -> str:
        facts = {"score": f"{self.score:.4g}"}
        if self._find is not None:
            facts["rank"] = f"{self.rank:,}" if self.rank else "in the history"
        title = None if self.catalogue is None else self.catalogue.title(self.item)
        name = self.item if title is None else f"{title} ({self.item})"
        return notebook.card(f"Why {name}", facts, self.to_polars())

    def with_catalogue(self, catalogue: Catalogue | None) -> Explanation:
        """The same explanation with the titles of a catalogue; one of a model has those of its own."""
        return replace(self, catalogue=catalogue)

    def _places(self, begin: int, end: int) -> NDArray[np.int64]:
        if self._find is None:
            raise OffdiagError("this explanation was put together without a model; model.explain knows the ranks")
        return self._find(begin, end)


def explain(
    weights: Weights,
    item_ids: NDArray[Any],
    history: Any,
    item: Any,
    popularity: NDArray[np.float64] | None = None,
    recency: Recency | None = None,
) -> Explanation:
    """What each item of one history contributes to the score of ``item``; its ranks also need the popularity."""
    nothing = isinstance(history, Sequence) and len(history) == 0  # one empty history
    X, unknown = encode([[]] if nothing else history, item_ids, recency)
    if X.shape[0] != 1:
        raise OffdiagError(f"explain takes one history, received {X.shape[0]}; call it once per user")
    target = int(positions([item], item_ids)[0])
    if target < 0:
        raise OffdiagError(f"the model has no item {item!r}; ids are compared exactly, with their type")
    parts = X.data.astype(np.float64) * weights.column(X.indices.astype(np.int64), target)
    if parts.size and parts.any():
        # On a common grid 2^-40 below the largest, sums are exact in any order, and the grid is finer than float32.
        grid = 2.0 ** (np.ceil(np.log2(np.abs(parts).max())) - 40)
        parts = np.round(parts / grid) * grid
    order = np.argsort(-np.abs(parts), kind="stable")

    def find(begin: int, end: int) -> NDArray[np.int64]:
        assert popularity is not None
        found = reasons.places(weights, popularity, X, target, begin, end)
        return found[order] if begin else found

    return Explanation(
        item_ids[target].item(),
        float(parts.sum()),
        item_ids[X.indices][order],
        parts[order],
        list(unknown[0]),
        None if popularity is None else find,
    )
