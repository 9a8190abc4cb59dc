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
from offdiag.data.ids import checked_ids, number
from offdiag.data.interactions import Interactions
from offdiag.data.sparse_rows import row_pointer
from offdiag.data.table import Keep, Table, assemble, concatenate
from offdiag.errors import OffdiagError
from offdiag.living import digests
from offdiag.living.digests import Digests
from offdiag.living.ledger import Entries, Ledger, Recipe
from offdiag.living.log_rows import Rows, distinct, filter_rows, recipe_of, table_of
from offdiag.living.order import Histories, ordered_events

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
    rows = distinct(ledger, table)
    inter = _histories(rows.table, recipe)
    ledger = ledger.replace_users(ledger.entries.users, _entries(ledger, rows, inter))
    return prepare.min_counts(inter), ledger


def ledger_of_data(inter: Interactions) -> Ledger:
    """The ledger of a model that was fitted on Interactions: each stored entry is an event."""
    table = table_of(inter)
    return read_first(table, recipe_of(table))[1]


def ledger_of_histories(inter: Interactions, histories: Histories) -> Ledger:
    """The same of a model of order, which learned these histories of the users of ``inter``."""
    table = table_of(replace(inter, events=histories.sequences), histories.order)
    keep: Keep = "events" if histories.every_event else "pairs"
    return read_first(table, recipe_of(table, keep=keep, order=histories.order))[1]


def plan_update(ledger: Ledger, table: Table) -> LogPlan:
    """The changes that the log implies. It may hold new events only, the whole past, or anything in between.

    A user whose history changes is removed with the old history and added with the new one, so the log must also hold
    the events counted before; the ledger checks that these are the same, and in the same order if that was learned.
    """
    rows = distinct(ledger, table)
    counted, place = rows.counted, rows.place
    old_events = int(counted.sum())
    touched = np.zeros(len(rows.owners), dtype=bool)
    touched[rows.users[~counted]] = True
    known = touched & (place >= 0)
    there = np.bincount(rows.users[counted], minlength=len(place))
    whole = there == ledger.event_counts(place)
    if ledger.recipe.order is not None:  # otherwise the same events are the same history
        _old_histories(ledger, rows.select(whole & ~touched, counted))
    if counted.all():
        return LogPlan(ledger, old_events=old_events)
    missing = known & ~whole
    if missing.any():
        raise OffdiagError(
            f"expected the whole history of every user whose history changes, received only new events of "
            f"{int(missing.sum()):,} users who are in the model already (for example "
            f"{_examples(rows.user_ids[missing])}) in {table.where}; give a log that also holds their "
            "earlier events (nothing was changed)"
        )
    after, before = rows.select(touched), rows.select(known, counted)
    new = _histories(after.table, ledger.recipe)
    entries = _entries(ledger, after, new)
    later = ledger.replace_users(entries.users, entries)
    same, remove = _compare(ledger, later, before)
    return LogPlan(
        later,
        _drop_empty(new.select_users(np.isin(after.owners, before.owners[same], invert=True))),
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
    old = _old_histories(ledger, before)
    assert old is not None
    same = ledger.histories(old) == later.entries.histories[later.places(before.owners)]
    return same, _drop_empty(old.select_users(~same))


def _old_histories(ledger: Ledger, before: Rows) -> Interactions | None:
    """The histories of users whose counted events these are; None without users. They must be as the ledger says."""
    if not len(before.owners):
        return None
    old = _histories(before.table, ledger.recipe)
    altered = ledger.histories(old) != ledger.entries.histories[before.place]
    if altered.any():
        other = "other ones" if ledger.recipe.order is None else "them with other values or in another order"
        raise OffdiagError(
            f"expected counted events to stay as they are, received {other} of {int(altered.sum()):,} users "
            f"(for example {_examples(before.user_ids[altered])}) in {before.table.where}; put the log right, or fit "
            "again (nothing was changed)"
        )
    return old


def plan_forget(ledger: Ledger, table: Table, ids: NDArray[Any] | None = None) -> LogPlan:
    """The rows of some users, all of whom must be in the ledger with these histories; default: all in the log.

    Events in the log that were not counted yet do not matter.
    """
    found, codes, wanted = _wanted_users(table, ids)
    if not len(wanted):
        raise OffdiagError(f"expected at least one user to forget, received none in {table.where}; is it complete?")
    owners = ledger.hashes.users(wanted)
    place = ledger.places(owners)
    unknown = place < 0
    if unknown.any():
        raise OffdiagError(
            f"expected users of the model, received {int(unknown.sum()):,} who are not in it (for example "
            f"{_examples(wanted[unknown])}): never there, or forgotten already (nothing was changed)"
        )
    right, parts = _match(ledger, filter_rows(table, np.isin(found, wanted)[codes]), wanted, place)
    if not right.all():
        absent = ~np.isin(wanted, found)
        what = "no rows" if absent[~right].all() else "other rows than the model has counted"
        raise OffdiagError(
            f"expected the whole history of every user to forget, received {what} of "
            f"{int((~right).sum()):,} of {len(wanted):,} users (for example {_examples(wanted[~right])}) "
            f"in {table.where}; give all their rows as they were learned (nothing was changed)"
        )
    none = ledger.entries.select(np.zeros(0, np.int64))
    return LogPlan(
        ledger.replace_users(owners, none),
        remove=_drop_empty(_histories(concatenate(parts), ledger.recipe)) if parts else None,
        old_events=int(ledger.event_counts(place).sum()),
        changed_users=len(wanted),
        request=digest_of_users(ledger, owners),
    )


def _match(
    ledger: Ledger, table: Table, wanted: NDArray[Any], place: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], list[Table]]:
    """Which of the wanted users have their counted history in the table, and the rows of these."""
    right = np.zeros(len(wanted), dtype=bool)
    parts = []
    for rows in _readings(ledger, table):
        rows = rows.select(np.isin(rows.user_ids, wanted[~right]))
        if not len(rows.user_ids):
            continue
        inter = _histories(rows.table, ledger.recipe)
        at = np.searchsorted(wanted, inter.user_ids)
        match = ledger.histories(inter) == ledger.entries.histories[place[at]]
        right[at[match]] = True
        if match.any():
            parts.append(rows.select(match).table)
    right |= ledger.entries.sizes[place] == 0  # no event of this user was ever counted, so none is needed
    return right, parts


