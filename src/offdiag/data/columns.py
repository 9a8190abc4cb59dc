"""Which column of a table plays which role, and how the table is read."""

from __future__ import annotations

from dataclasses import dataclass, replace

Column = str | int  # a name, or a position from 0


@dataclass(frozen=True)
class Roles:
    """The columns of users and items and, if present, of values, times and event ids."""

    user: Column = "user"
    item: Column = "item"
    value: Column | None = None
    time: Column | None = None
    event: Column | None = None

    def present(self) -> dict[str, Column]:
        """Only the roles that have a column."""
        return {role: column for role, column in vars(self).items() if column is not None}

    def without(self, *roles: str) -> Roles:
        return replace(self, **dict.fromkeys(roles))  # type: ignore[arg-type]  # never of users or items


@dataclass(frozen=True)
class Options:
    """How to read a source, besides its columns: the arguments of `od.read` with the same names."""

    format: str | None = None
    separator: str | None = None
    header: bool | None = None
    text_ids: bool = False
    encoding: str = "utf-8"
    query: str | None = None
    table: str | None = None
