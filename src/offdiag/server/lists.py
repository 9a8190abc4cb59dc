"""The lists of answers: which items may be in them, what they are made from, and the reasons of their items."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag import ranking, wording
from offdiag.data.moments import past_moments
from offdiag.errors import OffdiagError
from offdiag.ranking import new_places
from offdiag.server import schemas
from offdiag.server.batching import Ranked, Scorer
from offdiag.server.limits import Refusal
from offdiag.server.model import Id, Row, ServedModel

FEW_BLOCKED = 256  # up to this many, a longer list is ranked and the blocked items are removed from it
GROUP_POOL = 4  # times the places of a list: items among which as many groups are sought
REASONS_PER_TURN = 4  # items whose reasons are computed before other requests get a turn
MAX_UNKNOWN_NAMED = 20  # unknown ids named in an error
POPULAR = "popular"  # what a list is based on if no item of the history is known
FALLBACK_REASONS = ("empty", "unknown")  # the history has no items, or none that the model knows


class Filter:
    """Which items may be in the lists of a request."""

    def __init__(self, served: ServedModel, asked: schemas.ListOptions, disliked: list[Id] | None = None) -> None:
        self._served = served
        self.block, unknown = served.columns(asked.block) if asked.block else ([], [])
        self.disliked: list[int] = []
        if disliked:
            self.disliked, strange = served.columns(disliked)
            self.block, unknown = [*self.block, *self.disliked], [*unknown, *strange]
        self.allow: list[int] | None = None
        others: list[Id] = []
        if asked.allow is not None:
            self.allow, others = served.columns(asked.allow)
        self.unknown = [*unknown, *others]
        self.is_short = self.allow is None and len(self.block) <= FEW_BLOCKED

    @cached_property
    def allowed(self) -> NDArray[np.bool_] | None:
        return mask(self._served, self.block, self.allow) if self.block or self.allow is not None else None


def mask(served: ServedModel, block: list[int], allow: list[int] | None) -> NDArray[np.bool_]:
    """The columns that may be in the list."""
    allowed = np.full(served.n_items, allow is None, dtype=np.bool_)
    if allow:
        allowed[allow] = True
    allowed[block] = False
    return allowed


def popular(served: ServedModel, k: int, allowed: NDArray[np.bool_] | None) -> Ranked:
    """The answer to an empty history: the most popular items, scored by their share."""
    order = served.order if allowed is None else served.order[allowed[served.order]]
    return order[:k], served.shares[order[:k]]


def recency_of(served: ServedModel, asked: schemas.Weighing) -> ranking.Recency | None:
    """How the age of a choice counts: as the request says, or else as the model learned."""
    if asked.history_decay is None and asked.history_half_life is None:
        return served.recency
    try:
        return served.model.ask(1, history_decay=asked.history_decay, history_half_life=asked.history_half_life).recency
    except OffdiagError as error:
        raise Refusal(409, str(error)) from None


def row_of(served: ServedModel, ids: list[Id], times: schemas.Moments | None, asked: schemas.Weighing) -> Row:
    """One history of a request as a row of numbers."""
    if times is not None and len(times) != len(ids):
        raise Refusal(409, f"times: expected one for each id of the history ({len(ids)}), received {len(times)}")
    recency = recency_of(served, asked)
    if times is None and ids and recency is not None and recency.half_life is not None:
        raise Refusal(409, "times: expected one for each id of the history, since a half-life counts, received none")
    try:
        moments = None if times is None else past_moments(times)
        return served.row(ids, moments, recency)
    except OffdiagError as error:
        raise Refusal(409, str(error)) from None


def with_dislikes(
    history: list[int], values: NDArray[np.floating] | None, disliked: list[int]
) -> tuple[list[int], NDArray[np.floating]]:
    """The row with −1 for each disliked item, as the weights of a model that learned from dislikes read it."""
    counted = dict(zip(history, [1.0] * len(history) if values is None else values.tolist(), strict=True))
    row = sorted((counted | dict.fromkeys(disliked, -1.0)).items())
    return [column for column, _ in row], np.array([value for _, value in row], dtype=np.float32)


@dataclass(frozen=True)
class _Question:
    """A row of numbers, and what may be in the list for it."""

    scorer: Scorer
    served: ServedModel
    history: list[int]
    values: NDArray[np.floating] | None
    only: Filter
    asked: schemas.ListOptions

    async def answer(self) -> Ranked:
        places = min(self.asked.new_places, self.asked.k)
        if places and self.asked.one_per_group:
            raise Refusal(409, "new_places and one_per_group exclude each other; leave one of them out")
        if self.asked.one_per_group:
            return await self._best_of_groups()
        found = await self._best(self.asked.k)
        return await self._with_new(found, places) if places and self.history else found

    async def _best(self, k: int) -> Ranked:
        """The k best items."""
        only, seen = self.only, self.asked.exclude_seen
        if not self.history:
            return popular(self.served, k, only.allowed)
        if not only.is_short:
            return await self.scorer.top_k(self.served, self.history, k, seen, only.allowed, self.values)
        longer = k + len(only.block)
        found, scores = await self.scorer.top_k(self.served, self.history, longer, seen, values=self.values)
        if only.block:
            kept = ~np.isin(found, only.block)
            found, scores = found[kept][:k], scores[kept][:k]
        return found, scores

    async def _with_new(self, lists: Ranked, places: int) -> Ranked:
        """The list with the new items that were asked for, at its end."""
        served = self.served
        indices, scores = lists[0][None], lists[1][None]
        if served.new is None or not len(new_places.lacking(indices, served.n_learned, places)):
            return lists
        allowed = served.new if self.only.allowed is None else served.new & self.only.allowed
        best = await self.scorer.top_k(served, self.history, places, self.asked.exclude_seen, allowed, self.values)
        merged = new_places.give((indices, scores), (best[0][None], best[1][None]), served.n_learned)
        return merged[0][0], merged[1][0]

    async def _best_of_groups(self) -> Ranked:
        """The best items of the k best groups: of a list that is made longer until it has as many groups."""
        try:
            groups = self.served.groups
        except OffdiagError as error:
            raise Refusal(409, str(error)) from None
        k = length = self.asked.k
        while True:
            length = min(GROUP_POOL * length, self.served.n_items)
            found, scores = await self._best(length)
            _, first = np.unique(groups[found], return_index=True)
            if len(first) >= k or len(found) < length or length == self.served.n_items:
                kept = np.sort(first)[:k]
                return found[kept], scores[kept]


async def make_list(
    scorer: Scorer,
    served: ServedModel,
    ids: list[Id],
    times: schemas.Moments | None,
    only: Filter,
    asked: schemas.ListOptions,
) -> dict[str, Any]:
    history, values, unknown = row_of(served, ids, times, asked)
    unknown = distinct_unknown(served, [*unknown, *only.unknown], asked.strict)
    if only.disliked and served.weights.takes_dislikes:
        history, values = with_dislikes(history, values, only.disliked)
    found, scores = await _Question(scorer, served, history, values, only, asked).answer()
    items = entries(served, found, "score", scores)
    if not history:
        with_users(served, found, items)
    if asked.reasons:
        at = np.array(history, np.int64)
        async with scorer.reasons:
            for n, (item, column) in enumerate(zip(items, found.tolist(), strict=True), 1):
                item["reasons"] = reasons(served, at, values, column, asked.reasons)
                if column >= served.n_learned:
                    item["like"] = served.like(column)
                if n % REASONS_PER_TURN == 0:
                    await asyncio.sleep(0)
    fallback, why = fallback_of(history, ids)
    return {"model": served.name, "items": items, "unknown": unknown, "fallback": fallback, "fallback_reason": why}


def fallback_of(known: list[int], ids: list[Id]) -> tuple[str | None, str | None]:
    """What a list is made from if not from the history, and why."""
    return (None, None) if known else (POPULAR, FALLBACK_REASONS[bool(ids)])


def entries(served: ServedModel, columns: NDArray[np.int64], name: str, values: NDArray[Any]) -> list[dict[str, Any]]:
    """Items with a number each, for a list of an answer."""
    pairs = zip(columns.tolist(), values.tolist(), strict=True)
    if served.shown or served.n_learned < served.n_items:
        return [{**served.item(column), name: value} for column, value in pairs]
    ids, titles = served.json_ids, served.titles  # without a catalogue and new items, much faster
    return [{"id": ids[column], "title": titles[column], name: value} for column, value in pairs]


def with_users(served: ServedModel, columns: NDArray[np.int64], items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the share of users who have each item, where the data tells."""
    if served.users is not None:
        for item, share in zip(items, served.users[columns].tolist(), strict=True):
            item["users"] = share
    return items


