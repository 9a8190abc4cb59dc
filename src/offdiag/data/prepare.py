"""Filters: pure functions from Interactions to Interactions."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from offdiag import checks
from offdiag.data.interactions import Interactions
from offdiag.errors import OffdiagError

__all__ = ["binarize", "min_counts"]


def binarize(inter: Interactions, at_least: float | None = None) -> Interactions:
    """Every interaction of at least `at_least` becomes 1, the others are removed; None keeps all.

    Users and items stay, even without any interactions left; `min_counts` removes those.

    Example:
        >>> import offdiag as od
        >>> import numpy as np
        >>> od.prepare.binarize(od.read(np.array([[5, 2, 0], [0, 4, 1]])), at_least=4)
        Interactions(2 users x 3 items, 2 interactions, 33.3 % filled)
    """
    if at_least is not None:
        kept = inter.matrix.data >= threshold(at_least)
        if not kept.all():
            inter = inter.select_entries(kept)
    matrix = inter.matrix.copy()
    matrix.data = np.ones(matrix.nnz, dtype=np.float32)
    return replace(inter, matrix=matrix)


def min_counts(
    inter: Interactions,
    users: int = 1,
    items: int = 1,
    *,
    until_stable: bool = False,
    first: Literal["items", "users"] = "items",
) -> Interactions:
    """Keep items with at least `items` users, then users with at least `users` items (or the reverse order).

    One pass, as the published protocols do: the second filter can leave an item just below its minimum again.
    `until_stable=True` repeats until both minima hold. With the defaults, only empty users and items are removed.

    Example:
        >>> import offdiag as od
        >>> import numpy as np
        >>> od.prepare.min_counts(od.read(np.array([[5, 2, 0], [0, 4, 1]])), items=2).item_ids
        array([1])
    """
    checks.whole("users", users)
    checks.whole("items", items)
    checks.choice("first", first, ("items", "users"))
    before = None
    while before is None or (until_stable and before != (inter.n_users, inter.n_items)):
        before = (inter.n_users, inter.n_items)
        for side in ("items", "users") if first == "items" else ("users", "items"):
            if side == "users":
                keep = np.diff(inter.matrix.indptr) >= users
            else:
                keep = np.bincount(inter.matrix.indices, minlength=inter.n_items) >= items
            if not keep.all():
                inter = inter.select_users(keep) if side == "users" else inter.select_items(keep)
    if inter.nnz == 0:
        raise nothing_left(users, items)
    return inter


def threshold(at_least: float) -> np.float32:
    """Compared in float32, as the values are stored: 0.1 must count as at least 0.1."""
    return np.float32(checks.number("at_least", at_least, hint="; give the lowest value that counts"))


def nothing_left(users: int, items: int) -> OffdiagError:
    return OffdiagError(
        f"expected something to remain, received no interaction with users>={users} and items>={items}; "
        "lower the minimum counts"
    )
