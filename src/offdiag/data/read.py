"""Read any table of interactions as Interactions."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import sparse

from offdiag.data import sql
from offdiag.data.delimited import read_delimited
from offdiag.data.failures import polars_failures
from offdiag.data.frames import columns_of_frame, is_frame
from offdiag.data.ids import given_ids
from offdiag.data.interactions import Interactions
from offdiag.data.lines import LINE_FORMATS, read_lines
from offdiag.data.parquet import read_parquet
from offdiag.data.sparse_rows import csr
from offdiag.data.table import Duplicates, Table, assemble, concatenate
from offdiag.errors import OffdiagError

Format = Literal["csv", "parquet", "adjacency", "baskets", "counted"]
FORMATS = ("csv", "parquet", *LINE_FORMATS)


def read(
    source: Any,
    user: str | int = "user",
    item: str | int = "item",
    value: str | int | None = None,
    time: str | int | None = None,
    *,
    duplicates: Duplicates | None = None,
    format: Format | None = None,  # noqa: A002 - the word a reader of the call expects
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

    `source` is a path (CSV, TSV, MovieLens `::`, Parquet; each also `.gz`), a list of such paths read as one
    table, a pandas, polars or pyarrow table, a scipy sparse matrix or 2-D array, or Interactions (returned
    unchanged). Or it is a connection string (`postgresql://…`, `duckdb:///file.db`, `sqlite:///file.db`, others through
    SQLAlchemy), or `env:NAME` for one in the environment, with a `query` or the name of a `table`.

    `user`, `item`, `value`, `time` name columns, or give their positions from 0. A file whose first line
    holds only numbers has no header; there users are column 0 and items column 1 unless given.

    `duplicates`: how to merge a (user, item) pair that occurs more than once. "sum" adds the values (counts
    the rows when there is no value column); "once" keeps the latest value (1 without a value column). By
    default "sum" with a value column and "once" without. The latest of their times is kept.

    `format`: "adjacency" (`user item item …` per line), "baskets" (`item item …`, users are line numbers
    from 0) and "counted" (`n item item …`, likewise); detected from the file name for tables.

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
    with polars_failures("a table of plain columns", "other content", "convert the columns to numbers, text or dates"):
        rows = read_table(
            source, user, item, value, time, format=format, separator=separator, header=header, text_ids=text_ids,
            encoding=encoding, query=query, table=table,
        )  # fmt: skip
        return assemble(rows, duplicates)


def read_table(
    source: Any,
    user: str | int = "user",
    item: str | int = "item",
    value: str | int | None = None,
    time: str | int | None = None,
    *,
    event: str | int | None = None,
    format: str | None = None,  # noqa: A002
    separator: str | None = None,
    header: bool | None = None,
    text_ids: bool = False,
    encoding: str = "utf-8",
    query: str | None = None,
    table: str | None = None,
) -> Table:
    """The rows as read, nothing merged; `read` turns them into Interactions. `event` is a column of event ids."""
    if sql.is_source(source):
        if format is not None:
            raise OffdiagError(f"expected no format with a database, received {format!r}; leave it out")
        return sql.read_sql(
            source, user, item, value, time, event=event, query=query, table=table, text_ids=text_ids
        )  # fmt: skip
    if query is not None or table is not None:
        raise OffdiagError(
            "expected query and table only with a database such as postgresql://…, received a file or a table; "
            "leave them out"
        )
    if is_frame(source):
        return columns_of_frame(source, user, item, value, time, text_ids, event=event)
    if isinstance(source, (str, os.PathLike)):
        paths = [Path(source)]
    elif isinstance(source, (list, tuple)) and source and all(isinstance(part, (str, os.PathLike)) for part in source):
        paths = [Path(part) for part in source]
    else:
        raise OffdiagError(
            "expected a path, a connection string, a pandas, polars or pyarrow table, a scipy sparse matrix or "
            f"Interactions, received {type(source).__name__}; convert it to one of these"
        )
    return concatenate(
        [
            _from_file(path, user, item, value, time, event, format, separator, header, text_ids, encoding)
            for path in paths
        ]
    )


def _from_file(
    path: Path,
    user: str | int,
    item: str | int,
    value: str | int | None,
    time: str | int | None,
    event: str | int | None,
    form: str | None,
    separator: str | None,
    header: bool | None,
    text_ids: bool,
    encoding: str,
) -> Table:
    if form is not None and form not in FORMATS:
        raise OffdiagError(f"expected format to be one of {', '.join(FORMATS)}, received {form!r}; choose one")
    if not path.exists():
        shown = "what may be a connection string" if sql.may_hold_a_secret(str(path)) else repr(str(path))
        raise OffdiagError(f"expected a file, received {shown}, which does not exist; check the path")
    if path.is_dir():
        raise OffdiagError(f"expected a file, received the folder {str(path)!r}; name a file inside it")
    if path.stat().st_size == 0:
        raise OffdiagError(f"expected a table, received the empty file {path.name}; is it complete?")
    if form in LINE_FORMATS:
        if value is not None or time is not None or event is not None:
            also = "" if event is None else f", event={event!r}"
            raise OffdiagError(
                f"expected neither value nor time with format={form!r}, whose lines hold ids only, "
                f"received value={value!r}, time={time!r}{also}; leave them out"
            )
        return read_lines(path, str(form), separator, text_ids, encoding)
    suffix = (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()
    if form == "parquet" or (form is None and suffix in (".parquet", ".pq")):
        return columns_of_frame(read_parquet(path), user, item, value, time, text_ids, where=path.name, event=event)
    if form is None and suffix in (".zip", ".tar", ".xlsx", ".xls", ".json", ".h5"):
        raise OffdiagError(
            f"expected CSV, TSV, Parquet or lines of ids, received {path.name}; unpack or convert it first"
        )
    return read_delimited(path, user, item, value, time, separator, header, text_ids, encoding, event)


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
    rows, cols = given_ids(user_ids, n_users, "user"), given_ids(item_ids, n_items, "item")
    if not n_users or not n_items:
        raise OffdiagError(
            f"expected at least one user and one item, received {n_users} x {n_items}; give a filled matrix"
        )
    coo = sparse.coo_array(source)
    empty = sparse.csr_array((n_users, n_items), dtype=np.float32)
    if coo.nnz == 0:
        return Interactions(csr(empty.data, empty.indices, empty.indptr, empty.shape), rows, cols)
    present = assemble(
        Table(
            pl.Series(np.asarray(coo.row, dtype=np.int64)),
            pl.Series(np.asarray(coo.col, dtype=np.int64)),
            pl.Series(np.asarray(coo.data, dtype=np.float64)),
            where="the matrix",
        ),
        duplicates,
    )
    # assemble numbers only ids that occur; put the empty rows and columns back.
    indptr = np.zeros(n_users + 1, dtype=np.int64)
    indptr[present.user_ids + 1] = np.diff(present.matrix.indptr)
    np.cumsum(indptr, out=indptr)
    matrix = csr(present.matrix.data, present.item_ids[present.matrix.indices], indptr, (n_users, n_items))
    # A matrix has no source table: its own order is the only one.
    return Interactions(matrix, rows, cols)
