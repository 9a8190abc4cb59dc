"""The roll of a model: a keyed digest of every history it has learned, so that only these can be forgotten.

A Gram does not know users, only sums over them, so a history that was never there can often be subtracted without a
trace of the mistake. The roll notices: every history to be forgotten must be on it, and is removed from it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.living import siphash
from offdiag.living.fingerprints import Hashes, Hashing
from offdiag.living.siphash import Digests


@dataclass(frozen=True, eq=False)
class Roll:
    hashes: Hashing
    histories: Digests  # ascending, one for each user who has it; empty histories are not here

    @classmethod
    def of(cls, matrix: sparse.csr_array, item_ids: NDArray[Any]) -> Roll:
        """All rows, under a new key."""
        hashes = Hashes()
        found = hashes.histories(matrix, item_ids)
        return cls(hashes, np.sort(found[np.diff(matrix.indptr) > 0]))

    def places(self, found: Digests) -> NDArray[np.int64]:
        """Where each of these histories stands, equal ones at different places; −1 for those that are not here."""
        order = np.argsort(found, kind="stable")
        wanted = found[order]
        again = np.arange(len(wanted)) - np.searchsorted(wanted, wanted)  # the n-th of its kind
        at = np.searchsorted(self.histories, wanted) + again
        inside = at < len(self.histories)
        inside[inside] = self.histories[at[inside]] == wanted[inside]
        places = np.empty(len(found), dtype=np.int64)
        places[order] = np.where(inside, at, -1)
        return places

    def with_(self, found: Digests) -> Roll:
        found = np.sort(found)
        return replace(self, histories=np.insert(self.histories, np.searchsorted(self.histories, found), found))

    def without(self, places: NDArray[np.int64]) -> Roll:
        return replace(self, histories=np.delete(self.histories, places))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What the living state holds of it; the key is kept elsewhere."""
        return {"histories": siphash.words_of(self.histories)}

    @classmethod
    def from_arrays(cls, hashes: Hashing, arrays: dict[str, NDArray[Any]]) -> Roll:
        """The roll of a file; ValueError, KeyError or TypeError where it makes no sense."""
        histories = siphash.checked_digests(arrays["histories"])
        if np.any(histories[1:] < histories[:-1]):
            raise ValueError("the roll is out of order")
        return cls(hashes, histories)
