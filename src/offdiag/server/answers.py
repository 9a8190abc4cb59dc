"""Answers to well-formed requests: one function per path. ``question`` adds it to the service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from offdiag import wording
from offdiag.errors import OffdiagError
from offdiag.server import schemas
from offdiag.server.batching import Ranked, Scorer
from offdiag.server.limits import Refusal
from offdiag.server.model import Id, ServedModel, rows

FEW_BLOCKED = 256  # up to this many, a longer list is ranked and the blocked items are removed from it
REASONS_PER_TURN = 4  # items whose reasons are computed before other requests get a turn
THIRD_ITEMS = 10  # third items named in the reason of a pair
MAX_K_WITH_REASONS = 100  # items in a list with reasons
MAX_UNKNOWN_NAMED = 20  # unknown ids named in an error
MAX_RANKED_HISTORY = 200  # longest history for which the rank without each item is computed: the cost is quadratic
LISTS_PER_TURN = 32  # of a batch: half of what the scorer ranks in one call, so that other requests share it
MAX_BATCH_WITH_REASONS = 1000  # items in all lists of a batch with reasons
POPULAR = "popular"  # what a list is based on if no item of the history is known
FALLBACK_REASONS = ("empty", "unknown")  # the history has no items, or none that the model knows
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Question:
    """A path that takes a JSON body. The name and docstring of ``work`` are part of its description."""

    path: str
    body: type[schemas.Request]
    answer: type[BaseModel]
    example: dict[str, Any]
    work: Callable[..., Any]


QUESTIONS: list[Question] = []


def question(
    path: str, body: type[schemas.Request], answer: type[BaseModel], **example: Any
) -> Callable[[Function], Function]:
    """Serve a function at this path: ``work(*models, body)`` in a thread, ``await work(scorer, model, body)``."""

    def register(work: Function) -> Function:
        QUESTIONS.append(Question(path, body, answer, example, work))
        return work

    return register


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


class Filter:
    """Which items may be in the lists of a request."""

    def __init__(self, served: ServedModel, asked: schemas.ListOptions) -> None:
        self._served = served
        self.block, unknown = served.columns(asked.block) if asked.block else ([], [])
        self.allow: list[int] | None = None
        others: list[Id] = []
        if asked.allow is not None:
            self.allow, others = served.columns(asked.allow)
        self.unknown = [*unknown, *others]
        self.is_short = self.allow is None and len(self.block) <= FEW_BLOCKED

    @cached_property
    def allowed(self) -> NDArray[np.bool_] | None:
        return mask(self._served, self.block, self.allow) if self.block or self.allow is not None else None


@question("/recommend", schemas.Recommend, schemas.Recommendations, history=[3, 7], k=5, reasons=2)
async def recommend(scorer: Scorer, served: ServedModel, asked: schemas.Recommend) -> dict[str, Any]:
    """The best items for a history, best first."""
    if asked.reasons and asked.k > MAX_K_WITH_REASONS:
        most = f"k: at most {MAX_K_WITH_REASONS} with reasons"
        raise Refusal(422, f"{most}, received {asked.k}; ask /explain for single items")
    return await _one_list(scorer, served, asked.history, Filter(served, asked), asked)


@question("/batch", schemas.Batch, schemas.Batched, histories=[[3, 7], [5]], k=5)
async def batch(scorer: Scorer, served: ServedModel, asked: schemas.Batch) -> dict[str, Any]:
    """The best items for each of many histories: for each the answer that /recommend gives."""
    wanted = len(asked.histories) * asked.k
    if asked.reasons and wanted > MAX_BATCH_WITH_REASONS:
        most = f"at most {MAX_BATCH_WITH_REASONS} items in one batch with reasons"
        raise Refusal(422, f"{most}, received {wanted}; send fewer histories, or a smaller k")
    only, answers = Filter(served, asked), []
    for first in range(0, len(asked.histories), LISTS_PER_TURN):
        async with scorer.parts:
            part = asked.histories[first : first + LISTS_PER_TURN]
            answers += await asyncio.gather(*(_one_list(scorer, served, history, only, asked) for history in part))
    return {"answers": answers}


async def _one_list(
    scorer: Scorer, served: ServedModel, ids: list[Id], only: Filter, asked: schemas.ListOptions
) -> dict[str, Any]:
    history, unknown = served.columns(ids)
    unknown = distinct_unknown(served, [*unknown, *only.unknown], asked.strict)
    if not history:
        found, scores = popular(served, asked.k, only.allowed)
    elif only.is_short:
        found, scores = await scorer.top_k(served, history, asked.k + len(only.block), asked.exclude_seen)
        if only.block:
            kept = ~np.isin(found, only.block)
            found, scores = found[kept][: asked.k], scores[kept][: asked.k]
    else:
        found, scores = await scorer.top_k(served, history, asked.k, asked.exclude_seen, only.allowed)
    items = entries(served, found, "score", scores)
    if asked.reasons:
        at = np.array(history, np.int64)
        async with scorer.reasons:
            for n, (item, column) in enumerate(zip(items, found.tolist(), strict=True), 1):
                item["reasons"] = reasons(served, at, column, asked.reasons)
                if n % REASONS_PER_TURN == 0:
                    await asyncio.sleep(0)
    fallback, why = fallback_of(history, ids)
    return {"model": served.name, "items": items, "unknown": unknown, "fallback": fallback, "fallback_reason": why}


def fallback_of(known: list[int], ids: list[Id]) -> tuple[str | None, str | None]:
    """What a list is made from if not from the history, and why."""
    return (None, None) if known else (POPULAR, FALLBACK_REASONS[bool(ids)])


def entries(served: ServedModel, columns: NDArray[np.int64], name: str, values: NDArray[Any]) -> list[dict[str, Any]]:
    """Items with a number each, for a list of an answer."""
    ids, titles = served.json_ids, served.titles
    return [
        {"id": ids[column], "title": titles[column], name: value}
        for column, value in zip(columns.tolist(), values.tolist(), strict=True)
    ]


def distinct_unknown(served: ServedModel, unknown: list[Id], strict: bool) -> list[Id]:
    """Each unknown id once, unless a strict request must be refused for them."""
    if strict and unknown:
        shown = wording.shorten([_shorten(item) for item in dict.fromkeys(unknown)], MAX_UNKNOWN_NAMED)
        raise Refusal(404, f"the model {served.name!r} does not know {shown}; leave out strict to ignore such ids")
    return list(dict.fromkeys(unknown))


def _shorten(item: Id) -> Id:
    return item[:100] if isinstance(item, str) else item


def reasons(served: ServedModel, history: NDArray[np.int64], target: int, most: int) -> list[dict[str, Any]]:
    """The items of the history that contribute most to the score of the target, strongest first."""
    if not len(history):
        return []
    try:
        parts = served.weights.column(history, target).astype(np.float64)
    except OffdiagError as error:
        raise Refusal(409, f"the model {served.name!r} gives no reasons: {error}") from None
    strongest = np.argsort(-np.abs(parts), kind="stable")[:most]
    strongest = strongest[parts[strongest] != 0]
    return entries(served, history[strongest], "contribution", parts[strongest])


@question("/similar", schemas.Similar, schemas.Likes, item=3, k=5)
async def similar(scorer: Scorer, served: ServedModel, asked: schemas.Similar) -> dict[str, Any]:
    """The items recommended to a user who has only this item."""
    column = column_of(served, asked.item)
    found, scores = await scorer.top_k(served, [column], asked.k)
    return {"model": served.name, "item": served.item(column), "items": entries(served, found, "score", scores)}


@question("/explain", schemas.Explain, schemas.Explanation, history=[3, 7], item=5)
def explain(served: ServedModel, asked: schemas.Explain) -> dict[str, Any]:
    """What each item of the history adds to the score of an item, and the item's rank without it."""
    column = column_of(served, asked.item)
    history, unknown = served.columns(asked.history)
    unknown = distinct_unknown(served, unknown, asked.strict)
    try:
        reason = served.model.explain([[served.ids[c] for c in history]], served.ids[column])
        rank = reason.rank
        without = reason.rank_without if len(history) <= MAX_RANKED_HISTORY else None
    except OffdiagError as error:
        raise Refusal(409, f"the model {served.name!r} gives no reasons: {error}") from None
    items, amounts = reason.items.tolist(), reason.contributions.tolist()
    places = [None] * len(items) if without is None else [int(place) or None for place in without]
    return {
        "model": served.name,
        "item": served.item(column),
        "score": reason.score,
        "rank": rank,
        "contributions": [
            {**served.item(served.column[item]), "contribution": amount, "rank_without": place}
            for item, amount, place in zip(items, amounts, places, strict=True)
        ],
        "unknown": unknown,
    }


