"""Which column of a table plays which role, how the table is read, and how it is cleaned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

Column = str | int  # a name, or a position from 0
Missing = Literal["error", "drop"]
Negative = Literal["error", "drop", "net"]
Decimal = Literal[".", ","]


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
class Cleaning:
    """What to do about rows that are not as they should be: the arguments of `od.read` with the same names."""

    missing: Missing = "error"
    negative: Negative = "error"
    decimal: Decimal = "."
    date_format: str | None = None
    normalise_users: bool = False
    where: str | None = None
    action: Column | None = None
    weights: Mapping[str, float] | None = None
    dislike_below: float | None = None


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
    cleaning: Cleaning = field(default_factory=Cleaning)
    more: tuple[Column, ...] = ()  # columns to read besides those with a role, for the cleaning
