"""Rows of a database as a stream: PostgreSQL, DuckDB and SQLite through ADBC, others through SQLAlchemy.

A source is a connection string, or `env:NAME` for one in the environment. It is read-only if the driver supports that,
nothing is ever committed, and no part of a password reaches a message: errors are scrubbed and carry no cause.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote
from uuid import UUID

from offdiag.data import remote
from offdiag.data.arrow_columns import series_of_arrow
from offdiag.data.cleaning import table_of
from offdiag.data.cleaning import wanted as wanted_columns
from offdiag.data.columns import Column, Options, Roles
from offdiag.data.frames import find_columns
from offdiag.data.ids import as_text
from offdiag.data.table import Table
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    import polars as pl

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
IN_MEMORY = "duckdb:"  # queries files by their names: select … from 'clicks.jsonl'
_ROWS = 1 << 16  # per batch; smaller batches from a driver are joined
_SECRET = re.compile(r"pass|pwd|secret|token|key", re.IGNORECASE)
Tables = Generator[Any, None, None]  # Arrow tables, one per batch of rows
Keep = Callable[["pl.DataFrame"], "pl.DataFrame"]
Statement = Callable[[Callable[[str], str]], str]


def is_source(source: object) -> bool:
    """Whether a text names a database rather than a file."""
    if not isinstance(source, str) or remote.is_address(source) or source.startswith("file://"):
        return False
    return source == IN_MEMORY or source.startswith("env:") or _URL.match(source) is not None


def may_hold_a_secret(text: str) -> bool:
    """Whether text that names no file could be a mistyped connection string, which must not be repeated."""
    return "@" in text or ("=" in text and _SECRET.search(text) is not None)


def shown(source: str) -> str:
    """The source as it may be printed: no user, no password, no settings."""
    if not _URL.match(source):
        return source
    scheme, _, rest = source.partition("://")
    account, _, place = rest.rpartition("@")
    # A password may hold an @ or a ? that should have been percent-encoded: then its end is ambiguous.
    return f"{scheme}://…" if "?" in account else f"{scheme}://{place.partition('?')[0]}"


def read_sql(source: str, roles: Roles, options: Options, keep: Keep | None = None) -> Table:
    """The wanted columns of a query or a table. `keep` filters each batch (columns user, item, …) as it arrives."""
    wanted = wanted_columns(roles, options.more)
    columns = read_columns(source, wanted, query=options.query, table=options.table, keep=keep)
    place = _place(source)
    for role in ("user", "item") if options.text_ids else ():
        columns[role] = as_text(columns[role], role, place)
    return table_of(columns, place)


def read_columns(
    source: str,
    wanted: Mapping[str, Column],
    *,
    query: str | None = None,
    table: str | None = None,
    keep: Keep | None = None,
    only_one: bool = False,
) -> dict[str, pl.Series]:
    """A column for each role of `wanted`. With `only_one`, a single-column result is used whatever its name."""
    import polars as pl

    url, place = _connection_string(source), _place(source)
    statement = _statement(query, table, list(wanted.values()), place)
    parts: list[pl.DataFrame] = []
    with _scrub_errors(url, place), closing(_tables(url, statement, place)) as tables:
        for each in tables:
            if only_one and each.num_columns == 1:
                found = dict.fromkeys(wanted, 0)
            else:
                found = find_columns(each.column_names, wanted, place)
            part = pl.DataFrame({role: series_of_arrow(each.column(at)) for role, at in found.items()})
            parts.append(part if keep is None else keep(part))
    # Chunks are not copied into one: the result is in memory only once.
    whole = pl.concat(parts, how="vertical_relaxed", rechunk=False)
    return {role: whole.get_column(role) for role in wanted}


def read_all(source: str, query: str | None = None, table: str | None = None) -> pl.DataFrame:
    """All columns of a query or a table."""
    import polars as pl

    url, place = _connection_string(source), _place(source)
    statement = _statement(query, table, [0], place)  # a position: all columns are selected
    with _scrub_errors(url, place), closing(_tables(url, statement, place)) as tables:
        parts = [
            pl.DataFrame({name: series_of_arrow(each.column(at)) for at, name in enumerate(each.column_names)})
            for each in tables
        ]
    return pl.concat(parts, how="vertical_relaxed")


def _connection_string(source: str) -> str:
    if source == IN_MEMORY:
        return "duckdb://"
    if not source.startswith("env:"):
        scheme, mark, rest = source.partition("://")
        return scheme.lower() + mark + rest
    name = source.removeprefix("env:")
    found = os.environ.get(name, "")
    if not _URL.match(found):
        state = "not set" if not found else "no connection string"
        raise OffdiagError(
            f"expected a connection string such as postgresql://… in the environment variable {name!r}, which is "
            f"{state}; export it first"
        )
    return found


def file_of(source: str) -> Path | None:
    """The file behind a source, if it is a file database."""
    with suppress(OffdiagError):
        url = _connection_string(source) if is_source(source) else ""
        if url.partition("://")[0].lower() in ("duckdb", "sqlite"):
            # Three slashes and a relative path, or four slashes and an absolute one.
            name = unquote(url.partition("://")[2].partition("?")[0].removeprefix("/"))
            return Path(name) if name not in ("", ":memory:") else None
    return None


def _place(source: str) -> str:
    """The name of the source in messages."""
    return f"the database of {source}" if source.startswith("env:") else shown(source)


def _statement(query: str | None, table: str | None, columns: Sequence[str | int], place: str) -> Statement:
    """The SQL to send, given how the database quotes a name."""
    if (query is None) == (table is None):
        raise OffdiagError(
            f"expected a query or a table to read from {place}, received {'neither' if query is None else 'both'}; "
            "give one of the two"
        )
    if query is not None:
        if not query.strip():
            raise OffdiagError(f"expected a query to read from {place}, received an empty one; e.g. select …")
        sent = query.strip().rstrip(";").rstrip()
        return lambda _: sent
    names = list(dict.fromkeys(column for column in columns if isinstance(column, str)))
    everything = len(names) < len(set(columns))  # a position is meaningless if only some columns are selected
    place_of = str(table).split(".")
    return lambda quoted: (
        f"select {'*' if everything else ', '.join(map(quoted, names))} from {'.'.join(map(quoted, place_of))}"
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _tables(url: str, statement: Statement, place: str) -> Tables:
    scheme = url.partition("://")[0].lower()
    path = file_of(url)
    if path and not path.is_file():
        raise OffdiagError(f"expected a database file, but {str(path)!r} is not a file; check the path")
    if scheme == "duckdb":
        driver, dbapi = _driver("adbc_driver_duckdb", place), _driver("adbc_driver_manager.dbapi", place)
        # Its own `connect` has no read-only option, and would create a missing file.
        how = {"path": ":memory:"} if path is None else {"path": str(path), "access_mode": "READ_ONLY"}
        opened = dbapi.connect(
            driver=driver.driver_path(), entrypoint="duckdb_adbc_init", db_kwargs=how, autocommit=True
        )
    elif scheme == "sqlite":
        opened = _driver("adbc_driver_sqlite.dbapi", place).connect(f"file:{quote(str(path))}?mode=ro")
    elif scheme in ("postgresql", "postgres"):
        opened = _driver("adbc_driver_postgresql.dbapi", place).connect(url)
    else:
        yield from _sqlalchemy(url, statement, place)
        return
    with opened as connection:
        if scheme in ("postgresql", "postgres"):
            with connection.cursor() as cursor:
                cursor.execute("set transaction read only")  # and it is never committed
        yield from _batches(connection, statement(_quoted))


def _driver(name: str, place: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise OffdiagError(
            f"expected the driver {name.partition('.')[0]} to read {place}, received none; pip install 'offdiag[sql]'"
        ) from None


def _batches(connection: Any, statement: str) -> Tables:
    import pyarrow

    with connection.cursor() as cursor:
        cursor.execute(statement)
        reader = cursor.fetch_record_batch()
        held: list[Any] = []
        for batch in reader:
            held.append(batch)
            if sum(part.num_rows for part in held) >= _ROWS:
                yield pyarrow.Table.from_batches(held)
                held = []
        yield pyarrow.Table.from_batches(held, schema=reader.schema)  # also without rows, for its columns


def _sqlalchemy(url: str, statement: Statement, place: str) -> Tables:
    import pyarrow

    try:
        sqlalchemy: Any = importlib.import_module("sqlalchemy")
    except ImportError:
        raise OffdiagError(
            f"expected a postgresql://, duckdb:/// or sqlite:/// source, received {place}; "
            "pip install sqlalchemy and the driver of that database to read it"
        ) from None
    try:
        engine = sqlalchemy.create_engine(url)
    except ImportError as error:  # the driver of that database
        raise OffdiagError(
            f"expected the driver of {url.partition('://')[0]!r} to read {place}, received none ({error}); install it"
        ) from None
    sent = statement(engine.dialect.identifier_preparer.quote_identifier).replace(":", "\\:")  # no parameters
    try:
        with engine.connect() as connection:
            rows = connection.execution_options(stream_results=True, yield_per=_ROWS).execute(sqlalchemy.text(sent))
            names = list(rows.keys())
            some = False
            for part in rows.partitions():
                some = True
                columns = [[str(v) if isinstance(v, UUID) else v for v in column] for column in zip(*part, strict=True)]
                yield pyarrow.Table.from_arrays([pyarrow.array(column) for column in columns], names=names)
            if not some:
                yield pyarrow.Table.from_arrays([pyarrow.nulls(0) for _ in names], names=names)
    finally:
        engine.dispose()


@contextmanager
def _scrub_errors(url: str, place: str) -> Iterator[None]:
    """Turn any driver error into one line without secrets; the cause is dropped, because it may hold one."""
    try:
        yield
    except OffdiagError:
        raise
    except Exception as error:
        text = _scrub(" ".join(str(error).split()), url)[:300]
        raise OffdiagError(
            f"expected all rows from {place}, received an error from the database ({text}); "
            "nothing was changed: see to it and run this again"
        ) from None


def _scrub(text: str, url: str) -> str:
    """The text without the connection string and without any secret in it, encoded or not."""
    account, _, rest = url.partition("://")[2].rpartition("@")
    secrets = [account.partition(":")[2], account.partition("/")[0].partition("@")[0].partition(":")[2]]
    for settings in (url.partition("?")[2], rest.partition("?")[2]):
        secrets += [value for name, value in parse_qsl(settings) if _SECRET.search(name)]
    secrets += [unquote(secret) for secret in secrets]
    text = text.replace(url, shown(url))
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text
