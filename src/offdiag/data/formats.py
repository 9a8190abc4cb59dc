"""The file formats that offdiag reads: a new one is an entry of `FORMATS` and its reader.

`od.read`, the command line, the tables of titles, event logs and the cluster take everything from here. Compressions,
which apply to every format, are in `text_files.PACKINGS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from offdiag.data.columns import Options, Roles
from offdiag.data.delimited import read_delimited
from offdiag.data.frames import columns_of_frame
from offdiag.data.lines import read_lines
from offdiag.data.parquet import parquet_schema, read_parquet, verify_pages
from offdiag.data.table import Table
from offdiag.data.text_files import PACKINGS
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    import os

    import polars as pl

Name = Literal["csv", "parquet", "adjacency", "baskets", "counted"]  # the keys of FORMATS, for type checkers


class FrameReader(Protocol):
    """All columns of a file, or those at certain positions; `name` is for messages."""

    def __call__(self, path: Path, columns: list[int] | None = None, name: str | None = None) -> pl.DataFrame: ...


@dataclass(frozen=True)
class Format:
    """One file format.

    `frame` is for formats that distinguish numbers from text. `schema` is for those of them that the workers of a
    cluster read in partitions: the type of each column and the number of rows, from the header of the file at a path.
    `verify` compares columns of such a file with the checksums stored in it, if the format has any.
    """

    read: Callable[[Path, Roles, Options], Table]
    about: str  # for the documentation
    suffixes: tuple[str, ...] = ()  # of file names, in lower case; each may be followed by that of a packing
    options: frozenset[str] = frozenset({"separator", "text_ids", "encoding"})  # that `read` uses
    layout: str = ""  # of a line, for --help
    frame: FrameReader | None = None
    schema: Callable[[str, str], tuple[dict[str, str], int]] | None = None
    verify: Callable[[str, list[str], str], None] | None = None


def typed(frame: FrameReader, about: str, *suffixes: str) -> Format:
    """A format whose columns have types, so that they are read like those of a data frame."""

    def read(path: Path, roles: Roles, options: Options) -> Table:
        return columns_of_frame(frame(path), roles, options.text_ids, path.name)

    return Format(read, about, suffixes, frozenset({"text_ids"}), frame=frame)


def _lines(form: str, layout: str, more: str = "") -> Format:
    return Format(partial(read_lines, form), f"`{layout}` on each line{more}", layout=layout)


_NUMBERED = "; users are line numbers from 0"
FORMATS: dict[str, Format] = {
    "csv": Format(
        read_delimited,
        "columns divided by a tab, comma, semicolon, `|`, `::` or spaces; for every other file name",
        options=frozenset({"separator", "header", "text_ids", "encoding"}),
    ),
    "parquet": replace(
        typed(read_parquet, "for file names that end in .parquet or .pq", ".parquet", ".pq"),
        schema=parquet_schema,
        verify=verify_pages,
    ),
    "adjacency": _lines("adjacency", "user item item …"),
    "baskets": _lines("baskets", "item item …", _NUMBERED),
    "counted": _lines("counted", "n item item …", _NUMBERED),
}
_FOREIGN = (".zip", ".tar", ".xlsx", ".xls", ".json", ".h5")  # of formats that would only look like damaged text


def find(path: str | os.PathLike[str], name: str | None = None) -> Format:
    """The format of that name or, without one, of the file's name."""
    if name is None:
        return next((form for form in FORMATS.values() if _suffix(path) in form.suffixes), FORMATS["csv"])
    if name not in FORMATS:
        raise OffdiagError(f"expected format to be one of {', '.join(FORMATS)}, received {name!r}; choose one")
    return FORMATS[name]


def read_file(path: Path, roles: Roles, options: Options) -> Table:
    """The rows of an existing file."""
    form = find(path, options.format)
    if options.format is None and not form.suffixes and _suffix(path) in _FOREIGN:
        known = ", ".join(FORMATS)
        raise OffdiagError(f"expected a file in one of the formats {known}, received {path.name}; convert it first")
    return form.read(path, roles, options)


def partitioned() -> dict[str, Format]:
    """The formats that the workers of a cluster read, by name."""
    return {name: form for name, form in FORMATS.items() if form.schema}


def partition_suffixes() -> tuple[str, ...]:
    """The ends of the names of their files."""
    return tuple(suffix for form in partitioned().values() for suffix in form.suffixes)


def listing() -> str:
    """The names in one line, with the layouts of lines."""
    names = [f"{name} ({form.layout})" if form.layout else name for name, form in FORMATS.items()]
    return f"{', '.join(names[:-1])} or {names[-1]}."


def documentation() -> str:
    """A line for each format."""
    return "\n".join(f"    - {name}: {form.about}" for name, form in FORMATS.items())


def _suffix(path: str | os.PathLike[str]) -> str:
    *_, last, end = ["", "", *(suffix.lower() for suffix in Path(path).suffixes)]
    return last if end in PACKINGS else end
