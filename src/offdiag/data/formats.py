"""The file formats that offdiag reads: a new one is an entry of `FORMATS` and its reader.

`od.read`, the command line, the tables of titles, event logs and the cluster take everything from here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from offdiag.data.columns import Options, Roles
from offdiag.data.delimited import read_delimited
from offdiag.data.lines import read_lines
from offdiag.data.parquet import parquet_schema, read_parquet, read_parquet_table
from offdiag.data.table import Table
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    import os

Name = Literal["csv", "parquet", "adjacency", "baskets", "counted"]  # the keys of FORMATS, for type checkers


@dataclass(frozen=True)
class Format:
    """One file format.

    `frame` is for formats that distinguish numbers from text: all columns, as a polars DataFrame. `schema` is for those
    that the workers of a cluster read in partitions: the type of each column and the number of rows, from the header.
    """

    read: Callable[[Path, Roles, Options], Table]
    about: str  # for the documentation
    suffixes: tuple[str, ...] = ()  # of file names, in lower case; each may be followed by .gz
    options: frozenset[str] = frozenset({"separator", "text_ids", "encoding"})  # that `read` uses
    layout: str = ""  # of a line, for --help
    frame: Callable[..., Any] | None = None
    schema: Callable[[str, str], tuple[dict[str, str], int]] | None = None


def _lines(form: str, layout: str, more: str = "") -> Format:
    return Format(partial(read_lines, form), f"`{layout}` on each line{more}", layout=layout)


_NUMBERED = "; users are line numbers from 0"
FORMATS: dict[str, Format] = {
    "csv": Format(
        read_delimited,
        "columns divided by a tab, comma, semicolon, `|`, `::` or spaces; for every other file name",
        options=frozenset({"separator", "header", "text_ids", "encoding"}),
    ),
    "parquet": Format(
        read_parquet_table,
        "for file names that end in .parquet or .pq",
        (".parquet", ".pq"),
        frozenset({"text_ids"}),
        frame=read_parquet,
        schema=parquet_schema,
    ),
    "adjacency": _lines("adjacency", "user item item …"),
    "baskets": _lines("baskets", "item item …", _NUMBERED),
    "counted": _lines("counted", "n item item …", _NUMBERED),
}
PARTITIONED = {name: form for name, form in FORMATS.items() if form.schema}  # that the workers of a cluster read
PARTITION_SUFFIXES = tuple(suffix for form in PARTITIONED.values() for suffix in form.suffixes)
_FOREIGN = (".zip", ".tar", ".xlsx", ".xls", ".json", ".h5")  # of formats that would only look like damaged text


def find(path: str | os.PathLike[str], name: str | None = None) -> Format:
    """The format of that name or, without one, of the file's name."""
    if name is None:
        return next((form for form in FORMATS.values() if _suffix(Path(path)) in form.suffixes), FORMATS["csv"])
    if name not in FORMATS:
        raise OffdiagError(f"expected format to be one of {', '.join(FORMATS)}, received {name!r}; choose one")
    return FORMATS[name]


def read_file(path: Path, roles: Roles, options: Options) -> Table:
    """The rows of an existing file."""
    if options.format is None and _suffix(path) in _FOREIGN:
        raise OffdiagError(
            f"expected CSV, TSV, Parquet or lines of ids, received {path.name}; unpack or convert it first"
        )
    return find(path, options.format).read(path, roles, options)


def schema(path: str, where: str) -> tuple[dict[str, str], int]:
    """The type of each column and the number of rows of a file of a partitioned format, without reading them."""
    found = find(path).schema
    assert found is not None, path
    return found(path, where)


def listing(layouts: bool = True) -> str:
    """The names in one line, with the layouts of lines."""
    names = [f"{name} ({form.layout})" if layouts and form.layout else name for name, form in FORMATS.items()]
    return f"{', '.join(names[:-1])} or {names[-1]}."


def documentation() -> str:
    """A line for each format."""
    return "\n".join(f"    - {name}: {form.about}" for name, form in FORMATS.items())


def _suffix(path: Path) -> str:
    return (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()
