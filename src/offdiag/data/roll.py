"""The roll of a model: a keyed fingerprint of every history it has learned, so that only who is there can leave.

A Gram does not know users, only sums over them, so a history that was never there can often be subtracted without a
trace of the mistake. The roll notices: whoever leaves must have a fingerprint on it, and is struck off.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.data import keyed
from offdiag.data.keyed import Words

ENTRY = 3  # the first word of what is hashed; the ledger uses 1 and 2 for users and events under the same key
BLOCK = 1 << 22  # entries at a time


def fingerprints(salt: bytes, matrix: sparse.csr_array, item_ids: NDArray[Any]) -> Words:
    """One word for each row: the sum of the hashes of its entries, whatever their order; 0 for an empty row."""
    used = np.flatnonzero(np.bincount(matrix.indices, minlength=len(item_ids)))
    ones = bool((matrix.data == 1).all())
    table = np.zeros(len(item_ids), dtype=np.uint64)
    if len(used):
        items = keyed.id_codes(salt, item_ids[used])
        table[used] = keyed.siphash(salt, ENTRY, items, 1) if ones else items  # of ones, each item is hashed only once
    indptr = matrix.indptr.astype(np.int64)
    out = np.zeros(matrix.shape[0], dtype=np.uint64)
    lo = 0
    while lo < len(out):
        hi = max(int(np.searchsorted(indptr, indptr[lo] + BLOCK, side="right")) - 1, lo + 1)
        entries = table[matrix.indices[indptr[lo] : indptr[hi]]]
        if not ones:
            entries = keyed.siphash(salt, ENTRY, entries, keyed.number_codes(matrix.data[indptr[lo] : indptr[hi]]))
        total = np.zeros(len(entries) + 1, dtype=np.uint64)
        np.cumsum(entries, out=total[1:])  # wraps around, and the difference wraps back
        out[lo:hi] = total[indptr[lo + 1 : hi + 1] - indptr[lo]] - total[indptr[lo:hi] - indptr[lo]]
        lo = hi
    return out


@dataclass(frozen=True, eq=False)
class Roll:
    salt: bytes
    histories: Words  # ascending; as often as there are users who have it. Empty histories are not here

    @classmethod
    def of(cls, matrix: sparse.csr_array, item_ids: NDArray[Any]) -> Roll:
        """Of all rows, under a new key."""
        salt = secrets.token_bytes(keyed.KEY_BYTES)
        words = fingerprints(salt, matrix, item_ids)
        return cls(salt, np.sort(words[np.diff(matrix.indptr) > 0]))

    def places(self, words: Words) -> NDArray[np.int64]:
        """Where each of these histories stands, equal ones at different places; −1 for those that are not here."""
        order = np.argsort(words, kind="stable")
        wanted = words[order]
        again = np.arange(len(wanted)) - np.searchsorted(wanted, wanted)  # the n-th of its kind
        at = np.searchsorted(self.histories, wanted) + again
        inside = at < len(self.histories)
        inside[inside] = self.histories[at[inside]] == wanted[inside]
        places = np.empty(len(words), dtype=np.int64)
        places[order] = np.where(inside, at, -1)
        return places

    def with_(self, words: Words) -> Roll:
        words = np.sort(words)
        return replace(self, histories=np.insert(self.histories, np.searchsorted(self.histories, words), words))

    def without(self, places: NDArray[np.int64]) -> Roll:
        return replace(self, histories=np.delete(self.histories, places))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a model file holds of it, as `roll.*`."""
        return {"salt": np.frombuffer(self.salt, np.uint8), "histories": self.histories}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Roll:
        """The roll of a file; ValueError, KeyError or TypeError where it makes no sense."""
        salt, histories = arrays["salt"], arrays["histories"]
        if salt.dtype != np.uint8 or salt.shape != (keyed.KEY_BYTES,):
            raise TypeError("the roll has no key")
        if histories.dtype != np.uint64 or histories.ndim != 1 or np.any(histories[1:] < histories[:-1]):
            raise ValueError("the roll is out of order")
        return cls(salt.tobytes(), histories)
