"""The rows of a log: one for each event, identified by digests, and which of them a ledger holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag.data.columns import Roles
from offdiag.data.ids import checked_ids, number
from offdiag.data.interactions import Interactions
from offdiag.data.table import Keep, Table, select_rows
from offdiag.errors import OffdiagError
from offdiag.living import digests
from offdiag.living.digests import Digests
from offdiag.living.ledger import Ledger, Recipe


@dataclass(frozen=True, eq=False)
class Rows:
    """The distinct events of a log."""

    table: Table
    user_ids: NDArray[Any]  # ascending
    users: NDArray[np.int32]  # the user of each row
    owners: Digests  # of each user
    place: NDArray[np.int64]  # of each user in the ledger, −1 for those not in it
    events: Digests  # of each row
    counted: NDArray[np.bool_]  # whether the ledger holds each row as an event of its user

    def select(self, users: NDArray[np.bool_], mask: NDArray[np.bool_] | None = None) -> Rows:
        """The rows of some users, limited to the mask; users who are left without rows are dropped."""
        keep = users[self.users] if mask is None else users[self.users] & mask
        present, codes = np.unique(self.users[keep], return_inverse=True)
        return Rows(
            filter_rows(self.table, keep),
            self.user_ids[present],
            codes.astype(np.int32),
            self.owners[present],
            self.place[present],
            self.events[keep],
            self.counted[keep],
        )


def kept_of(inter: Interactions, order: str | None) -> Keep:
    """What a model learned from Interactions: pairs, or every event if the order counts."""
    return "pairs" if order is None or inter.events is None else "events"


def recipe_of(
    table: Table,
    columns: Roles | None = None,
    duplicates: str | None = None,
    at_least: float | None = None,
    *,
    keep: Keep = "pairs",
    order: str | None = None,
) -> Recipe:
    """How this table is read, for the ledger; `columns` are the column names used."""
    import polars as pl

    names = {role: role for role in vars(Roles())} | (columns or Roles()).present()
    present = Roles(**{role: name for role, name in names.items() if getattr(table, role) is not None})
    text_users, text_items = (
        checked_ids(column, noun, table.where).dtype == pl.String
        for noun, column in (("user", table.user), ("item", table.item))
    )
    rule = duplicates or ("once" if table.value is None or keep == "events" else "sum")  # as od.read
    return Recipe(text_users, text_items, rule, at_least, present, keep=keep, order=order)


def table_of(inter: Interactions, order: str | None = None) -> Table:
    """One row for each stored entry, or for each event if the order counts; values only where they are not all 1."""
    import polars as pl

    def column(ids: NDArray[Any], places: NDArray[Any]) -> pl.Series:
        return pl.Series(ids.tolist(), dtype=pl.String if ids.dtype.kind == "U" else pl.Int64).gather(places)

    if kept_of(inter, order) == "events" and inter.events is not None:
        users, times = inter.events.users, inter.events.times
        when = None if times is None else pl.Series(times)
        return Table(column(inter.user_ids, users), column(inter.item_ids, inter.events.items), None, when, "the data")
    users = np.repeat(np.arange(inter.n_users), np.diff(inter.matrix.indptr))
    return Table(
        column(inter.user_ids, users),
        column(inter.item_ids, inter.matrix.indices),
        pl.Series(inter.matrix.data) if bool((inter.matrix.data != 1).any()) else None,
        None if inter.times is None else pl.Series(inter.times),
        "the data",
    )


def distinct(ledger: Ledger, table: Table, *, one_owner_each: bool = True) -> Rows:
    """Each event once: the first row of its user with its id. ``one_owner_each`` makes an id of two users an error."""
    where = table.where
    if not len(table.user):
        raise OffdiagError(f"expected at least one event, received none in {where}; is it complete?")
    # Users without events are dropped.
    user, item = checked_ids(table.user, "user", where), checked_ids(table.item, "item", where)
    table = replace(table, user=user, item=item, all_users=None)
    user_ids, users = number(table.user)
    owners = ledger.hashes.users(user_ids)
    if ledger.recipe.columns.event is None:
        table = replace(table, event=None)
    events = ledger.hashes.events(table, user_ids, users, ledger.recipe.event_rule)
    if digests.any_twice(events):  # much faster than finding the row of each
        keep = np.zeros(len(events), dtype=bool)
        keep[np.unique(digests.pairs(events, owners[users]), return_index=True)[1]] = True
        table, users, events = filter_rows(table, keep), users[keep], events[keep]
    if one_owner_each and table.event is not None and digests.any_twice(events):
        _, first, again = np.unique(events, return_index=True, return_inverse=True)
        row = np.flatnonzero(first[again] != np.arange(len(events)))[0]
        two = sorted(user_ids[users[[first[again[row]], row]]].tolist())
        raise OffdiagError(_two_owners(table, row, f"of the users {two[0]!r} and {two[1]!r}"))
    place = ledger.places(owners)
    counted = ledger.counted(events, owners[users], place)
    if one_owner_each and table.event is not None:  # without ids, an event is hashed with its user
        new = np.flatnonzero(~counted)
        foreign = new[ledger.holds(events[new])]
        if len(foreign):
            who = f"of the user {user_ids[users[foreign[0]]].item()!r}, counted before for another one,"
            raise OffdiagError(_two_owners(table, foreign[0], who))
    return Rows(table, user_ids, users, owners, place, events, counted)


def _two_owners(table: Table, row: Any, whose: str) -> str:
    """The error message for an event id that two users have."""
    event = "" if table.event is None else repr(table.event[int(row)])
    return (
        f"expected every event id to be one event of one user, received {event} {whose} in "
        f"{table.where}; number events over all users, or fit again without --event (nothing was changed)"
    )


def filter_rows(table: Table, keep: NDArray[np.bool_]) -> Table:
    import polars as pl

    return replace(select_rows(table, pl.Series(keep, dtype=pl.Boolean)), all_users=None)
