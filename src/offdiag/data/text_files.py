"""Bytes of a text file as UTF-8 with plain line ends: unpacked, decoded, and never more than memory can hold."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path

from offdiag import memory, wording
from offdiag.errors import NotEnoughMemory, OffdiagError

HEAD = 1 << 18  # bytes from which the layout of a file is found
BYTES_PER_ROW = 64  # of a table while it is read and sorted, besides its text, which is held twice
_BLOCK = 1 << 24  # unpacked bytes between two looks at the memory
_NOT_OF_FILES = ("punycode", "idna", "undefined")  # codecs of names, quadratic in the length of what they decode


def file_bytes(path: Path, encoding: str = "utf-8") -> bytes:
    """The whole file as UTF-8, unpacked when it is gzip, with the line ends of Unix where it has those of old Macs."""
    check_encoding(encoding)
    raw = unpacked(path) if is_gzip(path) else path.read_bytes()
    raw = as_utf8(raw, encoding, path.name)
    if ends_in_cr(raw[:HEAD]):
        return raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return raw


def unpacked(path: Path) -> bytes:
    """A gzip file, unpacked as far as memory goes: a small file can hold thousands of times its size."""
    there = memory.available()
    content, size, lines = io.BytesIO(), 0, 0
    try:
        with gzip.open(path) as file:
            while block := file.read(_BLOCK):
                size, lines = size + len(block), lines + block.count(b"\n")
                need = 2 * size + BYTES_PER_ROW * lines
                if there is not None and need > there:
                    raise NotEnoughMemory(
                        f"expected a table that fits in memory, received {path.name}, of which the first "
                        f"{wording.size(size)} already need {wording.size(need)} but {wording.size(there)} is "
                        "available; unpack it and read a part, or use a larger machine"
                    )
                content.write(block)
    except (EOFError, OSError, zlib.error) as error:
        raise OffdiagError(f"expected a complete gzip file, received {path.name} ({error}); fetch it again") from None
    return content.getvalue()


def is_gzip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def is_utf8(encoding: str) -> bool:
    return encoding.lower().replace("_", "-") in ("utf-8", "utf8")


def check_encoding(encoding: object) -> None:
    """Refuse what is no encoding of text files before anything is read."""
    try:
        if isinstance(encoding, str) and encoding.lower() not in _NOT_OF_FILES:
            b"a".decode(encoding, "ignore")
            return
    except (LookupError, ValueError):  # a name that is not known, or has characters no name has
        pass
    raise OffdiagError(f"expected the name of a text encoding, received {encoding!r}; try 'latin-1'")


def as_utf8(raw: bytes, encoding: str, name: str) -> bytes:
    try:
        if is_utf8(encoding):
            if not raw.isascii():
                raw.decode("utf-8")
            return raw.removeprefix(b"\xef\xbb\xbf")
        return raw.decode(encoding).encode("utf-8")
    except UnicodeError:  # also half a surrogate pair, which some codecs produce
        raise OffdiagError(
            f"expected {encoding} text, received other bytes in {name}; give encoding=, e.g. 'latin-1' or 'utf-16'"
        ) from None


def ends_in_cr(head: bytes) -> bool:
    """Whether the lines end in a carriage return alone."""
    return b"\r" in head[:-1] and b"\n" not in head
