"""The file formats that offdiag reads: a new one is an entry of `FORMATS` and its reader.

`od.read`, the command line, the tables of titles, event logs and the cluster take everything from here. Compressions,
which apply to every format, are in `text_files.PACKINGS`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from offdiag.data.arrow_files import MAGIC, read_arrow
from offdiag.data.cleaning import wanted
from offdiag.data.columns import Column, Options, Roles
from offdiag.data.delimited import read_all, read_delimited
from offdiag.data.excel import read_excel, read_sheet, read_whole_sheet
from offdiag.data.frames import columns_at, columns_of_frame, find_columns
from offdiag.data.json_files import read_json, read_json_lines
from offdiag.data.lines import read_lines
from offdiag.data.parquet import parquet_schema, read_parquet, verify_pages
from offdiag.data.table import Table
from offdiag.data.text_files import PACKINGS, check_encoding, is_utf8, packing_of
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    import os

    import polars as pl

Name = Literal[  # the keys of FORMATS, for type checkers
    "csv", "parquet", "jsonl", "json", "excel", "arrow", "recbole", "adjacency", "sequence", "baskets", "counted"
]  # fmt: skip


class FrameReader(Protocol):
    """All columns of a file, or those at certain positions; `name` is for messages."""

    def __call__(self, path: Path, columns: list[int] | None = None, name: str | None = None) -> pl.DataFrame: ...


@dataclass(frozen=True)
class Format:
    """One file format.

    `frame` is for formats that distinguish numbers from text. `schema` is for those of them that the workers of a
    cluster read in partitions: the type of each column and the number of rows, from the header of the file at a path.
    `verify` compares columns of such a file with the checksums stored in it, if the format has any.
    `whole` reads all columns, for tables that are not interactions; formats of lines of ids have none.
    """

    read: Callable[[Path, Roles, Options], Table]
    about: str  # for the documentation
    suffixes: tuple[str, ...] = ()  # of file names, in lower case; each may be followed by that of a packing
    options: frozenset[str] = frozenset({"separator", "text_ids", "encoding"})  # that `read` uses
    layout: str = ""  # of a line, for --help
    frame: FrameReader | None = None
    schema: Callable[[str, str], tuple[dict[str, str], int]] | None = None
    verify: Callable[[str, list[str], str], None] | None = None
    whole: Callable[[Path, Options, Collection[Column]], pl.DataFrame] | None = None


Schema = Callable[[str, str], tuple[dict[str, str], int]]


def typed(frame: FrameReader, about: str, *suffixes: str, schema: Schema | None = None) -> Format:
    """A format whose columns have types, so that they are read like those of a data frame.

    With a `schema`, only the wanted columns are read.
    """

    def read(path: Path, roles: Roles, options: Options) -> Table:
        if schema is None or packing_of(path) is not None:
            return columns_of_frame(frame(path), roles, options.text_ids, path.name, options.more)
        names = list(schema(str(path), path.name)[0])
        found = find_columns(names, wanted(roles, options.more), path.name)
        chosen = sorted(set(found.values()))
        places = {role: chosen.index(position) for role, position in found.items()}
        return columns_at(frame(path, chosen), places, options.text_ids, path.name)

    def whole(path: Path, options: Options, wanted: Collection[Column]) -> pl.DataFrame:
        return frame(path)

    return Format(read, about, suffixes, frozenset({"text_ids"}), frame=frame, schema=schema, whole=whole)


def _lines(form: str, layout: str, more: str = "") -> Format:
    return Format(partial(read_lines, form), f"`{layout}` on each line{more}", layout=layout)


_NUMBERED = "; users are line numbers from 0"
FORMATS: dict[str, Format] = {
    "csv": Format(
        read_delimited,
        "columns divided by a tab, comma, semicolon, `|`, `::` or spaces; for every other file name",
        (".csv", ".tsv"),
        frozenset({"separator", "header", "text_ids", "encoding"}),
        whole=read_all,
    ),
    "parquet": replace(
        typed(read_parquet, "for file names that end in .parquet or .pq", ".parquet", ".pq", schema=parquet_schema),
        verify=verify_pages,
    ),
    "jsonl": typed(read_json_lines, "a JSON object on each line; .jsonl and .ndjson", ".jsonl", ".ndjson"),
    "json": typed(read_json, "an array of records or an object of columns; .json", ".json"),
    "excel": Format(
        read_sheet,
        "a sheet of a workbook; .xlsx",
        (".xlsx",),
        frozenset({"text_ids", "table"}),
        frame=read_excel,
        whole=read_whole_sheet,
    ),
    "arrow": typed(read_arrow, "Arrow IPC and Feather; .arrow, .feather and .ipc", ".arrow", ".feather", ".ipc"),
    "recbole": Format(
        read_delimited,
        "columns named with their types, such as `user_id:token`, of which the name is used; .inter",
        (".inter",),
        frozenset({"separator", "text_ids", "encoding"}),
        whole=read_all,
    ),
    "adjacency": _lines("adjacency", "user item item …"),
    "sequence": _lines("sequence", "user item item …", " in order; the place in the line is the time"),
    "baskets": _lines("baskets", "item item …", _NUMBERED),
    "counted": _lines("counted", "n item item …", _NUMBERED),
}
_FOREIGN = (".tar", ".tgz", ".7z", ".rar", ".xls", ".ods", ".h5", ".pkl", ".xml")  # would look like damaged text
_MAGIC = {b"PAR1": ".parquet", MAGIC: ".arrow", b"\xff\xff\xff\xff": ".arrow", b"[": ".json", b"{": ".jsonl"}


def find(path: str | os.PathLike[str], name: str | None = None) -> Format:
    """The format of that name or, without one, of the file's name."""
    if name is None:
        return FORMATS[name_of(path) or "csv"]
    if name not in FORMATS:
        raise OffdiagError(f"expected format to be one of {', '.join(FORMATS)}, received {name!r}; choose one")
    return FORMATS[name]


