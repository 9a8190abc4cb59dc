"""EASE, DLAE, EDLAE and RDLAE: four models from one inverse [Steck19, Steck20, Moon23]; see docs/models.md."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Literal, Self, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import memory
from offdiag.errors import OffdiagError
from offdiag.gramian import layout
from offdiag.gramian.packed import Gram, gram
from offdiag.living import full_rank
from offdiag.living.exact_change import Change, NewWeights
from offdiag.models import auto, dislikes, fields, side_information
from offdiag.models.fields import Auto, number
from offdiag.models.grouping import Grouping, grouping_of
from offdiag.models.recommender import Recommender
from offdiag.models.side_information import NO_SIDE, Side, side_of
from offdiag.models.source import Reading, Source, check_gram, data_of, read_data, read_gram
from offdiag.progress import Progress, reporter
from offdiag.solvers import cholesky, grouped
from offdiag.solvers import prior as prior_solver
from offdiag.solvers.products import item_l2
from offdiag.weights import Dense, Grouped, Packed

_OBJECTIVE = {"dropout": 0.0, "kept_weight": 0.0, "max_diagonal": None}  # arguments of the solver, with those of EASE


class Regression(Recommender):
    """What models share whose columns are regularised regressions of one item on others."""

    learns_from_gram = True
    can_change = True
    has_propensity = True
    l2_of_ease = True
    auto_of_ease = True
    l2: float | Auto
    user_power: float | Auto
    item_power: float
    propensity_power: float
    dtype: Literal["float32", "float64"]
    penalty_: float | None  # l2 in the unit of the unscaled Gram, as in the inverse; None: one per item
    objective_: float  # the minimum reached (docs/models.md), in squared units of the weighted data

    def with_propensity(self, power: float) -> Self:
        """The same fit with its scores divided by another power of popularity; large arrays are shared, not copied.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> od.EASE(l2=10.0).fit(X).with_propensity(0.2).settings_["propensity_power"]
            0.2
        """
        model = copy.copy(self._require_fit())
        model.propensity_power = float(power)
        model.settings_ = self.settings_ | {"propensity_power": model._valid_settings()["propensity_power"]}
        before = inverse_propensity(self.popularity_, self.settings_["propensity_power"])
        ratio = inverse_propensity(self.popularity_, power) / before
        model.weights_ = self.weights_.scaled(ratio.astype(model.dtype))
        return model

    def _resolve_on_cluster(self, settings: dict[str, Any], scale: Callable[..., float]) -> dict[str, Any]:
        """Every "auto" replaced, for a fit on a cluster."""
        used = self._with(settings)
        auto.from_scale(scale, used)
        return used._settings()


@fields.model
class _Settings(Regression):
    """The settings that all full-rank models share."""

    user_power: float | Auto = fields.user_power()
    item_power: float = fields.item_power()
    propensity_power: float = fields.propensity_power()
    feature_weight: float | Auto = fields.feature_weight()
    prior_weight: float | Auto = fields.prior_weight()
    storage: Literal["packed", "dense"] = fields.setting(
        "packed", choices=("packed", "dense"), layout=True,
        help="How the weights are stored. Packed is the symmetric inverse, half the memory; dense the matrix itself.",
    )  # fmt: skip
    dtype: Literal["float32", "float64"] = fields.dtype()


class FullRankModel(_Settings):
    """From data to packed weights, once; a subclass is its settings."""

    cluster_fit = "full rank"
    takes_groups = True

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        item_features: Any = None,
        prior: Any = None,
        progress: Progress | bool | None = None,
        **reading: Unpack[Reading],
    ) -> Self:
        """Learn from Interactions, a matrix of users×items, or any table, with the options of ``od.read``.

        ``groups`` are items that are variants of one thing and never explain each other (docs/groups.md): a dict of
        item id to group, a group for each item, or a table with the columns item and group. EASE and EDLAE take them.
        ``item_features`` is what is known about the items (``od.read_features``), ``prior`` a fitted model or a matrix
        of weights that this model should be near; docs/features.md says what they count for.

        Memory: m(m+1)/2 numbers for m items, and a sixteenth of that while counting; with a prior 2.5 m² numbers.
        Time: Σ n_u²/2 additions and m³ flops.
        """
        progress = reporter(progress)
        used = self._validate()
        X = data_of(X, reading)
        matrix, source = read_data(X)
        kinds, disliked = grouping_of(used, groups, source.item_ids), dislikes.dislikes_of(used, X)
        self._check_memory(matrix.shape[1] + (0 if disliked is None else len(np.unique(disliked.indices))))
        side = side_of(used, source.item_ids, item_features, prior)
        _check_together(used, side, kinds, disliked)
        auto.from_data(matrix, used, progress=progress)
        if disliked is not None:
            rarity = inverse_propensity(source.popularity, used.propensity_power)
            weights, penalty, objective = dislikes.solve(used, matrix, disliked, kinds, rarity, progress)
            return self._store(
                weights, **vars(source), settings=used._settings(), penalty_=penalty, objective_=objective,
                _groups=kinds and kinds.catalogue,
            )  # fmt: skip
        side_information.choose(used, side, matrix, progress)
        G = gram(matrix, number(used.user_power), dtype=self.dtype, progress=progress)
        return self._solve(G, used, source, kinds, progress, side)._keep_features(side.features)

    def fit_gram(
        self,
        G: Gram,
        *,
        item_ids: Any = None,
        groups: Any = None,
        item_features: Any = None,
        prior: Any = None,
        progress: Progress | bool | None = None,
    ) -> Self:
        """Learn from a Gram alone, with its ``user_power``. G is copied, not changed; ``groups`` are as in ``fit``.

        Without data, the weights of ``item_features`` and ``prior`` must be given as numbers.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> first, rest = (od.gram(X.select_users(part)) for part in (slice(0, 100), slice(100, 300)))
            >>> od.EASE(l2=20.0).fit_gram(first + rest).n_users_
            300
        """
        progress = reporter(progress)
        used = self._validate()
        check_gram(G, used.user_power)
        source = read_gram(G, item_ids)
        dislikes.dislikes_of(used, G)
        kinds = grouping_of(used, groups, source.item_ids)
        self._check_memory(G.n_items)
        side = side_of(used, source.item_ids, item_features, prior)
        auto.from_gram(G, used)
        _check_together(used, side, kinds)
        side_information.require_numbers(used, side)
        return self._solve(G.astype(self.dtype), used, source, kinds, progress, side)._keep_features(side.features)

    def _solve(
        self, G: Gram, used: Self, source: Source, kinds: Grouping | None, progress: Progress | None,
        side: Side = NO_SIDE,
    ) -> Self:  # fmt: skip
        """Overwrite the values of G with the weights."""
        settings = used._settings()
        scale = G.scale  # B does not change under G → tG, l2 → t·l2, so the m² numbers need not be touched
        side.add_to(G, used)
        l2 = item_l2(number(used.l2) / scale, G.own_diagonal(), used.item_power)
        if settings.get("prior_weight"):
            return self._solve_near(G, l2, settings, source, side, progress)
        weights: Packed | Grouped
        if kinds is None:
            solution = cholesky.solve(G.values, G.n_items, l2=l2, progress=progress, **self._objective(settings))
            weights, objective = self._weights_of(solution, G.item_sums, settings), solution.objective
        else:
            dropout = settings.get("dropout", 0.0)
            found = grouped.solve(G.values, G.n_items, kinds.numbers, dropout=dropout, l2=l2, progress=progress)
            rarity = inverse_propensity(G.item_sums, settings["propensity_power"]).astype(found.C.dtype)
            weights, objective = Grouped(found.C, rarity, kinds.numbers, found.blocks), found.objective
        return self._store(
            weights.todense() if self.storage == "dense" else weights, **vars(source), settings=settings,
            penalty_=l2 if isinstance(l2, float) else None, objective_=objective * scale,
            _groups=kinds and kinds.catalogue,
        )  # fmt: skip

    def _solve_near(
        self, G: Gram, l2: float | NDArray[np.float64], settings: dict[str, Any], source: Source, side: Side,
        progress: Progress | None,
    ) -> Self:  # fmt: skip
        """The same with a prior, which makes the weights a dense matrix."""
        objective = self._objective(settings)
        if objective["kept_weight"] not in (0.0, 1.0):
            raise OffdiagError(
                f"with prior_weight, kept_weight must be 0 or 1, received {objective['kept_weight']!r}; leave one out"
            )
        m, itemsize = G.n_items, np.dtype(self.dtype).itemsize
        memory.require(2 * m * m * itemsize, f"a prior on {m:,} × {m:,} weights", "leave the prior out")
        W = side.prior_weights(self.dtype)
        weight = settings["prior_weight"] / G.scale
        solution = prior_solver.solve(G.values, W, weight, l2=l2, progress=progress, **objective)
        rarity = inverse_propensity(G.item_sums, settings["propensity_power"]).astype(self.dtype)
        return self._store(
            Dense(solution.B).scaled(rarity), **vars(source), settings=settings,
            penalty_=None, objective_=solution.objective * G.scale,
        )  # fmt: skip

    def _objective(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of ``solvers.cholesky`` besides l2."""
        return {name: settings.get(name, default) for name, default in _OBJECTIVE.items()}

    def _weights_of(
        self, solution: cholesky.Solution, popularity: NDArray[np.float64], settings: Mapping[str, Any]
    ) -> Packed:
        rarity = inverse_propensity(popularity, settings["propensity_power"]).astype(solution.C.dtype)
        return Packed(solution.C, solution.scale * rarity, solution.diagonal * rarity)

    def _follow(self, change: Change, progress: Progress | None) -> NewWeights:
        return full_rank.follow(self, change, progress)

    def _tolerances(self) -> tuple[float, float]:
        tolerance = full_rank.TOLERANCE[self.dtype]
        rarity = inverse_propensity(self.popularity_, self.settings_["propensity_power"])
        return tolerance, tolerance * float(rarity.max(initial=0.0))

    def _check_memory(self, m: int) -> None:
        itemsize = np.dtype(self.dtype).itemsize
        extra = m * m * itemsize if self.storage == "dense" else layout.size(m) * itemsize // 16
        cholesky.check_feasible(m, itemsize, extra=extra)


