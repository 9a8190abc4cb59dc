"""Nearest neighbours among past sessions, recent items and recent sessions first [Ludewig18]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import memory
from offdiag.data.sequences import Sequences
from offdiag.errors import OffdiagError
from offdiag.models import fields
from offdiag.models.ordered import read_ordered
from offdiag.models.recommender import Recommender
from offdiag.models.source import Reading
from offdiag.progress import Progress, reporter
from offdiag.ranking import Recency
from offdiag.weights.sessions import Sessions

if TYPE_CHECKING:
    from offdiag.ranking import Explanation

LONGEST = 500  # items of a history whose order survives in a row of numbers: 0.25^500 is still above 0
ORDER = Recency(0.25)  # below ½, so an item is above all that came before it, however often they came


@fields.model
class SessionKNN(Recommender):
    """Recommends from the past sessions most like the current one: V-SkNN [Ludewig18].

    score_i = Σ_s sim(x, s)/step_s over the nearest sessions s with item i,  sim(x, s) = Σ_j∈s x_j

    Use it as a baseline for sessions (``od.prepare.sessions``); otherwise a session is a user. x falls linearly from 1
    for the last item, and step is the place, from the end, of the last item that both have. Only the most recent
    sessions that share an item are compared. It keeps the sessions themselves, so it cannot be saved: files hold no
    rows of users.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, times=True, seed=0)
        >>> od.SessionKNN(neighbours=20).fit(X).recommend([X.history(0)], k=5).items.shape  # latest last
        (1, 5)
    """

    knows_order = True
    keeps_rows = True
    neighbours: int = fields.setting(
        100, low=1, search=fields.Range(50, 1500, log=True), whole=True,
        help="Number of nearest sessions that are added up.",
    )  # fmt: skip
    sample: int = fields.setting(
        1000, low=1, search=fields.Range(500, 10_000, log=True), whole=True,
        help="Number of sessions that are compared: the most recent of those that share an item with the history.",
    )  # fmt: skip
    window: int = fields.setting(
        100, low=1, high=LONGEST, whole=True, help="Only this many last items of a history count."
    )

    def fit(
        self, X: Any, y: Any = None, *, progress: Progress | bool | None = None, **reading: Unpack[Reading]
    ) -> Self:
        """Keep the sessions of Interactions with times or events, or of any table, with the options of ``od.read``.

        The end of a session is the time of its last event; without times, later users are more recent. Memory: 8 bytes
        per pair of a user and an item.
        """
        report = reporter(progress)
        used = self._validate()
        sequences, matrix, source = read_ordered(X, reading, "SessionKNN")
        memory.require(24 * matrix.nnz, f"the sessions of {matrix.nnz:,} pairs", "keep fewer sessions")
        order = by_end(sequences)
        order = order[np.diff(matrix.indptr)[order] > 1]  # a session of one item leads to no other
        weights = Sessions.of(
            sparse.csr_array(matrix[order]), sample=used.sample, neighbours=used.neighbours, window=used.window
        )
        if report is not None:
            report("sorting sessions", 1.0)
        return self._store(weights, **vars(source), settings=used._settings())

    def explain(self, history: Any, item: Any, **words: Any) -> Explanation:
        raise OffdiagError(
            "SessionKNN is not linear: a score is not a sum over the items of a history; explain with EDLAE or NextItem"
        )

    def _recency(self) -> Recency:
        return ORDER


def by_end(sequences: Sequences) -> NDArray[np.int64]:
    """The users with events, by the time of their last one; ties and users without times stay in their order."""
    users = np.flatnonzero(sequences.lengths)
    if sequences.times is None:
        return users
    return users[np.argsort(sequences.times[sequences.indptr[1:][users] - 1], kind="stable")]
