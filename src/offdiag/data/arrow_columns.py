"""Arrow columns as polars Series."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offdiag.data.ids import uuid_text, whole_numbers

if TYPE_CHECKING:
    import polars as pl


def series_of_arrow(column: Any) -> pl.Series:
    """An Arrow column as a polars Series: UUIDs as text, exact decimals as numbers."""
    import polars as pl

    kind, name = str(getattr(column.type, "extension_name", "")), str(getattr(column.type, "type_name", ""))
    if kind:
        column = column.cast(column.type.storage_type)
    series = pl.Series(pl.from_arrow(column))
    if kind == "arrow.uuid":
        return uuid_text(series)
    if kind == "arrow.opaque" and name == "numeric":  # PostgreSQL's, sent as text
        numbers = whole_numbers(series)
        return numbers if numbers.null_count() == series.null_count() else series.cast(pl.Float64)
    if isinstance(series.dtype, pl.Decimal):
        most: Any = series.abs().max()
        small = most is None or most < 2**63
        return series.cast(pl.Int64 if series.dtype.scale == 0 and small else pl.Float64)
    return series
