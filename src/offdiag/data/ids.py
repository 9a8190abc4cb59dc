"""Ids of users and items: checked, kept as int64 or text, and numbered in ascending order."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from offdiag import memory
from offdiag.checks import is_whole
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    import polars as pl


FEW = 100  # items that are looked up one by one
MAX_LENGTH = 4096  # characters of a text id; in an array every id takes as much memory as the longest
WHOLE = r"^(?:0|-?[1-9]\d{0,18})$"  # a leading zero is part of the id, so 007 is text


def of_type(item: Any, whole: bool) -> Any:
    """Convert an id of the other type if unambiguous: "82" becomes 82 among whole numbers, 82 becomes "82" among text.

    Text counts as a number only where reading a table would turn it into one; other ids are returned unchanged.
    """
    if whole and isinstance(item, str) and is_whole_text(item):
        return int(item)
    return str(item) if not whole and isinstance(item, int) and not isinstance(item, bool) else item


def is_whole_text(text: str) -> bool:
    """Whether a cell of a table would be read as a whole number."""
    return re.fullmatch(WHOLE, text, re.ASCII) is not None and -(2**63) <= int(text) < 2**63


def whole_numbers(column: pl.Series) -> pl.Series:
    """Text as int64, null where it is not a whole number or too large."""
    import polars as pl

    return column.set(~column.str.contains(WHOLE), None).cast(pl.Int64, strict=False)


def checked_ids(column: pl.Series, noun: str, where: str, *, gaps: bool = False) -> pl.Series:
    """The column as Int64 or String without nulls (unless `gaps` are allowed), or an error that names the row.

    Integers stay integers (also whole floats, which is how tables with nulls store them); all else is text.
    """
    import polars as pl

    dtype = column.dtype
    if dtype.is_float():
        column = column.fill_nan(None)
    if not gaps:
        advice = "remove or fill those rows, or read with missing='drop'"
        no_gaps(column, f"{'a' if noun == 'user' else 'an'} {noun} id", where, advice)
    if dtype == pl.Object:
        raise mixed_ids(noun, where)
    if dtype.is_float():
        whole = column.is_finite() & (column.floor() == column) & (column.abs() < 2.0**53)
        if not whole.all():
            row = ((~whole).arg_max() or 0) + 1
            raise OffdiagError(
                f"expected {noun} ids to be whole numbers or text, received {column[row - 1]} in row {row} "
                f"of {where}; convert the column to text to keep such ids"
            )
        return column.cast(pl.Int64)
    if dtype.is_integer():
        try:
            return column.cast(pl.Int64)
        except pl.exceptions.PolarsError:
            raise OffdiagError(
                f"expected {noun} ids below 2^63, received larger ones in {where}; "
                "convert the column to text to keep such ids"
            ) from None
    if dtype == pl.String:
        return column
    if dtype.is_nested() or dtype == pl.Binary:
        raise not_plain(dtype, noun, where)
    return column.cast(pl.String)


def no_gaps(column: pl.Series, what: str, where: str, advice: str = "remove or fill those rows") -> None:
    gaps = column.is_null()
    if gaps.any():
        raise OffdiagError(
            f"expected {what} in every row, received none in row {(gaps.arg_max() or 0) + 1} of {where} "
            f"({int(gaps.sum())} in all); {advice}"
        )


def mixed_ids(noun: str, where: str) -> OffdiagError:
    return OffdiagError(
        f"expected {noun} ids of one type, received a mixture of types in {where}; "
        "convert the column to integers or to text"
    )


def number(column: pl.Series) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """(ascending distinct ids, position of each entry's id among them)."""
    import polars as pl

    if column.dtype == pl.Int64 and len(column):
        raw = column.to_numpy()
        low, high = int(raw.min()), int(raw.max())
        # A table over the range of the ids beats hashing as long as it is not much longer than the column.
        if high - low < 8 * len(raw) + (1 << 20):
            offset = raw if low >= 0 and high < 8 * len(raw) + (1 << 20) else raw - low
            base = 0 if offset is raw else low
            present = np.zeros(high - base + 1, dtype=bool)
            present[offset] = True
            place = np.cumsum(present, dtype=np.int32)
            place -= 1
            return np.flatnonzero(present) + base, np.take(place, offset, mode="clip")  # faster than indexing
    distinct = column.unique().sort()
    if column.dtype == pl.String:
        codes = column.cast(pl.Enum(distinct)).to_physical().cast(pl.Int32).to_numpy(writable=True)
        return text_array(distinct.to_list()), codes
    frame = distinct.to_frame("id").with_row_index("place")
    placed = column.to_frame("id").join(frame, on="id", how="left", maintain_order="left")
    codes = placed.get_column("place").cast(pl.Int32).to_numpy(writable=True)
    return distinct.to_numpy(writable=True), codes


def text_array(ids: list[str]) -> NDArray[Any]:
    """A NumPy text array; NumPy drops trailing NUL characters, which would merge different ids."""
    if any("\x00" in name for name in ids):
        raise OffdiagError("expected ids without NUL characters, received some; is this file really text?")
    longest = max(ids, key=len, default="")
    if len(longest) > MAX_LENGTH:
        raise OffdiagError(
            f"expected ids of at most {MAX_LENGTH:,} characters, received one of {len(longest):,} that begins with "
            f"{longest[:40]!r}; use shorter ids, for example a hash of the long ones"
        )
    width = 4 * max(len(longest), 1)  # in an array every id takes as much memory as the longest
    memory.require(
        width * len(ids), f"an array of {len(ids):,} ids, each as wide as {longest[:40]!r},", "use shorter ids"
    )
    return np.array(ids, dtype=np.str_) if ids else np.array([], dtype="U1")


def plain_ids(column: pl.Series) -> pl.Series:
    """UUIDs as text, whether they are Python objects or 16 bytes each; other columns unchanged."""
    import polars as pl

    if column.dtype == pl.Object:
        values = column.to_list()
        if all(value is None or isinstance(value, UUID) for value in values):
            return pl.Series([None if value is None else str(value) for value in values], dtype=pl.String)
    if column.dtype == pl.Binary and len(column) and (column.bin.size() == 16).all():
        return uuid_text(column)
    return column


def uuid_text(column: pl.Series) -> pl.Series:
    """16 bytes each, as UUIDs are written."""
    digits = column.bin.encode("hex")
    return digits.str.replace(r"^(.{8})(.{4})(.{4})(.{4})(.{12})$", "${1}-${2}-${3}-${4}-${5}")


def as_text(column: pl.Series, noun: str, where: str) -> pl.Series:
    """Ids as text; types without a unique text form are rejected."""
    import polars as pl

    if column.dtype.is_nested() or column.dtype in (pl.Binary, pl.Object):
        raise not_plain(column.dtype, noun, where)
    return column.cast(pl.String)


def not_plain(dtype: Any, noun: str, where: str) -> OffdiagError:
    return OffdiagError(
        f"expected {noun} ids to be whole numbers or text, received {dtype} in {where}; give one plain id per row"
    )


def matrix_ids(ids: Any, n: int, noun: str) -> NDArray[Any]:
    """Ids given with a matrix: one per row or column, distinct, of one type; default 0 … n−1."""
    if ids is None:
        return np.arange(n, dtype=np.int64)
    values = list(ids)
    if len(values) != n:
        raise OffdiagError(f"expected {n} {noun} ids, received {len(values)}; give one per {noun}")
    if len(set(values)) != n:
        raise OffdiagError(f"expected distinct {noun} ids, received repeated ones; give each {noun} its own")
    if all(map(is_whole, values)):
        return np.array(values, dtype=np.int64)
    if all(isinstance(value, str) for value in values):
        return text_array(values)
    raise mixed_ids(noun, "the ids given")


def positions(ids: Any, known: NDArray[Any]) -> NDArray[np.int64]:
    """Position of each id among the known ones, -1 if unknown. Types must agree: 7 is not "7" and True is not 1."""
    out = np.full(len(ids), -1, dtype=np.int64)
    if known.dtype.kind not in "iuU":
        place_of = {x: place for place, x in enumerate(known.tolist())}
        out[:] = [place_of.get(x, -1) for x in (ids.tolist() if isinstance(ids, np.ndarray) else ids)]
        return out
    fits = _comparable(ids, known)
    if not fits.any() or not len(known):
        return out
    kept = ids[fits] if isinstance(ids, np.ndarray) else [x for x, fit in zip(ids, fits, strict=True) if fit]
    wanted = np.asarray(kept, dtype=known.dtype)
    ascending = bool((known[:-1] < known[1:]).all())
    order = np.arange(len(known)) if ascending else np.argsort(known, kind="stable")
    place = np.searchsorted(known, wanted, sorter=None if ascending else order)
    place = order[np.minimum(place, len(known) - 1)]
    out[fits] = np.where(known[place] == wanted, place, -1)
    return out


def places_of(items: Any, known: NDArray[Any]) -> NDArray[np.int64]:
    """Position of each item among ascending ids, -1 if unknown; 7 and "7" are the same item, 7 and "007" are not."""
    whole = known.dtype.kind in "iu"
    same = isinstance(items, np.ndarray) and items.dtype.kind in ("iu" if whole else "U")
    wanted = items if same else [of_type(_plain(item), whole) for item in items]
    if len(wanted) > FEW:
        return positions(wanted, known)
    kind = int if whole else str
    found = [_place(_plain(item), known) if isinstance(_plain(item), kind) else -1 for item in wanted]
    return np.array(found, dtype=np.int64)


def _place(item: Any, known: NDArray[Any]) -> int:
    """By bisection: `positions` first reads all ids, which takes too long for a few items."""
    place = bisect_left(known, item)
    return place if place < len(known) and known[place] == item else -1


def _plain(item: Any) -> Any:
    return item.item() if isinstance(item, np.generic) else item


def _comparable(ids: Any, known: NDArray[Any]) -> NDArray[np.bool_]:
    """Which ids have the type of the known ones and fit into it; the others cannot match."""
    if known.dtype.kind in "iu":
        low, high = np.iinfo(known.dtype).min, np.iinfo(known.dtype).max
        if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu":
            inside: NDArray[np.bool_] = (ids >= low) & (ids <= high)
            return inside
        kinds = (int, np.integer)
        return np.array(
            [isinstance(x, kinds) and not isinstance(x, bool) and low <= x <= high for x in ids], dtype=bool
        )
    width = known.dtype.itemsize // 4
    if isinstance(ids, np.ndarray) and ids.dtype.kind == "U":
        shorter: NDArray[np.bool_] = np.strings.str_len(ids) <= width
        return shorter
    # NumPy drops trailing NUL characters, so the id would match a different one.
    return np.array([isinstance(x, str) and len(x) <= width and not x.endswith("\0") for x in ids], dtype=bool)
