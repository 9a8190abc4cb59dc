"""The roll of a model: a keyed digest of every history it has learned, so that only these can be forgotten.

A Gram does not know users, only sums over them, so subtracting a history that was never learned often leaves no trace
of the mistake. The roll detects it: every history to be forgotten must be on it, and is removed from it.
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
    histories: Digests  # ascending, one for each user; without empty histories

    @classmethod
    def of(cls, matrix: sparse.csr_array, item_ids: NDArray[Any]) -> Roll:
        """All rows, under a new key."""
        hashes = Hashes()
        found = hashes.histories(matrix, item_ids)
        return cls(hashes, np.sort(found[np.diff(matrix.indptr) > 0]))

    def places(self, found: Digests) -> NDArray[np.int64]:
        """The place of each of these histories, equal ones at different places; −1 for those not on the roll."""
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
        """Its arrays in the living state; the key is kept elsewhere."""
        return {"histories": siphash.words_of(self.histories)}

    @classmethod
    def from_arrays(cls, hashes: Hashing, arrays: dict[str, NDArray[Any]]) -> Roll:
        """The roll of a file; raises ValueError, KeyError or TypeError if it is invalid."""
        histories = siphash.checked_digests(arrays["histories"])
        if np.any(histories[1:] < histories[:-1]):
            raise ValueError("the roll is out of order")
        return cls(hashes, histories)
