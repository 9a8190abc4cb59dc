"""Delimited text: detect separator, header and column types in the first lines, then read with polars."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offdiag.data.cleaning import MORE, table_of, wanted
from offdiag.data.columns import Column, Options, Roles
from offdiag.data.failures import polars_failures
from offdiag.data.frames import asked_for, find_columns
from offdiag.data.ids import is_whole_text, whole_numbers
from offdiag.data.table import Table
from offdiag.data.text_files import HEAD, as_utf8, check_encoding, ends_in_cr, file_bytes, is_utf8, packing_of
from offdiag.errors import MissingColumnsError, OffdiagError

if TYPE_CHECKING:
    import polars as pl

_RECBOLE = ("token", "float", "token_seq", "float_seq")  # types in the headers of its files
_SEPARATORS = ("::", "\t", ",", ";", "|")


@dataclass(frozen=True)
class _Layout:
    separator: str
    header: bool
    names: list[str]  # of all columns; column_1, … without a header
    found: dict[str, int]  # position of each wanted column


def read_delimited(path: Path, roles: Roles, options: Options) -> Table:
    check_encoding(options.encoding)
    source: Any = path
    with path.open("rb") as file:
        head = file.read(HEAD)
    if not is_utf8(options.encoding) or packing_of(path) or ends_in_cr(head):
        source = file_bytes(path, options.encoding)
        head = source[:HEAD]
    lines = _head_lines(head, len(head) < HEAD, path.name)
    layout = _layout(lines, roles, options, path.name)
    if len(layout.separator) > 1:
        # polars wants one byte; the unit separator does not occur in text.
        whole = source if isinstance(source, bytes) else file_bytes(path, options.encoding)
        source = whole.replace(layout.separator.encode(), b"\x1f")
        lines = [line.replace(layout.separator, "\x1f") for line in lines]
    types = _types(lines, layout, options, path.name)
    return _load(source, layout, types, options.text_ids, path.name)


def read_all(path: Path, options: Options, wanted: Collection[Column] = ()) -> pl.DataFrame:
    """All columns as text; `wanted` columns help to decide whether the first line is a header."""
    import polars as pl

    source = file_bytes(path, options.encoding)
    first, *others = _head_lines(source[:HEAD], len(source) < HEAD, path.name)
    separator = _separator(first, options, path.name)
    fields, second = _fields(first, separator), _fields(others[0], separator) if others else None
    plain = _plain_names(fields)
    header = bool(plain) or (_has_header(fields, second, wanted) if options.header is None else options.header)
    names = [name.strip() for name in plain or fields] if header else [f"column_{i + 1}" for i in range(len(fields))]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise OffdiagError(f"expected distinct names of columns, received {twice!r} twice in {path.name}; rename one")
    many = len(separator) > 1
    expected = f"a table divided by {separator!r} with {len(names)} columns"
    with polars_failures(expected, f"{path.name}, which could not be read", "check separator= and the quotes"):
        frame = pl.read_csv(
            source.replace(separator.encode(), b"\x1f") if many else source,
            has_header=False,
            skip_rows=int(header),
            separator="\x1f" if many else separator,
            schema=dict.fromkeys(names, pl.String),
            quote_char=None if many else '"',
        )
    return frame.filter(~pl.all_horizontal(pl.all().is_null()))  # blank lines


def _head_lines(head: bytes, complete: bool, name: str) -> list[str]:
    if not complete:
        head = head[: head.rfind(b"\n") + 1] or head
    if b"\x00" in head:
        raise OffdiagError(
            f"expected a text table, received binary data in {name}; give format= or encoding= (e.g. 'utf-16')"
        )
    text = as_utf8(head, "utf-8", name).decode("utf-8")
    lines = [line.rstrip("\r") for line in text.split("\n") if line.strip()]
    if not lines:
        raise OffdiagError(f"expected a table, received no lines in {name}; is the file complete?")
    return lines


def _layout(lines: list[str], roles: Roles, options: Options, name: str) -> _Layout:
    chosen = _separator(lines[0], options, name)
    first, second = _fields(lines[0], chosen), _fields(lines[1], chosen) if len(lines) > 1 else None
    columns = wanted(roles, options.more)
    plain = _plain_names(first)
    if plain or (_has_header(first, second, columns.values()) if options.header is None else options.header):
        return _Layout(chosen, True, plain or first, find_columns(plain or first, columns, name))
    names = [f"column_{i + 1}" for i in range(len(first))]
    if columns["user"] == "user" and columns["item"] == "item":
        _check_columns(lines, chosen, name)
    for position, role in enumerate(("user", "item")):
        if columns[role] == role:
            columns[role] = position
    by_name = [asked_for(role, column) for role, column in columns.items() if isinstance(column, str)]
    if by_name:
        raise MissingColumnsError(
            f"expected positions from 0 because {name} has no header, received {', '.join(by_name)}; "
            f"its first line is {lines[0][:60]!r}"
        )
    return _Layout(chosen, False, names, find_columns(names, columns, name))


def _check_columns(lines: list[str], separator: str, name: str) -> None:
    """Lines of ids would be read as a table of their first two; whoever names the columns means a table."""
    rows = [_fields(line, separator) for line in lines[:1000] if '"' not in line]  # a quoted field may span lines
    for row in rows:
        if len(row) != len(rows[0]) and sum(map(bool, row)) != sum(map(bool, rows[0])):
            raise OffdiagError(
                f"expected as many columns in every line of {name}, received {len(rows[0])} and {len(row)}; give "
                "format='sequence' if the lines are `user item item …` in order, 'adjacency' if in any order, "
                "'baskets' if they are `item item …`, or user=0 and item=1 to read two columns only"
            )


def _separator(first: str, options: Options, name: str) -> str:
    """The separator that is given, or that the first line suggests."""
    chosen = options.separator if options.separator is not None else separator_of(first)
    if not chosen:
        raise OffdiagError(
            f"expected columns divided by a tab, comma, semicolon, |, :: or space, received {first[:60]!r} as the "
            f"first line of {name}; give separator=, or format= for lines of ids"
        )
    if len(_fields(first, chosen)) < 2:
        found = separator_of(first)
        advice = f"it looks divided by {found!r}: give separator={found!r}" if found else "choose another separator"
        raise OffdiagError(
            f"expected columns divided by {chosen!r}, received one column {first[:60]!r} in {name}; {advice}"
        )
    return chosen


def _plain_names(header: list[str]) -> list[str]:
    """The names in the header of a RecBole file, such as user_id:token; none if it is another header."""
    parts = [name.strip().rpartition(":") for name in header]
    return [name for name, _, _ in parts] if all(kind in _RECBOLE and name for name, _, kind in parts) else []


def separator_of(line: str) -> str:
    best = max(_SEPARATORS, key=line.count)
    if best in line:
        return best
    return " " if " " in line.strip() else ""


def _fields(line: str, separator: str) -> list[str]:
    return line.split(separator) if len(separator) > 1 else next(split_lines([line], separator))


def split_lines(lines: list[str], separator: str) -> Iterator[list[str]]:
    try:
        yield from csv.reader(lines, delimiter=separator)
    except csv.Error as error:
        raise OffdiagError(
            f"expected lines with fields divided by {separator!r}, received some that cannot be taken apart ({error}); "
            "check the line ends and the quotes"
        ) from None


def _has_header(first: list[str], second: list[str] | None, wanted: Collection[Column]) -> bool:
    """A requested name, or a word above a number, means a header; a first line of numbers does not."""
    if any(isinstance(column, str) and column in first for column in wanted):
        return True
    if second is not None and any(not _is_number(a) and _is_number(b) for a, b in zip(first, second, strict=False)):
        return True
    if all(_is_number(field) for field in first):
        return False
    return not any(isinstance(column, int) for column in wanted)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _types(lines: list[str], layout: _Layout, options: Options, name: str) -> dict[str, Any]:
    """A polars type for each wanted column, from the first lines; polars itself would turn 007 into 7."""
    import polars as pl

    separator = "\x1f" if len(layout.separator) > 1 else layout.separator
    rows = list(split_lines(lines[int(layout.header) : 1000], separator))
    needed = max(layout.found.values()) + 1
    for line, row in enumerate(rows, start=int(layout.header) + 1):
        if len(row) < needed:
            raise OffdiagError(
                f"expected at least {needed} columns divided by {layout.separator!r}, received {len(row)} in line "
                f"{line} of {name}; repair the line or give separator="
            )
    types: dict[str, Any] = {}
    for role, position in layout.found.items():
        cells = [row[position] for row in rows if position < len(row) and row[position]]
        if role == "value":
            plain = options.cleaning.decimal == "." and all(_is_number(c) and c == c.strip() for c in cells)
            types[role] = pl.Float32 if plain else pl.String
        elif role.startswith(MORE):
            types[role] = pl.String  # converted when all of it is known
        else:
            is_text = role in ("user", "item") and (options.text_ids or not cells)
            types[role] = pl.Int64 if not is_text and all(map(is_whole_text, cells)) else pl.String
    return types


def _load(source: Any, layout: _Layout, types: dict[str, Any], text_ids: bool, name: str) -> Table:
    import polars as pl

    try:
        frame = _polars(source, layout, types)
    except pl.exceptions.PolarsError:
        # A later line does not fit the type of the first ones: read as text and check again.
        expected = f"a table divided by {layout.separator!r} with {len(layout.names)} columns"
        with polars_failures(expected, f"{name}, which could not be read", "check separator= and encoding="):
            frame = _polars(source, layout, dict.fromkeys(types, pl.String))
    columns = frame.to_dict()
    for role, column in columns.items():
        if column.dtype == pl.String:
            text = column.str.strip_chars()
            text = text.set(text == "", None)
            if role in ("user", "item"):
                text = text if text_ids else whole_if_all(text)
            columns[role] = _numbers_if_all(text) if role.startswith(MORE) else text
    return table_of(columns, name)


def _polars(source: Any, layout: _Layout, types: dict[str, Any]) -> pl.DataFrame:
    import polars as pl

    names = [f"column_{i}" for i in range(len(layout.names))]
    schema: dict[str, Any] = dict.fromkeys(names, pl.String)
    for role, kind in types.items():  # a column that plays two roles is read as text
        name = names[layout.found[role]]
        twice = sum(at == layout.found[role] for at in layout.found.values()) > 1
        schema[name] = pl.String if twice else kind

    def load(columns: list[str]) -> pl.DataFrame:
        return pl.read_csv(
            source,
            has_header=False,
            skip_rows=int(layout.header),
            separator="\x1f" if len(layout.separator) > 1 else layout.separator,
            columns=columns,
            schema=schema,
            quote_char=None if len(layout.separator) > 1 else '"',
        )

    wanted = {role: names[position] for role, position in layout.found.items()}
    frame = load(sorted(set(wanted.values())))
    if frame.get_column(wanted["user"]).has_nulls() and frame.get_column(wanted["item"]).has_nulls():
        # polars returns a blank line as a row of nulls; only a row where all fields are null is blank.
        blank = load(names).select(pl.all_horizontal(pl.all().is_null())).to_series()
        frame = frame.filter(~blank)
    return frame.select(**wanted)


def whole_if_all(column: pl.Series) -> pl.Series:
    """Text that holds only whole numbers without leading zeros becomes int64, also when written as 5.0."""
    point = r"^(-?\d{1,15})\.0+$"  # longer ones were rounded when written
    known = column.drop_nulls()
    # Checking the beginning first saves the full search for most text columns.
    for some in (known.head(100), known):
        if not len(some) or whole_numbers(some.str.replace(point, "${1}")).has_nulls():
            return column
    return whole_numbers(column.str.replace(point, "${1}"))


def _numbers_if_all(column: pl.Series) -> pl.Series:
    import polars as pl

    whole = whole_if_all(column)
    if whole.dtype != pl.String:
        return whole
    numbers = column.cast(pl.Float64, strict=False)
    return column if numbers.null_count() > column.null_count() else numbers
