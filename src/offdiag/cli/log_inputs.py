"""How `offdiag update` and `offdiag forget` read data: as the fit did, unless other columns are named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offdiag.cli import inputs
from offdiag.cli.inputs import FilteredColumns, option
from offdiag.data import formats, places
from offdiag.data.columns import Roles
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    from offdiag import Interactions
    from offdiag.data.table import Table
    from offdiag.living.ledger import Ledger, Recipe


@dataclass(frozen=True)
class LogColumns(inputs.Source):
    """Options of the commands that read a log. Column names default to those of the fit."""

    user: str | None = option("--user", "Column of users. Default: as in the fit.")
    item: str | None = option("--item", "Column of items. Default: as in the fit.")
    value: str | None = option("--value", "Column of ratings or counts, if the fit had one. Default: as in the fit.")
    time: str | None = option("--time", "Column of times, if the fit had one. Default: as in the fit.")
    event: str | None = option("--event", "Column of event ids, if the fit had one. Default: as in the fit.")


def read_first(
    source: str, columns: FilteredColumns, event: str | None, order: str | None = None
) -> tuple[Interactions, Ledger]:
    """The data of a fit, and the ledger of counted events; ``order`` as in its recipe."""
    import offdiag as od
    from offdiag.data.cleaning import check as check_cleaning
    from offdiag.data.read import read_table
    from offdiag.living import events, log_rows

    if inputs.is_dataset(source):
        if event is not None:
            raise OffdiagError(f"--event is for tables of your own, received the data set {source}; leave it out")
        inter = od.datasets.load(source)
        table, keep = log_rows.table_of(inter, order), log_rows.kept_of(inter, order)
        names = None
    else:
        inputs.check_threshold(source, columns)
        names = inputs.roles(columns, event)
        options = inputs.options(columns)
        check_cleaning(options.cleaning, names, columns.duplicates)
        if options.cleaning.negative == "net":
            raise OffdiagError(
                "--negative net joins rows, but --updatable counts each of them; leave one of the two out"
            )
        keep = "events" if columns.in_order and order is not None else "pairs"
        table = read_table(source, names, options)
    recipe = log_rows.recipe_of(table, names, columns.duplicates, columns.at_least, keep=keep, order=order)
    if names is not None:  # weights of actions make values, of which the source has no column
        recipe = replace(recipe, columns=names, cleaning=options.cleaning)
    inter, ledger = events.read_first(table, recipe)
    inter = replace(inter, columns=names)
    inputs.note_reading(inter.notes)
    return inter, ledger


def read_logs(sources: Sequence[str], recipe: Recipe, columns: LogColumns) -> Table:
    """One or more sources with the same layout, as one log, read as the fit would read it."""
    from offdiag.data.table import concatenate

    roles = _roles(recipe, columns)
    table = concatenate([_read(source, recipe, columns, roles) for source in sources])
    inputs.note_reading(table.notes)
    return table


def read_rows(source: str, recipe: Recipe, columns: LogColumns, ids: NDArray[Any] | None = None) -> Table:
    """The same, to forget: times and event ids may be missing. From a database, only the rows of `ids` are kept."""
    roles = _roles(recipe, columns)
    try:
        return _read(source, recipe, columns, roles, ids)
    except OffdiagError:
        # Times decide the order, and which of several values counts; otherwise users, items and values are enough.
        needed = recipe.order is not None or (recipe.duplicates == "once" and roles.value is not None)
        spare = ("event",) if needed else ("event", "time")
        fewer = roles.without(*(role for role in spare if getattr(columns, role) is None))
        if fewer == roles:
            raise
        return _read(source, recipe, columns, fewer, ids)


def check_rows(source: str, recipe: Recipe, columns: LogColumns) -> None:
    """Check that a file of users to forget holds rows, not only ids."""
    from offdiag.data.delimited import separator_of
    from offdiag.data.text_files import file_bytes

    if columns.separator or columns.form not in (None, "csv") or _is_typed(source, columns):
        return
    if not Path(source).is_file() and places.is_several(source):
        return
    head = file_bytes(_existing(source), columns.encoding)[:4096].decode("utf-8", "replace").strip()
    line = head.splitlines()[0] if head else ""
    words = {str(_roles(recipe, columns).item)} & set(line.split())
    if line and (not separator_of(line) or (separator_of(line) == " " and not words and not line[0].isdigit())):
        raise OffdiagError(
            f"expected all rows of the users (user and item), received only ids in {Path(source).name}; "
            "add --events LOG, which holds their rows"
        )


def read_ids(source: str, recipe: Recipe, columns: LogColumns, query: str | None = None) -> NDArray[Any]:
    """User ids: a column of a table or of a query, or a text file with one id per line."""
    import polars as pl

    from offdiag.data import sql
    from offdiag.data.cleaning import casefolded
    from offdiag.data.ids import checked_ids, whole_numbers

    name = _roles(recipe, columns).user
    if sql.is_source(source):
        found = sql.read_columns(source, {"user": name}, query=query, only_one=True)["user"]
    elif query is not None:
        raise OffdiagError(f"--users-query is for a database, received the file {source!r}; leave it out")
    elif (frame := formats.find(source, columns.form).frame) is not None:
        found = _one_column(frame(_existing(source)), name, source)
    else:
        found = _lines(source, columns, name)
    found = checked_ids(found, "user", inputs.name_of(source))
    if found.dtype == pl.Int64 and recipe.text_users and not _is_typed(source, columns):
        found = found.cast(pl.String)
    if found.dtype == pl.String and not recipe.text_users:
        numbers = whole_numbers(found)
        if numbers.has_nulls():
            other = found.filter(numbers.is_null())[0]
            raise OffdiagError(
                f"expected user ids that are whole numbers, as in the model, received {other!r} in "
                f"{inputs.name_of(source)}; give one id per line, or a column {name!r}"
            )
        found = numbers
    if found.dtype == pl.Int64 and recipe.text_users:
        raise OffdiagError(
            f"expected user ids that are text, as in the model, received whole numbers in {inputs.name_of(source)}; "
            "convert the column"
        )
    if found.dtype == pl.String and inputs.cleaning(columns, recipe.cleaning).normalise_users:
        found = casefolded(found)
    if not len(found):
        raise OffdiagError(f"expected at least one user id, received none in {inputs.name_of(source)}")
    return np.array(found.to_list())


def column_pairs(recipe: Recipe, columns: LogColumns) -> dict[str, str]:
    """For the screen: which columns were those of the fit, unless they are called as everywhere."""
    from offdiag.data.remembered import NAMED, are_usual

    used = {r: name for r, name in recipe.columns.present().items() if r in NAMED and getattr(columns, r) is None}
    return {} if are_usual(used) else {"columns": f"{inputs.column_text(used)}, as in the fit"}


def _roles(recipe: Recipe, columns: LogColumns) -> Roles:
    """The columns to read: those that the fit read, under the names given now or, by default, then."""
    given = {role: name for role in vars(Roles()) if (name := getattr(columns, role)) is not None}
    for role, name in given.items():
        if getattr(recipe.columns, role) is None:
            raise OffdiagError(
                f"expected no --{role}, because the model was fitted without one, received {name!r}; "
                "leave it out, or fit again with it"
            )
    return replace(recipe.columns, **{role: inputs.column(name) for role, name in given.items()})


def _read(source: str, recipe: Recipe, columns: LogColumns, roles: Roles, ids: NDArray[Any] | None = None) -> Table:
    import polars as pl

    from offdiag.data import sql
    from offdiag.data.read import read_table

    cleaning = inputs.cleaning(columns, recipe.cleaning)
    options = replace(inputs.options(columns), cleaning=cleaning)
    if ids is not None and sql.is_source(source) and columns.form is None and not cleaning.normalise_users:
        some = pl.Series(ids.tolist())

        def keep(batch: pl.DataFrame) -> pl.DataFrame:
            column = batch.get_column("user")
            alike = column.dtype.is_integer() == some.dtype.is_integer() and not column.dtype.is_float()
            return batch.filter(column.is_in(some)) if alike else batch  # otherwise the error is reported later

        return _check_kinds(read_table(source, roles, options, keep), recipe)
    table = read_table(source, roles, options)
    wanted = {"user": recipe.text_users, "item": recipe.text_items}
    digits = [role for role, text in wanted.items() if text and getattr(table, role).dtype == pl.Int64]
    if digits and not _is_typed(source, columns):  # in a text file digits may still be text; the model decides
        if source == places.STDIN:  # which can be read only once
            return _check_kinds(replace(table, **{r: getattr(table, r).cast(pl.String) for r in digits}), recipe)
        as_text = read_table(source, roles, replace(options, text_ids=True))
        table = replace(table, **{role: getattr(as_text, role) for role in digits})
    return _check_kinds(table, recipe)


def _check_kinds(table: Table, recipe: Recipe) -> Table:
    """The table with checked ids of the model's kinds, or an error that names both kinds."""
    import polars as pl

    from offdiag.data.ids import checked_ids

    user, item = checked_ids(table.user, "user", table.where), checked_ids(table.item, "item", table.where)
    for noun, column, text in (("user", user, recipe.text_users), ("item", item, recipe.text_items)):
        if len(column) and (column.dtype == pl.String) != text:
            kinds = {True: "text", False: "whole numbers"}
            raise OffdiagError(
                f"expected {noun} ids that are {kinds[text]}, as in the model, received {kinds[not text]} in "
                f"{table.where}; convert the column, or name the right one"
            )
    return replace(table, user=user, item=item)


