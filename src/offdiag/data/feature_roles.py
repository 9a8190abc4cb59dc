"""Which columns of a table are features, and of which kind, if the caller does not say."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from offdiag.data.feature_cells import as_text, is_list, tag_separator
from offdiag.data.frames import folded
from offdiag.data.read_catalogue import USUAL

if TYPE_CHECKING:
    import polars as pl

FEW = 20  # rows of a table that is too small to count how often tags repeat
LONG = 60  # characters of a tag at most
LEAST_VECTOR = 8  # numbered columns, such as e0 … e7, that are taken for a vector
Roles = list[tuple[str, tuple[str, ...]]]  # the kind of each block and its columns


def guess(frame: pl.DataFrame, item: str) -> tuple[Roles, list[str]]:
    """The blocks by the types, contents and names of the columns, and the columns that are not used."""
    others = [name for name in frame.columns if name != item]
    vectors = list(_numbered(frame, others))
    in_vectors = {name for columns in vectors for name in columns}
    roles: Roles = [("vector", columns) for columns in vectors]
    unused: list[str] = []
    for name in (name for name in others if name not in in_vectors):
        kind = _kind(frame[name])
        if kind is None:
            unused.append(name)
        else:
            roles.append((kind, (name,)))
    return roles, unused


def _numbered(frame: pl.DataFrame, names: list[str]) -> Iterable[tuple[str, ...]]:
    """Columns of numbers such as e0 … e127."""
    groups: dict[str, list[str]] = {}
    for name in names:
        if (match := re.fullmatch(r"(.*?)[_.-]?\d+", name)) and _is_numeric(frame[name]):
            groups.setdefault(match[1], []).append(name)
    return (tuple(columns) for columns in groups.values() if len(columns) >= LEAST_VECTOR)


def _kind(column: pl.Series) -> str | None:
    name = folded(column.name)
    if name in (*USUAL["image"], *USUAL["link"]) or not column.drop_nulls().len():
        return None
    if is_list(column):
        return "vector" if _is_vector(column) else "category"
    if name in (*USUAL["category"], *USUAL["group"]) or column.dtype.base_type().__name__ == "Boolean":
        return "category"
    if _is_numeric(column) or column.dtype.is_temporal():
        return "category" if name.endswith("id") else "number"
    return _kind_of_text(as_text(column).drop_nulls(), title=name in USUAL["title"])


def _kind_of_text(cells: pl.Series, *, title: bool) -> str | None:
    if cells.str.contains("^https?://").all():
        return None
    if cells.str.contains(r"^\[\s*-?[\d.]+(e-?\d+)?\s*,").all():
        return "vector"
    mark = tag_separator(cells)
    tags = cells.str.split(mark).explode() if mark else cells
    words = float(cells.str.split(" ").list.len().median() or 0)  # type: ignore[arg-type]
    repeats = tags.n_unique() * 2 <= tags.len() if cells.len() >= FEW else words <= 3
    if repeats and not title and float(tags.str.len_chars().mean() or 0) <= LONG:  # type: ignore[arg-type]
        return "category"
    return "text" if title or words >= 2 else None


def _is_vector(column: pl.Series) -> bool:
    import polars as pl

    inner = column.dtype.inner  # type: ignore[attr-defined]
    if not inner.is_numeric():
        return False
    if isinstance(column.dtype, pl.Array):
        return True
    return inner.is_float() and column.list.len().drop_nulls().n_unique() == 1


def _is_numeric(column: pl.Series) -> bool:
    import polars as pl

    if column.dtype != pl.String:
        return column.dtype.is_numeric()
    cells = as_text(column).drop_nulls()
    return cells.len() > 0 and cells.cast(pl.Float64, strict=False).null_count() == 0
