"""EASE, DLAE, EDLAE and RDLAE: one inverse, four readings of it [Steck19, Steck20, Moon23]; see docs/models.md."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from offdiag.errors import OffdiagError
from offdiag.gramian import layout
from offdiag.gramian.packed import Gram, as_matrix, gram
from offdiag.living import full_rank
from offdiag.living.exact_change import Change, NewWeights
from offdiag.living.past import Past
from offdiag.models import auto
from offdiag.models.fields import Auto, check_gram, check_not_empty, checked, checked_item_ids
from offdiag.models.recommender import Recommender
from offdiag.progress import Progress
from offdiag.solvers import cholesky
from offdiag.solvers.products import item_scale
from offdiag.weights import Compressed, Dense, Packed


class _FullRank(Recommender):
    """From data to packed weights, once; a subclass is its hyper-parameters."""

    changeable: ClassVar[bool] = True
    l2: float | Auto
    user_power: float | Auto
    item_power: float
    propensity_power: float
    storage: Literal["packed", "dense"]
    dtype: Literal["float32", "float64"]
    penalty_: float | None  # l2 in the unit of the unscaled Gram, as the inverse has it; None: one per item
    objective_: float  # the minimum that was reached (docs/models.md), in squared units of the weighted data

    def fit(self, X: Any, *, progress: Progress | None = None) -> Self:
        """Learn from Interactions, a scipy sparse matrix or an array of users×items.

        Memory: m(m+1)/2 numbers for m items, and a sixteenth of that while counting.
        Time: Σ n_u²/2 additions and m³ flops.
        """
        settings = self._checked()
        matrix = as_matrix(X)
        check_not_empty(matrix.nnz, *matrix.shape)
        self._check_memory(matrix.shape[1])
        settings = auto.from_data(matrix, settings, progress=progress)
        G = gram(matrix, settings["user_power"], dtype=self.dtype, progress=progress)
        return self._solve(G, settings, getattr(X, "item_ids", None), progress, Past.of_fit(matrix, X))

    def fit_gram(self, G: Gram, *, item_ids: Any = None, progress: Progress | None = None) -> Self:
        """Learn from a Gram alone; its ``user_power`` stands. G is copied, not changed."""
        settings = self._checked()
        check_gram(G, settings["user_power"])
        self._check_memory(G.n_items)
        settings = auto.from_gram(G, settings)
        return self._solve(G.astype(self.dtype), settings, item_ids, progress, Past.of_fit(G))

    def with_propensity(self, power: float) -> Self:
        """The same fit with its scores divided by another power of popularity; the inverse is shared, not copied."""
        model, ratio = turned(self, power)
        W = self.weights_
        if isinstance(W, Packed):
            model.weights_ = Packed(W.C, W.scale * ratio, W.diagonal * ratio)
        elif isinstance(W, Compressed):
            model.weights_ = W.scaled(ratio)
        else:
            model.weights_ = Dense(W.toarray() * ratio)
        return model  # type: ignore[no-any-return]

    def _solve(self, G: Gram, settings: dict[str, Any], item_ids: Any, progress: Progress | None, past: Past) -> Self:
        """Overwrites G's values: they become the weights."""
        item_ids = checked_item_ids(item_ids, G.n_items)
        scale = G.scale  # B does not change under G → tG, l2 → t·l2, so the m² numbers need not be touched
        l2 = settings["l2"] / scale
        if settings["item_power"]:  # items normalised before the fit and back after it: a penalty of their own
            g = G.values[layout.diagonal_positions(G.n_items)].astype(np.float64)
            l2 = l2 / item_scale(g, settings["item_power"]) ** 2
        solution = cholesky.solve(
            G.values,
            G.n_items,
            dropout=settings.get("dropout", 0.0),
            l2=l2,
            kept_weight=settings.get("kept_weight", 0.0),
            max_diagonal=settings.get("max_diagonal"),
            progress=progress,
        )
        weights = self._weights_of(solution, G.item_sums, settings)
        return self._store(
            weights.todense() if self.storage == "dense" else weights, item_ids, G.item_sums.copy(), G.n_users,
            settings, past, penalty_=None if settings["item_power"] else l2, objective_=solution.objective * scale,
        )  # fmt: skip

    def _weights_of(self, solution: cholesky.Solution, popularity: NDArray[np.float64], settings: Any) -> Packed:
        rarity = inverse_propensity(popularity, settings["propensity_power"]).astype(solution.C.dtype)
        return Packed(solution.C, solution.scale * rarity, solution.diagonal * rarity)

    def _follow(self, change: Change, progress: Progress | None) -> NewWeights:
        return full_rank.follow(self, change, progress)

    def _tolerances(self) -> tuple[float, float]:
        tolerance = full_rank.TOLERANCE[self.dtype]
        rarity = inverse_propensity(self.popularity_, self.settings_["propensity_power"])
        return tolerance, tolerance * float(rarity.max(initial=0.0))

    def _settled(self, settings: dict[str, Any], scale: Callable[..., float]) -> dict[str, Any]:
        """Every "auto" replaced, for a fit on a cluster."""
        return auto.from_scale(settings, scale)

    def _check_memory(self, m: int) -> None:
        itemsize = np.dtype(self.dtype).itemsize
        extra = m * m * itemsize if self.storage == "dense" else layout.size(m) * itemsize // 16
        cholesky.check_feasible(m, itemsize, extra=extra)

    def _checked(self) -> dict[str, Any]:
        """The hyper-parameters of the mathematics, validated."""
        params = checked(self.get_params())
        if params["item_power"] == "auto":
            raise OffdiagError(f"item_power of {type(self).__name__} must be a number, received 'auto'")
        return {name: value for name, value in params.items() if name not in ("dtype", "storage")}


