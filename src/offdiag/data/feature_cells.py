"""The cells of a column of features, in the form that the coders of ``feature_columns`` take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offdiag.data.feature_columns import WORD
from offdiag.data.whole_table import blank_is_null
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    import polars as pl

SEPARATORS = ("|", ";", ",")  # of tags in one cell, the more certain first

Rows = NDArray[np.int64]  # the item of each row of the table, by its position


def is_list(column: pl.Series) -> bool:
    import polars as pl

    return isinstance(column.dtype, (pl.List, pl.Array))


def holds_vectors(column: pl.Series) -> bool:
    """Whether a cell holds a whole vector, as a list or as text such as "[0.1, 0.2]", and not one number."""
    import polars as pl

    if column.dtype != pl.String:
        return is_list(column)
    return bool(as_text(column).drop_nulls().cast(pl.Float64, strict=False).is_null().any())


def as_text(column: pl.Series) -> pl.Series:
    """Cells as text, null where blank; whole numbers with gaps, such as years, are not written as 1979.0."""
    import polars as pl

    if column.dtype in (pl.Object, pl.Struct):
        column = pl.Series([None if cell is None else str(cell) for cell in column.to_list()], dtype=pl.String)
    if column.dtype.is_float():
        column = column.fill_nan(None)
        known = column.drop_nulls()
        if ((known.floor() == known) & (known.abs() < 2.0**53)).all():
            column = column.cast(pl.Int64)
    return blank_is_null(column.cast(pl.String).str.strip_chars())


def tag_separator(column: pl.Series) -> str | None:
    """The mark between the tags of a cell, if there is one.

    A bar always is. Semicolons and commas may be part of a name, as in "Toys, Games": they are separators if that
    leaves fewer different tags than cells.
    """
    if is_list(column):
        return None
    cells = as_text(column).drop_nulls().unique()
    for mark in SEPARATORS:
        if cells.str.contains(mark, literal=True).any():
            if mark == "|":
                return mark
            tags = cells.str.split(mark).explode().str.strip_chars().n_unique()
            if tags <= cells.len():
                return mark
    return None


def undivided(column: pl.Series) -> tuple[str, str] | None:
    """A cell with a semicolon or comma that is taken as one tag, and that mark."""
    if is_list(column):
        return None
    cells = as_text(column).drop_nulls()
    for mark in SEPARATORS[1:]:
        if (held := cells.filter(cells.str.contains(mark, literal=True))).len():
            return held[0], mark
    return None


def tags(column: pl.Series, rows: Rows, separator: str | None) -> pl.DataFrame:
    """Rows of (row, tag), without blanks."""
    import polars as pl

    if is_list(column):
        inner = column.dtype.inner  # type: ignore[attr-defined]
        cells = _whole(column) if inner.is_float() else column.cast(pl.List(pl.String))
    else:
        text = as_text(column)
        cells = text.str.split(separator) if separator else text.reshape((-1, 1)).cast(pl.List(pl.String))
    table = pl.DataFrame({"row": rows, "tag": cells}).explode("tag", empty_as_null=True)
    table = table.with_columns(blank_is_null(table["tag"].str.strip_chars()).alias("tag"))
    return table.drop_nulls()


def _whole(column: pl.Series) -> pl.Series:
    """Lists of floats, which is how tables with nulls keep whole numbers, as text."""
    import polars as pl

    cells = [None if cell is None else as_text(pl.Series(cell, dtype=pl.Float64)).to_list() for cell in column]
    return pl.Series(cells, dtype=pl.List(pl.String))


def words(column: pl.Series, rows: Rows) -> pl.DataFrame:
    """Rows of (row, word, n): lower case, without accents, so "Amélie" and "AMELIE" are one word."""
    import polars as pl

    if is_list(column):
        column = column.cast(pl.List(pl.String)).list.join(" ", ignore_nulls=True)
    text = as_text(column).fill_null("").str.normalize("NFKD").str.replace_all(r"\p{M}", "").str.to_lowercase()
    table = pl.DataFrame({"row": rows, "word": text.str.extract_all(WORD)}).explode("word", empty_as_null=True)
    counts = table.drop_nulls().group_by("row", "word").agg(pl.len().alias("n"))
    return counts.sort("row", "word")


def numbers(column: pl.Series, rows: Rows, n: int) -> tuple[NDArray[np.float64], int]:
    """The mean of each item, nan where nothing is known, and how many cells are no number."""
    import polars as pl

    if is_list(column):
        raise OffdiagError(f"expected numbers in the column {column.name!r}, received lists; use vectors=[…]")
    cells = as_text(column) if column.dtype in (pl.String, pl.Object) else column
    if cells.dtype.is_temporal():
        cells = cells.to_physical()
    values = cells.cast(pl.Float64, strict=False)
    bad = values.null_count() - cells.null_count()
    found = values.fill_null(float("nan")).to_numpy()
    known = np.isfinite(found)
    sums = np.bincount(rows[known], weights=found[known], minlength=n)
    counts = np.bincount(rows[known], minlength=n)
    means = np.full(n, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means, int(bad)


def vectors(columns: Sequence[pl.Series], rows: Rows, ids: NDArray[Any]) -> NDArray[np.float64]:
    """Items × numbers, nan where a vector is missing or has a gap; an item with two different vectors is an error."""
    import polars as pl

    if len(columns) == 1 and holds_vectors(columns[0]):
        table = _from_lists(_parsed(columns[0]), rows, ids)
    else:
        cells = [as_text(column) if column.dtype == pl.String else column for column in columns]
        if nested := next((column.name for column in columns if is_list(column)), None):
            raise OffdiagError(f"expected one column of vectors or columns of numbers, received both with {nested!r}")
        values = [cell.cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy() for cell in cells]
        table = np.stack(values, axis=1)
    known = np.flatnonzero(np.isfinite(table).all(axis=1))
    found = np.full((len(ids), table.shape[1]), np.nan)
    found[rows[known]] = table[known]  # the last row of each item
    if differs := np.flatnonzero((found[rows[known]] != table[known]).any(axis=1)).tolist():
        item = ids[rows[known[differs[0]]]].item()
        raise OffdiagError(
            f"expected one vector for each item, received different ones for {item!r} in {columns[0].name!r}; keep one"
        )
    return found


def _from_lists(column: pl.Series, rows: Rows, ids: NDArray[Any]) -> NDArray[np.float64]:
    import polars as pl

    cells = column.cast(pl.List(pl.Float64))
    lengths = cells.list.len().fill_null(0).to_numpy()
    present = lengths > 0
    if not present.any():
        raise OffdiagError(f"expected vectors in the column {column.name!r}, received none")
    usual = int(np.bincount(lengths[present]).argmax())
    if (other := np.flatnonzero(present & (lengths != usual))).size:
        raise OffdiagError(
            f"expected vectors of one length in the column {column.name!r}, received {usual} numbers for most items "
            f"and {lengths[other[0]]} for {ids[rows[other[0]]].item()!r} ({len(other):,} such rows); embed all items "
            "with the same model"
        )
    table = np.full((len(cells), usual), np.nan)
    table[present] = cells.filter(pl.Series(present)).explode().fill_null(float("nan")).to_numpy().reshape(-1, usual)
    return table


def _parsed(column: pl.Series) -> pl.Series:
    """Vectors that a text file holds as "[0.1, 0.2]" or "0.1 0.2"."""
    import polars as pl

    if is_list(column):
        if isinstance(column.dtype, pl.Array):
            column = column.arr.to_list()
        return column
    cells = as_text(column).str.strip_chars("[](){} ").str.replace_all(r"[\s,;|]+", " ").str.split(" ")
    try:
        return cells.cast(pl.List(pl.Float64))
    except pl.exceptions.PolarsError:
        raise OffdiagError(
            f"expected vectors in the column {column.name!r}, such as [0.1, 0.2], received other text; a column of "
            "words is text=[…]"
        ) from None
