"""One file of named arrays and a JSON description: safetensors layout, hashed, written atomically, mapped on read.

Layout: 8 bytes (little-endian length of the header), the header (JSON, padded with spaces so that the data
starts at a multiple of 64), then the tensors without gaps, wide types first so that each is aligned. Any
safetensors reader opens it. It is written here, not by that library, because every byte is hashed while it
is written and because weights of several gigabytes are streamed without a copy. Tensors:
`item_ids` (integers), or `item_ids.utf8` with `item_ids.offsets` (text); `popularity`; `weights.*`; `catalogue.*`
in the same two forms; and in an updatable file of the first format `gram.*` and `ledger.*`. The header's
`__metadata__` holds

    format, format_version   checked first, so that a newer format is reported as such
    header_sha256            of the whole header, with these 64 digits themselves read as zeros
    chunk_sha256             of each MiB of tensor data, joined
    model                    JSON: class, settings, weights kind, n_users, metrics, versions, time of saving

Loading always checks the exact length of the file and the hash of its header. The data is checked in full up
to 256 MiB; of a larger file only the ids, the popularity and 64 MiB spread over the rest, so that a service
starts at once, and everything with `verify=True`. The hashes detect damage; they are not a signature: a
forger could supply wrong numbers, but nothing in a file is ever executed.
"""

import hashlib
import json
import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from offdiag.errors import OffdiagError
from offdiag.progress import Progress
from offdiag.wording import one_line

FORMAT = "offdiag"
VERSION = 1
CHUNK = 1 << 20
FULL_CHECK_BYTES = 256 << 20
SAMPLED_CHUNKS = 64
MAX_HEADER = 64 << 20
LARGE_PARTS = ("weights.", "gram.", "ledger.")  # only sampled in a large file

_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "U64": "<u8", "I32": "<i4",
    "U32": "<u4", "I16": "<i2", "U16": "<u2", "I8": "|i1", "U8": "|u1", "BOOL": "|b1",
}  # fmt: skip
_NAMES = {np.dtype(code): name for name, code in _DTYPES.items()}
_NO_HASH = "0" * 64


@dataclass(frozen=True)
class Tensor:
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    lo: int  # offsets from the start of the data
    hi: int

    def view(self, buffer: mmap.mmap | memoryview, start: int) -> NDArray[Any]:
        """The tensor without a copy, given where the data starts in a buffer."""
        return np.frombuffer(buffer, self.dtype, prod(self.shape), start + self.lo).reshape(self.shape)


@dataclass(frozen=True)
class Header:
    about: dict[str, Any]
    tensors: dict[str, Tensor]
    digests: list[str]  # one per chunk of data
    start: int  # of the data, from the start of the file
    size: int  # of the whole file
    fingerprint: str  # SHA-256 of the header, which covers everything in the file