def turned(fitted: Any, power: float) -> tuple[Any, NDArray[np.floating]]:
    """A copy of a fitted model with another propensity_power, and what its columns have to be multiplied by."""
    model = copy.copy(fitted._fitted())
    model.propensity_power = float(power)
    model.settings_ = fitted.settings_ | {"propensity_power": model._checked()["propensity_power"]}
    before = inverse_propensity(fitted.popularity_, fitted.settings_["propensity_power"])
    return model, (inverse_propensity(fitted.popularity_, power) / before).astype(fitted.dtype)


def inverse_propensity(popularity: NDArray[np.float64], power: float) -> NDArray[np.float64]:
    """(n_i / max n)^−power: 1 over the chance that an interaction with item i shows, if that grows so with n_i."""
    out: NDArray[np.float64] = np.ones(len(popularity))
    live = popularity > 0
    out[live] = (popularity[live] / popularity.max(initial=0.0)) ** -power
    return out


@dataclass(kw_only=True, eq=False)
class EASE(_FullRank):
    """Ridge regression of each item on all others: min ‖X − XB‖² + l2‖B‖², diag(B) = 0. EDLAE without dropout."""

    l2: float | Auto = "auto"
    user_power: float | Auto = "auto"
    item_power: float = 0.0
    propensity_power: float = 0.0
    storage: Literal["packed", "dense"] = "packed"
    dtype: Literal["float32", "float64"] = "float32"


@dataclass(kw_only=True, eq=False)
class DLAE(_FullRank):
    """Denoising without emphasis: min ‖X − XB‖² + ‖Λ^½ B‖², Λ = p/(1−p)·diag(XᵀX) + l2. EDLAE with kept_weight=1."""

    dropout: float | Auto = "auto"
    l2: float | Auto = "auto"
    user_power: float | Auto = "auto"
    item_power: float = 0.0
    propensity_power: float = 0.0
    storage: Literal["packed", "dense"] = "packed"
    dtype: Literal["float32", "float64"] = "float32"

    def _checked(self) -> dict[str, Any]:
        return super()._checked() | {"kept_weight": 1.0}


@dataclass(kw_only=True, eq=False)
class EDLAE(_FullRank):
    """Denoising that counts the dropped entries most: a = 1 for them, b = ``kept_weight`` for the kept ones.

    kept_weight=0 (the default) is the closed form of the paper: an item never predicts itself. Between 0 and 1 the
    exact optimum of the stochastic objective comes from the same inverse.
    """

    dropout: float | Auto = "auto"
    l2: float | Auto = "auto"
    kept_weight: float = 0.0
    user_power: float | Auto = "auto"
    item_power: float = 0.0
    propensity_power: float = 0.0
    storage: Literal["packed", "dense"] = "packed"
    dtype: Literal["float32", "float64"] = "float32"


@dataclass(kw_only=True, eq=False)
class RDLAE(_FullRank):
    """Denoising without emphasis, but no item may explain itself by more than a share: DLAE with |B_ii| ≤ max_diagonal.

    max_diagonal=0 is EDLAE, 1 is DLAE; with dropout=0 it is known as RLAE.
    """

    dropout: float | Auto = "auto"
    l2: float | Auto = "auto"
    max_diagonal: float = 0.1
    user_power: float | Auto = "auto"
    item_power: float = 0.0
    propensity_power: float = 0.0
    storage: Literal["packed", "dense"] = "packed"
    dtype: Literal["float32", "float64"] = "float32"
