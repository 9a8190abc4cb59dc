"""JSON lines, and JSON files that hold an array of records or an object of columns."""

from __future__ import annotations

import io
import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offdiag.data.failures import polars_failures
from offdiag.data.frames import as_frame
from offdiag.data.text_files import file_bytes
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    import polars as pl


def read_json_lines(path: Path, columns: list[int] | None = None, name: str | None = None) -> pl.DataFrame:
    """One object on each line; a field that a line lacks is null."""
    import polars as pl

    where = name or path.name
    with _reading("one JSON object on each line", where):
        frame = pl.read_ndjson(io.BytesIO(file_bytes(path)), infer_schema_length=None)
    return _some(frame, columns)


def read_json(path: Path, columns: list[int] | None = None, name: str | None = None) -> pl.DataFrame:
    """`[{"user": 1, "item": 2}, …]`, or `{"user": [1, …], "item": [2, …]}`, also as pandas writes it."""
    where = name or path.name
    with _reading("an array of records or an object of columns", where):
        try:
            content = json.loads(file_bytes(path))
        except ValueError as error:
            if b"}\n" in file_bytes(path).rstrip():
                raise OffdiagError(
                    f"expected one JSON document, received several in {where}; read with format='jsonl'"
                ) from None
            raise ValueError(str(error)) from None
        return _some(_frame(content, where), columns)


def _frame(content: Any, where: str) -> pl.DataFrame:
    import polars as pl

    if isinstance(content, list) and content and all(isinstance(record, dict) for record in content):
        return pl.read_ndjson(
            io.BytesIO("\n".join(json.dumps(record) for record in content).encode()), infer_schema_length=None
        )
    if isinstance(content, dict) and content:
        columns = list(content.values())
        if all(isinstance(column, list) for column in columns):
            return pl.DataFrame(as_frame(content))
        if all(isinstance(column, dict) and column.keys() == columns[0].keys() for column in columns):  # of pandas
            return pl.DataFrame(as_frame({name: list(column.values()) for name, column in content.items()}))
    kind = "an array" if isinstance(content, list) else "an object" if isinstance(content, dict) else "one value"
    raise OffdiagError(
        f"expected an array of records or an object of columns, received {kind} of something else in {where}; "
        "write one record for each interaction"
    )


def _some(frame: pl.DataFrame, columns: list[int] | None) -> pl.DataFrame:
    return frame if columns is None else frame[:, columns]


def _reading(expected: str, where: str) -> AbstractContextManager[None]:
    advice = "is it complete, and one kind of value in each field?"
    return polars_failures(expected, repr(where), advice, ValueError, TypeError, OverflowError, RecursionError)
