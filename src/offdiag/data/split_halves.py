"""Known users, some for validation and others for the test: both are asked exactly what the model will be asked."""

from __future__ import annotations

import numpy as np

from offdiag import checks
from offdiag.data.held_out import Split, within_users
from offdiag.data.interactions import Interactions
from offdiag.data.sparse_rows import rank_within_rows, row_of_entries, share_of_rows
from offdiag.data.split_time import place_in_row


def halves(inter: Interactions, held_out: float, users: int, seed: int, *, latest: bool) -> Split:
    """A part of the items of some users is held out for validation, as large a part of other users for the test.

    The items are random, or with ``latest`` those at the end of each row. Neither is asked about a history that is
    shorter than that of the other, or about targets that come earlier, and nobody's later items are learned from. At
    most ``users`` of each, who have two items or more; where there are more, the others keep all of theirs.
    """
    checks.number("held_out", held_out, 0, 1, above=True, below=True)
    rng = np.random.default_rng(seed)
    sizes = np.diff(inter.matrix.indptr)
    asked = rng.permutation(np.flatnonzero(sizes >= 2))
    each = min(users, len(asked) // 2)
    number = np.zeros(len(sizes), dtype=np.int8)  # 1 for validation, 2 for the test
    number[asked[:each]], number[asked[each : 2 * each]] = 1, 2
    rows = row_of_entries(inter.matrix.indptr)
    place = place_in_row(inter)
    if not latest:
        place = rank_within_rows(inter.matrix.indptr, rng.permutation(inter.nnz), max(inter.nnz, 1))
    hidden = (sizes[rows] - 1 - place < share_of_rows(sizes, held_out)[rows]) & (number > 0)[rows]
    return within_users(inter, hidden & (number == 2)[rows], hidden & (number == 1)[rows])
