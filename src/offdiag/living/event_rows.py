"""The rows of an event log: each event once, with the hashes of its user and of itself, and as histories."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag.data import prepare
from offdiag.data.ids import checked_ids, number
from offdiag.data.interactions import Interactions
from offdiag.data.sparse_rows import row_pointer
from offdiag.data.table import Table, assemble
from offdiag.errors import OffdiagError
from offdiag.living import siphash
from offdiag.living.ledger import Entries, Ledger, Recipe
from offdiag.living.siphash import Digests


@dataclass(frozen=True, eq=False)
class Rows:
    """The distinct events of a log."""

    table: Table
    user_ids: NDArray[Any]  # ascending
    users: NDArray[np.int32]  # the user of each row
    owners: Digests  # of each user
    events: Digests  # of each row
    counted: NDArray[np.bool_]  # whether the ledger holds each row as an event of its user


def table_of(inter: Interactions) -> Table:
    """One row for each stored entry; values only where they are not all 1."""
    import polars as pl

    def column(ids: NDArray[Any], places: NDArray[Any]) -> pl.Series:
        return pl.Series(ids.tolist(), dtype=pl.String if ids.dtype.kind == "U" else pl.Int64).gather(places)

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
    events = ledger.hashes.events(table, user_ids, users, ledger.recipe.duplicates)
    if siphash.any_twice(events):  # much faster than finding the row of each
        keep = np.zeros(len(events), dtype=bool)
        keep[np.unique(siphash.pairs(events, owners[users]), return_index=True)[1]] = True
        table, users, events = filter_table(table, keep), users[keep], events[keep]
    if one_owner_each and table.event is not None and siphash.any_twice(events):
        _, first, again = np.unique(events, return_index=True, return_inverse=True)
        row = np.flatnonzero(first[again] != np.arange(len(events)))[0]
        two = sorted(user_ids[users[[first[again[row]], row]]].tolist())
        raise OffdiagError(_two_owners(table, row, f"of the users {two[0]!r} and {two[1]!r}"))
    counted = ledger.counted(events, owners, users)
    if one_owner_each and table.event is not None:  # without ids, an event is hashed with its user
        new = np.flatnonzero(~counted)
        foreign = new[ledger.holds(events[new])]
        if len(foreign):
            who = f"of the user {user_ids[users[foreign[0]]].item()!r}, counted before for another one,"
            raise OffdiagError(_two_owners(table, foreign[0], who))
    return Rows(table, user_ids, users, owners, events, counted)


def _two_owners(table: Table, row: Any, whose: str) -> str:
    """The error message for an event id that two users have."""
    event = "" if table.event is None else repr(table.event[int(row)])
    return (
        f"expected every event id to be one event of one user, received {event} {whose} in "
        f"{table.where}; number events over all users, or fit again without --event (nothing was changed)"
    )


def entries(ledger: Ledger, rows: Rows, inter: Interactions) -> Entries:
    """The ledger entries of these users; `inter` has a row for each of them."""
    starts = row_pointer(rows.users, len(rows.owners))
    events = rows.events[np.lexsort((rows.events, rows.users))]
    sizes = np.diff(inter.matrix.indptr).astype(np.int64)
    entries = Entries(rows.owners, ledger.histories(inter), sizes, starts, events)
    return entries.select(np.argsort(rows.owners))


def histories(table: Table, recipe: Recipe) -> Interactions:
    """Rows to histories as in the first fit; every user stays, even without any counted row."""
    inter = assemble(table, recipe.duplicates)  # type: ignore[arg-type]
    return inter if recipe.at_least is None else prepare.binarize(inter, recipe.at_least)


def drop_empty(inter: Interactions) -> Interactions | None:
    """Without empty users and items; None if nothing is left."""
    return prepare.min_counts(inter) if inter.nnz else None


def select(rows: Rows, users: NDArray[np.bool_], mask: NDArray[np.bool_] | None = None) -> Rows:
    """The rows of some users, limited to the mask; users who are left without rows are dropped."""
    keep = users[rows.users] if mask is None else users[rows.users] & mask
    present, codes = np.unique(rows.users[keep], return_inverse=True)
    return Rows(
        filter_table(rows.table, keep),
        rows.user_ids[present],
        codes.astype(np.int32),
        rows.owners[present],
        rows.events[keep],
        rows.counted[keep],
    )


def filter_table(table: Table, keep: NDArray[np.bool_]) -> Table:
    import polars as pl

    mask = pl.Series(keep, dtype=pl.Boolean)
    value, time, event = (
        part if part is None else part.filter(mask) for part in (table.value, table.time, table.event)
    )
    return Table(table.user.filter(mask), table.item.filter(mask), value, time, table.where, event=event)
