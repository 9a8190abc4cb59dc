"""Bytes of a text file as UTF-8 with plain line ends: decompressed, decoded, and never more than fits in memory."""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import lzma
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offdiag import memory, wording
from offdiag.errors import NotEnoughMemory, OffdiagError

HEAD = 1 << 18  # bytes used to detect the layout of a file
BYTES_PER_ROW = 64  # memory of a table while it is read and sorted, besides its text, which is held twice
_ZSTD_BLOCK = 1 << 12  # compressed bytes unpacked at once: 128 MiB at worst
_BLOCK = 1 << 24  # decompressed bytes between two checks of the memory
_NOT_OF_FILES = ("punycode", "idna", "undefined")  # codecs for host names, quadratic in the length of the input


@dataclass(frozen=True)
class Packing:
    """A compression of whole files, recognised by their first bytes, whatever their name."""

    name: str
    magic: bytes
    open: Callable[[Path], io.BufferedIOBase]  # for reading what was compressed
    errors: tuple[type[Exception], ...]  # of a damaged file


class _Zstd(io.BufferedIOBase):
    """What a zstd file holds, in blocks; a truncated file is an error, which the readers of zstandard do not notice."""

    def __init__(self, path: Path) -> None:
        self._new = _zstd_decompressor(path.name)
        self._file = path.open("rb")
        self._frame = self._new()

    def read(self, size: int | None = -1, /) -> bytes:
        while True:
            rest = self._frame.unused_data if self._frame.eof else b""
            block = rest or self._file.read(_ZSTD_BLOCK)
            if not block:
                if not self._frame.eof:
                    raise EOFError("it ends too early")
                return b""
            if self._frame.eof:
                self._frame = self._new()
            if content := self._frame.decompress(block):
                return bytes(content)

    def close(self) -> None:
        self._file.close()
        super().close()


def _zstd_decompressor(name: str) -> Callable[[], Any]:
    """From the standard library (Python 3.14), or from the package zstandard."""
    found: Any
    with suppress(ImportError):
        found = importlib.import_module("compression.zstd")
        return lambda: found.ZstdDecompressor()
    with suppress(ImportError):
        found = importlib.import_module("zstandard")
        return lambda: found.ZstdDecompressor().decompressobj()
    raise OffdiagError(f"expected zstandard to unpack {name}, received none; pip install 'offdiag[zstd]'")


PACKINGS = {  # by end of file names
    ".gz": Packing("gzip", b"\x1f\x8b", gzip.GzipFile, (EOFError, OSError, zlib.error)),
    ".bz2": Packing("bzip2", b"BZh", bz2.BZ2File, (EOFError, OSError)),
    ".xz": Packing("xz", b"\xfd7zXZ\x00", lzma.LZMAFile, (EOFError, OSError, lzma.LZMAError)),
    ".zst": Packing("zstd", b"\x28\xb5\x2f\xfd", _Zstd, (Exception,)),  # those of zstandard need not be installed
}


def file_bytes(path: Path, encoding: str = "utf-8") -> bytes:
    """The whole file as UTF-8, decompressed if it is packed, with line ends of old Macs converted to those of Unix."""
    check_encoding(encoding)
    raw = unpack(path)
    raw = as_utf8(path.read_bytes() if raw is None else raw, encoding, path.name)
    if ends_in_cr(raw[:HEAD]):
        return raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return raw


def packing_of(path: Path) -> Packing | None:
    with path.open("rb") as file:
        head = file.read(16)
    return next((packing for packing in PACKINGS.values() if head.startswith(packing.magic)), None)


def head_of(path: Path, size: int = 4096) -> bytes:
    """The first bytes, decompressed if the file is packed."""
    packing = packing_of(path)
    if packing is None:
        with path.open("rb") as file:
            return file.read(size)
    try:
        with packing.open(path) as packed:
            return packed.read(size)[:size]
    except OffdiagError:
        raise
    except packing.errors:
        return b""  # reported by whoever reads the file


def unpack(path: Path) -> bytes | None:
    """Decompress a packed file as far as memory allows: a small file can expand to thousands of times its size."""
    packing = packing_of(path)
    if packing is None:
        return None
    there = memory.available()
    content, size, lines = io.BytesIO(), 0, 0
    try:
        with packing.open(path) as file:
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
    except OffdiagError:
        raise
    except packing.errors as error:
        raise OffdiagError(
            f"expected a complete {packing.name} file, received {path.name} ({error}); fetch it again"
        ) from None
    return content.getvalue()


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
