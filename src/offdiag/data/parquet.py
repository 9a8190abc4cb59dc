"""Parquet files, with one error for any failure on a damaged one."""

from __future__ import annotations

import io
import mmap
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from offdiag import memory
from offdiag.data import parquet_sizes
from offdiag.data.failures import polars_failures
from offdiag.data.text_files import unpack
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    import polars as pl


def read_parquet(path: Path, columns: list[int] | None = None, name: str | None = None) -> pl.DataFrame:
    """All columns, or those at certain positions; `name` is for messages."""
    import polars as pl

    with reading_parquet(name or path.name):
        if (content := unpack(path)) is not None:
            check_pages(content)
            return pl.read_parquet(io.BytesIO(content), columns=columns)
        check_file(path)
        return pl.read_parquet(path, columns=columns)


def parquet_schema(path: str, name: str) -> tuple[dict[str, str], int]:
    """The type of each column and the number of rows, without reading any."""
    import polars as pl

    with reading_parquet(name):
        types = {column: str(dtype) for column, dtype in pl.read_parquet_schema(path).items()}
        return types, int(pl.scan_parquet(path).select(pl.len()).collect().item())


def check_file(path: Path) -> None:
    """Like ``check_pages``, for a file on disk; call it within ``reading_parquet``, which explains errors."""
    if path.stat().st_size:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            check_pages(data)


def check_pages(data: bytes | mmap.mmap) -> None:
    """Reject pages whose stated size would make polars abort the process."""
    there = memory.available()
    parquet_sizes.check(data, 1 << 62 if there is None else there)


def verify_pages(path: str, columns: list[str], name: str) -> None:
    """Compare the pages of these columns with the checksums that their writer stored, if it stored any."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise OffdiagError("verify=True needs pyarrow on every worker; install it, or leave verify out") from None

    with reading_parquet(name):  # polars ignores checksums
        file = parquet.ParquetFile(path, page_checksum_verification=True)
        for _ in file.iter_batches(columns=columns):
            pass


def reading_parquet(name: str) -> AbstractContextManager[None]:
    return polars_failures("a Parquet file", repr(name), "is it complete?", OSError, ValueError, OverflowError)
