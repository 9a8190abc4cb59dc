"""NextItem: what comes next, from ordered histories, by one ridge regression; see docs/models.md."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self, Unpack

import numpy as np

from offdiag.data.interactions import Interactions
from offdiag.data.sequences import Sequences, sequences_of
from offdiag.errors import OffdiagError
from offdiag.gramian.order import Ageing, count_order
from offdiag.models import fields, order_defaults
from offdiag.models.fields import Auto, number
from offdiag.models.recommender import Recommender
from offdiag.models.source import Reading, data_of, read_data
from offdiag.progress import Progress, reporter
from offdiag.ranking import Recency
from offdiag.solvers import cholesky, next_item
from offdiag.weights import Dense


@fields.model
class NextItem(Recommender):
    """What a user chooses next, predicted from what they chose before, recent choices first.

    min Σ ‖y − sB‖² + ‖Λ^½ B‖²,  diag(B) = 0,  Λ = dropout/(1 − dropout)·diag(Σ sᵀs) + l2

    Use it where interactions have times and the question is what comes next, for up to some 20,000 items. The sum is
    over all moments of all histories: y is the next item, s the earlier ones, weighted by age. Mixed in is what occurs
    together in a history, whatever the order, which is EDLAE (mix=1). ``fit`` needs Interactions with times or events
    (``od.read(…, time=…, keep="events")``); values are not used. ``recommend`` takes lists of ids, latest last, lists
    of (id, time) pairs, or Interactions with times.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, times=True, seed=0)
        >>> model = od.NextItem(l2=10.0).fit(X)
        >>> model.recommend([X.history(0)], k=5).items.shape  # latest last
        (1, 5)
    """

    l2_of_ease = True
    knows_order = True

    mix: float | Auto = fields.setting(
        "auto", low=0, high=1, search=fields.Range(0.0, 0.8), auto=order_defaults.RULE,
        help="Weight of what occurs together, whatever the order. 0: only the order counts. 1: the order does not "
        "count, as in EDLAE.",
    )  # fmt: skip
    l2: float | Auto = fields.l2(auto=order_defaults.RULE)
    dropout: float | Auto = fields.dropout(auto=f"{order_defaults.DROPOUT:g}", search=fields.Range(0.0, 0.8))
    history_decay: float | Auto = fields.setting(
        "auto", low=0, high=1, above=True, search=fields.Range(0.3, 1.0), auto=order_defaults.RULE,
        help="What a choice counts for in a recommendation, compared with the choice after it. "
        "1: the whole history counts alike, in any order.",
    )  # fmt: skip
    history_half_life: float | None = fields.setting(
        None, low=0, above=True,
        help="A choice counts half in a recommendation if it is this much older than the last one. In the unit of the "
        "times, which histories must then have; it replaces history_decay.",
    )  # fmt: skip
    decay: float | Auto = fields.setting(
        "auto", low=0, high=1, above=True, search=fields.Range(0.3, 1.0), auto=order_defaults.RULE,
        help="The same while learning: the weight of an earlier choice, compared with the choice after it.",
    )  # fmt: skip
    half_life: float | None = fields.setting(
        None, low=0, above=True,
        help="While learning, a choice counts half if it is this much older than what is predicted. "
        "In the unit of the times, seconds if they were dates; it replaces decay.",
    )  # fmt: skip
    window: int | None = fields.setting(
        None, whole=True, low=1,
        help="At most this many earlier choices count for one prediction. None: all.",
    )  # fmt: skip
    targets: Literal["next", "later"] = fields.setting(
        "next", choices=("next", "later"),
        help="What is predicted. The next choice, or all later ones, weighted by their distance as the earlier ones "
        "are.",
    )  # fmt: skip
    repeats: bool = fields.setting(
        False, help="Whether an item may follow itself. To be recommended again it also needs exclude_seen=False."
    )
    user_power: float | Auto = fields.user_power(
        auto=f"{order_defaults.USER_POWER:g}", search=None,
        help="A user with n examples counts n^-user_power for each. "
        "0: every example has the same weight, so heavy users dominate. 1: every user has the same weight.",
    )  # fmt: skip
    dtype: Literal["float32", "float64"] = fields.dtype()

    def fit(
        self, X: Any, y: Any = None, *, progress: Progress | bool | None = None, **reading: Unpack[Reading]
    ) -> Self:
        """Learn from Interactions with times or events, or from any table, with the options of ``od.read``.

        Memory: 1.5 m² numbers for m items, a sixteenth of m² while counting, and with a half-life 24 bytes per event.
        Time: Σ n_u² additions at most, and 3m³ flops (7/3 m³ with repeats).
        """
        progress = reporter(progress)
        used = self._validate()
        if used.half_life is not None and self.decay != "auto":
            raise OffdiagError(f"expected decay or half_life, received both ({self.decay!r}, {self.half_life!r})")
        if used.history_half_life is not None and self.history_decay != "auto":
            both = f"({self.history_decay!r}, {self.history_half_life!r})"
            raise OffdiagError(f"expected history_decay or history_half_life, received both {both}")
        X = data_of(X, reading, keep="events")
        sequences = ordered_events(X, timed=used.half_life is not None or used.history_half_life is not None)
        matrix, source = read_data(replace(X, matrix=_as_set(X.matrix)))
        m = matrix.shape[1]
        cholesky.check_feasible(m, itemsize := np.dtype(self.dtype).itemsize, extra=m * m * itemsize)
        order_defaults.resolve(used, matrix, sequences, progress)
        sums = count_order(
            sequences, m, used._ageing(), later=used.targets == "later", user_power=number(used.user_power),
            mix=number(used.mix), matrix=matrix, dtype=self.dtype, progress=progress,
        )  # fmt: skip
        B = next_item.solve(
            sums.A, sums.K, dropout=number(used.dropout), l2=number(used.l2), repeats=used.repeats, progress=progress
        )
        settings = {name: value for name, value in used._settings().items() if value is not None}
        if used.history_half_life is not None:
            del settings["history_decay"]
        return self._store(Dense(B), **vars(source), settings=settings)

    def _ageing(self) -> Ageing:
        return Ageing(number(self.decay) if self.half_life is None else 1.0, self.half_life, self.window)

    def _recency(self) -> Recency | None:
        used = self._require_fit().settings_
        if "history_half_life" in used:
            return Recency(half_life=used["history_half_life"])
        return None if used["history_decay"] == 1 else Recency(used["history_decay"])


def ordered_events(X: Any, *, timed: bool) -> Sequences:
    """The events of Interactions in order; anything without an order is an error that says how to read one."""
    sequences = sequences_of(X) if isinstance(X, Interactions) else None
    if sequences is None:
        received = "Interactions without times" if isinstance(X, Interactions) else type(X).__name__
        raise OffdiagError(
            f"NextItem learns from the order of events, but received {received}; read the table with "
            "time=<column>, or with keep='events' if its rows are in order"
        )
    if timed and sequences.times is None:
        raise OffdiagError(
            "a half-life needs times, but these events have only an order; use decay, or read with time="
        )
    if not (sequences.lengths > 1).any():
        raise OffdiagError("expected a user with two events or more, received none; nothing follows anything here")
    return sequences


def _as_set(matrix: Any) -> Any:
    """The same pairs, each with the value 1."""
    if (matrix.data == 1).all():
        return matrix
    ones = matrix.copy()
    ones.data = np.ones(matrix.nnz, dtype=np.float32)
    return ones