def _is_typed(source: str, columns: LogColumns) -> bool:
    """Whether the source itself distinguishes numbers from text."""
    from offdiag.data import sql

    return sql.is_source(source) or formats.find(source, columns.form).frame is not None


def _existing(source: str) -> Path:
    path = Path(source)
    if not path.is_file():
        raise OffdiagError(f"expected a file, but {source!r} is not a file; check the path")
    return path


def _one_column(frame: Any, name: str | int, source: str) -> Any:
    from offdiag.data.frames import find_columns

    at = 0 if frame.width == 1 else find_columns(frame.columns, {"user": name}, Path(source).name)["user"]
    return frame.to_series(at)


def _lines(source: str, columns: LogColumns, name: str | int) -> Any:
    """One id per line, with or without the column name as header; or the column of that name in a table."""
    import polars as pl

    from offdiag.data.delimited import separator_of, split_lines
    from offdiag.data.text_files import file_bytes

    text = file_bytes(_existing(source), columns.encoding).decode("utf-8")
    lines = [line for line in text.splitlines() if line.strip()]
    if lines:
        divided = columns.separator or separator_of(lines[0]).strip(" ")  # an id may contain a space
        divided = inputs.SEPARATORS.get(divided, divided)
        if len(divided) == 1 and name in (head := next(split_lines([lines[0]], divided))) and len(head) > 1:
            at = head.index(str(name))
            rows = list(split_lines(lines[1:], divided))
            return pl.Series([row[at].strip() or None if at < len(row) else None for row in rows], dtype=pl.String)
        if lines[0].strip() == str(name):
            lines = lines[1:]
    return pl.Series([line.strip() for line in lines], dtype=pl.String)
