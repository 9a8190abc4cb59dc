"""Settings that are best in a blend: trials are judged by the lists of a blend, not by their own.

A sharp model that is to be blended with a smooth one may be sharper than one that stands alone. The scores of the
others are computed once, for some of the validation users; a trial adds its own, in its unit and with its share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import memory, ranking
from offdiag.data.split import HeldOut, Split
from offdiag.evaluation import Result, evaluate
from offdiag.models.blended_parts import blended
from offdiag.models.recommender import Recommender
from offdiag.progress import Progress
from offdiag.protocols import Learner, Ranker
from offdiag.tuning.trial_runner import Bench
from offdiag.weights import Scorer, Weights
from offdiag.weights.blended import unit
from offdiag.weights.protocol import Tile

SCORES = 1 << 27  # numbers that are kept
FEWEST = 250  # users: fewer decide nothing
SHARE_OF_MEMORY = 8  # of the memory that is available: one part in so many


class BlendBench(Bench):
    """A bench whose trials are measured together with fitted models that know no order.

    ``shares`` are those of the model that is tuned and of the others; a trial has no small problem, since only the
    lists of all parts together count.
    """

    def __init__(
        self, split: Split, metric: str, others: Sequence[Recommender], shares: NDArray[np.float64], seed: int
    ) -> None:
        held = split.validation
        assert held is not None
        super().__init__(split.train, held, metric)
        self.small = None
        there = memory.available()
        most = SCORES if there is None else min(SCORES, there // (4 * SHARE_OF_MEMORY))
        users = np.flatnonzero(np.diff(held.targets.indptr))
        n = max(most // self.matrix.shape[1], min(FEWEST, len(users)))
        what = f"scores of {n:,} users for {self.matrix.shape[1]:,} items"
        memory.require(4 * n * self.matrix.shape[1], what, "tune the model alone")
        if len(users) > n:
            users = np.sort(np.random.default_rng(seed).choice(users, n, replace=False))
        rows = sparse.csr_array(held.histories[users]).astype(np.float32)
        self._held = HeldOut(rows, sparse.csr_array(held.targets[users]), users, held.item_ids)
        self._share = float(shares[0])
        weights, _ = blended(others, shares[1:])
        self._others: NDArray[np.float32] = np.asarray(rows @ weights, dtype=np.float32)

    def glance(self, model: Learner, progress: Progress | None = None) -> Result | None:
        return None

    def measure_some(self, model: Ranker) -> Result | None:
        return None

    def left_out_error(self, model: Learner) -> float | None:
        return None

    def measure(self, model: Ranker) -> Result:
        assert isinstance(model, Recommender)
        return evaluate(_Together(model.weights_, self._others, self._share), self._held, [self.metric])

    def fingerprint(self) -> str:
        """Trials with other parts or other shares cannot be compared with these."""
        sums = self._others.sum(axis=1, dtype=np.float64)
        return f"{super().fingerprint()}, {self._share:.6g} and {float(sums.sum()):.6g}"


class _Together(Scorer):
    """The scores of one part in its unit, added to those of the others; ranks the users of the bench in their order."""

    def __init__(self, weights: Weights, others: NDArray[np.float32], share: float) -> None:
        self.weights, self.others, self.share = weights, others, share
        self.indices: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._factors: NDArray[np.float32] = np.empty(0, dtype=np.float32)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.others.dtype

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        for lo, hi, own in self.weights.score_tiles(X):

            def score(first: int, last: int, lo: int = lo, hi: int = hi, own: Any = own) -> NDArray[np.float32]:
                out: NDArray[np.float32] = own(first, last) * self._factors[first:last]
                out += self.others[first:last, lo:hi]
                return out

            yield lo, hi, score

    def recommend(self, histories: Any, k: int, exclude_seen: bool) -> Self:
        theirs = unit(self.weights, histories)
        factors = np.divide(self.share, theirs, out=np.zeros_like(theirs), where=theirs > 0)
        self._factors = factors[:, None].astype(np.float32)
        self.indices, _ = ranking.top_k(self, histories, k, exclude_seen=exclude_seen)
        return self
