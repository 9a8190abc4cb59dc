"""Sheets of an Excel workbook, read by polars with fastexcel."""

from __future__ import annotations

import io
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from offdiag import wording
from offdiag.data.columns import Column, Options, Roles
from offdiag.data.failures import polars_failures
from offdiag.data.frames import columns_of_frame
from offdiag.data.table import Table
from offdiag.data.text_files import unpack
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    import polars as pl


def read_sheet(path: Path, roles: Roles, options: Options) -> Table:
    """The sheet that `table` names, or the only one that is not empty."""
    return columns_of_frame(_sheet(path, path.name, options.table), roles, options.text_ids, path.name, options.more)


def read_excel(path: Path, columns: list[int] | None = None, name: str | None = None) -> pl.DataFrame:
    """The only sheet that is not empty: all columns, or those at certain positions; `name` is for messages."""
    frame = _sheet(path, name or path.name)
    return frame if columns is None else frame[:, columns]


def read_whole_sheet(path: Path, options: Options, wanted: Collection[Column]) -> pl.DataFrame:
    """All columns of the sheet that `table` names, or of the only one that is not empty."""
    return _sheet(path, path.name, options.table)


def _sheet(path: Path, where: str, wanted: str | None = None) -> pl.DataFrame:
    import polars as pl

    content = unpack(path)
    try:
        with polars_failures("an Excel workbook", repr(where), "is it complete?", ValueError, RuntimeError, OSError):
            sheets = pl.read_excel(
                path if content is None else io.BytesIO(content),
                sheet_id=0,
                infer_schema_length=None,
                raise_if_empty=False,
            )
    except ImportError:
        raise OffdiagError(f"expected fastexcel to read {where}, received none; pip install 'offdiag[excel]'") from None
    except Exception as error:
        if "fastexcel" not in type(error).__module__:
            raise
        reason = wording.cut(wording.one_line(error), 120)
        raise OffdiagError(f"expected an Excel workbook, received {where!r} ({reason}); is it complete?") from None
    filled = {name: sheet for name, sheet in sheets.items() if sheet.height}
    if wanted is not None:
        if wanted not in sheets:
            raise OffdiagError(f"expected a sheet {wanted!r} in {where}, received {', '.join(sheets)}; name one")
        return sheets[wanted]
    if len(filled) != 1:
        found = ", ".join(filled) or "none"
        raise OffdiagError(f"expected one sheet with rows in {where}, received {found}; name one with table=")
    return next(iter(filled.values()))
