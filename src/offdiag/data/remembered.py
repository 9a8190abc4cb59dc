"""Read a table with the columns of an earlier one, where it has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from offdiag.data import places
from offdiag.data.columns import Roles
from offdiag.data.interactions import Interactions
from offdiag.data.read import read
from offdiag.errors import MissingColumnsError

USUAL = Roles()
NAMED = ("user", "item", "value", "time")  # the roles that ``read`` takes


def read_remembered(
    source: Any, columns: Roles | None, *, optional: tuple[str, ...] = ("time", "value"), **reading: Any
) -> Interactions:
    """``od.read``; a column that ``reading`` does not name is that of ``columns``, if the table has it.

    Columns of ``optional`` roles may be missing, and users and items may have their usual names. The notes say what was
    used; a caller who does not show them should not let values be optional.
    """
    before = {} if columns is None else {role: name for role, name in vars(columns).items() if role in NAMED}
    chosen = {role: name for role, name in before.items() if role not in reading and name is not None}
    if are_usual(chosen):
        return read(source, **reading)
    first: MissingColumnsError | None = None
    for attempt in _attempts(chosen, optional):
        try:
            inter = read(source, **attempt | reading)
        except MissingColumnsError as error:
            first = first or error
            if isinstance(source, str) and source == places.STDIN:  # which can be read only once
                break
            continue
        return replace(inter, notes=(*_notes(chosen, attempt), *inter.notes))
    assert first is not None
    raise first


def are_usual(columns: Mapping[str, Any]) -> bool:
    """Whether the columns are those that ``read`` uses without being asked to."""
    return all(name == getattr(USUAL, role) for role, name in columns.items())


def _attempts(chosen: Mapping[str, Any], optional: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The columns to try, best first: users and items as remembered or usual, each with what else is there."""
    ids, more = ({role: chosen[role] for role in roles if role in chosen} for roles in (NAMED[:2], NAMED[2:]))
    for who in (ids, {}) if ids else ({},):
        for left_out in ((), ("time",), ("value",), ("time", "value")):
            if all(role in more and role in optional for role in left_out):
                yield who | {role: name for role, name in more.items() if role not in left_out}


def _notes(chosen: Mapping[str, Any], used: Mapping[str, Any]) -> Iterator[str]:
    if used:
        yield "columns as in the fit: " + ", ".join(f"{role}={name!r}" for role, name in used.items())
    for role, effect in (("value", "every row counts as 1"), ("time", "the rows are in the order of the table")):
        if role in chosen and role not in used:
            yield f"no column {chosen[role]!r} here, which held the {role}s of the fit: {effect}"
