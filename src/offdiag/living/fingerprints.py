"""How users, events and histories are identified: keyed digests of 16 bytes, which cannot be reversed or added up.

Every new model uses ``Hashes``. ``FirstHashes`` is for models in the first file format, with 8-byte words under a key
in the same file: its words are hashed once more under the new key, all that can be done without the users' rows.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.data.ids import checked_ids, number
from offdiag.data.table import checked_times, checked_values
from offdiag.living import first_hashes, siphash
from offdiag.living.siphash import Digests, Words

if TYPE_CHECKING:
    from offdiag.data.table import Table

KEY_BYTES = 32
# The first hashed word, so that a user, an event, an item and a history are never mistaken for each other.
USER, EVENT, ITEM, ROW, REPEAT, HISTORY = range(1, 7)
_PURPOSE = {USER: b"user", EVENT: b"event", ITEM: b"item"}


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
        return hashlib.blake2b(self.key, digest_size=siphash.KEY_BYTES, person=b"siphash").digest()

    def _ids(self, kind: int, ids: NDArray[Any]) -> Digests:
        if ids.dtype.kind in "iu":
            return siphash.siphash128(self._sip, kind, ids.astype(np.int64).view(np.uint64))
        return siphash.text_digests(self.key, _PURPOSE[kind], ids.tolist())

    def users(self, ids: NDArray[Any]) -> Digests:
        return self._ids(USER, ids) if len(ids) else siphash.no_digests()

    def events(self, table: Table, user_ids: NDArray[Any], users: NDArray[Any], rule: str) -> Digests:
        """What makes an event the same event: its id, or else user, item, time and value.

        Where rows add up (``rule`` "sum"), the second of two equal rows is another event, identified by its number.
        """
        if table.event is not None:
            return self._named(checked_ids(table.event, "event", table.where))
        item_ids, items = number(table.item)
        time, value = _time_and_value(table)
        owner, item = siphash.words_of(self.users(user_ids)), siphash.words_of(self._ids(ITEM, item_ids))
        words = (*owner[users].T, *item[items].T, time, value)
        found = siphash.siphash128(self._sip, ROW, *words)
        if rule == "once" or not siphash.any_twice(found):
            return found
        repeat, times = _repeats(found)
        found[repeat] = siphash.siphash128(self._sip, REPEAT, *siphash.words_of(found[repeat]).T, times)
        return found

    def _named(self, column: Any) -> Digests:
        numbers, mask, texts = siphash.numbers_and_texts(column)
        found = np.zeros(len(column), dtype=siphash.DIGEST)
        found[mask] = siphash.siphash128(self._sip, EVENT, numbers) if len(numbers) else siphash.no_digests()
        found[~mask] = siphash.text_digests(self.key, _PURPOSE[EVENT], texts)
        return found

    def histories(self, matrix: sparse.csr_array, item_ids: NDArray[Any]) -> Digests:
        """One digest for each row, of all its items and values in the order of their ids; zeros for an empty row."""
        used = np.flatnonzero(np.bincount(matrix.indices, minlength=len(item_ids)))
        order = np.argsort(item_ids[used], kind="stable")
        place = np.zeros(len(item_ids), dtype=np.int64)
        place[used[order]] = np.arange(len(used))
        if not np.array_equal(order, np.arange(len(order))) or not matrix.has_sorted_indices:
            matrix = sparse.csr_array((matrix.data, place[matrix.indices], matrix.indptr), (matrix.shape[0], len(used)))
            matrix.sort_indices()
            columns: NDArray[Any] = matrix.indices
        else:
            columns = place[matrix.indices]
        items = siphash.words_of(self._ids(ITEM, item_ids[used[order]])) if len(used) else np.zeros((0, 2), np.uint64)
        return _row_digests(self.key, items, columns, matrix)


def _row_digests(key: bytes, items: Words, columns: NDArray[Any], matrix: sparse.csr_array) -> Digests:
    indptr = matrix.indptr.tolist()
    ones = bool((matrix.data == 1).all())  # then all values are the same word
    begin = hashlib.blake2b(digest_size=16, key=key, person=b"history")
    out = []
    for lo in range(0, len(indptr) - 1, _ROWS):
        ends = indptr[lo : lo + _ROWS + 1]
        some = slice(ends[0], ends[-1])
        entries = np.empty((ends[-1] - ends[0], 3), dtype="<u8")
        entries[:, :2] = items[columns[some]]
        entries[:, 2] = 1 if ones else siphash.number_codes(matrix.data[some])
        data = memoryview(entries.tobytes())
        for a, b in pairwise(ends):
            digest = begin.copy()
            digest.update(data[24 * (a - ends[0]) : 24 * (b - ends[0])])
            out.append(digest.digest() if b > a else bytes(16))
    return np.frombuffer(b"".join(out), dtype=siphash.DIGEST)


_ROWS = 1 << 14  # histories at a time


@dataclass(frozen=True)
class FirstHashes:
    """The 8-byte words of the first file format, hashed again under a secret key."""

    key: bytes = field(repr=False)
    salt: bytes = field(repr=False)  # the key of the first words

    def again(self, kind: int, words: Words) -> Digests:
        found = siphash.siphash128(self.key[: siphash.KEY_BYTES], kind, words) if len(words) else siphash.no_digests()
        return np.where(words == 0, b"", found).astype(siphash.DIGEST) if kind == HISTORY else found

    def users(self, ids: NDArray[Any]) -> Digests:
        return self.again(USER, first_hashes.users(self.salt, ids))

    def events(self, table: Table, user_ids: NDArray[Any], users: NDArray[Any], rule: str) -> Digests:
        time, value = _time_and_value(table)
        return self.again(EVENT, first_hashes.events(self.salt, table, user_ids, users, time, value, rule))

    def histories(self, matrix: sparse.csr_array, item_ids: NDArray[Any]) -> Digests:
        return self.again(HISTORY, first_hashes.histories(self.salt, matrix, item_ids))


def _time_and_value(table: Table) -> tuple[Words | int, Words | int]:
    return (
        0 if table.time is None else siphash.number_codes(checked_times(table.time, table.where)),
        0 if table.value is None else siphash.number_codes(checked_values(table.value, table.where)),
    )


def _repeats(found: Digests) -> tuple[NDArray[np.int64], Words]:
    """The positions of repeated digests, and how often each occurred before."""
    order = np.argsort(found, kind="stable")
    begins = np.r_[True, found[order][1:] != found[order][:-1]]
    again = np.arange(len(order)) - np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))
    return order[again > 0], again[again > 0].astype(np.uint64)
