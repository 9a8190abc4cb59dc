"""How users, events and histories are identified: keyed digests of 16 bytes, which cannot be reversed or added up.

SipHash-2-4 over whole arrays of numbers, BLAKE2b for text and histories. Without the key a digest cannot be inverted or
predicted. With it a guess can be tested, so the key is never in the same file as the digests (``offdiag.files.keys``).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.data.ids import checked_ids, number, whole_numbers
from offdiag.data.table import checked_times, checked_values

if TYPE_CHECKING:
    import polars as pl

    from offdiag.data.sequences import Sequences
    from offdiag.data.table import Table

Words = NDArray[np.uint64]
Digests = NDArray[np.bytes_]  # 16 bytes each; NumPy sorts, searches and compares them as a whole
DIGEST = np.dtype("S16")
KEY_BYTES, SIPHASH_KEY_BYTES = 32, 16
# The first hashed word, so that a user, an event, an item and a history are never mistaken for each other.
USER, EVENT, ITEM, ROW, REPEAT, HISTORY = range(1, 7)
_PURPOSE = {USER: b"user", EVENT: b"event", ITEM: b"item"}
_BLOCK = 1 << 14  # rows and histories at a time: the four lanes of SipHash stay in the cache


class Hashing(Protocol):
    """How a ledger or a roll identifies its entries."""

    @property
    def key(self) -> bytes: ...
    def users(self, ids: NDArray[Any]) -> Digests: ...
    def events(self, table: Table, user_ids: NDArray[Any], users: NDArray[Any], rule: str) -> Digests: ...
    def histories(self, matrix: sparse.csr_array, item_ids: NDArray[Any]) -> Digests: ...


@dataclass(frozen=True)
class Hashes:
    """Digests under one secret key."""

    key: bytes = field(default_factory=lambda: secrets.token_bytes(KEY_BYTES), repr=False)

    @property
    def _sip(self) -> bytes:
        return hashlib.blake2b(self.key, digest_size=SIPHASH_KEY_BYTES, person=b"siphash").digest()

    def _ids(self, kind: int, ids: NDArray[Any]) -> Digests:
        if ids.dtype.kind in "iu":
            return siphash128(self._sip, kind, ids.astype(np.int64).view(np.uint64))
        return text_digests(self.key, _PURPOSE[kind], ids.tolist())

    def users(self, ids: NDArray[Any]) -> Digests:
        return self._ids(USER, ids)

    def events(self, table: Table, user_ids: NDArray[Any], users: NDArray[Any], rule: str) -> Digests:
        """What makes an event the same event: its id, or else user, item, time and value.

        Where rows add up (``rule`` "sum"), the second of two equal rows is another event, identified by its number.
        """
        if table.event is not None:
            return self._event_ids(checked_ids(table.event, "event", table.where))
        item_ids, items = number(table.item)
        owner, item = words_of(self.users(user_ids)), words_of(self._ids(ITEM, item_ids))
        found = siphash128(self._sip, ROW, *owner[users].T, *item[items].T, *time_and_value(table))
        if rule == "once" or not any_twice(found):
            return found
        repeat, times = repeats(found)
        found[repeat] = siphash128(self._sip, REPEAT, *words_of(found[repeat]).T, times)
        return found

    def _event_ids(self, column: Any) -> Digests:
        numbers, mask, texts = numbers_and_texts(column)
        found = np.zeros(len(column), dtype=DIGEST)
        found[mask] = siphash128(self._sip, EVENT, numbers)
        found[~mask] = text_digests(self.key, _PURPOSE[EVENT], texts)
        return found

    def histories(self, matrix: sparse.csr_array, item_ids: NDArray[Any]) -> Digests:
        """One digest for each row, of all its items and values in the order of their ids; zeros for an empty row."""
        used = np.flatnonzero(np.bincount(matrix.indices, minlength=len(item_ids)))
        order = np.argsort(item_ids[used], kind="stable")
        place = np.zeros(len(item_ids), dtype=np.int64)
        place[used[order]] = np.arange(len(used))
        ordered = sparse.csr_array((matrix.data, place[matrix.indices], matrix.indptr), (matrix.shape[0], len(used)))
        if not ordered.has_sorted_indices:
            ordered = ordered.sorted_indices()  # a copy: the values are those of the caller
        items = words_of(self._ids(ITEM, item_ids[used[order]]))
        ones = bool((ordered.data == 1).all())  # then all values are the same word
        return _row_digests(self.key, items, ordered.indptr, ordered.indices, None if ones else ordered.data)

    def sequences(self, sequences: Sequences, item_ids: NDArray[Any]) -> Digests:
        """One digest for each user, of all items in their order, and of their times if there are any."""
        items = words_of(self._ids(ITEM, item_ids))
        return _row_digests(self.key, items, sequences.indptr, sequences.items, sequences.times)


def _row_digests(
    key: bytes, items: Words, row_ptr: NDArray[Any], indices: NDArray[Any], values: NDArray[Any] | None
) -> Digests:
    indptr = row_ptr.tolist()
    begin = hashlib.blake2b(digest_size=16, key=key, person=b"history")
    out = []
    for lo in range(0, len(indptr) - 1, _BLOCK):
        ends = indptr[lo : lo + _BLOCK + 1]
        some = slice(ends[0], ends[-1])
        entries = np.empty((ends[-1] - ends[0], 3), dtype="<u8")
        entries[:, :2] = items[indices[some]]
        entries[:, 2] = 1 if values is None else number_codes(values[some])
        data = memoryview(entries.tobytes())
        for a, b in pairwise(ends):
            digest = begin.copy()
            digest.update(data[24 * (a - ends[0]) : 24 * (b - ends[0])])
            out.append(digest.digest() if b > a else bytes(16))
    return np.frombuffer(b"".join(out), dtype=DIGEST)


def time_and_value(table: Table) -> tuple[Words | int, Words | int]:
    return (
        0 if table.time is None else number_codes(checked_times(table.time, table.where)),
        0 if table.value is None else number_codes(checked_values(table.value, table.where)),
    )


def repeats(found: Digests | Words) -> tuple[NDArray[np.int64], Words]:
    """The positions of repeated entries, and how often each occurred before."""
    order = np.argsort(found, kind="stable")
    begins = np.r_[True, found[order][1:] != found[order][:-1]]
    again = np.arange(len(order)) - np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))
    return order[again > 0], again[again > 0].astype(np.uint64)


def siphash(key: bytes, *words: Words | int) -> Words:
    """SipHash-2-4 [Aumasson12] of each row of 64-bit words; a number means a column of that number."""
    return _by_blocks(key, words, 1)[:, 0]


def siphash128(key: bytes, *words: Words | int) -> Digests:
    """The same with 128 bits of output."""
    return digests(_by_blocks(key, words, 2))


def _by_blocks(key: bytes, words: tuple[Words | int, ...], outputs: int) -> Words:
    columns = [np.asarray(word, dtype=np.uint64) for word in words]
    n = max((column.size for column in columns if column.ndim), default=1)
    out = np.empty((n, outputs), dtype=np.uint64)
    for lo in range(0, n, _BLOCK):
        block = slice(lo, min(lo + _BLOCK, n))
        rows = [column[block] if column.ndim else column for column in columns]
        for k, result in enumerate(_sip(key, rows, block.stop - block.start, outputs)):
            out[block, k] = result
    return out


def _sip(key: bytes, words: list[Words], n: int, outputs: int) -> list[Words]:
    k0, k1 = (np.uint64(int.from_bytes(key[i : i + 8], "little")) for i in (0, 8))
    start = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    v = [np.full(n, np.uint64(s) ^ k) for s, k in zip(start, (k0, k1, k0, k1), strict=True)]
    if outputs == 2:
        v[1] ^= np.uint64(0xEE)
    length = np.full(1, (8 * len(words) % 256) << 56, dtype=np.uint64)
    for word in [*words, length]:
        v[3] ^= word
        _rounds(v, 2)
        v[0] ^= word
    v[2] ^= np.uint64(0xFF if outputs == 1 else 0xEE)
    _rounds(v, 4)
    results: list[Words] = [v[0] ^ v[1] ^ v[2] ^ v[3]]
    if outputs == 2:
        v[1] ^= np.uint64(0xDD)
        _rounds(v, 4)
        results.append(v[0] ^ v[1] ^ v[2] ^ v[3])
    return results


def _rounds(v: list[Words], count: int) -> None:
    for _ in range(count):
        v[0] += v[1]
        v[2] += v[3]
        v[1] = _rotate(v[1], 13) ^ v[0]
        v[3] = _rotate(v[3], 16) ^ v[2]
        v[0] = _rotate(v[0], 32)
        v[2] += v[1]
        v[0] += v[3]
        v[1] = _rotate(v[1], 17) ^ v[2]
        v[3] = _rotate(v[3], 21) ^ v[0]
        v[2] = _rotate(v[2], 32)


def _rotate(x: Words, bits: int) -> Words:
    result: Words = (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))
    return result


def digests(words: Words) -> Digests:
    """Rows of two words as digests."""
    found: Digests = np.ascontiguousarray(words, dtype="<u8").view(DIGEST).reshape(-1)
    return found


def words_of(found: Digests) -> Words:
    """(n, 2) words of n digests."""
    return np.ascontiguousarray(found).view("<u8").reshape(-1, 2).astype(np.uint64, copy=False)


def read_digests(words: NDArray[Any]) -> Digests:
    """The digests of an array in a file."""
    if words.dtype != np.uint64 or words.ndim != 2 or words.shape[1] != 2:
        raise TypeError("expected digests of 16 bytes")
    return digests(words)


def pairs(a: Digests, b: Digests) -> Digests:
    """One digest for each pair of digests: both are hashes, so their exclusive or identifies the pair."""
    return digests(words_of(a) ^ words_of(b))


def any_twice(found: Digests) -> bool:
    """Whether a digest occurs more than once. Sorting one word of each is six times faster than sorting all of it."""
    ordered = np.sort(words_of(found)[:, 0])
    return bool(np.any(ordered[1:] == ordered[:-1])) and len(np.unique(found)) < len(found)


def places(known: Digests, wanted: Digests) -> NDArray[np.int64]:
    """The place of each wanted digest among the known ones, which are distinct and in any order; −1: not found."""
    if not len(known):
        return np.full(len(wanted), -1, dtype=np.int64)
    word = words_of(known)[:, 0]
    order = np.argsort(word)
    word = word[order]
    if np.any(word[1:] == word[:-1]):  # halves that collide: compare whole digests
        order = np.argsort(known)
        at = np.minimum(np.searchsorted(known[order], wanted), len(known) - 1)
    else:
        mine = words_of(wanted)[:, 0]
        ask = np.argsort(mine)  # sorted queries scan the memory once
        at = np.empty(len(wanted), dtype=np.int64)
        at[ask] = np.minimum(np.searchsorted(word, mine[ask]), len(known) - 1)
    found = order[at]
    return np.where(known[found] == wanted, found, -1).astype(np.int64)


def text_digests(key: bytes, purpose: bytes, texts: Iterable[str]) -> Digests:
    """BLAKE2b of each text, 16 bytes."""
    found = [
        hashlib.blake2b(t.encode("utf-8", "surrogatepass"), digest_size=16, key=key, person=purpose).digest()
        for t in texts
    ]
    return np.frombuffer(b"".join(found), dtype=DIGEST)


def numbers_and_texts(column: pl.Series) -> tuple[Words, NDArray[np.bool_], pl.Series]:
    """Whole numbers, which rows hold one, and the other rows: 7 and "7" are the same id, because one file may
    hold only numbers and the next one also text."""
    import polars as pl

    numbers = column if column.dtype == pl.Int64 else whole_numbers(column)
    mask = numbers.is_not_null().to_numpy()
    return numbers.drop_nulls().to_numpy().astype(np.int64).view(np.uint64), mask, column.filter(~mask)


def number_codes(values: NDArray[Any]) -> Words:
    """A word for each number, the same for 5 and 5.0: the type of a column depends on its other values."""
    if values.dtype.kind in "iub":
        return values.astype(np.int64).view(np.uint64)
    exact = values.astype(np.float64) + 0.0  # no negative zero
    whole = (np.floor(exact) == exact) & (np.abs(exact) < 2.0**62)
    codes = exact.view(np.uint64).copy()
    codes[whole] = exact[whole].astype(np.int64).view(np.uint64)
    return codes
