"""Whether the rows of each user are in order of time, where the table has no times; seen in the items alone.

Two facts decide. The items that come last in their rows are others than chance would put there: tastes and fashions
move. And the place of an item in a row does not follow from the item: in a table that is sorted by a property of the
items, such as their id or their popularity, it does. The limits were set on real tables (docs/autopilot.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from offdiag.data.interactions import Interactions
from offdiag.data.sparse_rows import row_of_entries, share_of_rows
from offdiag.data.split_time import place_in_row

LAST = 0.2  # of each row
MOVES = 1.2  # times the variance of chance, at least
SORTED = 0.5  # correlation from which rows count as sorted by item
OFTEN = 10  # users of an item whose mean place is known


@dataclass(frozen=True)
class Drift:
    """How far the ends of rows are from chance, and how much the place of an item follows from the item."""

    ratio: float = 1.0  # of the variance of how often each item is at the end, to that of chance
    error: float = np.inf  # standard error of the ratio, were it chance
    fixed: float = 0.0  # correlation

    @property
    def in_time(self) -> bool:
        """Whether the order of the rows is taken for that of time."""
        return self.ratio > max(MOVES, 1 + 4 * self.error) and self.fixed < SORTED


NO_DRIFT = Drift()


def drift_of(inter: Interactions) -> Drift:
    """The drift within the rows of a table, as they were stored."""
    matrix, m = inter.matrix, inter.n_items
    sizes, items = np.diff(matrix.indptr), matrix.indices
    rows, place = row_of_entries(matrix.indptr), place_in_row(inter)
    n_last = share_of_rows(sizes, LAST)
    chance = (n_last / np.maximum(sizes, 1))[rows]
    expected = np.bincount(items, weights=chance, minlength=m)
    variance = np.bincount(items, weights=chance * (1 - chance), minlength=m)
    found = np.bincount(items[place >= (sizes - n_last)[rows]], minlength=m)
    enough = variance >= 1
    if not enough.any():
        return NO_DRIFT
    ratio = float(((found - expected)[enough] ** 2).sum() / variance[enough].sum())
    relative = (place + 0.5) / sizes[rows]
    users = np.bincount(items, minlength=m)
    others = np.bincount(items, weights=relative, minlength=m)[items] - relative
    known = users[items] >= OFTEN
    fixed = 0.0
    if known.any():
        usual = others[known] / (users[items][known] - 1)
        spread = usual.std() * relative[known].std()
        fixed = float(np.cov(usual, relative[known], bias=True)[0, 1] / spread) if spread > 0 else 0.0
    return Drift(ratio, float(np.sqrt(2 / enough.sum())), fixed)
