"""Arrow columns that need care: UUIDs and exact decimals."""

from decimal import Decimal
from uuid import UUID

import polars as pl
import pyarrow as pa

from offdiag.data.arrow_columns import series_of_arrow

ONE = UUID("12345678-9abc-def0-1234-56789abcdef0")


def test_uuids_become_text():
    column = pa.chunked_array([pa.array([ONE.bytes, None], pa.uuid())])
    assert series_of_arrow(column).to_list() == [str(ONE), None]


def test_decimals_become_numbers():
    whole = series_of_arrow(pa.chunked_array([pa.array([Decimal("7"), None], pa.decimal128(9, 0))]))
    assert (whole.dtype, whole.to_list()) == (pl.Int64, [7, None])
    part = series_of_arrow(pa.chunked_array([pa.array([Decimal("1.25")], pa.decimal128(9, 2))]))
    assert (part.dtype, part.to_list()) == (pl.Float64, [1.25])
    large = series_of_arrow(pa.chunked_array([pa.array([Decimal(2**70)], pa.decimal128(30, 0))]))
    assert large.dtype == pl.Float64