def name_of(path: str | os.PathLike[str]) -> str | None:
    """The name of the format that a file's name means, if it means one."""
    return next((name for name, form in FORMATS.items() if suffix(path) in form.suffixes), None)


def is_known(path: str | os.PathLike[str]) -> bool:
    """Whether the name of a file says its format."""
    return name_of(path) is not None


def sniff(head: bytes) -> str:
    """The end of the name of a file that begins with these bytes; nothing for text in columns."""
    if head.startswith(b"PK\x03\x04"):
        return ".xlsx" if b"[Content_Types].xml" in head or b"xl/" in head else ".zip"
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return next((end for magic, end in _MAGIC.items() if text.startswith(magic)), "")


def read_file(path: Path, roles: Roles, options: Options) -> Table:
    """The rows of an existing file."""
    return _format_for(path, options).read(path, roles, options)


def read_whole(path: Path, options: Options, wanted: Collection[Column]) -> pl.DataFrame:
    """All columns of an existing file; `wanted` are those that the caller names."""
    form = _format_for(path, options)
    if form.whole is None:
        raise OffdiagError(f"expected a table with columns, received lines of ids in {path.name}; give format='csv'")
    return form.whole(path, options, wanted)


def _format_for(path: Path, options: Options) -> Format:
    """The format of a file, which must have the options that are given."""
    form = find(path, options.format)
    if options.format is None and not is_known(path) and suffix(path) in _FOREIGN:
        known = ", ".join(FORMATS)
        raise OffdiagError(f"expected a file in one of the formats {known}, received {path.name}; convert it first")
    check_encoding(options.encoding)
    given = {
        "separator": options.separator is not None,
        "header": options.header is not None,
        "encoding": not is_utf8(options.encoding),
        "table": options.table is not None,
    }
    for option in (name for name, one in given.items() if one and name not in form.options):
        forms = [name for name, other in FORMATS.items() if option in other.options]
        also = [*forms, "a database or an archive"] if option == "table" else forms
        raise OffdiagError(
            f"expected {option}= only with {', '.join(also)}, received it with {path.name}; leave it out"
        )
    return form


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


def suffix(path: str | os.PathLike[str]) -> str:
    """The end of a file's name that says its format, in lower case, without that of a packing."""
    *_, last, end = ["", "", *(suffix.lower() for suffix in Path(path).suffixes)]
    return last if end in PACKINGS else end
