"""What a user disliked, next to the history: never recommended, and with a weight where the model learned one.

In a row of numbers a dislike is −1; only weights that take dislikes are given such rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from offdiag.data.ids import positions
from offdiag.errors import OffdiagError
from offdiag.ranking.histories import Encoded, encode


def encode_dislikes(histories: Any, disliked: Any, item_ids: Any, n: int) -> Encoded | None:
    """A 1 for each disliked item of n histories, and unknown ids; None if there are no dislikes.

    They come with Interactions that have dislikes, or as ``disliked``: a list of ids for each history.
    """
    found: Encoded | None = None
    own = getattr(histories, "dislikes", None)
    if own is not None:
        where = positions(histories.item_ids, item_ids)[own.indices]
        ends = np.concatenate([[0], np.cumsum(where >= 0)])[own.indptr]
        ones = np.ones(int(ends[-1]), dtype=np.float32)
        rows = sparse.csr_array((ones, where[where >= 0].astype(np.int32), ends), shape=(n, len(item_ids)))
        rows.sort_indices()
        found = rows, [()] * n
    if disliked is None:
        return found
    rows, unknown = encode(disliked, item_ids)
    if rows.shape[0] != n:
        raise OffdiagError(
            f"expected disliked items for each of {n} histories, received {rows.shape[0]} lists; give a list of ids, "
            "which may be empty, for each history"
        )
    if found is not None:
        rows = sparse.csr_array(rows + found[0])
    rows.data[:] = 1
    return rows, unknown


def signed_rows(X: sparse.csr_array, disliked: sparse.csr_array) -> sparse.csr_array:
    """The rows with −1 for each disliked item, also where it is in the history."""
    liked = X - X.multiply(disliked)  # where 1 is a dislike
    rows = sparse.csr_array(liked - disliked.astype(X.dtype))
    rows.eliminate_zeros()
    rows.sort_indices()
    return rows
