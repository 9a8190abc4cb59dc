"""Columns of a pandas, polars or pyarrow table, converted to polars."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np

from offdiag import checks, wording
from offdiag.data.arrow_columns import series_of_arrow
from offdiag.data.cleaning import MORE, table_of
from offdiag.data.cleaning import wanted as wanted_columns
from offdiag.data.columns import Column, Roles
from offdiag.data.ids import as_text, mixed_ids, plain_ids
from offdiag.data.table import Table
from offdiag.errors import MissingColumnsError, OffdiagError

if TYPE_CHECKING:
    import polars as pl

# Common names of these columns, in lower case without separators. Those of interactions are used only for suggestions.
ALIASES = {
    "user": (
        "user", "userid", "uid", "username", "users", "customer", "customerid", "client", "clientid", "member",
        "memberid", "visitor", "visitorid", "reviewer", "reviewerid", "account", "accountid", "session",
        "sessionid", "person", "personid",
    ),
    "item": (
        "item", "itemid", "iid", "items", "movie", "movieid", "film", "filmid", "product", "productid", "song",
        "songid", "track", "trackid", "artist", "artistid", "book", "bookid", "isbn", "asin", "sku", "game",
        "gameid", "article", "articleid", "location", "locationid", "business", "businessid", "anime", "animeid",
    ),
    "value": ("value", "rating", "ratings", "score", "stars", "count", "counts", "plays", "weight", "quantity"),
    "event": ("event", "eventid", "id", "uuid", "key", "eventuuid", "messageid", "offset"),
    "time": ("time", "timestamp", "timestamps", "date", "datetime", "ts", "createdat", "unixreviewtime"),
}  # fmt: skip


def is_frame(source: Any) -> bool:
    """A pandas or polars DataFrame, a polars LazyFrame or a pyarrow Table, recognised without an import."""
    name = f"{type(source).__module__.partition('.')[0]}.{type(source).__name__}"
    return name in ("pandas.DataFrame", "polars.DataFrame", "polars.LazyFrame", "pyarrow.Table")


def find_columns(names: list[Any], wanted: Mapping[str, Column], where: str) -> dict[str, int]:
    """Position of each wanted column, by name or position; the error lists the columns found and what to try."""
    found: dict[str, int] = {}
    missing: list[str] = []
    for role, column in wanted.items():
        if column in names:
            found[role] = names.index(column)
        elif checks.is_whole(column) and 0 <= int(column) < len(names):
            found[role] = int(column)
        else:
            missing.append(role)
    if not missing:
        at = {role: place for role, place in found.items() if not role.startswith(MORE)}
        if len(set(at.values())) < len(at):
            twice = ", ".join(f"{role}={names[place]!r}" for role, place in at.items())
            raise OffdiagError(f"expected a different column for each argument, received {twice}; name each once")
        return found
    asked = ", ".join(asked_for(role, wanted[role]) for role in missing)
    listed = ", ".join(map(str, names[:20])) + (", …" if len(names) > 20 else "")
    raise MissingColumnsError(
        f"expected {asked} among the columns of {where}, received {listed}; {_advice(names, wanted, missing)}"
    )


def asked_for(role: str, column: Column) -> str:
    """A wanted column as the caller named it."""
    return f"the column {column!r}" if role.startswith(MORE) else f"{role}={column!r}"


def _advice(names: list[Any], wanted: Mapping[str, Column], missing: Sequence[str]) -> str:
    if all(role.startswith(MORE) for role in missing):  # of a condition, or an action
        near = wording.suggestion(str(wanted[missing[0]]), list(map(str, names)))
        return f"check its spelling{near}" if near else "text in a condition is put in single quotes"
    tries = []
    for role, column in wanted.items():
        alike = [n for n in names if folded(n) in ALIASES.get(role, ())]
        if alike and column not in names:
            tries.append(f"{role}={alike[0]!r}")
    if tries:
        return "try " + ", ".join(tries)
    return "name the columns to use, e.g. user=…, item=…, or give their positions from 0"


def folded(name: Any) -> str:
    """The name of a column as it is compared with common ones."""
    return re.sub(r"[_\s-]", "", str(name).lower())


def columns_of_frame(
    frame: Any, roles: Roles, text_ids: bool, where: str = "the table", more: Sequence[Column] = ()
) -> Table:
    """The wanted columns of a table of any of the three libraries."""
    import polars as pl

    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    names = list(frame.column_names if _package(frame) == "pyarrow" else frame.columns)
    return columns_at(frame, find_columns(names, wanted_columns(roles, more), where), text_ids, where)


def polars_frame(frame: Any, where: str = "the table") -> pl.DataFrame:
    """All columns of a table of any of the three libraries; columns of one name are an error."""
    import polars as pl

    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    names = [str(name) for name in (frame.column_names if _package(frame) == "pyarrow" else frame.columns)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise OffdiagError(f"expected distinct names of columns, received {twice!r} twice in {where}; rename one")
    if isinstance(frame, pl.DataFrame):
        return frame
    if _package(frame) == "pyarrow":
        return pl.DataFrame({name: series_of_arrow(frame.column(at)) for at, name in enumerate(names)})
    return pl.DataFrame({name: _from_pandas(frame.iloc[:, at], name, where) for at, name in enumerate(names)})


def columns_at(frame: Any, positions: Mapping[str, int], text_ids: bool, where: str) -> Table:
    """The columns at these positions."""

    columns: dict[str, pl.Series] = {}
    for role, position in positions.items():
        if _package(frame) == "pandas":
            columns[role] = _from_pandas(frame.iloc[:, position], role, where)
        elif _package(frame) == "pyarrow":
            columns[role] = series_of_arrow(frame.column(position))
        else:
            columns[role] = frame.to_series(position)
        if role in ("user", "item"):
            columns[role] = plain_ids(columns[role])
            if text_ids:
                columns[role] = as_text(columns[role], role, where)
    return table_of(columns, where)


def as_frame(source: Any) -> Any:
    """A table of another kind as one that `is_frame`: a dict of columns, a pyarrow Dataset, any stream of Arrow."""
    import polars as pl

    if isinstance(source, Mapping):
        if not all(isinstance(name, str) for name in source):
            raise OffdiagError("expected a dict of columns by name, received other keys; name the columns")
        lengths = {str(name): len(column) for name, column in source.items() if hasattr(column, "__len__")}
        if len(lengths) < len(source) or len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name}: {lengths.get(str(name), 'not a column')}" for name in source)
            raise OffdiagError(f"expected columns of one length, received {wording.cut(shown, 100)}; make them equal")
        columns = {name: _series(column, str(name)) for name, column in source.items()}
        return pl.DataFrame(columns)
    if _package(source) == "pyarrow" and hasattr(source, "to_table"):
        return source.to_table()
    if hasattr(source, "__arrow_c_stream__"):  # pyarrow's RecordBatchReader, relations of DuckDB and others
        return pl.DataFrame(_Stream(source))
    return source


class _Stream:
    """Any source of Arrow batches. Polars keeps the classes that it has seen, which DuckDB reports as leaks at exit."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._source.__arrow_c_stream__(requested_schema)


