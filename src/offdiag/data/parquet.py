"""Parquet files, and one error for whatever a damaged one does to the reader."""

from __future__ import annotations

import io
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from offdiag.data.failures import polars_failures
from offdiag.data.text_files import is_gzip, unpacked
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    import polars as pl


def read_parquet(path: Path) -> pl.DataFrame:
    import polars as pl

    packed = is_gzip(path)
    with reading_parquet(path.name):
        return pl.read_parquet(io.BytesIO(unpacked(path)) if packed else path)


def verify_pages(path: str, columns: list[str], name: str) -> None:
    """Compare the pages of these columns with the checksums that their writer stored, if it stored any."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise OffdiagError("verify=True needs pyarrow on every worker; install it, or leave verify out") from None

    with reading_parquet(name):  # polars reads checksums over
        file = parquet.ParquetFile(path, page_checksum_verification=True)
        for _ in file.iter_batches(columns=columns):
            pass


def reading_parquet(name: str) -> AbstractContextManager[None]:
    return polars_failures("a Parquet file", repr(name), "is it complete?", OSError, ValueError, OverflowError)
