"""Answers to well-formed requests: one function per path. ``question`` adds it to the service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from offdiag.errors import OffdiagError
from offdiag.server import lists, schemas
from offdiag.server.batching import Scorer
from offdiag.server.limits import Refusal
from offdiag.server.model import Row, ServedModel, rows

THIRD_ITEMS = 10  # third items named in the reason of a pair
MAX_K_WITH_REASONS = 100  # items in a list with reasons
MAX_RANKED_HISTORY = 200  # longest history for which the rank without each item is computed: the cost is quadratic
LISTS_PER_TURN = 32  # of a batch: half of what the scorer ranks in one call, so that other requests share it
MAX_BATCH_WITH_REASONS = 1000  # items in all lists of a batch with reasons
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


@question("/recommend", schemas.Recommend, schemas.Recommendations, history=[3, 7], k=5, reasons=2)
async def recommend(scorer: Scorer, served: ServedModel, asked: schemas.Recommend) -> dict[str, Any]:
    """The best items for a history, best first."""
    if asked.reasons and asked.k > MAX_K_WITH_REASONS:
        most = f"k: at most {MAX_K_WITH_REASONS} with reasons"
        raise Refusal(422, f"{most}, received {asked.k}; ask /explain for single items")
    only = lists.Filter(served, asked, asked.disliked)
    return await lists.make_list(scorer, served, asked.history, asked.times, only, asked)


@question("/batch", schemas.Batch, schemas.Batched, histories=[[3, 7], [5]], k=5)
async def batch(scorer: Scorer, served: ServedModel, asked: schemas.Batch) -> dict[str, Any]:
    """The best items for each of many histories: for each the answer that /recommend gives."""
    wanted = len(asked.histories) * asked.k
    if asked.reasons and wanted > MAX_BATCH_WITH_REASONS:
        most = f"at most {MAX_BATCH_WITH_REASONS} items in one batch with reasons"
        raise Refusal(422, f"{most}, received {wanted}; send fewer histories, or a smaller k")
    only, answers = lists.Filter(served, asked), []
    times = [None] * len(asked.histories) if asked.times is None else asked.times
    if len(times) != len(asked.histories):
        raise Refusal(409, f"times: expected a list for each history ({len(asked.histories)}), received {len(times)}")
    for first in range(0, len(asked.histories), LISTS_PER_TURN):
        async with scorer.parts:
            last = first + LISTS_PER_TURN
            part = zip(asked.histories[first:last], times[first:last], strict=True)
            answers += await asyncio.gather(
                *(lists.make_list(scorer, served, history, when, only, asked) for history, when in part)
            )
    return {"answers": answers}


@question("/similar", schemas.Similar, schemas.Likes, item=3, k=5)
async def similar(scorer: Scorer, served: ServedModel, asked: schemas.Similar) -> dict[str, Any]:
    """The items recommended to a user who has only this item."""
    column = lists.column_of(served, asked.item)
    found, scores = await scorer.top_k(served, [column], asked.k)
    return {"model": served.name, "item": served.item(column), "items": lists.entries(served, found, "score", scores)}


@question("/explain", schemas.Explain, schemas.Explanation, history=[3, 7], item=5)
def explain(served: ServedModel, asked: schemas.Explain) -> dict[str, Any]:
    """What each item of the history adds to the score of an item, and the item's rank without it."""
    column = lists.column_of(served, asked.item)
    history, values, unknown = lists.row_of(served, asked.history, asked.times, asked)
    unknown = lists.distinct_unknown(served, unknown, asked.strict)
    given: list[Any] = [served.ids[c] for c in history]
    if values is not None:  # the order counts, and every repeat
        events = zip(map(served.find, asked.history), asked.times or asked.history, strict=True)
        given = [(served.ids[c], when) if asked.times else served.ids[c] for c, when in events if c is not None]
    try:
        reason = served.model.explain(
            [given], served.ids[column], history_decay=asked.history_decay, history_half_life=asked.history_half_life
        )
        rank = reason.rank
        without = reason.rank_without if len(history) <= MAX_RANKED_HISTORY else None
    except OffdiagError as error:
        raise Refusal(409, f"the model {served.name!r} gives no reasons: {error}") from None
    items, amounts = reason.items.tolist(), reason.contributions.tolist()
    places = [None] * len(items) if without is None else [int(place) or None for place in without]
    aged = {"age_weight": reason.age_weights, "age": reason.ages}
    parts: list[dict[str, Any]] = [
        {**served.item(served.column[item]), "contribution": amount, "rank_without": place}
        for item, amount, place in zip(items, amounts, places, strict=True)
    ]
    for name, numbers in aged.items():
        for part, number in zip(parts, [] if numbers is None else numbers.tolist(), strict=False):
            part[name] = number
    return {
        "model": served.name,
        "item": served.item(column),
        "score": reason.score,
        "rank": rank,
        "contributions": parts,
        **({} if column < served.n_learned else {"like": served.like(column)}),
        "unknown": unknown,
    }


