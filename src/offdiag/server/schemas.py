"""JSON schemas of requests and answers: published to clients, and used to validate requests."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from offdiag.server.json_types import IsoMoment, Unconverted, about, whole_number

Id = Annotated[int | str, Unconverted("an id is a whole number or text")]
Ids = Annotated[list[Id], Field(fail_fast=True)]  # collecting thousands of errors would delay all requests
Moment = Annotated[float | str, IsoMoment()]
Moments = Annotated[list[Moment], Field(fail_fast=True)]
Name = Annotated[str | None, about("A model by name, the stem of its file; the first if left out.", strict=True)]
History = Annotated[
    Ids, about("What a user has used: ids of items, latest last. Empty: the most popular items are the answer.")
]
Block = Annotated[Ids, about("Ids that must not be in the list.")]
Strict = Annotated[
    bool, about("Refuse ids that are not in the catalogue (404) instead of leaving them out.", strict=True)
]
Fallback = Annotated[Literal["popular"] | None, about("popular: the most popular items instead, see fallback_reason.")]
FallbackReason = Annotated[
    Literal["empty", "unknown"] | None,
    about("Why popular items are the answer: the history is empty, or none of its items is in the catalogue."),
]
Unknown = Annotated[list[Id], about("Ids of the request that are not in the catalogue; left out.")]


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @property
    def all_histories(self) -> list[list[int | str]]:
        return []


class Weighing(Request):
    history_decay: Annotated[
        Annotated[float, Field(gt=0, le=1, strict=True)] | None,
        about("What a choice counts for, compared with the one after it. Left out: as the model learned."),
    ] = None
    history_half_life: Annotated[
        Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)] | None,
        about(
            "The age at which a choice counts half, in the unit of `times`, which it needs; seconds if they are dates. "
            "Instead of history_decay."
        ),
    ] = None


class OneHistory(Weighing):
    history: History
    times: Annotated[
        Moments | None, about("When each item of the history was chosen: one time per id, all numbers or all dates.")
    ] = None

    @property
    def all_histories(self) -> list[list[int | str]]:
        return [self.history]


class ManyHistories(Weighing):
    histories: Annotated[
        list[Ids], Field(fail_fast=True), about("Histories of users, each a list of ids; one answer for each.")
    ]
    times: Annotated[
        Annotated[list[Moments], Field(fail_fast=True)] | None,
        about("For each history, when each of its items was chosen: all numbers or all dates."),
    ] = None

    @property
    def all_histories(self) -> list[list[int | str]]:
        return self.histories


class ListOptions(Weighing):
    k: Annotated[int, whole_number(1), about("How many items.")] = 20
    block: Block = []
    allow: Annotated[Ids | None, about("If given, only these may be in the list.")] = None
    exclude_seen: Annotated[bool, about("Leave out the items of the history.", strict=True)] = True
    reasons: Annotated[int, whole_number(0, 5), about("Number of reasons for each item; then at most 100 items.")] = 0
    one_per_group: Annotated[
        bool, about("At most one item of each group, the best: one size of a shirt, one episode.", strict=True)
    ] = False
    new_places: Annotated[
        int,
        whole_number(0),
        about("New items that a list has at least: they get its last places. More than k count as k."),
    ] = 0
    strict: Strict = False
    model: Name = None


class Recommend(ListOptions, OneHistory):
    disliked: Annotated[
        Ids, about("Ids that the user disliked: never in the list, and weighed if the model learned from dislikes.")
    ] = []


class Batch(ListOptions, ManyHistories):
    pass


class Similar(Request):
    item: Id
    k: Annotated[int, whole_number(1), about("How many items.")] = 10
    model: Name = None


class Explain(OneHistory):
    item: Annotated[Id, about("The item whose score is to be explained.")]
    strict: Strict = False
    model: Name = None


class Pair(Request):
    item: Annotated[Id, about("The item whose weight is explained.")]
    other: Annotated[Id, about("The item to whose score it adds.")]
    model: Name = None


class Compare(OneHistory):
    k: Annotated[int, whole_number(1), about("How many items in each list.")] = 10
    block: Block = []
    strict: Strict = False
    models: Annotated[
        list[Annotated[str, Field(strict=True)]], about("Two models by name.", min_length=2, max_length=2)
    ]


class Error(BaseModel):
    error: Annotated[str, about("One line: what was expected, what was received, what to do.")]


class Item(BaseModel):
    """What is shown of an item; fields that its catalogue does not have are left out."""

    id: Id
    title: str
    category: str | None = None
    image: Annotated[str | None, about("Address of a picture.")] = None
    price: Annotated[float | str | None, about("As in the catalogue: a number, or text with a currency.")] = None
    link: Annotated[str | None, about("Address of the item's own page.")] = None
    group: Annotated[str | None, about("Items of one group are variants of each other.")] = None
    new: Annotated[bool | None, about("True: added after the fit, and no user has it. Left out otherwise.")] = None


Users = Annotated[
    float | None, about("Share of the users who have it; left out if the training data does not tell.", ge=0, le=1)
]


class Popular(Item):
    popularity: Annotated[float, about("Sum of the item's column in the training data.")]
    users: Users = None


class Found(BaseModel):
    items: list[Popular]
    total: Annotated[int, about("How many there are, on this page and others.")]
    exact: Annotated[bool, about("False: no title has all words, and these are the nearest titles.")]


class Like(Item):
    weight: Annotated[float, about("Its part in the weights of the new item.")]


Alike = Annotated[
    list[Like] | None, about("Of a new item: the items that it is like, whose weights it has. Left out otherwise.")
]


class Reason(Item):
    contribution: Annotated[float, about("What this item of the history adds to the score.")]


class Scored(Item):
    score: float


class Recommended(Scored):
    users: Users = None  # in lists of popular items
    reasons: Annotated[list[Reason] | None, about("Strongest first; only if asked for.")] = None
    like: Alike = None  # with the reasons


class Recommendations(BaseModel):
    model: str
    items: list[Recommended]
    unknown: Unknown
    fallback: Fallback
    fallback_reason: FallbackReason


class Batched(BaseModel):
    answers: Annotated[list[Recommendations], about("One for each history, in their order, as /recommend gives it.")]


class Likes(BaseModel):
    model: str
    item: Item
    items: list[Scored]


class Contribution(Reason):
    age_weight: Annotated[float | None, about("What it counts for because of its age; left out where that is 1.")] = (
        None
    )
    age: Annotated[float | None, about("How long before the last choice it was chosen last, if times count.")] = None
    rank_without: Annotated[int | None, about("Place of the item if the history lacked this one.")] = None


class Explanation(BaseModel):
    model: str
    item: Item
    score: float
    rank: Annotated[int | None, about("Its place in the whole list, from 1; null if it is in the history.")]
    contributions: Annotated[list[Contribution], about("Strongest first; they add up to the score.")]
    like: Alike = None
    unknown: Unknown


class Through(Item):
    amount: Annotated[float, about("What goes through this third item.")]


class PairReason(BaseModel):
    model: str
    item: Item
    other: Item
    weight: Annotated[float, about("What the first adds to the score of the other.")]
    together: Annotated[float, about("How often both are used: direct + through + others + rest.")]
    alone: Annotated[float, about("What the weight would be if the first were the only predictor.")]
    coefficient: Annotated[float, about("The weight before any division by popularity.")]
    direct: Annotated[float, about("The part of `together` that the weight itself accounts for.")]
    through: Annotated[list[Through], about("The parts that go through third items, strongest first.")]
    others: Annotated[float, about("What goes through third items that are not listed.")]
    n_others: Annotated[int, about("How many of those there are.")]
    rest: Annotated[float, about("What the model leaves: rounding where it is exact.")]


class Place(Scored):
    rank: int
    other_rank: Annotated[int | None, about("Its place in the other list; null: not in its catalogue.")]


class Comparison(BaseModel):
    models: list[str]
    lists: list[list[Place]]
    shared: Annotated[int, about("Items that are in both lists.")]
    unknown: Annotated[list[Unknown], about("For each model, ids of the request that it does not know.")]
    fallback: Annotated[list[Fallback], about("For each list, what it is made from if not the history.")]
    fallback_reason: Annotated[list[FallbackReason], about("For each list, why.")]


class Metric(BaseModel):
    mean: float | None
    sem: float | None
    popularity: Annotated[float | None, about("The mean for the list of popular items, if it was measured.")] = None


class Examples(BaseModel):
    model: str
    examples: Annotated[
        list[list[Item]], about("Histories made up from popular items and what goes with them: no user's data.")
    ]


class Card(BaseModel):
    model_config = ConfigDict(protected_namespaces=())
    name: str
    class_: Annotated[str, about("Class of the model, e.g. EDLAE.", alias="class")]
    weights: Annotated[str, about("How the weights are stored.")]
    settings: dict[str, Any]
    n_users: int
    n_items: int
    new_items: Annotated[int, about("How many of them were added after the fit and have no users yet.")]
    metrics: Annotated[dict[str, Metric] | None, about("Measured on held-out users before saving.")]
    created: str
    bytes: int
    updatable: Annotated[bool, about("Whether the file holds the counts that update and forget need.")]
    columns: Annotated[list[str], about("What its catalogue says about items: title, category, image, …")]
    ordered: Annotated[bool, about("Whether recent choices count for more, so that the order of a history matters.")]
    loaded: str
    fingerprint: Annotated[str, about("Of all numbers in the file: equal files, equal fingerprints.")]
    models: Annotated[list[str], about("Names of all models served here.")]


class Health(BaseModel):
    status: Annotated[str, about("ok, or degraded when a newer file cannot be loaded.")]
    models: list[str]
    version: str
    problems: list[str]
