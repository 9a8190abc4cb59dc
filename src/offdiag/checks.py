"""Checks of numbers, words and flags passed by a caller: each check and its message is defined here once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from offdiag.errors import OffdiagError


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number; True and False are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_)


def is_number(value: Any) -> bool:
    """Whether a value is a real number, finite or not; True and False are not."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool | np.bool_)


def whole(name: str, value: Any, least: int = 0, most: int | None = None, *, other: str = "", hint: str = "") -> int:
    """A whole number from ``least`` to ``most``.

    The message may name an ``other`` value that the caller accepts (" or None") and end in a ``hint`` ("; e.g. 5").
    """
    if not is_whole(value) or value < least or (most is not None and value > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise OffdiagError(f"{name} must be a whole number {bounds}{other}, received {value!r}{hint}")
    return int(value)


def number(
    name: str,
    value: Any,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    above: bool = False,
    below: bool = False,
    auto: bool = False,
    hint: str = "",
) -> Any:
    """A number between two bounds, which ``above`` and ``below`` exclude; infinite bounds are always excluded.

    With ``auto``, the word "auto" is accepted too. The message may end in a ``hint`` ("; e.g. 0.5").
    """
    if auto and isinstance(value, str) and value == "auto":
        return value
    above, below = above or low == -math.inf, below or high == math.inf
    size = value.item() if isinstance(value, np.generic) else value  # a bound may exceed float32
    if (
        not is_number(value)
        or not (size > low if above else size >= low)
        or not (size < high if below else size <= high)
    ):
        free = low == -math.inf and high == math.inf
        interval = f"number in {'(' if above else '['}{low:g}, {high:g}{')' if below else ']'}"
        expected = ("finite number" if free else interval) + (" or 'auto'" if auto else "")
        raise OffdiagError(f"{name} must be a {expected}, received {value!r}{hint}")
    return float(value)


def choice(name: str, value: Any, options: Sequence[str]) -> str:
    """One of the given words."""
    if not isinstance(value, str) or value not in options:
        words = [repr(word) for word in options]
        raise OffdiagError(f"{name} must be {', '.join(words[:-1])} or {words[-1]}, received {value!r}")
    return value


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise OffdiagError(f"{name} must be True or False, received {value!r}")
    return bool(value)
