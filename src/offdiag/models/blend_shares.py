"""What the parts of a blend count for: chosen on items that are hidden from users of the training data.

Every fifth item of up to USERS users is hidden, or with order their last one; the parts are fitted without them. Trials
of shares need no further fit: only the best items of each part can be in a list of the blend, so their scores, in
units of each part, are kept and added up with other shares.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.data.hiding import hide
from offdiag.data.interactions import Interactions
from offdiag.data.split import last_out
from offdiag.gramian.packed import as_matrix
from offdiag.models.blended_parts import blended
from offdiag.models.recommender import Recommender
from offdiag.progress import Progress
from offdiag.ranking import encode
from offdiag.weights import Blended

USERS = 4_000
HIDDEN = 0.2
CANDIDATES = 100  # of each part and user
K = 20  # ndcg@20 decides
VALUES = (0.0, 0.1, 0.2, 0.35, 0.6, 1.0, 1.7, 3.0, 6.0)  # of one part, where the first counts 1
ROUNDS = 2
SCORES_AT_ONCE = 1 << 24


def choose(
    parts: Sequence[Recommender], X: Any, seed: int, progress: Progress | None
) -> tuple[NDArray[np.float64], int]:
    """The best shares, and the number of users that decided; 0 if no user has two items: all parts then count 1."""
    ordered = any(part.knows_order for part in parts)
    users = _sample(as_matrix(X), seed)
    if not len(users):
        return np.ones(len(parts)), 0
    train, histories, targets = (_hide_last if ordered else _hide_some)(X, users, seed)
    fitted = [copy.copy(part).fit(train, progress=progress) for part in parts]
    weights, recency = blended(fitted, np.ones(len(parts)))
    rows = encode(histories, fitted[0].item_ids_, recency)[0]
    return best_shares(candidates(weights, rows, targets)), len(users)


@dataclass(frozen=True, eq=False)
class Candidates:
    """The best unseen items of some users under any part, with their scores in the unit of each part."""

    scores: NDArray[np.float64]  # (parts, users, candidates); -inf in places without an item
    hit: NDArray[np.bool_]  # (users, candidates)
    n_targets: NDArray[np.int64]  # (users,)

    def some(self, users: NDArray[np.bool_]) -> Candidates:
        """Those of some of the users."""
        return Candidates(self.scores[:, users], self.hit[users], self.n_targets[users])


def candidates(weights: Blended, rows: sparse.csr_array, targets: sparse.csr_array) -> Candidates:
    """A few users at a time, all of whose scores are computed once; users without targets are left out."""
    asked = np.flatnonzero(np.diff(targets.indptr))
    rows, targets = rows[asked], targets[asked]
    m = rows.shape[1]
    n_parts, most = len(weights.parts), min(CANDIDATES, m)
    width = n_parts * most
    scores = np.full((n_parts, rows.shape[0], width), -np.inf)
    hit = np.zeros((rows.shape[0], width), dtype=np.bool_)
    step = max(1, SCORES_AT_ONCE // (n_parts * m))
    for first in range(0, rows.shape[0], step):
        last = min(first + step, rows.shape[0])
        every = weights.part_scores(rows[first:last])
        seen = rows[first:last].nonzero()
        wanted = targets[first:last].toarray() > 0
        for part in every:
            part[seen] = -np.inf
        best = np.concatenate([np.argpartition(-part, most - 1, axis=1)[:, :most] for part in every], axis=1)
        best.sort(axis=1)
        repeated = np.zeros(best.shape, dtype=np.bool_)
        repeated[:, 1:] = best[:, 1:] == best[:, :-1]
        for p, part in enumerate(every):
            scores[p, first:last] = np.where(repeated, -np.inf, np.take_along_axis(part, best, axis=1))
        hit[first:last] = np.take_along_axis(wanted, best, axis=1)
    return Candidates(scores, hit, np.diff(targets.indptr).astype(np.int64))


def best_shares(found: Candidates) -> NDArray[np.float64]:
    """One part after the other, in units of the first; between equal values the smaller share."""
    n_parts = len(found.scores)
    alone = [accuracy(found, np.eye(n_parts)[p]) for p in range(n_parts)]
    shares = np.ones(n_parts)
    if alone[0] > 0:
        shares[1:] = [min(value / alone[0], 1.0) for value in alone[1:]]
    best = accuracy(found, shares)
    for _ in range(ROUNDS):
        for p in range(1, n_parts):
            for value in VALUES:
                trial = shares.copy()
                trial[p] = value
                reached = accuracy(found, trial)
                if reached > best or (reached == best and value < shares[p]):
                    shares, best = trial, reached
    if max(alone) > best:  # a part by itself
        shares = (np.arange(n_parts) == np.argmax(alone)).astype(np.float64)
    return shares


def accuracy(found: Candidates, shares: NDArray[np.float64]) -> float:
    """The mean ndcg@20 of the blend with these shares."""
    return float(accuracies(found, shares).mean())


def accuracies(found: Candidates, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """The ndcg@20 of each user."""
    counted = np.flatnonzero(shares)
    total = sum(shares[p] * found.scores[p] for p in counted)
    if total.shape[1] > 2 * K:  # the best in the order of the items, so that equal scores stay in it below
        best = np.sort(np.argpartition(-total, 2 * K, axis=1)[:, : 2 * K], axis=1)
        total, hits = (np.take_along_axis(one, best, axis=1) for one in (total, found.hit))
    else:
        hits = found.hit
    order = np.argsort(-total, axis=1, kind="stable")[:, :K]
    hit = np.take_along_axis(hits, order, axis=1)
    gains = 1 / np.log2(np.arange(2, K + 2))[: order.shape[1]]
    ideal = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2, K + 2)))])
    values: NDArray[np.float64] = (hit * gains).sum(axis=1) / ideal[np.minimum(found.n_targets, K)]
    return values


def _sample(matrix: sparse.csr_array, seed: int) -> NDArray[np.int64]:
    """Up to USERS users of whom one item or more can be hidden."""
    users = np.flatnonzero(np.diff(matrix.indptr) > 1)
    if len(users) <= USERS:
        return users
    return np.sort(np.random.default_rng(seed).choice(users, USERS, replace=False))


def _hide_some(X: Any, users: NDArray[np.int64], seed: int) -> tuple[Any, Any, sparse.csr_array]:
    """What to learn from, histories and targets; users who are not asked keep all items."""
    matrix = as_matrix(X)
    held = hide(matrix[users], HIDDEN, seed)
    others = np.setdiff1d(np.arange(matrix.shape[0]), users)
    return sparse.vstack([held.histories, matrix[others]], format="csr"), held.histories, held.targets


def _hide_last(X: Interactions, users: NDArray[np.int64], seed: int) -> tuple[Any, Any, sparse.csr_array]:
    split = last_out(X, validation=False)
    assert split.test.ordered is not None
    return split.train, split.test.ordered.select_users(positions=users), split.test.targets[users]