@question("/pair", schemas.Pair, schemas.PairReason, item=3, other=7)
def pair(served: ServedModel, asked: schemas.Pair) -> dict[str, Any]:
    """What one item's weight on another shows beyond how often the two are used together."""
    item, other = column_of(served, asked.item), column_of(served, asked.other)
    if item == other:
        raise Refusal(409, "item and other are the same; name two items")
    try:
        reason = served.model.explain_pair(served.ids[item], served.ids[other])
    except (OffdiagError, AttributeError) as error:
        raise Refusal(409, f"the model {served.name!r} cannot explain a pair: {error}") from None
    parts = reason.to_dict(THIRD_ITEMS)
    through = [{**served.item(served.column[third["id"]]), "amount": third["amount"]} for third in parts["through"]]
    return {**parts, "model": served.name, "item": served.item(item), "other": served.item(other), "through": through}


@question("/compare", schemas.Compare, schemas.Comparison, history=[3, 7], k=5, models=["a", "b"])
def compare(first: ServedModel, second: ServedModel, asked: schemas.Compare) -> dict[str, Any]:
    """The lists of two models side by side, with the rank of each item in the other list."""
    pair = (first, second)
    histories, unknown_items = zip(*(served.columns(asked.history) for served in pair), strict=True)
    blocks, unknown_blocks = zip(*(served.columns(asked.block) for served in pair), strict=True)
    missing = zip(pair, unknown_items, unknown_blocks, strict=True)
    unknown = [distinct_unknown(served, a + b, asked.strict) for served, a, b in missing]
    orders = [_full_ranking(*parts) for parts in zip(pair, histories, blocks, strict=True)]
    lists = []
    for own, (served, (order, scores, _)) in enumerate(zip(pair, orders, strict=True)):
        other, place = pair[1 - own], orders[1 - own][2]
        entries = []
        for rank, column in enumerate(order[: asked.k].tolist(), 1):
            there = other.find(served.ids[column])
            other_rank = None if there is None else int(place[there]) or None
            entries.append({**served.item(column), "score": scores[column], "rank": rank, "other_rank": other_rank})
        lists.append(entries)
    fallbacks = [fallback_of(history, asked.history) for history in histories]
    shared = len({entry["id"] for entry in lists[0]} & {entry["id"] for entry in lists[1]})
    return {
        "models": [served.name for served in pair],
        "lists": lists,
        "shared": shared,
        "unknown": unknown,
        "fallback": [fallback for fallback, _ in fallbacks],
        "fallback_reason": [reason for _, reason in fallbacks],
    }


def _full_ranking(
    served: ServedModel, history: list[int], block: list[int]
) -> tuple[NDArray[np.int64], list[float], NDArray[np.int64]]:
    """All candidates in order, every score, and the rank of each column (0: not a candidate)."""
    allowed = mask(served, block, None)
    if not history:
        order, scores = popular(served, served.n_items, allowed)[0], served.shares
    else:
        scores = (rows([np.array(history, np.int32)], served.n_items) @ served.weights)[0]
        allowed[history] = False
        order = np.argsort(-scores, kind="stable")  # equal scores: the earlier column first
        order = order[allowed[order]]
    place = np.zeros(served.n_items, np.int64)
    place[order] = np.arange(1, len(order) + 1)
    return order, scores.tolist(), place


def column_of(served: ServedModel, item: Id) -> int:
    column = served.find(item)
    if column is None:
        raise Refusal(404, f"the model {served.name!r} does not know the item {_shorten(item)!r}")
    return column


def search(served: ServedModel, query: str, offset: int, limit: int) -> dict[str, Any]:
    found, total = served.search(query, offset, limit)
    popularity = served.model.popularity_
    return {"items": [{**served.item(c), "popularity": float(popularity[c])} for c in found], "total": total}
