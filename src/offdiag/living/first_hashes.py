"""The hashes of the first format of updatable files: read only, to continue models that were saved with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.data.ids import checked_ids, number
from offdiag.living import siphash
from offdiag.living.siphash import Words

if TYPE_CHECKING:
    from offdiag.data.table import Table

USER, EVENT, ENTRY = 1, 2, 3


def users(salt: bytes, ids: NDArray[Any]) -> Words:
    return siphash.siphash(salt, USER, siphash.id_codes(salt, ids)) if len(ids) else np.zeros(0, np.uint64)


def events(
    salt: bytes,
    table: Table,
    user_ids: NDArray[Any],
    rows: NDArray[Any],
    time: Words | int,
    value: Words | int,
    rule: str,
) -> Words:
    """The id of an event; or user, item, time and value, and the number of a repeated row."""
    if table.event is not None:
        return siphash.siphash(salt, EVENT, siphash.event_codes(salt, checked_ids(table.event, "event", table.where)))
    item_ids, items = number(table.item)
    owner = users(salt, user_ids)[rows]
    found = siphash.siphash(salt, EVENT, owner, siphash.id_codes(salt, item_ids)[items], time, value)
    if rule == "once":
        return found
    order = np.argsort(found, kind="stable")
    begins = np.r_[True, np.diff(found[order]) != 0] if len(order) else np.zeros(0, dtype=bool)
    again = np.arange(len(order)) - np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))
    repeat = order[again > 0]
    found[repeat] = siphash.siphash(salt, EVENT, found[repeat], again[again > 0].astype(np.uint64))
    return found


def histories(salt: bytes, matrix: sparse.csr_array, item_ids: NDArray[Any]) -> Words:
    """The sum of the hashes of the entries of each row; 0 for an empty row."""
    used = np.flatnonzero(np.bincount(matrix.indices, minlength=len(item_ids)))
    codes = np.zeros(len(item_ids), dtype=np.uint64)
    if len(used):
        codes[used] = siphash.id_codes(salt, item_ids[used])
    entries = siphash.siphash(salt, ENTRY, codes[matrix.indices], siphash.number_codes(matrix.data))
    total = np.zeros(matrix.nnz + 1, dtype=np.uint64)
    if matrix.nnz:
        np.cumsum(entries, out=total[1:])  # wraps around, and the difference wraps back
    result: Words = total[matrix.indptr[1:]] - total[matrix.indptr[:-1]]
    return result
