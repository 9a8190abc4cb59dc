"""Check the page sizes stated in a Parquet file against the file before anything is decoded.

polars allocates what a page header asks for. One damaged byte there can ask for 2^61 bytes, and Rust aborts the whole
process if the allocation fails, so the headers are read here first. Nothing is decoded: a few microseconds per page.
The format: Thrift's compact protocol, as parquet.thrift uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, repeat
from typing import Any

MAGIC = b"PAR1"
DEPTH = 16  # of nested structs; the format uses 6

Struct = dict[int, Any]


class DamagedError(ValueError):
    """A number that no intact Parquet file contains."""


def check(data: Any, available: int) -> None:
    """Raise DamagedError if a page of a Parquet file cannot match its header.

    ``data``: the bytes of the file, or a map of them. ``available``: bytes of memory, which no single page may exceed.
    """
    footer = int.from_bytes(data[-8:-4], "little")
    if len(data) < 12 or data[-4:] != MAGIC or footer > len(data) - 12:
        return  # not Parquet, or encrypted: the reader reports it
    try:
        about, _ = _struct(data, len(data) - 8 - footer)
        for group in about.get(4, []):
            for chunk in group.get(1, []):
                if 3 in chunk and 1 not in chunk:  # not encrypted, and not in another file
                    _check_column(data, chunk[3], available)
    except (TypeError, AttributeError):  # text instead of a number, and the like
        raise DamagedError("a field is not of its type") from None


def _check_column(data: Any, column: Struct, available: int) -> None:
    """Check the consecutive pages of one column of one row group."""
    values, at, counted = column.get(5, 0), column.get(9, 0), 0
    if 0 < column.get(11, 0) < at:
        at = column[11]  # the dictionary comes first
    if values < 0:
        raise DamagedError("a column states an impossible number of values")
    while counted < values:
        header, at = _struct(data, at)
        unpacked, packed = header.get(2, -1), header.get(3, -1)
        if not (0 <= unpacked <= available and 0 <= packed <= len(data) - at):
            raise DamagedError("a page states an impossible size")
        page = header.get(5) or header.get(8)
        if page is not None:
            counted += _at_most(page.get(1, -1), values - counted)
            levels = page.get(5, 0) + page.get(6, 0) if 8 in header else 0
            _at_most(levels, packed)
        elif 7 in header:
            _at_most(header[7].get(1, -1), max(values, 8 * unpacked))
        at += packed


def _at_most(count: int, most: int) -> int:
    if not 0 <= count <= most:
        raise DamagedError("a page states an impossible number of values")
    return count


def _struct(data: Any, at: int, depth: int = 0) -> tuple[Struct, int]:
    """The fields of a struct by number, and where it ends."""
    found: Struct = {}
    field = 0
    while True:
        head = _byte(data, at)
        at += 1
        if not head:
            return found, at
        if head >> 4:
            field += head >> 4
        else:
            field, at = _whole(data, at)
        kind = head & 15
        if kind in (1, 2):  # a Boolean has no bytes of its own
            found[field] = kind == 1
        else:
            found[field], at = _value(data, at, kind, depth)


def _value(data: Any, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if depth > DEPTH:
        raise DamagedError("values are nested too deeply")
    if kind not in _READERS:
        raise DamagedError("a field has no type of the format")
    return _READERS[kind](data, at, depth + 1)


def _list(data: Any, at: int, depth: int) -> tuple[list[Any], int]:
    head = _byte(data, at)
    length, at = _length(data, at + 1, "list") if head >> 4 == 15 else (head >> 4, at + 1)
    return _values(data, at, repeat(head & 15, length), depth)


def _map(data: Any, at: int, depth: int) -> tuple[list[Any], int]:
    length, at = _length(data, at, "map")
    kinds = _byte(data, at) if length else 0
    pairs = repeat((kinds >> 4, kinds & 15), length)
    return _values(data, at + bool(length), chain.from_iterable(pairs), depth)


def _values(data: Any, at: int, kinds: Iterable[int], depth: int) -> tuple[list[Any], int]:
    values = []
    for kind in kinds:
        value, at = _value(data, at, kind, depth)
        values.append(value)
    return values, at


def _text(data: Any, at: int, depth: int) -> tuple[None, int]:
    length, at = _length(data, at, "text")
    return None, at + length


def _length(data: Any, at: int, what: str) -> tuple[int, int]:
    length, at = _varint(data, at)
    if length > len(data) - at:  # every element takes a byte or more
        raise DamagedError(f"a {what} is longer than the file")
    return length, at


def _whole(data: Any, at: int, depth: int = 0) -> tuple[int, int]:
    """Zigzag: 0, −1, 1, −2, …"""
    number, at = _varint(data, at)
    return (number >> 1) ^ -(number & 1), at


def _varint(data: Any, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = _byte(data, at)
        number |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return number, at
        shift += 7
        if shift > 63:
            raise DamagedError("a number is too long")


def _byte(data: Any, at: int) -> int:
    if not 0 <= at < len(data):
        raise DamagedError("a header does not end inside the file")
    return int(data[at])


# By type number of the compact protocol; elements of a list of Booleans take a byte each.
_READERS: dict[int, Callable[[Any, int, int], tuple[Any, int]]] = {
    **dict.fromkeys((1, 2, 3), lambda data, at, depth: (_byte(data, at), at + 1)),
    **dict.fromkeys((4, 5, 6), _whole),
    7: lambda data, at, depth: (None, at + 8),
    8: _text,
    9: _list,
    10: _list,
    11: _map,
    12: _struct,
}
