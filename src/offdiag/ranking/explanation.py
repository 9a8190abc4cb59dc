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
from offdiag.ranking.dislikes import encode_dislikes, signed_rows
from offdiag.ranking.histories import encode, events_of, ordered_entries
from offdiag.ranking.recency import Recency
from offdiag.weights import Weights


@dataclass(frozen=True, eq=False)
class Explanation(tables.Tabular):
    """Why an item got its score: the contribution of each item in the history. They sum to ``score`` exactly.

    As a table: item, title where known, contribution and, if it was made by a model, rank_without; strongest first.
    ``rank`` and ``rank_without`` are computed when first read, from the weights the explanation was made with.
    Where age counts, ``age_weights`` holds what each item counts for because of its age, as a factor of its
    contribution (repeats added up), and ``ages``, if that depends on times, how long before the last choice of the
    history it was chosen last; both are columns of the table too.
    """

    item: Any
    score: float
    items: NDArray[Any]
    contributions: NDArray[np.float64]  # strongest first
    unknown: list[Any]
    _find: Callable[[int, int], NDArray[np.int64]] | None = field(default=None, repr=False)
    catalogue: Catalogue | None = field(default=None, repr=False)  # whose titles are shown with the items
    age_weights: NDArray[np.float64] | None = None
    ages: NDArray[np.float64] | None = None  # in the unit of the times, seconds if they were dates
    like: list[tuple[Any, float]] | None = None  # of an item added after the fit: what it is like, with weights

    @cached_property
    def rank(self) -> int | None:
        """Its rank in ``recommend`` with all unseen items as candidates, from 1; None if it is in the history."""
        return int(self._places(0, 1)[0]) or None

    @cached_property
    def rank_without(self) -> NDArray[np.int64]:
        """For each of ``items``: the rank if the history lacked that item; 0 where ``item`` is in the history.

        The other items keep the weights of their ages.
        """
        return self._places(1, len(self.items) + 1)

    def _columns(self, form: str) -> Mapping[str, Any]:
        columns: dict[str, Any] = {"item": self.items}
        if self.catalogue is not None and "title" in self.catalogue.columns:
            columns["title"] = self.catalogue.series("title", self.items)
        columns["contribution"] = self.contributions
        columns |= {} if self.age_weights is None else {"age_weight": self.age_weights}
        columns |= {} if self.ages is None else {"age": self.ages}
        if self._find is None:
            return columns
        return columns | {"rank_without": np.ma.masked_equal(self.rank_without, 0)}

    def _repr_html_(self) -> str:
        facts = {"score": f"{self.score:.4g}"}
        if self._find is not None:
            facts["rank"] = f"{self.rank:,}" if self.rank else "in the history"
        if self.like is not None:
            facts["new item, like"] = ", ".join(map(str, self.like_names()))
        title = None if self.catalogue is None else self.catalogue.title(self.item)
        name = self.item if title is None else f"{title} ({self.item})"
        return notebook.card(f"Why {name}", facts, self.to_polars())

    def like_names(self) -> list[Any]:
        """The titles, or else ids, of the items that a new item is like; empty if it is not new."""
        ids = [item for item, _ in self.like or []]
        titles = [None if self.catalogue is None else self.catalogue.title(item) for item in ids]
        return [item if title is None else title for item, title in zip(ids, titles, strict=True)]

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
    disliked: Any = None,
) -> Explanation:
    """What each item of one history contributes to the score of ``item``; its ranks also need the popularity."""
    nothing = isinstance(history, Sequence) and len(history) == 0  # one empty history
    history = [[]] if nothing else history
    if recency is not None and recency.half_life is not None and _is_one_with_times(history):
        history = [history]
    X, unknown = encode(history, item_ids, recency)
    if X.shape[0] != 1:
        raise OffdiagError(
            f"explain takes one history, received {X.shape[0]}; call it once per user. A history with times is "
            "[[(id, time), …]]"
        )
    if disliked is not None and not weights.takes_dislikes:
        raise OffdiagError("disliked items have no weight in this model, which did not learn from dislikes; leave out")
    if weights.takes_dislikes and (found := encode_dislikes(history, disliked, item_ids, 1)) is not None:
        X, unknown = signed_rows(X, found[0]), [(*unknown[0], *found[1][0])]
    target = int(positions([item], item_ids)[0])
    if target < 0:
        raise OffdiagError(f"the model has no item {item!r}; ids are compared exactly, with their type")
    parts = np.zeros(X.nnz)
    for linear, rows in weights.linear_parts(X):
        parts += linear.contributions(rows.indices.astype(np.int64), rows.data, target)
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
        age_weights=None if recency is None else X.data[order].astype(np.float64),
        ages=None if recency is None or recency.half_life is None else _ages(history, item_ids)[order],
        like=_like(weights, item_ids, target),
    )


def _is_one_with_times(history: Any) -> bool:
    """Whether this is one history of (id, time) pairs, not a list of histories of two ids."""
    return isinstance(history, list) and all(isinstance(entry, tuple) and len(entry) == 2 for entry in history)


def _like(weights: Weights, item_ids: NDArray[Any], target: int) -> list[tuple[Any, float]] | None:
    """What an item that was added after the fit is like; None for the others."""
    new = target - weights.learned.shape[0]
    likeness = getattr(weights, "likeness", None)
    if new < 0 or likeness is None:
        return None
    return [(item_ids[place].item(), weight) for place, weight in likeness(new)]


def _ages(history: Any, item_ids: NDArray[Any]) -> NDArray[np.float64]:
    """The age of each item of one history, in ascending order of their columns; of a repeated item the smallest."""
    events = events_of(ordered_entries(history, item_ids))
    ages = np.full(len(item_ids), np.inf)
    np.minimum.at(ages, events.items, events.ages())
    return ages[np.unique(events.items)]
