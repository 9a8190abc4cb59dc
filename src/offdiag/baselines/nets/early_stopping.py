"""The users that each epoch is evaluated on: given validation users, or a few set aside from the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import metrics, ranking
from offdiag.data.sparse_rows import rank_within_rows
from offdiag.errors import OffdiagError
from offdiag.gramian.packed import as_matrix
from offdiag.weights import Weights

K = 100  # early stopping watches nDCG@100 [Liang18]
SHARE = 20  # one user in this many is set aside if no validation users are given
MOST = 10_000  # at most this many
LEAST = 5  # fewest interactions of a user who is set aside


@dataclass(frozen=True, eq=False)
class Watched:
    """Histories as input of the net, targets of its output, and the keys that find the targets."""

    histories: sparse.csr_array
    targets: sparse.csr_array

    def ndcg(self, weights: Weights) -> float:
        """Mean nDCG@100 over the users with targets."""
        found, _ = ranking.top_k(weights, self.histories, min(K, self.targets.shape[1]))
        hits = metrics.find_hits(found, self.targets)
        return float(np.mean(metrics.ndcg(hits, np.diff(self.targets.indptr).astype(np.int64), K)))


def given(validation: Any, item_ids: NDArray[Any]) -> Watched:
    """The users of a HeldOut, after a check that its columns are those of the training data."""
    histories, targets = (as_matrix(getattr(validation, name, None)) for name in ("histories", "targets"))
    if histories.shape != targets.shape or histories.shape[1] != len(item_ids):
        raise OffdiagError(
            f"validation must have the {len(item_ids):,} columns of the training data, received histories of "
            f"{histories.shape} and targets of {targets.shape}; take both from the same split"
        )
    columns = getattr(validation, "item_ids", None)
    numbered = np.array_equal(item_ids, np.arange(len(item_ids)))  # fitted on a bare matrix
    if columns is not None and not numbered and not np.array_equal(columns, item_ids):
        raise OffdiagError(
            "the columns of validation are other items than those of the training data, or in another order; "
            "take both from the same split"
        )
    some = np.flatnonzero(np.diff(targets.indptr))
    if not len(some):
        raise OffdiagError("validation holds no user with targets; leave it out, and users are set aside instead")
    return Watched(histories[some], targets[some])


def set_aside(matrix: sparse.csr_array, seed: int) -> tuple[sparse.csr_array, Watched | None]:
    """The remaining training data, and a twentieth of the users with a fifth of each history as targets.

    None where only a handful of users could be set aside: then all epochs are run and the last one is kept.
    """
    lengths = np.diff(matrix.indptr)
    able = np.flatnonzero(lengths >= LEAST)
    count = min(int((lengths > 0).sum()) // SHARE, MOST, len(able))
    if count < 1:
        return matrix, None
    rng = np.random.default_rng([seed, 0, 1])
    chosen = np.sort(rng.choice(able, count, replace=False))
    rows = matrix[chosen]
    key = rng.permutation(rows.nnz)
    hidden = rank_within_rows(rows.indptr, key, max(rows.nnz, 1)) < np.repeat(lengths[chosen] // 5, lengths[chosen])
    rest = np.ones(matrix.shape[0], dtype=np.bool_)
    rest[chosen] = False
    return matrix[np.flatnonzero(rest)], Watched(_only(rows, ~hidden), _only(rows, hidden))


def _only(rows: sparse.csr_array, mask: NDArray[np.bool_]) -> sparse.csr_array:
    """The entries of a mask, over the same shape."""
    kept = np.concatenate(([0], np.cumsum(mask)))[rows.indptr].astype(rows.indptr.dtype)
    return sparse.csr_array((rows.data[mask], rows.indices[mask], kept), shape=rows.shape)
