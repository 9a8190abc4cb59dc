"""Filters: pure functions from Interactions to Interactions."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from offdiag import checks
from offdiag.data.interactions import Interactions
from offdiag.errors import OffdiagError


def binarize(inter: Interactions, at_least: float | None = None) -> Interactions:
    """Every interaction of at least `at_least` becomes 1, the others are removed; None keeps all.

    Users and items stay, even without any interactions left; `min_counts` removes those.
    """
    if at_least is not None and not np.isfinite(at_least):
        raise OffdiagError(f"expected a finite at_least, received {at_least}; give the lowest value that counts")
    if at_least is not None:
        # Compared in float32, as the values are stored: 0.1 must count as at least 0.1.
        kept = inter.matrix.data >= np.float32(at_least)
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
    """
    for name, count in (("users", users), ("items", items)):
        if not checks.is_whole(count) or count < 0:
            raise OffdiagError(f"expected {name} to be a whole number of 0 or more, received {count!r}; e.g. 5")
    if first not in ("items", "users"):
        raise OffdiagError(f"expected first='items' or 'users', received {first!r}; choose one of the two")
    while True:
        before = (inter.n_users, inter.n_items)
        for side in ("items", "users") if first == "items" else ("users", "items"):
            inter = _min_users(inter, users) if side == "users" else _min_items(inter, items)
        if not until_stable or (inter.n_users, inter.n_items) == before:
            break
    if inter.nnz == 0:
        raise OffdiagError(
            f"expected something to remain, received no interaction with users>={users} and items>={items}; "
            "lower the minimum counts"
        )
    return inter


def _min_users(inter: Interactions, least: int) -> Interactions:
    keep = np.diff(inter.matrix.indptr) >= least
    return inter if keep.all() else inter.select_users(keep)


def _min_items(inter: Interactions, least: int) -> Interactions:
    keep = np.bincount(inter.matrix.indices, minlength=inter.n_items) >= least
    return inter if keep.all() else inter.select_items(keep)
