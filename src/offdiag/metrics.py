"""One pure function per metric, a value per user: how good a ranked list is, given the items it should hold.

Most functions take the same three arguments: `hits` (n_users, width), True where the item at that rank is one of
the user's targets; `n_targets` (n_users,), how many targets each user has; and `k`, the cut-off. A list may
be shorter than k, because the catalogue is small or nothing was left to recommend: the missing places count
as misses, so every denominator is that of a full list. A user without targets has no value: nan.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Hits = NDArray[np.bool_]
Counts = NDArray[np.int64]


def find_hits(indices: NDArray[np.int64], targets: Any) -> Hits:
    """True where indices[u, j] is a target of user u, a row of a CSR matrix with sorted columns.

    `indices` (n_users, width) holds columns, -1 for an empty place. Binary search in sorted keys u * n_items + column.
    """
    n_users, n_items = targets.shape
    first = np.arange(n_users, dtype=np.int64) * n_items  # (n_users,): key of each user's column 0
    keys = np.repeat(first, np.diff(targets.indptr)) + targets.indices
    asked = first[:, None] + indices
    place = np.minimum(np.searchsorted(keys, asked), keys.size - 1)
    # An empty place (-1) would read as the last column of the previous user.
    return np.asarray((keys[place] == asked) & (indices >= 0))


def recall(hits: Hits, n_targets: Counts, k: int) -> Floats:
    """Hits among the first k over min(k, targets): a perfect list scores 1 even when k < targets (Liang)."""
    return _ratio(hits[:, :k].sum(axis=1), np.minimum(n_targets, k), n_targets)


def recall_all(hits: Hits, n_targets: Counts, k: int) -> Floats:
    """Hits among the first k over all targets: the share of the user's targets that was found."""
    return _ratio(hits[:, :k].sum(axis=1), n_targets, n_targets)


def precision(hits: Hits, n_targets: Counts, k: int) -> Floats:
    """Hits among the first k over k, also when fewer than k items could be recommended."""
    return _ratio(hits[:, :k].sum(axis=1), np.full_like(n_targets, k), n_targets)


def ndcg(hits: Hits, n_targets: Counts, k: int) -> Floats:
    """Sum of 1/log2(rank + 1) over the hits, over that sum for the best list: min(k, targets) hits first."""
    longest = min(k, max(hits.shape[1], int(n_targets.max(initial=0))))  # k itself may be absurdly large
    discounts = 1.0 / np.log2(np.arange(2, longest + 2))
    # A running sum, not a dot product: both sums then round alike, so a perfect list scores exactly 1.
    gains = hits[:, :k] * discounts[: hits.shape[1]]
    gained = np.cumsum(gains, axis=1)[:, -1] if gains.shape[1] else np.zeros(len(hits))
    ideal = np.concatenate(([0.0], np.cumsum(discounts)))[np.minimum(n_targets, k)]
    return _ratio(gained, ideal, n_targets)


def average_precision(hits: Hits, n_targets: Counts, k: int) -> Floats:
    """Precision at the rank of each hit in the first k, summed, over min(k, targets); the mean is map@k."""
    top = hits[:, :k]
    found = np.cumsum(top, axis=1)  # (n_users, width): hits up to and including each rank
    ranks = np.arange(1, top.shape[1] + 1)
    return _ratio((top * (found / ranks)).sum(axis=1), np.minimum(n_targets, k), n_targets)


def reciprocal_rank(hits: Hits, n_targets: Counts, k: int) -> Floats:
    """One over the rank of the first hit, 0 when the first k hold none; its mean is mrr@k."""
    top = hits[:, :k]
    if top.shape[1] == 0:
        return _ratio(np.zeros(len(top)), np.ones(len(top)), n_targets)
    return _ratio(top.any(axis=1), top.argmax(axis=1) + 1, n_targets)


def hit(hits: Hits, n_targets: Counts, k: int) -> Floats:
    """1 when at least one of the first k is a target, else 0."""
    return _ratio(hits[:, :k].any(axis=1), np.ones_like(n_targets), n_targets)


def novelty(indices: NDArray[np.int64], popularity: Floats, k: int) -> Floats:
    """Mean surprise, -log2(share of all interactions), of the items actually recommended among the first k.

    An item without interactions counts as rare as the rarest item with any, since its own surprise would be
    infinite. `indices` (n_users, width) holds columns, -1 for an empty place; an empty list gives 0.
    """
    top = indices[:, :k]
    real = top >= 0
    surprise = np.where(real, self_information(popularity)[np.where(real, top, 0)], 0.0)
    return np.asarray(surprise.sum(axis=1) / np.maximum(real.sum(axis=1), 1), dtype=np.float64)


def self_information(popularity: Floats) -> Floats:
    """-log2 of each item's share of all interactions, in bits (m,); the uniform share when there are none."""
    positive = popularity[popularity > 0]
    if positive.size == 0:
        return np.full(popularity.shape, np.log2(max(popularity.size, 1)))
    floored = np.maximum(popularity, positive.min())
    return np.asarray(np.log2(positive.sum()) - np.log2(floored), dtype=np.float64)


def recommended(indices: NDArray[np.int64], n_items: int, k: int) -> NDArray[np.bool_]:
    """Which items appear among the first k of at least one list (n_items,); coverage is its mean."""
    top = indices[:, :k]
    mask = np.zeros(n_items, dtype=np.bool_)
    mask[top[top >= 0]] = True
    return mask


def _ratio(above: ArrayLike, below: ArrayLike, n_targets: Counts) -> Floats:
    """above / below per user in float64, nan for a user without targets."""
    out = np.full(len(n_targets), np.nan)
    np.divide(above, below, out=out, where=n_targets > 0, dtype=np.float64, casting="unsafe")
    return out
