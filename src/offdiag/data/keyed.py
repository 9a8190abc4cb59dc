"""Keyed 64-bit hashes of ids and of rows of numbers: SipHash-2-4 over whole arrays, BLAKE2b for text.

Both are functions that nobody can invert or predict without the key, so a file that holds only hashes holds no ids.
Who has the key (it lies in the same file) and guesses an id can still test the guess: see docs/event-log.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offdiag.data.ids import whole_numbers

if TYPE_CHECKING:
    import polars as pl

Words = NDArray[np.uint64]
KEY_BYTES = 16
_BLOCK = 1 << 14  # rows at a time: the four lanes stay in the cache


def siphash(key: bytes, *words: Words | int) -> Words:
    """SipHash-2-4 [Aumasson12] of each row of 64-bit words; a number stands for a column of that number."""
    columns = [np.asarray(word, dtype=np.uint64) for word in words]
    n = max((column.size for column in columns if column.ndim), default=1)
    out = np.empty(n, dtype=np.uint64)
    for lo in range(0, n, _BLOCK):
        block = slice(lo, min(lo + _BLOCK, n))
        rows = [column[block] if column.ndim else column for column in columns]
        out[block] = _sip(key, rows, block.stop - block.start)
    return out


def _sip(key: bytes, words: list[Words], n: int) -> Words:
    k0, k1 = (np.uint64(int.from_bytes(key[i : i + 8], "little")) for i in (0, 8))
    start = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    v = [np.full(n, np.uint64(s) ^ k) for s, k in zip(start, (k0, k1, k0, k1), strict=True)]
    length = np.full(1, (8 * len(words) % 256) << 56, dtype=np.uint64)
    for word in [*words, length]:
        v[3] ^= word
        _rounds(v, 2)
        v[0] ^= word
    v[2] ^= np.uint64(0xFF)
    _rounds(v, 4)
    result: Words = v[0] ^ v[1] ^ v[2] ^ v[3]
    return result


def _rounds(v: list[Words], count: int) -> None:
    for _ in range(count):
        v[0] += v[1]
        v[2] += v[3]
        v[1] = _turned(v[1], 13) ^ v[0]
        v[3] = _turned(v[3], 16) ^ v[2]
        v[0] = _turned(v[0], 32)
        v[2] += v[1]
        v[0] += v[3]
        v[1] = _turned(v[1], 17) ^ v[2]
        v[3] = _turned(v[3], 21) ^ v[0]
        v[2] = _turned(v[2], 32)


def _turned(x: Words, bits: int) -> Words:
    result: Words = (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))
    return result


def text_codes(key: bytes, texts: Iterable[str]) -> Words:
    """BLAKE2b of each text, 8 bytes."""
    # Lone surrogates cannot be encoded strictly, yet such a text is an id like any other.
    digests = [hashlib.blake2b(t.encode("utf-8", "surrogatepass"), digest_size=8, key=key).digest() for t in texts]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def id_codes(key: bytes, ids: NDArray[Any]) -> Words:
    """A word for each id of a NumPy array: a whole number stands for itself, a text for its hash."""
    if ids.dtype.kind in "iu":
        return ids.astype(np.int64).view(np.uint64)
    return text_codes(key, ids.tolist())


def event_codes(key: bytes, column: pl.Series) -> Words:
    """The same for a column without gaps, where 7 and "7" are one: a file may hold numbers, the next also words."""
    import polars as pl

    if column.dtype == pl.Int64:
        return column.to_numpy().astype(np.int64).view(np.uint64)
    numbers = whole_numbers(column)
    mask = numbers.is_not_null().to_numpy()
    codes = np.empty(len(column), dtype=np.uint64)
    codes[mask] = numbers.drop_nulls().to_numpy().astype(np.int64).view(np.uint64)
    codes[~mask] = text_codes(key, column.filter(~mask))
    return codes


def number_codes(values: NDArray[Any]) -> Words:
    """A word for each number, the same for 5 and 5.0: a column is of whole numbers or not by what else is in it."""
    if values.dtype.kind in "iub":
        return values.astype(np.int64).view(np.uint64)
    exact = values.astype(np.float64) + 0.0  # no negative zero
    whole = (np.floor(exact) == exact) & (np.abs(exact) < 2.0**62)
    codes = exact.view(np.uint64).copy()
    codes[whole] = exact[whole].astype(np.int64).view(np.uint64)
    return codes
