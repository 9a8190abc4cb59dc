"""Any source of `od.read` as one data frame with all of its columns, for tables that are not interactions."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from offdiag.data import formats, places, sql
from offdiag.data.columns import Column, Options
from offdiag.data.delimited import whole_if_all
from offdiag.data.frames import as_frame, is_frame, polars_frame
from offdiag.data.ids import checked_ids, plain_ids
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    import polars as pl


def read_whole(source: Any, options: Options, wanted: Collection[Column] = ()) -> tuple[pl.DataFrame, str, list[str]]:
    """The table, its name in messages, and notes. The columns of text files are text."""
    if sql.is_source(source):
        if options.format is not None:
            raise OffdiagError(f"expected no format with a database, received {options.format!r}; leave it out")
        return sql.read_all(source, options.query, options.table), "the query" if options.query else "the table", []
    if options.query is not None:
        raise OffdiagError("expected query only with a database such as postgresql://…; leave it out")
    if isinstance(source, (str, os.PathLike)):
        return _from_files([source], options, wanted)
    if isinstance(source, (list, tuple)) and source and all(isinstance(part, (str, os.PathLike)) for part in source):
        return _from_files(source, options, wanted)
    frame = source if is_frame(source) else as_frame(source)
    if is_frame(frame):
        return polars_frame(frame), "the table", []
    raise OffdiagError(
        "expected a path, a connection string, a pandas, polars or pyarrow table or a dict of columns, received "
        f"{type(source).__name__}; convert it to one of these"
    )


def _from_files(
    sources: Sequence[str | os.PathLike[str]], options: Options, wanted: Collection[Column]
) -> tuple[pl.DataFrame, str, list[str]]:
    import polars as pl

    frames: list[pl.DataFrame] = []
    names: list[str] = []
    notes: list[str] = []
    for source in sources:
        with places.local_files(source, options.format, options.table) as found:
            how = replace(options, table=None) if found.chosen else options
            for place in found.files:
                if place.path.stat().st_size == 0:
                    raise OffdiagError(f"expected a table, received the empty file {place.name}; is it complete?")
                frame, note = _read_place(place, how, wanted)
                frames.append(frame)
                names.append(place.name)
                notes += note
            notes += found.notes
    where = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    return pl.concat(frames, how="diagonal_relaxed"), where, notes


def _read_place(place: places.Place, options: Options, wanted: Collection[Column]) -> tuple[pl.DataFrame, list[str]]:
    try:
        return formats.read_whole(place.path, options, wanted), []
    except OffdiagError as error:
        if options.encoding != "utf-8" or not str(error).startswith("expected utf-8 text"):
            raise
    # Tables of titles are often older than UTF-8, and any bytes are latin-1.
    frame = formats.read_whole(place.path, replace(options, encoding="latin-1"), wanted)
    return frame, [f"{place.name} is not UTF-8, so it was read as latin-1; encoding= names another"]


def item_ids(column: pl.Series, where: str) -> pl.Series:
    """The ids of items in a table: whole numbers if all of them are, else text; null where a cell is empty."""
    import polars as pl

    ids = plain_ids(column)
    if ids.dtype == pl.String:
        ids = blank_is_null(ids.str.strip_chars())
        ids = whole_if_all(ids) if ids.drop_nulls().len() else ids
    return checked_ids(ids, "item", where, gaps=True)


def blank_is_null(column: pl.Series) -> pl.Series:
    return column.set((column == "").fill_null(False), None)