def distinct_unknown(served: ServedModel, unknown: list[Id], strict: bool) -> list[Id]:
    """Each unknown id once, unless a strict request must be refused for them."""
    if strict and unknown:
        shown = wording.shorten([_shorten(item) for item in dict.fromkeys(unknown)], MAX_UNKNOWN_NAMED)
        raise Refusal(404, f"the model {served.name!r} does not know {shown}; leave out strict to ignore such ids")
    return list(dict.fromkeys(unknown))


def _shorten(item: Id) -> Id:
    return item[:100] if isinstance(item, str) else item


def reasons(
    served: ServedModel, history: NDArray[np.int64], values: NDArray[np.floating] | None, target: int, most: int
) -> list[dict[str, Any]]:
    """The items of the history that contribute most to the score of the target, strongest first."""
    if not len(history):
        return []
    try:
        counted = np.ones(len(history)) if values is None else values
        parts = served.weights.contributions(history, counted, target)
    except OffdiagError as error:
        raise Refusal(409, f"the model {served.name!r} gives no reasons: {error}") from None
    strongest = np.argsort(-np.abs(parts), kind="stable")[:most]
    strongest = strongest[parts[strongest] != 0]
    return entries(served, history[strongest], "contribution", parts[strongest])


def column_of(served: ServedModel, item: Id) -> int:
    column = served.find(item)
    if column is None:
        raise Refusal(404, f"the model {served.name!r} does not know the item {_shorten(item)!r}")
    return column
