"""Arrow IPC files, also called Feather, and Arrow streams."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from offdiag.data.failures import polars_failures
from offdiag.data.text_files import unpack

if TYPE_CHECKING:
    import polars as pl

MAGIC = b"ARROW1"  # begins a file, but not a stream


def read_arrow(path: Path, columns: list[int] | None = None, name: str | None = None) -> pl.DataFrame:
    """All columns, or those at certain positions; `name` is for messages."""
    import polars as pl

    advice = "is it complete, and of the second version of Feather?"
    with polars_failures("an Arrow file", repr(name or path.name), advice, OSError, ValueError, OverflowError):
        content = unpack(path)
        if content is None:
            content = path.read_bytes()
        read = pl.read_ipc if content.startswith(MAGIC) else pl.read_ipc_stream
        return read(io.BytesIO(content), columns=columns)
