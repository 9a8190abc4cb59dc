"""A first-order Markov chain: what follows the last item, as counted."""

from __future__ import annotations

from typing import Any, Literal, Self, Unpack

import numpy as np
from scipy import sparse

from offdiag import memory
from offdiag.data.sequences import Sequences
from offdiag.models import fields
from offdiag.models.ordered import read_ordered
from offdiag.models.recommender import Recommender
from offdiag.models.source import Reading
from offdiag.progress import Progress, reporter
from offdiag.ranking import Recency
from offdiag.weights import Smoothed, Sparse


@fields.model
class MarkovChain(Recommender):
    """The score of an item is the probability that it follows the last item of the history.

    P(i | j) = (n_ji + smoothing·p_i) / (Σ_l n_jl + smoothing)

    Use it as the baseline for models that know order: it sees one item of a history and no more. n_ji counts how often
    i came right after j, and p_i is the share of i in all events. ``fit`` needs Interactions with times or events
    (``od.read(…, time=…, keep="events")``); values are not used.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, times=True, seed=0)
        >>> chain = od.MarkovChain().fit(X)
        >>> bool(abs(chain.predict([X.history(0)]).sum() - 1) < 1e-5)  # probabilities
        True
    """

    knows_order = True
    smoothing: float = fields.setting(
        1.0, low=0, search=fields.Range(0.1, 100.0, log=True),
        help="Number of transitions, spread over all items by popularity, that are added to those of each item. "
        "0: an item that never followed the last one has probability 0.",
    )  # fmt: skip
    dtype: Literal["float32", "float64"] = fields.dtype()

    def fit(
        self, X: Any, y: Any = None, *, progress: Progress | bool | None = None, **reading: Unpack[Reading]
    ) -> Self:
        """Learn from Interactions with times or events, or from any table, with the options of ``od.read``.

        Memory: some 40 bytes per event while counting, then 8 per distinct transition; no m×m matrix.
        """
        report = reporter(progress)
        used = self._validate()
        sequences, matrix, source = read_ordered(X, reading, "MarkovChain")
        memory.require(
            40 * sequences.n_events, f"the transitions of {sequences.n_events:,} events", "keep fewer events"
        )
        weights = transition_probabilities(sequences, matrix.shape[1], used.smoothing, self.dtype)
        if report is not None:
            report("counting transitions", 1.0)
        return self._store(weights, **vars(source), settings=used._settings())

    def _recency(self) -> Recency:
        return Recency(0.0)  # the last item counts 1, the others only as seen


def transition_probabilities(sequences: Sequences, m: int, smoothing: float, dtype: str) -> Smoothed:
    """P as a sparse matrix and a product of two vectors; the diagonal is in the sparse part, as its form asks for."""
    inside = sequences.from_end() > 0  # every event but the last of a user has a successor
    before, after = sequences.items[inside], sequences.items[np.flatnonzero(inside) + 1]
    counts = sparse.coo_array((np.ones(len(before)), (before, after)), shape=(m, m)).tocsr()
    share = np.bincount(sequences.items, minlength=m) / sequences.n_events
    leaving = np.bincount(before, minlength=m) + smoothing
    inverse = np.divide(1.0, leaving, out=np.zeros(m), where=leaving > 0)  # nothing follows it, and no smoothing
    sharp = sparse.diags_array(inverse) @ counts + sparse.diags_array(inverse * smoothing * share)
    said, heard = smoothing * inverse, share
    return Smoothed(
        Sparse.of(sparse.csr_array(sharp.astype(dtype))),
        np.ones((m, 1), dtype),
        said.astype(dtype),
        heard.astype(dtype),
    )