@question("/pair", schemas.Pair, schemas.PairReason, item=3, other=7)
def pair(served: ServedModel, asked: schemas.Pair) -> dict[str, Any]:
    """What one item's weight on another shows beyond how often the two are used together."""
    item, other = lists.column_of(served, asked.item), lists.column_of(served, asked.other)
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
    histories = [lists.row_of(served, asked.history, asked.times, asked) for served in pair]
    blocks, unknown_blocks = zip(*(served.columns(asked.block) for served in pair), strict=True)
    missing = zip(pair, histories, unknown_blocks, strict=True)
    unknown = [lists.distinct_unknown(served, row.unknown + b, asked.strict) for served, row, b in missing]
    orders = [_full_ranking(*parts) for parts in zip(pair, histories, blocks, strict=True)]
    rankings = []
    for own, (served, (order, scores, _)) in enumerate(zip(pair, orders, strict=True)):
        other, place = pair[1 - own], orders[1 - own][2]
        entries = []
        for rank, column in enumerate(order[: asked.k].tolist(), 1):
            there = other.find(served.ids[column])
            other_rank = None if there is None else int(place[there]) or None
            entries.append({**served.item(column), "score": scores[column], "rank": rank, "other_rank": other_rank})
        rankings.append(entries)
    fallbacks = [lists.fallback_of(row.columns, asked.history) for row in histories]
    shared = len({entry["id"] for entry in rankings[0]} & {entry["id"] for entry in rankings[1]})
    return {
        "models": [served.name for served in pair],
        "lists": rankings,
        "shared": shared,
        "unknown": unknown,
        "fallback": [fallback for fallback, _ in fallbacks],
        "fallback_reason": [reason for _, reason in fallbacks],
    }


def _full_ranking(
    served: ServedModel, row: Row, block: list[int]
) -> tuple[NDArray[np.int64], list[float], NDArray[np.int64]]:
    """All candidates in order, every score, and the rank of each column (0: not a candidate)."""
    allowed = lists.mask(served, block, None)
    if not row.columns:
        order, scores = lists.popular(served, served.n_items, allowed)[0], served.shares
    else:
        values = None if row.values is None else [row.values]
        scores = (rows([np.array(row.columns, np.int32)], served.n_items, values) @ served.weights)[0]
        allowed[row.columns] = False
        order = np.argsort(-scores, kind="stable")  # equal scores: the earlier column first
        order = order[allowed[order]]
    place = np.zeros(served.n_items, np.int64)
    place[order] = np.arange(1, len(order) + 1)
    return order, scores.tolist(), place


def search(served: ServedModel, query: str, offset: int, limit: int) -> dict[str, Any]:
    hits = served.search(query, offset, limit)
    columns = np.array(hits.columns, np.int64)
    items = lists.entries(served, columns, "popularity", served.model.popularity_[columns])
    return {"items": lists.with_users(served, columns, items), "total": hits.total, "exact": hits.exact}


def examples(served: ServedModel) -> dict[str, Any]:
    return {"model": served.name, "examples": [list(map(served.item, columns)) for columns in served.examples]}
