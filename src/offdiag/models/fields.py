"""A setting of a model is a dataclass field with its bounds, search range and meaning.

``check_settings`` validates it, ``offdiag.tuning`` searches its range, the command line turns it into an option, and
``help`` and docs/api.md list it. Settings that several models share are defined once, at the end of this file.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import textwrap
from collections.abc import Callable
from typing import Any, Literal, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from offdiag import checks
from offdiag.errors import OffdiagError

Auto = Literal["auto"]
M = TypeVar("M")


@dataclasses.dataclass(frozen=True)
class Range:
    """Numbers from low to high, both included."""

    low: float
    high: float
    log: bool = False
    whole: bool = False
    step: float | None = None


@dataclasses.dataclass(frozen=True)
class Scale:
    """The properties of the data that search ranges depend on."""

    n_items: int
    n_interactions: int
    mean_history: float
    l2: float  # at which EASE would best predict a user it has not seen (``models.auto``)


Search = Range | Callable[[Scale], Range]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """The definition of one setting of one model."""

    default: Any
    help: str  # its first sentence must stand alone as the help of an option
    low: float = -math.inf
    high: float = math.inf
    above: bool = False  # low itself is excluded
    below: bool = False  # high itself is excluded
    whole: bool = False
    choices: tuple[str, ...] = ()
    auto: str | Literal[False] | None = None  # what "auto" chooses; False: only other models accept "auto" here
    takes: str = ""  # accepted values in words, if the model itself checks the setting
    expected: str = ""  # replaces the bounds in the error message, which then also names the model
    size: bool = False  # a number of bytes: the command line also takes 20MB
    optional: bool = False  # not in ``settings_`` while it has its default, as if it did not exist
    layout: bool = False  # how numbers are stored, not what is learned: not in ``settings_``
    search: Search | None = None  # range of od.tune by default; None: it leaves the setting alone

    def check(self, model: str, name: str, value: Any) -> Any:
        """The value as a plain number, word or flag; "auto" stays for the fit to resolve."""
        if self.takes or (value is None and self.default is None):
            return value
        if isinstance(value, str) and value == "auto" and not self.choices:
            if self.auto:
                return value
            if self.auto is False and not self.expected:
                raise OffdiagError(
                    f"{name} of {model} must be a number, received 'auto'; {model} takes numbers only for {name}"
                )
        try:
            return self._check(name, value)
        except OffdiagError:
            if not self.expected:
                raise
            raise OffdiagError(f"{name} of {model} must be {self.expected}, received {value!r}") from None

    def _check(self, name: str, value: Any) -> Any:
        if self.choices:
            return checks.choice(name, value, self.choices)
        if isinstance(self.default, bool):
            return checks.flag(name, value)
        if self.whole:
            return checks.whole(name, value, int(self.low), None if self.high == math.inf else int(self.high))
        return checks.number(name, value, self.low, self.high, above=self.above, below=self.below, auto=bool(self.auto))

    def values(self) -> str:
        """The accepted values in words."""
        if self.takes:
            return self.takes
        if self.choices:
            return " or ".join(f'"{word}"' for word in self.choices)
        if isinstance(self.default, bool):
            return "True or False"
        if self.whole:
            text = f"whole number from {self.low:g}" + ("" if self.high == math.inf else f" to {self.high:g}")
        elif self.high == math.inf:
            text = f"number {'above' if self.above else 'from'} {self.low:g}"
        else:
            text = f"number in {'(' if self.above else '['}{self.low:g}, {self.high:g}{')' if self.below else ']'}"
        return text + (' or "auto"' if self.auto else "") + (" or None" if self.default is None else "")

    @property
    def summary(self) -> str:
        """The first sentence of the help."""
        return re.split(r"(?<!e\.g)\.(?:\s|$)", self.help, maxsplit=1)[0]

    def range_for(self, scale: Scale) -> Range | None:
        """The search range for data of this scale."""
        return self.search(scale) if callable(self.search) else self.search


def setting(default: Any, *, help: str, whole: bool = False, **more: Any) -> Any:  # noqa: A002 - the word users know
    """A field of a model. A setting whose default is a whole number takes whole numbers."""
    whole = whole or (isinstance(default, int) and not isinstance(default, bool))
    known = Setting(default=default, help=help, whole=whole, **more)
    return dataclasses.field(default=default, metadata={"setting": known})


def shared(default: Any, **definition: Any) -> Callable[..., Any]:
    """A setting that several models share; each may change its default, help or search range."""

    def field(default: Any = default, **changes: Any) -> Any:
        return setting(default, **definition | changes)

    return field


@dataclass_transform(kw_only_default=True, eq_default=False)
def model(cls: type[M]) -> type[M]:
    """A dataclass of settings: those of the class come first, then those it inherits; its docstring lists them all."""
    made: Any = dataclasses.dataclass(kw_only=True, eq=False, repr=False)(cls)
    known = made.__dataclass_fields__
    own = [name for name in inspect.get_annotations(cls) if name in known]
    inherited = [name for base in cls.__mro__[1:] for name in getattr(base, "__dataclass_fields__", ())]
    made.__dataclass_fields__ = {name: known[name] for name in dict.fromkeys([*own, *inherited])}
    words = inspect.signature(made.__init__).parameters
    made.__signature__ = inspect.Signature([words[field.name] for field in dataclasses.fields(made)])
    made.__doc__ = _add_settings(inspect.cleandoc(cls.__doc__ or ""), settings_of(made))
    return made  # type: ignore[no-any-return]


def _add_settings(text: str, settings: dict[str, Setting]) -> str:
    """The docstring with the settings inserted before the example."""
    head, mark, example = text.partition("\nExample:\n")
    if not settings:
        return text
    entries = "\n".join(_entry(name, known) for name, known in settings.items())
    return f"{head.rstrip()}\n\nSettings:\n{entries}\n{mark}{example}"


def _entry(name: str, known: Setting) -> str:
    first = f"    {name}: {known.values()}; default {_quoted(known.default)}"
    chosen = f' "auto": {known.auto}.' if known.auto else ""
    return first + "\n" + textwrap.fill(known.help + chosen, 92, initial_indent=" " * 8, subsequent_indent=" " * 8)


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def settings_of(cls: Any) -> dict[str, Setting]:
    """The settings of a model class or a model, in the order of its fields."""
    return {field.name: field.metadata["setting"] for field in dataclasses.fields(cls) if "setting" in field.metadata}


def check_settings(model: object) -> dict[str, Any]:
    """The settings of a model as plain numbers and words."""
    name = type(model).__name__
    return {key: known.check(name, key, getattr(model, key)) for key, known in settings_of(model).items()}


def number(value: float | Auto) -> float:
    """A setting in which "auto" was replaced."""
    assert not isinstance(value, str)
    return value


def check_not_empty(interactions: int, users: int, items: int) -> None:
    if users == 0 or items == 0:
        noun = "sample" if items else "feature"  # the words in which scikit-learn expects it
        found = f"0 {noun}(s) (shape=({users}, {items})) while a minimum of 1 is required"
    elif interactions == 0:
        found = f"{users} users × {items} items without any interaction"
    else:
        return
    raise OffdiagError(f"there is nothing to learn from: {found}; give a matrix with interactions")


def check_item_ids(item_ids: Any, m: int) -> NDArray[Any]:
    """One distinct id per column; by default the column numbers."""
    if item_ids is None:
        return np.arange(m)
    ids = np.asarray(item_ids)
    if ids.shape != (m,) or ids.dtype.kind not in "iuU":
        raise OffdiagError(
            f"expected one item id (whole number or text) for each of the {m} columns, "
            f"received {ids.shape} of type {ids.dtype}"
        )
    if len(np.unique(ids)) != m:
        raise OffdiagError(f"item ids must differ from each other, received {m - len(np.unique(ids))} repeated ones")
    return ids


def up_to_items(low: int, high: int = 1000) -> Callable[[Scale], Range]:
    """Whole numbers on a log scale, up to half of the items."""

    def search(scale: Scale) -> Range:
        most = max(2, min(1000, scale.n_items // 2))
        return Range(min(low, most), min(high, most), log=True, whole=True)

    return search


def around_l2(below: float, above: float) -> Callable[[Scale], Range]:
    """From l2/below to above·l2, where l2 is the one that suits EASE."""
    return lambda scale: Range(scale.l2 / below, above * scale.l2, log=True)


# Settings that several models share.

dropout = shared(
    "auto", low=0, high=1, below=True, auto="0.65", search=Range(0.0, 0.95),
    help="Share of each history that is hidden while learning. It must be predicted from the rest; the more is hidden, "
    "the stronger the penalty on weights of popular items, dropout/(1 − dropout) times their popularity.",
)  # fmt: skip
l2 = shared(
    "auto", low=0, search=around_l2(30, 30),
    auto="the l2 at which EASE best predicts users it has not seen, times 1.3 − 0.55·dropout",
    help="Ridge penalty on every weight, in units of users. "
    "Items with far fewer users than l2 hardly influence others, so it guards against pairs seen together by chance.",
)  # fmt: skip
kept_weight = shared(
    0.0, low=0, high=1,
    help="Weight of errors on entries that were not dropped; dropped ones have weight 1. "
    "0: only hidden items count, so no item explains itself (EDLAE). 1: all entries have the same weight (DLAE).",
)  # fmt: skip
user_power = shared(
    "auto", low=-5, high=5, auto="0.5, or that of the Gram in fit_gram", search=Range(0.0, 1.0, step=0.25),
    help="A user with n items counts n^-user_power per item. "
    "0: every interaction has the same weight, so heavy users dominate. 1: every user has the same weight.",
)  # fmt: skip
item_power = shared(
    0.0, low=-5, high=5, auto=False,
    help="Items are scaled by popularity^-item_power before the fit, and back after it. "
    "0: the same l2 for every item, which affects rare items most. 1: an l2 in proportion to popularity.",
)  # fmt: skip
propensity_power = shared(
    0.0, low=-5, high=5,
    help="Scores are divided by popularity^propensity_power. "
    "Above 0 rare items move up in the lists, below 0 popular ones; ``with_propensity`` changes it without a new fit.",
)  # fmt: skip
dtype = shared(
    "float32", choices=("float32", "float64"), layout=True, help="Precision of the computation and of the weights."
)
rank = shared(
    200, low=1, search=up_to_items(16),
    help="Dimension of the embeddings: numbers per item on either side. "
    "A higher rank fits finer detail and costs proportionally more memory and time.",
)  # fmt: skip
iterations = shared(30, low=0, help="At most this many iterations. The fit ends earlier once a step gains nothing.")
seed = shared(0, low=0, help="Seed of every random choice: the same seed gives the same model.")
feature_weight = shared(
    "auto", low=0, optional=True,
    auto="0 without item_features; otherwise the weight that best predicts held-out users on the most popular items",
    help="Weight of item_features next to the interactions. At 1 they add as much to XᵀX as the users do.",
)  # fmt: skip
prior_weight = shared(
    "auto", low=0, optional=True,
    auto="0 without prior; otherwise the weight that best predicts held-out users on the most popular items",
    help="Penalty on the distance of the weights from those given as prior, in units of users as l2. Without a prior "
    "it is the distance from the weights with which the item_features of items predict each other.",
)  # fmt: skip
block_bytes = shared(
    "auto", whole=True, low=1, size=True, auto="60 % of the memory that is free",
    help="Part of XᵀX that is held at a time, in bytes. It does not change the result.",
)  # fmt: skip