def _check_together(
    used: FullRankModel, side: Side, kinds: Grouping | None, disliked: sparse.csr_array | None = None
) -> None:
    """A prior has no formula together with groups, and neither features nor a prior have one with dislikes."""
    if disliked is not None and (side.rows is not None or side.prior is not None):
        raise OffdiagError("expected item_features and a prior without dislikes, received both; leave one out")
    if kinds is not None and (side.prior is not None or used.prior_weight not in ("auto", 0.0)):
        raise OffdiagError("expected a prior without groups, received both; leave one out")


def inverse_propensity(popularity: NDArray[np.float64], power: float) -> NDArray[np.float64]:
    """(n_i / max n)^−power: 1 over the assumed probability that an interaction with item i is observed."""
    out: NDArray[np.float64] = np.ones(len(popularity))
    live = popularity > 0
    out[live] = (popularity[live] / popularity.max(initial=0.0)) ** -power
    return out


@fields.model
class EASE(FullRankModel):
    """Ridge regression of each item on all others: EDLAE without dropout [Steck19].

    min ‖X − XB‖² + l2·‖B‖²,  diag(B) = 0

    Use it as the simplest strong model of up to some 20,000 items: one setting matters, and one inverse solves it.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> model = od.EASE(l2=50.0).fit(X)
        >>> model.recommend(X, k=5).items.shape
        (300, 5)
    """

    l2: float | Auto = fields.l2()
    dislike_weight: float = fields.dislike_weight()


