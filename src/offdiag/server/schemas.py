"""JSON schemas of requests and answers: published to clients, and used to validate requests."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema


def _whole(number: float) -> int:
    """In JSON, 3.0 is a whole number; from 2^53 on it may have been rounded."""
    if not number.is_integer() or abs(number) >= 2**53:
        raise ValueError("no whole number")
    return int(number)


class _Strict:
    """Numbers and text without conversion: "3" and true are not numbers, 3 is not text. One error message for all."""

    def __init__(self, complaint: str, **bounds: Any) -> None:
        self.complaint, self.bounds = complaint, bounds

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        whole = core_schema.int_schema(strict=True, **self.bounds)
        point = core_schema.no_info_after_validator_function(_whole, core_schema.float_schema(strict=True))
        rounded = core_schema.chain_schema([point, whole])
        other = [] if source is int else [core_schema.str_schema(strict=True)]
        union = core_schema.union_schema([whole, *other, rounded], mode="left_to_right")
        return core_schema.custom_error_schema(union, "form", custom_error_message=self.complaint)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        choices = schema["schema"]["choices"][:-1]
        return handler(choices[0] if len(choices) == 1 else core_schema.union_schema(choices))


def _number(least: int, most: int | None = None) -> _Strict:
    bounds = {"ge": least} | ({} if most is None else {"le": most})
    text = f"of at least {least}" if most is None else f"from {least} to {most}"
    return _Strict(f"expected a whole number {text}", **bounds)


class _FailFast:
    """A list that is rejected at its first invalid entry: collecting thousands of errors would delay all requests."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema: Any = handler(source)
        schema["fail_fast"] = True
        return schema  # type: ignore[no-any-return]


FAIL_FAST = _FailFast()
Id = Annotated[int | str, _Strict("an id is a whole number or text")]
Name = Annotated[
    str | None, Field(strict=True, description="A model by name, the stem of its file; the first if left out.")
]
History = Annotated[
    list[Id],
    FAIL_FAST,
    Field(description="What a user has used: ids of items. Empty: the most popular items are the answer."),
]
Block = Annotated[list[Id], FAIL_FAST, Field(description="Ids that must not be in the list.")]


Strict = Annotated[
    bool,
    Field(strict=True, description="Refuse ids that are not in the catalogue (404) instead of leaving them out."),
]
Fallback = Annotated[
    Literal["popular"] | None,
    Field(description="popular: nothing in the history is known, so these are the most popular items."),
]
Unknown = Annotated[list[Id], Field(description="Ids of the request that are not in the catalogue; left out.")]


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Recommend(Request):
    history: History
    k: Annotated[int, _number(1), Field(description="How many items.")] = 20
    block: Block = []
    allow: Annotated[
        Annotated[list[Id], FAIL_FAST] | None, Field(description="If given, only these may be in the list.")
    ] = None
    exclude_seen: Annotated[bool, Field(strict=True, description="Leave out the items of the history.")] = True
    reasons: Annotated[
        int, _number(0, 5), Field(description="Number of reasons for each item; then at most 100 items.")
    ] = 0
    strict: Strict = False
    model: Name = None


class Similar(Request):
    item: Id
    k: Annotated[int, _number(1), Field(description="How many items.")] = 10
    model: Name = None


class Explain(Request):
    history: History
    item: Annotated[Id, Field(description="The item whose score is to be explained.")]
    strict: Strict = False
    model: Name = None


class Pair(Request):
    item: Annotated[Id, Field(description="The item that speaks.")]
    other: Annotated[Id, Field(description="The item that is spoken for.")]
    model: Name = None


class Compare(Request):
    history: History
    k: Annotated[int, _number(1), Field(description="How many items in each list.")] = 10
    block: Block = []
    strict: Strict = False
    models: Annotated[
        list[Annotated[str, Field(strict=True)]], Field(min_length=2, max_length=2, description="Two models by name.")
    ]


class Error(BaseModel):
    error: Annotated[str, Field(description="One line: what was expected, what was received, what to do.")]


class Item(BaseModel):
    id: Id
    title: str


class Popular(Item):
    popularity: Annotated[float, Field(description="Sum of the item's column in the training data.")]


class Found(BaseModel):
    items: list[Popular]
    total: Annotated[int, Field(description="How many there are, on this page and others.")]


class Reason(Item):
    contribution: Annotated[float, Field(description="What this item of the history adds to the score.")]


class Scored(Item):
    score: float


class Recommended(Scored):
    reasons: Annotated[list[Reason] | None, Field(description="Strongest first; only if asked for.")] = None


class Recommendations(BaseModel):
    model: str
    items: list[Recommended]
    unknown: Unknown
    fallback: Fallback


class Likes(BaseModel):
    model: str
    item: Item
    items: list[Scored]


class Contribution(Reason):
    rank_without: Annotated[int | None, Field(description="Place of the item if the history lacked this one.")] = None


class Explanation(BaseModel):
    model: str
    item: Item
    score: float
    rank: Annotated[int | None, Field(description="Its place in the whole list, from 1; null if it is in the history.")]
    contributions: Annotated[list[Contribution], Field(description="Strongest first; they add up to the score.")]
    unknown: Unknown


class Through(Item):
    amount: Annotated[float, Field(description="What goes through this third item.")]


class PairReason(BaseModel):
    model: str
    item: Item
    other: Item
    weight: Annotated[float, Field(description="What the first adds to the score of the other.")]
    together: Annotated[float, Field(description="How often both are used: direct + through + others + rest.")]
    alone: Annotated[float, Field(description="What the weight would be if the first were the only predictor.")]
    coefficient: Annotated[float, Field(description="The weight before any division by popularity.")]
    direct: Annotated[float, Field(description="The part of `together` that the weight itself accounts for.")]
    through: Annotated[list[Through], Field(description="The parts that go through third items, strongest first.")]
    others: Annotated[float, Field(description="What goes through third items that are not listed.")]
    n_others: Annotated[int, Field(description="How many of those there are.")]
    rest: Annotated[float, Field(description="What the model leaves: rounding where it is exact.")]


class Place(Scored):
    rank: int
    other_rank: Annotated[int | None, Field(description="Its place in the other list; null: not in its catalogue.")]


class Comparison(BaseModel):
    models: list[str]
    lists: list[list[Place]]
    shared: Annotated[int, Field(description="Items that are in both lists.")]
    unknown: Annotated[list[Unknown], Field(description="For each model, ids of the request that it does not know.")]
    fallback: Annotated[list[Fallback], Field(description="For each list, what it is made from if not the history.")]


class Metric(BaseModel):
    mean: float | None
    sem: float | None


class Card(BaseModel):
    model_config = ConfigDict(protected_namespaces=())
    name: str
    class_: Annotated[str, Field(alias="class", description="Class of the model, e.g. EDLAE.")]
    weights: Annotated[str, Field(description="How the weights are stored.")]
    settings: dict[str, Any]
    n_users: int
    n_items: int
    metrics: Annotated[dict[str, Metric] | None, Field(description="Measured on held-out users before saving.")]
    created: str
    bytes: int
    updatable: Annotated[bool, Field(description="Whether the file holds the counts that update and forget need.")]
    loaded: str
    fingerprint: Annotated[str, Field(description="Of all numbers in the file: equal files, equal fingerprints.")]
    models: Annotated[list[str], Field(description="Names of all models served here.")]


class Health(BaseModel):
    status: Annotated[str, Field(description="ok, or degraded when a newer file cannot be loaded.")]
    models: list[str]
    version: str
    problems: list[str]