def request_of(ledger: Ledger, table: Table, ids: NDArray[Any] | None = None) -> str | None:
    """A keyed digest of the users to forget, if none of them is in the ledger (any more)."""
    owners = ledger.hashes.users(_wanted_users(table, ids)[2])
    return digest_of_users(ledger, owners) if len(owners) and (ledger.places(owners) < 0).all() else None


def _wanted_users(
    table: Table, ids: NDArray[Any] | None
) -> tuple[NDArray[Any], NDArray[np.signedinteger], NDArray[Any]]:
    """The users of a table, the one of each row, and those to forget: ``ids``, or else all of them."""
    user = checked_ids(table.user, "user", table.where)
    if not len(user):
        none = np.zeros(0, np.int64)
        return none if ids is None else ids[:0], none, none if ids is None else np.unique(ids)
    found, codes = number(user)
    return found, codes, found if ids is None else np.unique(ids)


def digest_of_users(ledger: Ledger, owners: Digests) -> str:
    text = np.sort(owners).tobytes()
    return hashlib.blake2b(text, digest_size=16, key=ledger.hashes.key, person=b"request").hexdigest()


def _readings(ledger: Ledger, table: Table) -> list[Rows]:
    """All rows, and also only the counted ones if they can be distinguished."""
    if not len(table.user):
        return []
    if any(getattr(table, role) is None for role in ledger.recipe.columns.present()):
        user_ids, users = number(table.user)
        owners = ledger.hashes.users(user_ids)
        no_events, uncounted = np.zeros(len(users), digests.DIGEST), np.zeros(len(users), dtype=bool)
        return [Rows(table, user_ids, users, owners, ledger.places(owners), no_events, uncounted)]
    rows = distinct(ledger, table, one_owner_each=False)  # events not counted yet do not matter
    everyone = np.ones(len(rows.owners), dtype=bool)
    return [rows, rows.select(everyone, rows.counted)]


def _examples(ids: NDArray[Any]) -> str:
    """The first few ids, for a message."""
    return ", ".join(repr(name) for name in ids[:SHOWN].tolist())


def _entries(ledger: Ledger, rows: Rows, inter: Interactions) -> Entries:
    """The ledger entries of these users; `inter` has a row for each of them."""
    starts = row_pointer(rows.users, len(rows.owners))
    events = rows.events[np.lexsort((rows.events, rows.users))]
    sizes = np.diff(inter.matrix.indptr).astype(np.int64)
    found = Entries(rows.owners, ledger.histories(inter), sizes, starts, events)
    return found.select(np.argsort(rows.owners))


def _histories(table: Table, recipe: Recipe) -> Interactions:
    """Rows to histories as in the first fit; every user stays, even without any counted row."""
    inter = assemble(table, recipe.duplicates, recipe.keep)  # type: ignore[arg-type]
    if recipe.order is not None and len(table.user):
        ordered_events(inter, "this model", timed=recipe.order == "time")
    return inter if recipe.at_least is None else prepare.binarize(inter, recipe.at_least)


def _drop_empty(inter: Interactions) -> Interactions | None:
    """Without empty users and items; None if nothing is left."""
    return prepare.min_counts(inter) if inter.nnz else None
