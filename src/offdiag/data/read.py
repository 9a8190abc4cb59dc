"""Read any table of interactions as Interactions."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from offdiag.data import formats, sql
from offdiag.data.columns import Options, Roles
from offdiag.data.failures import polars_failures
from offdiag.data.frames import columns_of_frame, is_frame
from offdiag.data.ids import matrix_ids
from offdiag.data.interactions import Interactions
from offdiag.data.table import Duplicates, Table, assemble, build, check_duplicates, checked_values, concatenate
from offdiag.errors import OffdiagError


def read(
    source: Any,
    user: str | int = "user",
    item: str | int = "item",
    value: str | int | None = None,
    time: str | int | None = None,
    *,
    duplicates: Duplicates | None = None,
    format: formats.Name | None = None,  # noqa: A002 - the word a reader of the call expects
    separator: str | None = None,
    header: bool | None = None,
    text_ids: bool = False,
    encoding: str = "utf-8",
    user_ids: Iterable[Any] | None = None,
    item_ids: Iterable[Any] | None = None,
    query: str | None = None,
    table: str | None = None,
) -> Interactions:
    """Read interactions from a file, a database, a data frame or a matrix.

    `source` is the path of a file (of a format listed below, also `.gz`), a list of such paths read as one table,
    a pandas, polars or pyarrow table, a scipy sparse matrix or 2-D array, or Interactions (returned unchanged).
    Or it is a connection string (`postgresql://…`, `duckdb:///file.db`, `sqlite:///file.db`, others through
    SQLAlchemy), or `env:NAME` for one in the environment, with a `query` or the name of a `table`.

    `user`, `item`, `value`, `time` name columns, or give their positions from 0. A file whose first line
    holds only numbers has no header; there users are column 0 and items column 1 unless given.

    `duplicates`: how to merge a (user, item) pair that occurs more than once. "sum" adds the values (counts
    the rows when there is no value column); "once" keeps the latest value (1 without a value column). By
    default "sum" with a value column and "once" without. The latest of their times is kept.

    `format`: one of these; by default found from the file name.
    {formats}

    Ids stay integers when all are whole numbers, else text; `text_ids=True` always reads them as text.
    A value of 0 means no interaction. `user_ids` and `item_ids` are for a matrix only.

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
    options = Options(format, separator, header, text_ids, encoding, query, table)
    with polars_failures("a table of plain columns", "other content", "convert the columns to numbers, text or dates"):
        return assemble(read_table(source, Roles(user, item, value, time), options), duplicates)


if read.__doc__:  # not with python -OO
    read.__doc__ = read.__doc__.replace("    {formats}", formats.documentation())


def read_table(source: Any, roles: Roles, options: Options) -> Table:
    """The rows as read, nothing merged; `read` turns them into Interactions."""
    if sql.is_source(source):
        if options.format is not None:
            raise OffdiagError(f"expected no format with a database, received {options.format!r}; leave it out")
        return sql.read_sql(source, roles, options)
    if options.query is not None or options.table is not None:
        raise OffdiagError(
            "expected query and table only with a database such as postgresql://…, received a file or a table; "
            "leave them out"
        )
    if is_frame(source):
        return columns_of_frame(source, roles, options.text_ids)
    if isinstance(source, (str, os.PathLike)):
        paths = [Path(source)]
    elif isinstance(source, (list, tuple)) and source and all(isinstance(part, (str, os.PathLike)) for part in source):
        paths = [Path(part) for part in source]
    else:
        raise OffdiagError(
            "expected a path, a connection string, a pandas, polars or pyarrow table, a scipy sparse matrix or "
            f"Interactions, received {type(source).__name__}; convert it to one of these"
        )
    return concatenate([_from_file(path, roles, options) for path in paths])


def _from_file(path: Path, roles: Roles, options: Options) -> Table:
    formats.find(path, options.format)  # an unknown format is reported before a missing file
    if not path.exists():
        shown = "what may be a connection string" if sql.may_hold_a_secret(str(path)) else repr(str(path))
        raise OffdiagError(f"expected a file, received {shown}, which does not exist; check the path")
    if path.is_dir():
        raise OffdiagError(f"expected a file, received the folder {str(path)!r}; name a file inside it")
    if path.stat().st_size == 0:
        raise OffdiagError(f"expected a table, received the empty file {path.name}; is it complete?")
    return formats.read_file(path, roles, options)


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
