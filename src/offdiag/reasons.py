"""Reasons for a ranking: an item's rank with a shorter history, and what the weight of a pair is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.weights import Weights

SCORES_AT_ONCE = 1 << 24  # scores of all items for a few rows: 64 MB in single precision
PLACES_AT_ONCE = 4_096  # places of lists whose reasons one task of a thread finds


def shares_of(popularity: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scores for an empty history: each item's share of all interactions."""
    shares: NDArray[np.float64] = popularity / max(popularity.sum(), 1.0)
    return shares


def places(
    weights: Weights, popularity: NDArray[np.float64], X: sparse.csr_array, target: int, begin: int, end: int
) -> NDArray[np.int64]:
    """Rank of ``target`` in the full list for the single row of X (index 0), and without its j-th entry (index j).

    Computed for a range of indices. Ranks start at 1 and are those of ``recommend``: all unseen items are candidates,
    equal scores go to the earlier column, and an empty row gets the popular items. 0 means that the target is in the
    history. Cost: one row of scores for each, proportional to the length of the history.
    """
    m = X.shape[1]
    found = np.zeros(end - begin, dtype=np.int64)
    # A score may round differently in a larger batch; one row at a time matches the answer to a single user.
    step = max(1, SCORES_AT_ONCE // max(m, 1)) if weights.batch_invariant else 1
    for first in range(begin, end, step):
        last = min(first + step, end)
        rows = _rows_without_one(X, first, last)
        ahead = _ahead(rows @ weights, target)
        row = np.repeat(np.arange(last - first), np.diff(rows.indptr))
        ahead[row, rows.indices] = False
        part = found[first - begin : last - begin]
        part[:] = ahead.sum(axis=1) + 1
        part[row[rows.indices == target]] = 0
        empty = np.diff(rows.indptr) == 0
        if empty.any():
            part[empty] = _ahead(shares_of(popularity)[None], target).sum() + 1
    return found


def _rows_without_one(X: sparse.csr_array, first: int, last: int) -> sparse.csr_array:
    """Rows first..last of: the single row of X as it is, then without its first entry, without its second, …"""
    n = X.nnz
    lacking = np.arange(first, last)[:, None] - 1  # −1: nothing is left out
    row, entry = np.nonzero(np.arange(n) != lacking)
    indptr = np.searchsorted(row, np.arange(last - first + 1))
    return sparse.csr_array((X.data[entry], X.indices[entry], indptr), shape=(last - first, X.shape[1]))


def _ahead(scores: NDArray[np.floating], target: int) -> NDArray[np.bool_]:
    """Which items rank before the target in each row, if all are candidates."""
    own = scores[:, [target]]
    ahead: NDArray[np.bool_] = scores > own
    ahead[:, :target] |= scores[:, :target] == own
    return ahead


@dataclass(frozen=True, eq=False)
class PairReason:
    """What the weight of ``item`` on ``other`` expresses beyond how often the two occur together.

    together = direct + Σ amounts + rest, in the unit of the Gram. A model that predicts ``other`` from ``item`` alone
    would need the weight ``alone``. With all other items available, part of the co-occurrence is already explained by
    third items that co-occur with ``item`` and predict ``other``; only the remainder needs a weight of its own.
    """

    item: Any
    other: Any
    weight: float  # W[item, other], as it enters the score
    coefficient: float  # the same before any division by popularity; used in the sum
    together: float  # G_ab: users who have both, weighted as in the fit
    alone: float  # G_ab / H_aa
    direct: float  # H_aa·β_ab, the part explained by the weight itself
    items: NDArray[Any]  # third items, largest absolute amounts first
    amounts: NDArray[np.float64]  # G_aj·β_jb of each
    rest: float  # left over by the model: rounding for EASE, DLAE, EDLAE and RDLAE, more where W is sparse or low-rank

    def to_dict(self, most: int | None = None) -> dict[str, Any]:
        """JSON-ready; only the first ``most`` third items, and the sum of the others."""
        n = len(self.items) if most is None else most
        through = zip(self.items[:n].tolist(), self.amounts[:n].tolist(), strict=True)
        names = ("item", "other", "weight", "coefficient", "together", "alone", "direct")
        return {name: getattr(self, name) for name in names} | {
            "through": [{"id": item, "amount": amount} for item, amount in through],
            "others": float(self.amounts[n:].sum()),
            "n_others": len(self.amounts[n:]),
            "rest": self.rest,
        }


def pair(
    item_ids: NDArray[Any],
    row: NDArray[np.float64],
    column: Callable[[NDArray[np.int64]], NDArray[np.float64]],
    a: int,
    b: int,
    *,
    weight: float,
    penalty: float,
    itself: float = 1.0,
) -> PairReason:
    """The co-occurrence of columns a and b decomposed by the normal equations of column b: Σ_j H_aj β_jb = G_ab.

    ``row`` is row a of G, ``column`` gives β_jb for ascending items j, and H = G + diag(Λ) with Λ_a = ``penalty``.
    ``itself`` is how much of β_bb counts in the fit: an item that also predicts itself is then one of the third items.
    Cost: one row of G and one column of the weights.
    """
    through = np.flatnonzero(row)
    through = through[through != a]
    beta = column(through)
    beta[through == b] *= itself
    amounts = row[through] * beta
    kept = np.flatnonzero(amounts)
    order = kept[np.argsort(-np.abs(amounts[kept]), kind="stable")]
    together, H_aa = float(row[b]), float(row[a]) + penalty
    coefficient = float(column(np.array([a], dtype=np.int64))[0])
    direct = H_aa * coefficient
    return PairReason(
        item=item_ids[a].item(),
        other=item_ids[b].item(),
        weight=weight,
        coefficient=coefficient,
        together=together,
        alone=together / H_aa if H_aa else 0.0,
        direct=direct,
        items=item_ids[through[order]],
        amounts=amounts[order],
        rest=together - direct - float(amounts.sum()),
    )


def strongest(
    weights: Weights, X: sparse.csr_array, indices: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """For each listed item, the column of the history that adds most to its score, and its share of all that is added.

    Both are users × k. The column is -1 and the share nan where nothing in the history adds to the score, as for an
    empty history. Equal contributions go to the earlier column. Cost: the weights are read once, and one product per
    entry of the history of each listed item.
    """
    from offdiag._kernels import parallel, reason_parts

    n, k = indices.shape
    m = X.shape[1]
    best, share = np.full(n * k, -1, dtype=np.int64), np.full(n * k, np.nan)
    listed = np.ascontiguousarray(indices).ravel()
    asked = np.flatnonzero((listed >= 0) & (np.repeat(np.diff(X.indptr), k) > 0))
    places = asked[np.argsort(listed[asked], kind="stable")]
    parts = weights.linear_parts(X)
    data = np.stack([rows.data for _, rows in parts])
    step = max(1, SCORES_AT_ONCE // 4 // max(len(parts) * m, 1))  # columns at once
    for lo in range(0, m, step):
        hi = min(lo + step, m)
        begin, end = np.searchsorted(listed[places], [lo, hi])
        if begin == end:
            continue
        some = places[begin:end]
        columns = np.stack([part.columns(lo, hi) for part, _ in parts])
        rest = (some, k, listed, lo, columns, X.indptr, X.indices, data, best, share)
        shares = parallel.ranges(len(some), -(-len(some) // PLACES_AT_ONCE))
        parallel.run_parallel(reason_parts.strongest, [(first, last, *rest) for first, last in shares])
    return best.reshape(n, k), share.reshape(n, k)
