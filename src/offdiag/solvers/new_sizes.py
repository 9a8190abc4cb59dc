"""How popular new items become, as far as their features tell: the usual size of their scores.

Problem   β = argmin |log L − mean − A β|² + RIDGE·|β|² over the known items, whose scores have the usual sizes L. A is
          their features, and how many of each kind they have: of what many chose, more is written down.
Cost      some products with A, by the conjugate gradients of LSQR.
Beside    the mixture of a new item predicts its size from the items like it; this from all items.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import lsqr

from offdiag.solvers import Doubles, Ints, blas

RIDGE = 1.0  # what says as much as one item with a feature does
EXACT, STEPS = 1e-4, 50  # of the solution, which is a prediction within a factor of two at best


@dataclass(frozen=True, eq=False)
class Sizes:
    """What makes the logarithm of a size, around its mean."""

    features: Doubles  # (features,)
    counts: Doubles  # (kinds,) for the logarithm of how many there are of a kind
    start: float

    def of(self, F: sparse.csr_array, kinds: Ints) -> Doubles:
        """What these items differ from the mean by."""
        found: Doubles = F @ self.features + _counts(F, kinds, len(self.counts)) @ self.counts + self.start
        return found


def fit(F: sparse.csr_array, kinds: Ints, log: Doubles) -> Sizes:
    """From known items with the features F, each of a kind from 0, and the logarithms of their sizes."""
    n = int(kinds.max(initial=0)) + 1
    counts = _counts(F, kinds, n)
    usual, spread = (counts.mean(axis=0), counts.std(axis=0)) if len(counts) else (np.zeros(n), np.zeros(n))
    unit = np.where(spread > 1e-9, 1 / np.maximum(spread, 1e-9), 0)  # a kind of which all have as many says nothing
    A = sparse.csr_array(sparse.hstack([F, sparse.csr_array((counts - usual) * unit)]))
    target = log - log.mean() if len(log) else log
    with blas.one_thread():  # its norms are of short vectors
        beta = lsqr(A, target, damp=np.sqrt(RIDGE), atol=EXACT, btol=EXACT, iter_lim=STEPS)[0]
    of_counts = beta[F.shape[1] :] * unit
    return Sizes(beta[: F.shape[1]], of_counts, -float(usual @ of_counts))


def _counts(F: sparse.csr_array, kinds: Ints, n: int) -> Doubles:
    """The logarithm of how many features of each kind an item has."""
    row = np.repeat(np.arange(F.shape[0]), np.diff(F.indptr))
    many = np.bincount(row * n + kinds[F.indices], minlength=F.shape[0] * n)
    found: Doubles = np.log1p(many).reshape(F.shape[0], n)
    return found
