"""NextItem: what comes next, from ordered histories, by one ridge regression; see docs/models.md."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import memory
from offdiag.data.interactions import Interactions
from offdiag.data.sequences import Sequences
from offdiag.errors import OffdiagError
from offdiag.gramian.order import Ageing, OrderSums, count_order
from offdiag.gramian.order_gram import OrderGram
from offdiag.gramian.packed import Gram
from offdiag.gramian.sparse import SparseGram
from offdiag.living import exact_change, full_rank
from offdiag.living.exact_change import Change, NewWeights
from offdiag.living.order import Histories, ordered_events
from offdiag.models import fields, order_defaults, order_features
from offdiag.models.fields import Auto, number
from offdiag.models.ordered import as_pairs, read_ordered
from offdiag.models.recommender import Recommender
from offdiag.models.side_information import Side, side_of, side_of_fit
from offdiag.models.source import Reading
from offdiag.models.sparse import block_bytes
from offdiag.progress import Progress, reporter
from offdiag.ranking import Recency
from offdiag.solvers import cholesky, next_item, order_supports, popularity_order, support
from offdiag.weights import Dense, Sparse

ADVICE = "set neighbours (100, for instance), or keep fewer items with od.prepare.min_counts(items=...)"


@fields.model
class NextItem(Recommender):
    """What a user chooses next, predicted from what they chose before, recent choices first.

    min Σ ‖y − sB‖² + ‖Λ^½ B‖²,  diag(B) = 0,  Λ = dropout/(1 − dropout)·diag(Σ sᵀs) + l2

    Use it where interactions have times and the question is what comes next. The sum is over all moments of all
    histories: y is the next item, s the earlier ones, weighted by age. Mixed in is what occurs together in a history,
    whatever the order, which is EDLAE (mix=1). Beyond some 20,000 items set ``neighbours``: column i is then solved on
    the items j with the largest K_ji²/H_jj, K = Σ sᵀy, H = Σ sᵀs + Λ, and no items × items matrix is held. ``fit``
    needs Interactions with times or events (``od.read(…, time=…, keep="events")``); values are not used. ``recommend``
    takes lists of ids, latest last, lists of (id, time) pairs, or Interactions with times.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, times=True, seed=0)
        >>> model = od.NextItem(l2=10.0).fit(X)
        >>> model.recommend([X.history(0)], k=5).items.shape  # latest last
        (1, 5)
    """

    l2_of_ease = True
    knows_order = True
    can_change = True
    cluster_fit = "order"

    mix: float | Auto = fields.setting(
        "auto", low=0, high=1, search=fields.Range(0.0, 0.8), auto=order_defaults.RULE,
        help="Weight of what occurs together, whatever the order. 0: only the order counts. 1: the order does not "
        "count, as in EDLAE.",
    )  # fmt: skip
    l2: float | Auto = fields.l2(auto=order_defaults.RULE)
    dropout: float | Auto = fields.dropout(auto=order_defaults.RULE, search=fields.Range(0.0, 0.8))
    history_decay: float | Auto = fields.setting(
        "auto", low=0, high=1, above=True, search=fields.Range(0.3, 1.0), auto=order_defaults.RULE,
        help="What a choice counts for in a recommendation, compared with the choice after it. "
        "1: the whole history counts alike, in any order.",
    )  # fmt: skip
    history_half_life: float | None = fields.setting(
        None, low=0, above=True, replaces="history_decay",
        help="A choice counts half in a recommendation if it is this much older than the last one. In the unit of the "
        "times, which histories must then have; it replaces history_decay.",
    )  # fmt: skip
    decay: float | Auto = fields.setting(
        "auto", low=0, high=1, above=True, search=fields.Range(0.3, 1.0), auto=order_defaults.RULE,
        help="The same while learning: the weight of an earlier choice, compared with the choice after it.",
    )  # fmt: skip
    half_life: float | None = fields.setting(
        None, low=0, above=True, replaces="decay",
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
    feature_weight: float | Auto = fields.feature_weight()
    neighbours: int | None = fields.setting(
        None, whole=True, low=1,
        help="Number of items that each item is predicted from, for large catalogues. None: all, which needs 1.5 m² "
        "numbers for m items.",
    )  # fmt: skip
    block_bytes: int | Auto = fields.block_bytes(
        help="With neighbours: part of Σ sᵀs that is held at a time, in bytes. It does not change the result."
    )
    dtype: Literal["float32", "float64"] = fields.dtype()

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        item_features: Any = None,
        progress: Progress | bool | None = None,
        **reading: Unpack[Reading],
    ) -> Self:
        """Learn from Interactions with times or events, or from any table, with the options of ``od.read``.

        ``item_features`` is what is known about the items (``od.read_features``, docs/features.md); not with
        ``neighbours``.

        Memory: 1.5 m² numbers for m items, a sixteenth of m² while counting, and with a half-life 16 bytes per event.
        Time: Σ n_u² additions at most, and 8/3 m³ flops (7/3 m³ with repeats). With ``neighbours``: 16 bytes per event
        (32 with a half-life), two numbers per neighbour, and ``block_bytes``.
        """
        progress = reporter(progress)
        used = self._validate()
        used._check_ageing()
        timed = used.half_life is not None or used.history_half_life is not None
        sequences, matrix, source = read_ordered(X, reading, "NextItem", timed=timed)
        used._check_memory(matrix.shape[1], sequences.n_events)
        side = side_of(used, source.item_ids, item_features)
        if side.rows is not None and used.neighbours is not None:
            raise OffdiagError("NextItem takes item_features or neighbours, received both; leave one out")
        order_defaults.resolve(used, matrix, sequences, progress)
        order_features.choose(used, side, matrix, sequences, progress)
        if used.neighbours is None:
            weights: Dense | Sparse = used._dense(matrix, sequences, progress, side)
        else:
            weights = used._sparse(matrix, sequences, progress)
        pairs_only = isinstance(X, Interactions) and X.events is None
        past = source.past.in_order(replace(used._histories(sequences), every_event=not pairs_only))
        self._store(weights, **vars(replace(source, past=past)), settings=used._used_settings())
        return self._keep_features(side.features)

    def _check_ageing(self) -> None:
        for name, known in fields.settings_of(self).items():
            value, other = getattr(self, name), getattr(self, known.replaces or name)
            if known.replaces and value is not None and other != "auto":
                raise OffdiagError(f"expected {known.replaces} or {name}, received both ({other!r}, {value!r})")

    def _check_events(self, examples: NDArray[np.int64], timed: bool) -> None:
        """Check what is known of the events on a cluster; ``examples[n]``: how many users have n."""
        if not timed and (self.half_life is not None or self.history_half_life is not None):
            raise OffdiagError("a half-life needs times, but these events have only an order; read with time=<column>")
        if not examples[1:].any():
            raise OffdiagError("expected a user with two events or more, received none; nothing follows anything here")

    def _choose_settings(self, inter: Interactions, side: Side, progress: Progress | None) -> None:
        """Replace every "auto", for a fit on a cluster."""
        assert inter.events is not None
        matrix = as_pairs(inter).matrix
        order_defaults.resolve(self, matrix, inter.events, progress)
        order_features.choose(self, side, matrix, inter.events, progress)

    def _used_settings(self) -> dict[str, Any]:
        """The settings that decided what was learned."""
        settings = self._settings()
        del settings["block_bytes"]
        settings = {name: value for name, value in settings.items() if value is not None}
        for name, known in fields.settings_of(self).items():
            if known.replaces and name in settings:
                del settings[known.replaces]
        return settings

    def _dense(self, matrix: sparse.csr_array, sequences: Sequences, progress: Progress | None, side: Side) -> Dense:
        sums = count_order(
            sequences, matrix.shape[1], self._ageing(), later=self.targets == "later",
            user_power=number(self.user_power), mix=number(self.mix), matrix=matrix, dtype=self.dtype,
            progress=progress,
        )  # fmt: skip
        order_features.add(sums, side, self)
        return self._solve(sums, progress)

    def _solve(self, sums: OrderSums, progress: Progress | None) -> Dense:
        B = next_item.solve(
            sums.A, sums.K, dropout=number(self.dropout), l2=number(self.l2), repeats=self.repeats, progress=progress
        )
        return Dense(B)

    def _sparse(self, matrix: sparse.csr_array, sequences: Sequences, progress: Progress | None) -> Sparse:
        m = matrix.shape[1]
        rank = popularity_order.popularity_rank(np.bincount(matrix.indices, minlength=m))
        data = order_supports.OrderRows.of(
            sequences, np.diff(matrix.indptr), rank, self._ageing(), user_power=number(self.user_power),
            mix=number(self.mix), later=self.targets == "later",
        )  # fmt: skip
        supports = order_supports.solve(
            data, self._n_neighbours(m), self.dtype, dropout=number(self.dropout), l2=number(self.l2),
            repeats=self.repeats, block_bytes=block_bytes(self.block_bytes), progress=progress,
        )  # fmt: skip
        return self._of_supports(supports, rank)

    def _of_supports(self, supports: support.Supports, rank: NDArray[np.int32]) -> Sparse:
        return Sparse(*support.to_rows(supports, rank, np.ones(len(rank), dtype=self.dtype)))

    def _n_neighbours(self, m: int) -> int:
        """The length of a support: an item is its own neighbour only if it may follow itself."""
        return max(min(self.neighbours or m, m if self.repeats else m - 1), 1)

    def _check_memory(self, m: int, n_events: int) -> None:
        itemsize = np.dtype(self.dtype).itemsize
        if self.neighbours is None:
            cholesky.check_feasible(m, itemsize, extra=m * m * itemsize, instead=ADVICE)
            return
        k, timed = self._n_neighbours(m), self.half_life is not None
        memory.require(
            (order_supports.EVENT_BYTES + timed * order_supports.TIME_BYTES) * n_events + 2 * (4 + itemsize) * m * k,
            f"a sparse model of {m:,} items with {k:,} neighbours each",
            "ask for fewer neighbours, or keep fewer items with od.prepare.min_counts(items=...)",
        )

    def _ageing(self) -> Ageing:
        return Ageing(number(self.decay) if self.half_life is None else 1.0, self.half_life, self.window)

    def _histories(self, sequences: Sequences) -> Histories:
        return Histories(sequences, self._ageing(), self.targets == "later")

    def _histories_of(self, X: Any) -> tuple[Any, Histories | None]:
        used = self._unfitted_copy()
        sequences = ordered_events(X, "NextItem", timed=used.half_life is not None)
        return as_pairs(X), used._histories(sequences)

    def _refit(self, G: Gram | SparseGram, progress: Progress | None = None, item_ids: Any = None) -> Self:
        assert isinstance(G, OrderGram)
        fresh = self._unfitted_copy()
        sums = G.mixed(number(fresh.mix), fresh.dtype)
        order_features.add(sums, side_of_fit(self, np.arange(G.n_items) if item_ids is None else item_ids), fresh)
        weights = fresh._solve(sums, progress)
        return fresh._store(weights, np.arange(G.n_items), G.item_sums, G.n_users, self.settings_)

    def _follow(self, change: Change, progress: Progress | None) -> NewWeights:
        return exact_change.refit(self, change.G, change.item_ids, progress)

    def _tolerances(self) -> tuple[float, float]:
        return full_rank.TOLERANCE[self.dtype], full_rank.TOLERANCE[self.dtype]

    def _recency(self) -> Recency | None:
        used = self._require_fit().settings_
        if "history_half_life" in used:
            return Recency(half_life=used["history_half_life"])
        return None if used["history_decay"] == 1 else Recency(used["history_decay"])