def write(file: IO[bytes], about: dict[str, Any], tensors: dict[str, NDArray[Any]], progress: Progress | None) -> str:
    """Write the file, and return its fingerprint."""
    total = sum(array.nbytes for array in tensors.values())
    # Hashes have a fixed length, so the header is written twice: first as a placeholder, then with the hashes.
    file.write(_header_bytes(about, tensors, [_NO_HASH] * -(-total // CHUNK)))
    digests: list[str] = []
    current, filled, done = hashlib.sha256(), 0, 0
    for array in tensors.values():
        for piece in pieces(array):
            file.write(piece)
            rest = piece
            while len(rest):
                part, rest = rest[: CHUNK - filled], rest[CHUNK - filled :]
                current.update(part)
                filled, done = filled + len(part), done + len(part)
                if filled == CHUNK or done == total:
                    digests.append(current.hexdigest())
                    current, filled = hashlib.sha256(), 0
            if progress is not None:
                progress("save", done / total)
    file.seek(0)
    header = _header_bytes(about, tensors, digests)
    file.write(header)
    return str(json.loads(header[8:])["__metadata__"]["header_sha256"])


def pieces(array: NDArray[Any]) -> Iterator[memoryview]:
    """The bytes of an array in C order, little-endian, about a chunk at a time, without a full copy."""
    little = array.dtype.newbyteorder("<")
    blocks: Iterator[NDArray[Any]] = iter([array])
    if not array.flags.c_contiguous or array.dtype != little:
        rows = max(1, CHUNK // max(1, array[:1].nbytes))
        starts = range(0, len(array), rows)
        blocks = (np.ascontiguousarray(array[lo : lo + rows], dtype=little) for lo in starts)
    for block in blocks:
        flat = block.reshape(-1).view(np.uint8)
        for lo in range(0, flat.size, CHUNK):
            yield flat[lo : lo + CHUNK].data


def _header_bytes(about: dict[str, Any], tensors: dict[str, NDArray[Any]], digests: list[str]) -> bytes:
    """Length and header, with its own hash filled in."""
    metadata = {
        "format": FORMAT,
        "format_version": str(VERSION),
        "header_sha256": _NO_HASH,
        "model": json.dumps(about, allow_nan=False),
        "chunk_sha256": "".join(digests),
    }
    text = _padded({"__metadata__": metadata, **_places(tensors)})
    digest = hashlib.sha256(text).hexdigest().encode("ascii")
    text = text.replace(b'"header_sha256":"' + _NO_HASH.encode(), b'"header_sha256":"' + digest, 1)
    return len(text).to_bytes(8, "little") + text


def plain_header(about: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> bytes:
    """The same without checksums, for a file that is authenticated otherwise."""
    text = _padded({"__metadata__": {"about": json.dumps(about, allow_nan=False)}, **_places(tensors)})
    return len(text).to_bytes(8, "little") + text


def parse_plain_header(plain: memoryview) -> tuple[dict[str, Any], dict[str, Tensor], int]:
    """Description, tensors, and where their data begins; ValueError, KeyError or TypeError if it is invalid."""
    length = int.from_bytes(plain[:8], "little")
    if length > len(plain) - 8:
        raise ValueError("the header is longer than the file")
    header = json.loads(bytes(plain[8 : 8 + length]))
    about = json.loads(header.pop("__metadata__")["about"])
    tensors = _read_tensors(header)
    if 8 + length + max((tensor.hi for tensor in tensors.values()), default=0) != len(plain):
        raise ValueError("the tensors do not fill the file")
    return about, tensors, 8 + length


def _places(tensors: dict[str, NDArray[Any]]) -> dict[str, Any]:
    places: dict[str, Any] = {}
    end = 0
    for name, array in tensors.items():
        dtype = _NAMES.get(array.dtype.newbyteorder("<"))
        if dtype is None:
            raise OffdiagError(f"cannot save {name} of type {array.dtype}: expected one of {', '.join(_DTYPES)}")
        places[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    return places


def _padded(header: dict[str, Any]) -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    return text + b" " * (-(8 + len(text)) % 64)


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    if os.path.isdir(path):
        raise OffdiagError(f"expected a model file, received the folder {str(path)!r}: name the file inside it")
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OffdiagError(f"expected a model file, received {str(path)!r}, which is not an ordinary file")
            yield file
    except FileNotFoundError as error:
        raise OffdiagError(f"no model file at {str(path)!r}: check the path, or save the model first") from error
    except OSError as error:
        raise OffdiagError(f"cannot read {str(path)!r}: {error.strerror or one_line(error)}") from error


def _without_waiting(path: str, flags: int) -> int:
    """Without O_NONBLOCK, `open` on a pipe would wait for a writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_header(path: str | os.PathLike[str], file: IO[bytes]) -> Header:
    """Parse and check everything before the data, so that later code can rely on it."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    beginning = file.read(min(length, 4096))
    ours = f'"format":"{FORMAT}"'.encode() in beginning
    if not ours and not beginning.startswith(b'{"__metadata__":{"format'[: max(len(beginning), 1)]):
        safetensors = beginning.startswith(b"{") and size >= 8 + length
        raise _not_ours(path, "a safetensors file from elsewhere" if safetensors else "another kind of file")
    if length > MAX_HEADER:  # never read a header of an implausible length
        raise _damaged(path, f"its header claims {length:,} bytes")
    if size < 8 + length:
        raise _damaged(path, "it is truncated inside its header")
    text = beginning + file.read(length - len(beginning))
    try:
        header = json.loads(text.decode("ascii"))
        metadata = header.pop("__metadata__")
        if metadata["format"] != FORMAT:
            raise _not_ours(path, "a safetensors file from elsewhere")
        if (version := int(metadata["format_version"])) > VERSION:
            raise OffdiagError(
                f"{str(path)!r} was saved by a newer offdiag (file format {version}, this one reads up to "
                f"{VERSION}): upgrade offdiag, or save the model again with this version"
            )
        digest = metadata["header_sha256"].encode("ascii")
        blank = text.replace(b'"header_sha256":"' + digest, b'"header_sha256":"' + _NO_HASH.encode(), 1)
        if hashlib.sha256(blank).hexdigest().encode("ascii") != digest:
            raise _damaged(path, "its header does not match its checksum")
        tensors = _read_tensors(header)
        about = json.loads(metadata["model"])
        if not isinstance(about, dict):
            raise TypeError("the description is not an object")
        hashes = metadata["chunk_sha256"]
        data = max((tensor.hi for tensor in tensors.values()), default=0)
        digests = [hashes[lo : lo + 64] for lo in range(0, len(hashes), 64)]
        if len(hashes) != 64 * -(-data // CHUNK):
            raise ValueError("the number of checksums does not fit the data")
    except OffdiagError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path, f"its header cannot be read, {one_line(error)}") from error
    if size != 8 + length + data:
        raise _damaged(path, f"expected {8 + length + data:,} bytes, received {size:,}")
    return Header(about, tensors, digests, 8 + length, size, metadata["header_sha256"])


def _read_tensors(header: dict[str, Any]) -> dict[str, Tensor]:
    """The tensors, checked to be contiguous and each exactly as long as its type and shape require."""
    tensors: dict[str, Tensor] = {}
    end = 0
    for name, entry in header.items():
        dtype, shape, (lo, hi) = np.dtype(_DTYPES[entry["dtype"]]), entry["shape"], entry["data_offsets"]
        if not isinstance(shape, list) or any(type(n) is not int or n < 0 for n in (lo, hi, *shape)):
            raise ValueError(f"{name} has a shape or offset that is not a whole number")
        if lo != end or lo % dtype.itemsize or hi - lo != prod(shape) * dtype.itemsize:
            raise ValueError(f"{name} does not fit its place")
        end = hi
        tensors[name] = Tensor(dtype, tuple(shape), lo, hi)
    return tensors


def mapped(file: IO[bytes], header: Header, *, own: bool = False) -> mmap.mmap:
    """The whole file as read-only memory; with ``own``, as writable memory; changes never reach the file."""
    return mmap.mmap(file.fileno(), header.size, access=mmap.ACCESS_COPY if own else mmap.ACCESS_READ)


def verify(path: str | os.PathLike[str], mapped: mmap.mmap, header: Header, everything: bool | None) -> None:
    from concurrent.futures import ThreadPoolExecutor

    count = len(header.digests)
    chosen: set[int] = set()
    if everything or (everything is None and header.size <= FULL_CHECK_BYTES):
        chosen = set(range(count))
    elif everything is None:
        chosen = set(np.linspace(0, count - 1, SAMPLED_CHUNKS).astype(int).tolist())
        for name, tensor in header.tensors.items():
            if not name.startswith(LARGE_PARTS):
                chosen |= set(range(tensor.lo // CHUNK, -(-tensor.hi // CHUNK)))

    def sound(chunk: int) -> bool:
        lo = header.start + chunk * CHUNK
        with memoryview(mapped) as view, view[lo : lo + CHUNK] as part:
            return hashlib.sha256(part).hexdigest() == header.digests[chunk]

    if not chosen:
        return
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:  # hashing releases the GIL
        if not all(pool.map(sound, sorted(chosen))):
            raise _damaged(path, "its data does not match its checksums")


def array(mapped: mmap.mmap, header: Header, name: str) -> NDArray[Any]:
    """A read-only view of one tensor in the mapped file."""
    return header.tensors[name].view(mapped, header.start)


def _not_ours(path: str | os.PathLike[str], kind: str) -> OffdiagError:
    return OffdiagError(
        f"{str(path)!r} is not an offdiag model but {kind}: expected a file made by model.save or offdiag fit"
    )


def _damaged(path: str | os.PathLike[str], why: str) -> OffdiagError:
    return OffdiagError(f"the model file {str(path)!r} is damaged: {why}; copy or save it again")
