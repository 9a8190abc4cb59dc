"""Filters: pure functions from Interactions to Interactions."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from offdiag import checks
from offdiag.data.ids import text_array
from offdiag.data.interactions import Interactions
from offdiag.data.sequences import Sequences, sequences_of
from offdiag.data.table import build
from offdiag.errors import OffdiagError

__all__ = ["binarize", "min_counts", "sessions"]


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


def sessions(inter: Interactions, gap_minutes: float = 30.0) -> Interactions:
    """Each visit as a user of its own: a session ends where nothing happens for more than `gap_minutes`.

    Needs times in seconds, as dates are read. Sessions are called user/1, user/2, … in order of time and keep their
    events; each interaction has the value 1.

    Example:
        >>> import offdiag as od
        >>> log = {"user": ["ann", "ann", "ann"], "item": ["tea", "cup", "tea"], "second": [0, 60, 9000]}
        >>> visits = od.prepare.sessions(od.read(log, time="second", keep="events"))
        >>> visits.user_ids.tolist(), visits.history("ann/1")
        (['ann/1', 'ann/2'], ['tea', 'cup'])
    """
    checks.number("gap_minutes", gap_minutes, 0, above=True, hint="; e.g. 30")
    events = sequences_of(inter)
    if events is None or events.times is None:
        raise OffdiagError("expected interactions with times, received none; read with time=<column>")
    starts = events.starts(60 * gap_minutes)
    indptr = np.append(np.flatnonzero(starts), events.n_events)
    users = events.users[indptr[:-1]]  # of the sessions, ascending
    number = np.arange(len(users)) - np.searchsorted(users, users) + 1
    ids = text_array([f"{user}/{n}" for user, n in zip(inter.user_ids[users].tolist(), number.tolist(), strict=True)])
    session = (np.cumsum(starts) - 1).astype(np.int32)
    pairs = build(session, events.items, None, events.times, ids, inter.item_ids, "once")
    return replace(pairs, notes=inter.notes, events=Sequences(indptr, events.items, events.times))


def threshold(at_least: float) -> np.float32:
    """Compared in float32, as the values are stored: 0.1 must count as at least 0.1."""
    return np.float32(checks.number("at_least", at_least, hint="; give the lowest value that counts"))


def nothing_left(users: int, items: int) -> OffdiagError:
    return OffdiagError(
        f"expected something to remain, received no interaction with users>={users} and items>={items}; "
        "lower the minimum counts"
    )
