"""Read any table of interactions as Interactions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from offdiag import checks
from offdiag.data import formats, places, sql
from offdiag.data.cleaning import check as check_cleaning
from offdiag.data.cleaning import clean, columns_of, wanted, with_columns
from offdiag.data.columns import Cleaning, Decimal, Missing, Negative, Options, Roles
from offdiag.data.dislikes import part_dislikes, with_dislikes
from offdiag.data.failures import polars_failures
from offdiag.data.frames import as_frame, columns_of_frame, is_frame
from offdiag.data.ids import is_whole_text, matrix_ids
from offdiag.data.interactions import Interactions
from offdiag.data.table import Duplicates, Keep, Table, assemble, build, check_duplicates, checked_values, concatenate
from offdiag.errors import OffdiagError


def read(
    source: Any,
    user: str | int = "user",
    item: str | int = "item",
    value: str | int | None = None,
    time: str | int | None = None,
    *,
    duplicates: Duplicates | None = None,
    keep: Keep = "pairs",
    format: formats.Name | None = None,  # noqa: A002 - the word a reader of the call expects
    separator: str | None = None,
    header: bool | None = None,
    text_ids: bool = False,
    encoding: str = "utf-8",
    user_ids: Iterable[Any] | None = None,
    item_ids: Iterable[Any] | None = None,
    query: str | None = None,
    table: str | None = None,
    missing: Missing = "error",
    negative: Negative = "error",
    decimal: Decimal = ".",
    date_format: str | None = None,
    normalise_users: bool = False,
    where: str | None = None,
    action: str | int | None = None,
    weights: Mapping[str, float] | None = None,
    dislike_below: float | None = None,
) -> Interactions:
    """Read interactions from a file, a database, a data frame or a matrix.

    `source` is the path of a file (of a format listed below, also `.gz`, `.bz2`, `.xz` or `.zst`), a `.zip` of such
    files, a folder or a pattern such as `"logs/*.csv"`, an address (`https://…`, `s3://…`, `gs://…`), `"-"` for stdin,
    or a list of these, read as one table. Folders called `key=value` add a column `key`.
    Or it is a pandas, polars or pyarrow table, a dict of columns, anything that streams Arrow (a relation of DuckDB),
    a scipy sparse matrix or 2-D array, or Interactions (returned unchanged).
    Or it is a connection string (`postgresql://…`, `duckdb:///file.db`, `sqlite:///file.db`, others through
    SQLAlchemy), or `env:NAME` for one in the environment, with a `query` or the name of a `table`. `"duckdb:"` is
    an empty database whose queries name files: `query="select … from 'clicks.jsonl'"`. `table` also names a sheet of
    a workbook or a file of an archive.

    `user`, `item`, `value`, `time` name columns, or give their positions from 0. A file whose first line
    holds only numbers has no header; there users are column 0 and items column 1 unless given.

    `duplicates`: how to merge a (user, item) pair that occurs more than once. "sum" adds the values (counts
    the rows when there is no value column); "once" keeps the latest value (1 without a value column). By
    default "sum" with a value column and "once" without. The latest of their times is kept.
    `keep="events"` also keeps every row as an event, in the order of time (of the table where times are equal or there
    is no time column), for models and splits that know the order: 4 bytes per event, 8 more with times. Values are then
    those of the latest event unless `duplicates="sum"`.

    `format`: one of these; by default found from the file name.
    {formats}

    Ids stay integers when all are whole numbers, else text; `text_ids=True` always reads them as text.
    A value of 0 means no interaction. `user_ids` and `item_ids` are for a matrix only.

    Rows that are not as they should be are an error, unless an option says what to do. What it does is counted in
    `Interactions.notes` and logged (logger "offdiag", level INFO).

    - `missing="drop"` drops rows without a user or an item.
    - `negative="drop"` drops rows with a negative value; `"net"` adds up the values of each user and item, and pairs
      of which nothing is left disappear.
    - `decimal=","` reads values such as 1.234,50; `date_format` reads times, e.g. `"%d.%m.%Y %H:%M"`.
    - `normalise_users=True` removes white space around user ids, and their case.
    - `where` keeps the rows for which a condition in SQL holds, over any columns: `"event = 'purchase'"`.
    - `dislike_below` makes values below it dislikes: they are kept apart, in `Interactions.dislikes`, for models that
      learn from them and as items not to recommend (docs/dislikes.md). Of a pair that is liked and disliked, the latest
      row counts; dislikes of items that nobody likes are left out.
    - `action` is a column of actions, and `weights` what each counts: `{"view": 1, "purchase": 5}`. A weight
      multiplies the value, if there is one; 0 drops the rows.

    Example:
        >>> import offdiag as od
        >>> with open("ratings.csv", "w") as file:
        ...     _ = file.write("user,item\\nann,Alien\\nann,Brazil\\nbob,Alien\\n")
        >>> inter = od.read("ratings.csv")
        >>> inter.n_users, inter.n_items, inter.nnz
        (2, 2, 3)
    """
    if isinstance(source, Interactions):
        return source
    if keep != "pairs" and (sparse.issparse(source) or isinstance(source, np.ndarray)):
        raise OffdiagError("expected a table of events for keep='events', received a matrix, which has no order")
    if sparse.issparse(source) or isinstance(source, np.ndarray):
        if value is not None or time is not None:
            raise OffdiagError(
                "expected value and time only with a table, received a matrix; its entries are the values"
            )
        return _from_matrix(source, duplicates, user_ids, item_ids)
    if user_ids is not None or item_ids is not None:
        raise OffdiagError(
            "expected user_ids and item_ids only with a matrix, received a table; name its columns instead"
        )
    cleaning = Cleaning(missing, negative, decimal, date_format, normalise_users, where, action, weights, dislike_below)
    roles = Roles(user, item, value, time)
    check_cleaning(cleaning, roles, duplicates)
    if checks.choice("keep", keep, ("pairs", "events")) == "events":
        if negative == "net":
            raise OffdiagError("keep='events' keeps every row, negative='net' joins them; leave one out")
        duplicates = duplicates or "once"
    options = Options(format, separator, header, text_ids, encoding, query, table, cleaning)
    with polars_failures("a table of plain columns", "other content", "convert the columns to numbers, text or dates"):
        rows = read_table(source, roles, options)
        if dislike_below is None:
            return replace(assemble(rows, duplicates, keep), columns=roles)
        liked, disliked = part_dislikes(rows, dislike_below)
        return replace(with_dislikes(assemble(liked, duplicates, keep), disliked), columns=roles)


if read.__doc__:  # not with python -OO
    read.__doc__ = read.__doc__.replace("    {formats}", formats.documentation())


def read_table(source: Any, roles: Roles, options: Options, keep: sql.Keep | None = None) -> Table:
    """The rows as read and cleaned, nothing merged; `read` turns them into Interactions.

    `keep` filters each batch of rows from a database (columns user, item, …) before anything else.
    """
    options = replace(options, more=columns_of(options.cleaning))
    return clean(_raw_table(source, roles, options, keep), options.cleaning)


def _raw_table(source: Any, roles: Roles, options: Options, keep: sql.Keep | None) -> Table:
    if sql.is_source(source):
        if options.format is not None:
            raise OffdiagError(f"expected no format with a database, received {options.format!r}; leave it out")
        return sql.read_sql(source, roles, options, keep)
    if options.query is not None:
        raise OffdiagError(
            "expected query only with a database such as postgresql://…, received a file or a table; leave it out, "
            "or read files through the source 'duckdb:'"
        )
    if isinstance(source, (str, os.PathLike)):
        return _from_files([source], roles, options)
    if isinstance(source, (list, tuple)) and source and all(isinstance(part, (str, os.PathLike)) for part in source):
        return _from_files(source, roles, options)
    frame = source if is_frame(source) else as_frame(source)
    if is_frame(frame):
        for name, given in (("format", options.format), ("separator", options.separator), ("table", options.table)):
            if given is not None:
                raise OffdiagError(f"expected {name}= only with a file, received a table in memory; leave it out")
        return columns_of_frame(frame, roles, options.text_ids, more=options.more)
    raise OffdiagError(
        "expected a path, a connection string, a pandas, polars or pyarrow table, a dict of columns, a scipy sparse "
        f"matrix or Interactions, received {type(source).__name__}; convert it to one of these"
    )


def _from_files(sources: Sequence[str | os.PathLike[str]], roles: Roles, options: Options) -> Table:
    tables: list[Table] = []
    notes: tuple[str, ...] = ()
    for source in sources:
        with places.local_files(source, options.format, options.table) as found:
            how = replace(options, table=None) if found.chosen else options
            tables += [_from_place(place, roles, how) for place in found.files]
            notes += found.notes
    cleaned = options.cleaning != Cleaning()  # then missing ids may go before they are checked
    table = concatenate(tables, gaps=cleaned)
    return replace(table, notes=notes + table.notes)


def _from_place(place: places.Place, roles: Roles, options: Options) -> Table:
    """The rows of a file, with the columns that the names of its folders give."""
    import polars as pl

    if place.path.stat().st_size == 0:
        raise OffdiagError(f"expected a table, received the empty file {place.name}; is it complete?")
    asked = wanted(roles, options.more)
    outside = {role: place.keys[str(column)] for role, column in asked.items() if column in place.keys}
    if not {"user", "item"}.isdisjoint(outside):
        raise OffdiagError(
            f"expected users and items in columns of {place.name}, received them as names of folders; "
            "name the columns inside the files"
        )
    roles = roles.without(*(role for role in outside if role in roles.present()))
    options = replace(options, more=tuple(column for column in options.more if column not in place.keys))
    table = replace(formats.read_file(place.path, roles, options), where=place.name)
    n = len(table.user)
    same = {
        role: pl.Series([int(text) if text is not None and is_whole_text(text) else text]).new_from_index(0, n)
        for role, text in outside.items()
    }
    return with_columns(table, same)


def _from_matrix(
    source: Any, duplicates: Duplicates | None, user_ids: Iterable[Any] | None, item_ids: Iterable[Any] | None
) -> Interactions:
    """Rows and columns keep their order; repeated entries of a COO matrix are merged by the same rule."""
    import polars as pl

    if source.ndim != 2:
        raise OffdiagError(f"expected a users x items matrix, received {source.ndim} dimension(s); reshape it first")
    if not (np.issubdtype(source.dtype, np.number) or source.dtype == bool) or np.iscomplexobj(source):
        raise OffdiagError(
            f"expected a matrix of real numbers, received {source.dtype}; use od.read on a table for ids"
        )
    n_users, n_items = source.shape
    rows, cols = matrix_ids(user_ids, n_users, "user"), matrix_ids(item_ids, n_items, "item")
    if not n_users or not n_items:
        raise OffdiagError(
            f"expected at least one user and one item, received {n_users} x {n_items}; give a filled matrix"
        )
    check_duplicates(duplicates)
    coo = sparse.coo_array(source)
    values = checked_values(pl.Series(np.asarray(coo.data, dtype=np.float64)), "the matrix")
    inter = build(coo.row, coo.col, values, None, rows, cols, duplicates or "sum")
    return replace(inter, rows=None)  # a matrix has no source table: its own order is the only one