@fields.model
class DLAE(FullRankModel):
    """Denoising: the whole history is predicted from a thinned-out copy of itself. EDLAE with kept_weight=1 [Steck20].

    min ‖X − XB‖² + ‖Λ^½ B‖²,  Λ = dropout/(1 − dropout)·diag(XᵀX) + l2

    Use it to compare with EDLAE, which ranks better: here an item may still explain itself.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> model = od.DLAE(dropout=0.5, l2=20.0).fit(X)
        >>> bool(model.weights_.toarray().diagonal().min() > 0)  # items explain themselves
        True
    """

    takes_groups = False

    dropout: float | Auto = fields.dropout()
    l2: float | Auto = fields.l2()

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {"kept_weight": 1.0}


@fields.model
class EDLAE(FullRankModel):
    """Denoising that counts only the hidden items: item i is predicted from the other items [Steck20].

    min ‖X − XB‖² + ‖Λ^½ B‖²,  diag(B) = 0,  Λ = dropout/(1 − dropout)·diag(XᵀX) + l2

    Use it first, for up to some 20,000 items; SparseEDLAE and LowRankEDLAE need no items × items matrix. With
    kept_weight above 0 it is the exact optimum of the emphasised objective, from the same inverse (docs/models.md).

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> model = od.EDLAE(dropout=0.5, l2=20.0).fit(X)
        >>> model.recommend(X, k=5).items.shape
        (300, 5)
        >>> float(abs(model.weights_.toarray().diagonal()).max())  # no item explains itself
        0.0
    """

    dropout: float | Auto = fields.dropout()
    l2: float | Auto = fields.l2()
    kept_weight: float = fields.kept_weight()
    dislike_weight: float = fields.dislike_weight()


@fields.model
class RDLAE(FullRankModel):
    """Denoising in which an item may explain itself only a little: DLAE with a bounded diagonal [Moon23].

    min ‖X − XB‖² + ‖Λ^½ B‖²,  |B_ii| ≤ max_diagonal,  Λ = dropout/(1 − dropout)·diag(XᵀX) + l2

    Use it where EDLAE is too strict and DLAE too loose; ``od.tune`` can tell. With dropout=0 it is known as RLAE.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> model = od.RDLAE(dropout=0.5, l2=20.0, max_diagonal=0.1).fit(X)
        >>> bool(model.weights_.toarray().diagonal().max() <= 0.1001)
        True
    """

    takes_groups = False

    dropout: float | Auto = fields.dropout()
    l2: float | Auto = fields.l2()
    user_power: float | Auto = fields.user_power()  # repeated: the order of settings is the order of the search
    max_diagonal: float = fields.setting(
        0.1, low=0, high=1, search=fields.Range(0.0, 0.5),
        help="Largest weight of an item on itself. 0: none, which is EDLAE. 1: no bound, which is DLAE.",
    )  # fmt: skip
