"""Features of items in a model of order: items that share a feature may follow each other.

A feature is a user without an order: each of its items is predicted from the others, so the same w F Fᵀ is added to
the sums over sources and to those over targets (``gramian.order``). The weight is chosen as other settings of such a
model are: by the last event of each user, on the most popular items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from offdiag.data.sequences import Sequences
from offdiag.gramian import layout
from offdiag.gramian.order import Ageing, OrderSums, count_order
from offdiag.models.fields import number
from offdiag.models.order_defaults import FEWEST, ITEMS, SmallProblem
from offdiag.models.side_information import WEIGHTS, Side
from offdiag.progress import Progress
from offdiag.ranking import Recency
from offdiag.solvers import feature_gram, next_item

if TYPE_CHECKING:
    from offdiag.models.next_item import NextItem

ROWS = 1024  # of F Fᵀ at a time


def add(sums: OrderSums, side: Side, model: NextItem) -> None:
    """Add the pseudo-users to both sums in place; an item does not follow itself because of its features."""
    m = len(sums.K)
    weight = side.weight(model, sums.A[layout.diagonal_positions(m)].astype(np.float64))
    if not weight:
        return
    assert side.rows is not None
    feature_gram.add(sums.A, side.rows, weight)
    by_feature = sparse.csr_array(side.rows.T)
    for lo in range(0, m, ROWS):
        block = weight * (side.rows[lo : lo + ROWS] @ by_feature).toarray()
        block[np.arange(len(block)), lo + np.arange(len(block))] = 0.0
        sums.K[lo : lo + ROWS] += block.astype(sums.K.dtype)


def choose(
    model: NextItem, side: Side, matrix: sparse.csr_array, sequences: Sequences, progress: Progress | None
) -> None:
    """Replace "auto" in feature_weight; all other settings are numbers already."""
    if side.rows is None or model.feature_weight != "auto":
        return
    model.feature_weight = 0.0
    small = SmallProblem.of(sequences, matrix.shape[1], repeats=model.repeats)
    if len(small.targets) < FEWEST:
        return
    counts = np.bincount(sequences.items, minlength=matrix.shape[1])
    some = side.select(np.sort(np.argsort(-counts, kind="stable")[:ITEMS]))
    ageing = Ageing(number(model.decay) if model.half_life is None else 1.0, model.half_life, model.window)
    recency = Recency(number(model.history_decay), model.history_half_life)
    sums = count_order(
        small.past, small.matrix.shape[1], ageing, later=model.targets == "later",
        user_power=number(model.user_power), mix=number(model.mix), matrix=small.matrix,
    )  # fmt: skip
    best, ranks = 0.0, None
    for done, weight in enumerate((0.0, *WEIGHTS)):
        model.feature_weight = weight
        own = OrderSums(sums.A.copy(), sums.K.copy())
        add(own, some, model)
        B = next_item.solve(own.A, own.K, dropout=number(model.dropout), l2=number(model.l2), repeats=model.repeats)
        theirs = small.gains(B, recency, repeats=model.repeats)
        if ranks is None or (theirs - ranks).mean() > (theirs - ranks).std() / np.sqrt(len(ranks)):
            best, ranks = weight, theirs
        if progress:
            progress("choosing what features count for", (done + 1) / (1 + len(WEIGHTS)))
    model.feature_weight = best