def _series(column: Any, name: str) -> pl.Series:
    import polars as pl

    if isinstance(column, (pl.Series, np.ndarray)):
        return pl.Series(column)
    if _package(column) == "pandas":
        return _from_pandas(column, name, "the table")
    return _from_values(list(column), name, "the table")


def _package(source: Any) -> str:
    return type(source).__module__.partition(".")[0]


def _from_pandas(column: Any, role: str, where: str) -> pl.Series:
    """NumPy columns are passed on as they are; others value by value, so that mixed types are detected."""
    import polars as pl

    kind = getattr(column.dtype, "kind", "O")
    if kind in "iufb" and type(column.dtype).__module__.startswith("numpy"):
        return pl.Series(column.to_numpy())
    if kind == "M":
        if getattr(column.dtype, "tz", None) is not None:
            column = column.dt.tz_convert("UTC").dt.tz_localize(None)
        return pl.Series(column.to_numpy())
    if type(column.dtype).__name__ == "CategoricalDtype":
        categories = _from_pandas(column.cat.categories.to_series(), role, where)
        codes = pl.Series(column.cat.codes.to_numpy()).cast(pl.Int64)
        return categories.gather(codes.set(codes < 0, None))
    present = column.notna().to_numpy()
    return _from_values([v if ok else None for v, ok in zip(column.tolist(), present, strict=True)], role, where)


def _from_values(values: list[Any], role: str, where: str) -> pl.Series:
    import polars as pl

    values = [str(value) if isinstance(value, UUID) else value for value in values]
    kinds = {type(v) for v in values if v is not None}
    numbers = all(issubclass(k, (int, float)) or hasattr(k, "__index__") for k in kinds)
    if len(kinds) > 1 and not numbers:
        if role in ("user", "item"):
            raise mixed_ids(role, where)
        raise OffdiagError(
            f"expected one type in the {role} column of {where}, received "
            f"{', '.join(sorted(k.__name__ for k in kinds))}; convert the column first"
        )
    try:
        return pl.Series(values, strict=False)
    except (UnicodeError, OverflowError, TypeError, ValueError) as error:
        # An unpaired surrogate, a number beyond 128 bits, objects of a custom class
        raise OffdiagError(
            f"expected numbers or text in the {role} column of {where}, received values that are neither "
            f"({str(error).splitlines()[0][:100]}); repair or convert the column first"
        ) from None
