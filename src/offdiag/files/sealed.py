"""An encrypted and authenticated file of tensors, for the living state of a model.

Layout: 64 bytes of header (``MAGIC``, the id of the key, a random salt, zeros), then the plain text in chunks of 1 MiB,
each encrypted with AES-256-GCM, which adds 16 bytes. Every file has its own encryption key, derived from the salt, so
the index of a chunk can be its nonce. The last chunk is marked in its nonce and the header is authenticated with every
chunk: a file that was truncated, spliced from two, or changed in one bit is rejected. The plain text is 8 bytes
(length), JSON (description and tensors), then the tensors, as in ``offdiag.files.container`` but without checksums.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offdiag import memory, wording
from offdiag.errors import OffdiagError
from offdiag.files import container
from offdiag.files.keys import Key, Keys
from offdiag.progress import Progress

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MAGIC = b"offdiag living 1\n"
SALT_BYTES = 32
HEADER = 64
CHUNK = 1 << 20
TAG = 16


class Writer:
    """A file that encrypts what is written to it, in order."""

    def __init__(self, file: IO[bytes], key: Key) -> None:
        salt = secrets.token_bytes(SALT_BYTES)
        self._header = (MAGIC + bytes.fromhex(key.id) + salt).ljust(HEADER, b"\0")
        self._cipher = _cipher(key, salt)
        self._file, self._number, self._filled = file, 0, 0
        self._held, self._sealed = memoryview(bytearray(CHUNK)), memoryview(bytearray(CHUNK + TAG))
        file.write(self._header)

    def write(self, piece: bytes | memoryview) -> None:
        rest = memoryview(piece)
        while len(rest):
            if self._filled == CHUNK:  # only once more data follows: the last chunk is marked
                self._put(last=False)
            part = rest[: CHUNK - self._filled]
            self._held[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            rest = rest[len(part) :]

    def close(self) -> None:
        self._put(last=True)

    def _put(self, *, last: bool) -> None:
        sealed = self._sealed[: self._filled + TAG]
        self._cipher.encrypt_into(_nonce(self._number, last), self._held[: self._filled], self._header, sealed)
        self._file.write(sealed)
        self._number += 1
        self._filled = 0


def _cipher(key: Key, salt: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # slow to import, and few programs need it

    return AESGCM(key.derive(b"encrypt", salt))


def _nonce(number: int, last: bool) -> bytes:
    return number.to_bytes(11, "little") + bytes([last])


def key_id(path: str | os.PathLike[str]) -> str | None:
    """The id of the key that a sealed file needs; None if there is no such file."""
    try:
        with open(path, "rb") as file:
            header = file.read(HEADER)
    except (FileNotFoundError, IsADirectoryError):
        return None
    except OSError as error:
        raise OffdiagError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    return _id_of(path, header)


def _id_of(path: str | os.PathLike[str], header: bytes) -> str:
    if len(header) < HEADER or not header.startswith(MAGIC):
        raise OffdiagError(f"{str(path)!r} is not the living state of a model: expected the file that offdiag wrote")
    return header[len(MAGIC) : len(MAGIC) + 8].hex()


def unseal(path: str | os.PathLike[str], keys: Keys, what: str) -> tuple[memoryview, Key]:
    """The plain text of a sealed file, in writable memory, and the key it was sealed with."""
    from concurrent.futures import ThreadPoolExecutor

    from cryptography.exceptions import InvalidTag

    with container.opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        header = file.read(HEADER)
        key = keys.find(_id_of(path, header), what)
        body = size - HEADER
        count = -(-body // (CHUNK + TAG))
        total = body - count * TAG
        if count < 1 or total < 0:
            raise _refused(path)
        memory.require(total, f"the living state {Path(path).name!r}", "give the machine more memory")
        plain = np.empty(total, dtype=np.uint8).data
        salt = header[len(MAGIC) + 8 : len(MAGIC) + 8 + SALT_BYTES]

        def open_some(numbers: range) -> None:
            cipher = _cipher(key, salt)
            for n in numbers:
                chunk = os.pread(file.fileno(), CHUNK + TAG, HEADER + n * (CHUNK + TAG))
                into = plain[n * CHUNK : (n + 1) * CHUNK]
                cipher.decrypt_into(_nonce(n, n == count - 1), chunk, header, into)

        threads = min(4, os.cpu_count() or 1, count)  # decryption releases the GIL
        try:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(open_some, [range(n, count, threads) for n in range(threads)]))
        except (InvalidTag, ValueError) as error:
            raise _refused(path) from error
    return plain, key


def _refused(path: str | os.PathLike[str]) -> OffdiagError:
    return OffdiagError(
        f"{str(path)!r} is damaged or was changed: it does not match its key; restore it from a copy, or fit again"
    )


def write(
    file: IO[bytes], key: Key, about: dict[str, Any], tensors: dict[str, NDArray[Any]], progress: Progress | None = None
) -> None:
    """Write tensors and their description as a sealed file."""
    writer = Writer(file, key)
    writer.write(container.plain_header(about, tensors))
    total, done = max(sum(array.nbytes for array in tensors.values()), 1), 0
    for array in tensors.values():
        for piece in container.pieces(array):
            writer.write(piece)
            done += len(piece)
            if progress is not None:
                progress("save", done / total)
    writer.close()


def read(path: str | os.PathLike[str], keys: Keys, what: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]], Key]:
    """Description, tensors (in writable memory) and key of a sealed file."""
    plain, key = unseal(path, keys, what)
    try:
        about, tensors, start = container.parse_plain_header(plain)
        arrays = {name: tensor.view(plain, start) for name, tensor in tensors.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise OffdiagError(
            f"{str(path)!r} is whole but makes no sense ({wording.one_line(error)}): fit again"
        ) from error
    return about, arrays, key
