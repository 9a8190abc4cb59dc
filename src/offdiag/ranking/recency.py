"""What a past choice counts for in a recommendation: less the older it is, by its place or by its time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offdiag import checks
from offdiag.data.sequences import Sequences
from offdiag.errors import OffdiagError


class Recency(NamedTuple):
    """Recent choices count for more; repeats add up.

    With ``decay`` the last choice counts 1, the one before it ``decay``, then decay², …  With ``half_life`` a choice
    counts half if it is this much older than the last one. A later moment than that of the last choice would multiply
    all scores of a user by the same number, so it could not change a list.
    """

    decay: float = 1.0
    half_life: float | None = None

    def weights(self, events: Sequences) -> NDArray[np.float64]:
        """What each event counts for."""
        if self.half_life is None:
            decayed: NDArray[np.float64] = self.decay ** events.from_end().astype(np.float64)
            return decayed
        if not events.n_events:
            return np.ones(0)
        if events.times is None:
            raise OffdiagError(
                "history_half_life needs the time of each choice, but these histories have none; give lists of "
                "(id, time) pairs, such as [[('a', 1), ('b', 5)]], Interactions read with time=<column>, or "
                "history_decay=<number> to go by place instead"
            )
        with np.errstate(over="ignore", under="ignore"):  # so old that it counts for nothing
            return np.exp2(-events.ages() / self.half_life)


def checked_recency(history_decay: Any, history_half_life: Any, learned: Recency | None) -> Recency | None:
    """The recency that a caller asks for, else the learned one; None if the order does not matter."""
    if history_decay is None and history_half_life is None:
        return learned
    if history_decay is not None and history_half_life is not None:
        raise OffdiagError(
            "expected history_decay (by place) or history_half_life (by time), received both "
            f"({history_decay!r}, {history_half_life!r}); give one"
        )
    if history_half_life is not None:
        return Recency(half_life=checks.number("history_half_life", history_half_life, 0, above=True))
    decay = checks.number("history_decay", history_decay, 0, 1, above=True)
    return None if decay == 1 else Recency(decay)
