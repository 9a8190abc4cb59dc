"""Columns of a pandas, polars or pyarrow table, converted to polars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from offdiag import checks
from offdiag.data.columns import Column, Roles
from offdiag.data.ids import as_text, mixed_ids
from offdiag.data.table import Table
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    import polars as pl

# Common names of these columns, in lower case without separators; used only for suggestions, never to guess.
_ALIASES = {
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
        return found
    asked = ", ".join(f"{role}={wanted[role]!r}" for role in missing)
    listed = ", ".join(map(str, names[:20])) + (", …" if len(names) > 20 else "")
    raise OffdiagError(f"expected {asked} among the columns of {where}, received {listed}; {_advice(names, wanted)}")


def _advice(names: list[Any], wanted: Mapping[str, Column]) -> str:
    tries = []
    for role, column in wanted.items():
        alike = [n for n in names if str(n).lower().replace("_", "").replace(" ", "") in _ALIASES[role]]
        if alike and column not in names:
            tries.append(f"{role}={alike[0]!r}")
    if tries:
        return "try " + ", ".join(tries)
    return "name the columns to use, e.g. user=…, item=…, or give their positions from 0"


def columns_of_frame(frame: Any, roles: Roles, text_ids: bool, where: str = "the table") -> Table:
    """The wanted columns of a table of any of the three libraries."""
    import polars as pl

    package = type(frame).__module__.partition(".")[0]
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    names = list(frame.column_names if package == "pyarrow" else frame.columns)
    columns: dict[str, pl.Series] = {}
    for role, position in find_columns(names, roles.present(), where).items():
        if package == "pandas":
            columns[role] = _from_pandas(frame.iloc[:, position], role, where)
        elif package == "pyarrow":
            columns[role] = pl.Series(pl.from_arrow(frame.column(position)))
        else:
            columns[role] = frame.to_series(position)
        if text_ids and role in ("user", "item"):
            columns[role] = as_text(columns[role], role, where)
    return Table(**columns, where=where)


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
    values = [v if ok else None for v, ok in zip(column.tolist(), present, strict=True)]
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
