"""Bytes of a text file as UTF-8 with plain line ends: decompressed, decoded, and never more than fits in memory."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path

from offdiag import memory, wording
from offdiag.errors import NotEnoughMemory, OffdiagError

HEAD = 1 << 18  # bytes used to detect the layout of a file
BYTES_PER_ROW = 64  # memory of a table while it is read and sorted, besides its text, which is held twice
_BLOCK = 1 << 24  # decompressed bytes between two checks of the memory
_NOT_OF_FILES = ("punycode", "idna", "undefined")  # codecs for host names, quadratic in the length of the input


def file_bytes(path: Path, encoding: str = "utf-8") -> bytes:
    """The whole file as UTF-8, decompressed if it is gzip, with line ends of old Macs converted to those of Unix."""
    check_encoding(encoding)
    raw = decompress(path) if is_gzip(path) else path.read_bytes()
    raw = as_utf8(raw, encoding, path.name)
    if ends_in_cr(raw[:HEAD]):
        return raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return raw


def decompress(path: Path) -> bytes:
    """Decompress a gzip file as far as memory allows: a small file can expand to thousands of times its size."""
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
    """Reject an unsuitable encoding before anything is read."""
    try:
        if isinstance(encoding, str) and encoding.lower() not in _NOT_OF_FILES:
            b"a".decode(encoding, "ignore")
            return
    except (LookupError, ValueError):  # an unknown name, or one with invalid characters
        pass
    raise OffdiagError(f"expected the name of a text encoding, received {encoding!r}; try 'latin-1'")


def as_utf8(raw: bytes, encoding: str, name: str) -> bytes:
    try:
        if is_utf8(encoding):
            if not raw.isascii():
                raw.decode("utf-8")
            return raw.removeprefix(b"\xef\xbb\xbf")
        return raw.decode(encoding).encode("utf-8")
    except UnicodeError:  # also unpaired surrogates, which some codecs produce
        raise OffdiagError(
            f"expected {encoding} text, received other bytes in {name}; give encoding=, e.g. 'latin-1' or 'utf-16'"
        ) from None


def ends_in_cr(head: bytes) -> bool:
    """Whether the lines end in a carriage return alone."""
    return b"\r" in head[:-1] and b"\n" not in head
