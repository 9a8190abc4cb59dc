"""The event log: which rows of a log a model has not counted yet, and whose histories they change.

Nothing is changed here. `read_first` returns the data of a fit and its ledger; `plan_update` and `plan_forget` compare
a log with the ledger and return the rows to add and to remove, and the ledger after the change.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag.data import prepare
from offdiag.data.columns import Roles
from offdiag.data.ids import checked_ids, number
from offdiag.data.interactions import Interactions
from offdiag.data.table import Table
from offdiag.errors import OffdiagError
from offdiag.living import event_rows, siphash
from offdiag.living.event_rows import Rows
from offdiag.living.ledger import Ledger, Recipe
from offdiag.living.siphash import Digests

SHOWN = 3  # ids named in a message


@dataclass(frozen=True, eq=False)
class LogPlan:
    """The change to apply to a model, and the ledger after it."""

    ledger: Ledger
    add: Interactions | None = None
    remove: Interactions | None = None
    new_events: int = 0
    old_events: int = 0  # rows of the log that were counted before
    new_users: int = 0
    changed_users: int = 0
    request: str | None = None  # keyed digest of the forgotten users


def read_first(table: Table, recipe: Recipe) -> tuple[Interactions, Ledger]:
    """The histories to fit, without empty users and items, and the ledger that counts these events."""
    ledger = Ledger.empty(recipe)
    rows = event_rows.distinct(ledger, table)
    inter = event_rows.histories(rows.table, recipe)
    ledger = ledger.replace_users(ledger.entries.users, event_rows.entries(ledger, rows, inter))
    return prepare.min_counts(inter), ledger


def ledger_of_data(inter: Interactions) -> Ledger:
    """The ledger of a model that was fitted on Interactions: each stored entry is an event."""
    table = event_rows.table_of(inter)
    return read_first(table, recipe_of(table))[1]


def recipe_of(
    table: Table, columns: Roles | None = None, duplicates: str | None = None, at_least: float | None = None
) -> Recipe:
    """How this table is read, for the ledger; `columns` are the column names used."""
    import polars as pl

    names = {role: role for role in vars(Roles())} | (columns or Roles()).present()
    present = Roles(**{role: name for role, name in names.items() if getattr(table, role) is not None})
    text_users, text_items = (
        checked_ids(column, noun, table.where).dtype == pl.String
        for noun, column in (("user", table.user), ("item", table.item))
    )
    rule = duplicates or ("once" if table.value is None else "sum")
    return Recipe(text_users, text_items, rule, at_least, present)


def plan_update(ledger: Ledger, table: Table) -> LogPlan:
    """The changes that the log implies. It may hold new events only, the whole past, or anything in between.

    A user whose history changes is removed with the old history and added with the new one, so the log must also hold
    the events counted before; the ledger checks that these are the same.
    """
    rows = event_rows.distinct(ledger, table)
    counted, place = rows.counted, ledger.places(rows.owners)
    old_events = int(counted.sum())
    if counted.all():
        return LogPlan(ledger, old_events=old_events)
    touched = np.zeros(len(rows.owners), dtype=bool)
    touched[rows.users[~counted]] = True
    known = touched & (place >= 0)
    there = np.bincount(rows.users[counted], minlength=len(place))
    missing = known & (there != ledger.event_counts(place))
    if missing.any():
        raise OffdiagError(
            f"expected the whole history of every user whose history changes, received only new events of "
            f"{int(missing.sum()):,} users who are in the model already (for example {_first(rows.user_ids[missing])}) "
            f"in {table.where}; give a log that also holds their earlier events (nothing was changed)"
        )
    after, before = event_rows.select(rows, touched), event_rows.select(rows, known, counted)
    new = event_rows.histories(after.table, ledger.recipe)
    entries = event_rows.entries(ledger, after, new)
    later = ledger.replace_users(entries.users, entries)
    same, remove = _compare(ledger, later, before)
    return LogPlan(
        later,
        event_rows.drop_empty(new.select_users(np.isin(after.owners, before.owners[same], invert=True))),
        remove,
        new_events=int((~counted).sum()),
        old_events=old_events,
        new_users=int((touched & (place < 0)).sum()),
        changed_users=int(known.sum()),
    )


def _compare(ledger: Ledger, later: Ledger, before: Rows) -> tuple[NDArray[np.bool_], Interactions | None]:
    """Which users keep their history, and the old histories of the others."""
    if not len(before.owners):
        return np.zeros(0, dtype=bool), None
    old = event_rows.histories(before.table, ledger.recipe)
    prints = ledger.histories(old)
    altered = prints != ledger.entries.histories[ledger.places(before.owners)]
    if altered.any():
        raise OffdiagError(
            f"expected counted events to stay as they are, received other ones of {int(altered.sum()):,} users "
            f"(for example {_first(before.user_ids[altered])}) in {before.table.where}; put the log right, or fit "
            "again (nothing was changed)"
        )
    same = prints == later.entries.histories[later.places(before.owners)]
    return same, event_rows.drop_empty(old.select_users(~same))


def plan_forget(ledger: Ledger, table: Table, ids: NDArray[Any] | None = None) -> LogPlan:
    """The rows of some users, all of whom must be in the ledger with these histories; default: all in the log.

    Events in the log that were not counted yet do not matter.
    """
    user = checked_ids(table.user, "user", table.where)
    found, codes = (
        number(user) if len(user) else (np.zeros(0, np.int64 if ids is None else ids.dtype), np.zeros(0, int))
    )
    wanted = found if ids is None else np.unique(ids)
    if not len(wanted):
        raise OffdiagError(f"expected at least one user to forget, received none in {table.where}; is it complete?")
    owners = ledger.hashes.users(wanted)
    place = ledger.places(owners)
    unknown = place < 0
    if unknown.any():
        raise OffdiagError(
            f"expected users of the model, received {int(unknown.sum()):,} who are not in it (for example "
            f"{_first(wanted[unknown])}): never there, or forgotten already (nothing was changed)"
        )
    theirs = np.isin(found, wanted)[codes] if len(codes) else np.zeros(0, dtype=bool)
    right, parts = _match(ledger, event_rows.filter_table(table, theirs), wanted, place)
    if not right.all():
        absent = ~np.isin(wanted, found)
        what = "no rows" if absent[~right].all() else "other rows than the model has counted"
        raise OffdiagError(
            f"expected the whole history of every user to forget, received {what} of "
            f"{int((~right).sum()):,} of {len(wanted):,} users (for example {_first(wanted[~right])}) "
            f"in {table.where}; give all their rows as they were learned (nothing was changed)"
        )
    none = ledger.entries.select(np.zeros(0, np.int64))
    return LogPlan(
        ledger.replace_users(owners, none),
        remove=event_rows.drop_empty(_stack(parts)) if parts else None,
        old_events=int(ledger.event_counts(place).sum()),
        changed_users=len(wanted),
        request=digest_of_users(ledger, owners),
    )


def _match(
    ledger: Ledger, table: Table, wanted: NDArray[Any], place: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], list[Interactions]]:
    """Which of the wanted users have their counted history in the table, and these histories."""
    right = np.zeros(len(wanted), dtype=bool)
    parts = []
    for rows in _readings(ledger, table):
        rows = event_rows.select(rows, np.isin(rows.user_ids, wanted[~right]))
        if not len(rows.user_ids):
            continue
        inter = event_rows.histories(rows.table, ledger.recipe)
        at = np.searchsorted(wanted, inter.user_ids)
        match = ledger.histories(inter) == ledger.entries.histories[place[at]]
        right[at[match]] = True
        if match.any():
            parts.append(event_rows.histories(event_rows.select(rows, match).table, ledger.recipe))
    right |= ledger.entries.sizes[place] == 0  # no event of this user was ever counted, so none is needed
    return right, parts


def request_of(ledger: Ledger, table: Table, ids: NDArray[Any] | None = None) -> str | None:
    """A keyed digest of the users to forget, if none of them is in the ledger (any more)."""
    user = checked_ids(table.user, "user", table.where)
    wanted = np.unique(ids) if ids is not None else number(user)[0] if len(user) else np.zeros(0, np.int64)
    owners = ledger.hashes.users(wanted)
    return digest_of_users(ledger, owners) if len(owners) and (ledger.places(owners) < 0).all() else None


def digest_of_users(ledger: Ledger, owners: Digests) -> str:
    text = np.sort(owners).tobytes()
    return hashlib.blake2b(text, digest_size=16, key=ledger.hashes.key, person=b"request").hexdigest()


def check_kinds(recipe: Recipe, table: Table) -> Table:
    """The table with checked ids of the model's kinds, or an error that names both kinds."""
    import polars as pl

    user, item = checked_ids(table.user, "user", table.where), checked_ids(table.item, "item", table.where)
    for noun, column, text in (("user", user, recipe.text_users), ("item", item, recipe.text_items)):
        if len(column) and (column.dtype == pl.String) != text:
            kinds = {True: "text", False: "whole numbers"}
            raise OffdiagError(
                f"expected {noun} ids that are {kinds[text]}, as in the model, received {kinds[not text]} in "
                f"{table.where}; convert the column, or name the right one"
            )
    return replace(table, user=user, item=item)


