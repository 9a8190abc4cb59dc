"""The first format of updatable files: one file held everything, and identified users by words of 8 bytes.

It is only read, to continue models that were saved in it: the words are hashed once more under a new key, all that can
be done without the users' rows.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.data.ids import checked_ids, number
from offdiag.living import digests
from offdiag.living.digests import EVENT, HISTORY, KEY_BYTES, SIPHASH_KEY_BYTES, USER, Digests, Words, siphash
from offdiag.living.ledger import Entries

if TYPE_CHECKING:
    from offdiag.data.table import Table

ENTRY = 3  # the first hashed word of an entry of a history


@dataclass(frozen=True)
class FirstHashes:
    """The words of the first format, hashed again under a secret key."""

    key: bytes = field(repr=False)
    salt: bytes = field(repr=False)  # the key of the words

    def users(self, ids: NDArray[Any]) -> Digests:
        return self.hash_again(USER, self.user_words(ids))

    def events(self, table: Table, user_ids: NDArray[Any], users: NDArray[Any], rule: str) -> Digests:
        return self.hash_again(EVENT, self.event_words(table, user_ids, users, rule))

    def histories(self, matrix: sparse.csr_array, item_ids: NDArray[Any]) -> Digests:
        return self.hash_again(HISTORY, self.history_words(matrix, item_ids))

    def hash_again(self, kind: int, words: Words) -> Digests:
        found = digests.siphash128(self.key[:SIPHASH_KEY_BYTES], kind, words)
        return np.where(words == 0, b"", found).astype(digests.DIGEST) if kind == HISTORY else found

    def user_words(self, ids: NDArray[Any]) -> Words:
        return siphash(self.salt, USER, self._id_codes(ids))

    def event_words(self, table: Table, user_ids: NDArray[Any], users: NDArray[Any], rule: str) -> Words:
        """The id of an event; or user, item, time and value, and the number of a repeated row."""
        if table.event is not None:
            return siphash(self.salt, EVENT, self.event_codes(checked_ids(table.event, "event", table.where)))
        item_ids, items = number(table.item)
        owner, item = self.user_words(user_ids)[users], self._id_codes(item_ids)[items]
        found = siphash(self.salt, EVENT, owner, item, *digests.time_and_value(table))
        if rule == "once":
            return found
        repeat, times = digests.repeats(found)
        found[repeat] = siphash(self.salt, EVENT, found[repeat], times)
        return found

    def history_words(self, matrix: sparse.csr_array, item_ids: NDArray[Any]) -> Words:
        """The sum of the hashes of the entries of each row; 0 for an empty row."""
        used = np.flatnonzero(np.bincount(matrix.indices, minlength=len(item_ids)))
        codes = np.zeros(len(item_ids), dtype=np.uint64)
        codes[used] = self._id_codes(item_ids[used])
        entries = siphash(self.salt, ENTRY, codes[matrix.indices], digests.number_codes(matrix.data))
        total = np.zeros(matrix.nnz + 1, dtype=np.uint64)
        np.cumsum(entries, out=total[1:])  # wraps around, and the difference wraps back
        result: Words = total[matrix.indptr[1:]] - total[matrix.indptr[:-1]]
        return result

    def event_codes(self, column: Any) -> Words:
        """A word for each event id of a column without gaps."""
        numbers, mask, texts = digests.numbers_and_texts(column)
        codes = np.empty(len(column), dtype=np.uint64)
        codes[mask], codes[~mask] = numbers, self._text_codes(texts)
        return codes

    def _id_codes(self, ids: NDArray[Any]) -> Words:
        """A whole number as it is, a text by its hash."""
        return ids.astype(np.int64).view(np.uint64) if ids.dtype.kind in "iu" else self._text_codes(ids.tolist())

    def _text_codes(self, texts: Iterable[str]) -> Words:
        # Lone surrogates cannot be encoded strictly, yet such a text is an id like any other.
        encoded = (text.encode("utf-8", "surrogatepass") for text in texts)
        found = [hashlib.blake2b(text, digest_size=8, key=self.salt).digest() for text in encoded]
        return np.frombuffer(b"".join(found), dtype="<u8").astype(np.uint64)


def convert(about: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> tuple[FirstHashes | None, dict[str, Any]]:
    """The arrays of a file with words replaced by digests, and how these are made; None for a file without users."""
    place = "ledger." if "ledger" in about else "roll."
    if f"{place}salt" not in arrays:
        return None, arrays
    arrays = dict(arrays)
    salt = arrays.pop(f"{place}salt")
    if salt.dtype != np.uint8 or salt.shape != (SIPHASH_KEY_BYTES,):
        raise TypeError("the ledger or roll has no key")
    hashes = FirstHashes(secrets.token_bytes(KEY_BYTES), salt.tobytes())
    found = {}
    for name, kind in (("users", USER), ("histories", HISTORY), ("events", EVENT)):
        words = arrays.get(place + name)
        if words is not None:
            if words.dtype != np.uint64 or words.ndim != 1:
                raise TypeError("the ledger or roll has parts of a wrong type")
            found[name] = hashes.hash_again(kind, words)
    if place == "roll.":
        return hashes, arrays | {"roll.histories": digests.words_of(np.sort(found["histories"]))}
    entries = Entries(**found, sizes=arrays["ledger.sizes"], starts=arrays["ledger.starts"]).check()
    owner = np.repeat(np.arange(len(entries.users)), np.diff(entries.starts))
    events = entries.events[np.lexsort((digests.words_of(entries.events)[:, 0], owner))]
    ordered = Entries(entries.users, entries.histories, entries.sizes, entries.starts, events)
    ordered = ordered.select(np.argsort(entries.users))
    return hashes, arrays | {f"ledger.{name}": array for name, array in ordered.arrays().items()}
