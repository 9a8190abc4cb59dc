"""The hyper-parameters of linear models and the ids of items, validated in one place: what was expected, what came."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from offdiag.errors import OffdiagError
from offdiag.gramian.packed import Gram

Auto = Literal["auto"]

# name → least, most, whether the most is allowed, whether "auto" is
_NUMBERS: dict[str, tuple[float, float, bool, bool]] = {
    "dropout": (0, 1, False, True),
    "l2": (0, np.inf, False, True),
    "kept_weight": (0, 1, True, False),
    "max_diagonal": (0, 1, True, False),
    "propensity_power": (-5, 5, True, False),
    "weight_power": (0.2, 5, True, False),
    "smooth": (0, 10, True, False),
    "user_power": (-5, 5, True, True),
    "item_power": (-5, 5, True, True),
    "learning_rate": (0, np.inf, False, False),
    "alpha": (0, np.inf, False, True),
    "anneal_epochs": (0, np.inf, False, False),
    "beta": (0, np.inf, False, False),
    "l2_power": (0, 1, True, False),
    "positive_weight": (0, np.inf, False, False),
    "l1": (0, np.inf, False, True),
    "tolerance": (0, 1, False, False),
    "shrink": (0, np.inf, False, False),
    "balance": (0, 1, True, False),
}
_WHOLE = {"rank": 1, "iterations": 0, "starts": 1, "seed": 0, "width": 1, "epochs": 1, "batch_users": 1}  # name → least
_WHOLE |= {"max_iterations": 1, "neighbours": 1, "depth": 0, "patience": 1, "max_bytes": 1, "block_bytes": 1}
_FLAGS = ("non_negative",)
_WORDS = {
    "dtype": ("float32", "float64"),
    "storage": ("packed", "dense"),
    "products": ("auto", "gram", "data"),
    "activation": ("tanh", "sigmoid"),
    "loss": ("logistic", "squared"),
}


def checked(params: dict[str, Any]) -> dict[str, Any]:
    """The same settings as plain numbers and words; "auto" stays for ``defaults`` to resolve."""
    return {name: _checked(name, value) for name, value in params.items()}


def _checked(name: str, value: Any) -> Any:
    if name in _WORDS:
        if not isinstance(value, str) or value not in _WORDS[name]:
            words = [repr(word) for word in _WORDS[name]]
            raise OffdiagError(f"{name} must be {', '.join(words[:-1])} or {words[-1]}, received {value!r}")
        return value
    if name in _FLAGS:
        if not isinstance(value, bool | np.bool_):
            raise OffdiagError(f"{name} must be True or False, received {value!r}")
        return bool(value)
    if name in _WHOLE:
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < _WHOLE[name]:
            raise OffdiagError(f"{name} must be a whole number of at least {_WHOLE[name]}, received {value!r}")
        return int(value)
    low, high, closed, auto = _NUMBERS[name]
    if auto and isinstance(value, str) and value == "auto":
        return value
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not (low <= value < high or (closed and value == high)):
        bracket = f"[{low}, {high}{']' if closed else ')'}" + (" or 'auto'" if auto else "")
        raise OffdiagError(f"{name} must be a number in {bracket}, received {value!r}")
    return float(value)


def check_not_empty(interactions: int, users: int, items: int) -> None:
    if interactions == 0:
        raise OffdiagError(f"there is nothing to learn from: {users} users × {items} items without any interaction")


def check_gram(G: Any, user_power: float | Auto, *, also: type | None = None) -> None:
    """That G is a Gram (or an ``also``), holds something, and was made with the user weights the model asks for."""
    if not isinstance(G, Gram if also is None else Gram | also):
        raise OffdiagError(f"fit_gram takes a Gram (see od.gram), received {type(G).__name__}; use fit for data")
    if user_power not in ("auto", G.user_power):
        raise OffdiagError(
            f"this Gram was made with user_power={G.user_power:g} but the model asks for "
            f"{user_power:g}; make them equal or leave the model's at 'auto'"
        )
    check_not_empty(G.n_interactions, G.n_users, G.n_items)


def checked_item_ids(item_ids: Any, m: int) -> NDArray[Any]:
    """One distinct id per column; the column numbers when none are given."""
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