def _readings(ledger: Ledger, table: Table) -> list[Rows]:
    """All rows, and also only the counted ones if they can be distinguished."""
    if not len(table.user):
        return []
    if any(getattr(table, role) is None for role in ledger.recipe.columns.present()):
        user_ids, users = number(table.user)
        owners, nothing = ledger.hashes.users(user_ids), np.zeros(len(users), siphash.DIGEST)
        return [Rows(table, user_ids, users, owners, nothing, np.zeros(len(users), dtype=bool))]
    rows = event_rows.distinct(ledger, table, one_owner_each=False)  # events not counted yet do not matter
    everyone = np.ones(len(rows.owners), dtype=bool)
    return [rows, event_rows.select(rows, everyone, rows.counted)]


def _stack(parts: list[Interactions]) -> Interactions:
    """The rows of the parts stacked, over all their items."""
    if len(parts) == 1:
        return parts[0]
    from scipy import sparse

    ids = np.unique(np.concatenate([part.item_ids for part in parts]))
    blocks = []
    for part in parts:
        where = np.searchsorted(ids, part.item_ids)
        blocks.append(
            sparse.csr_array(
                (part.matrix.data, where[part.matrix.indices], part.matrix.indptr), (part.n_users, len(ids))
            )
        )
    stacked = sparse.csr_array(sparse.vstack(blocks, format="csr"))
    return Interactions(stacked, np.concatenate([part.user_ids for part in parts]), ids)


def _first(ids: NDArray[Any]) -> str:
    """The first few ids, for a message."""
    return ", ".join(repr(name) for name in ids[:SHOWN].tolist())
