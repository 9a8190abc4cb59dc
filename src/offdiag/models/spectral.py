"""One truncated SVD, then a shrinkage chosen by theory; changing it costs nothing. See docs/theory/spectral.md."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray

from offdiag.errors import InterruptedFitWarning
from offdiag.models.low_rank import _LowRank
from offdiag.models.settings import Auto
from offdiag.models.shrinks import (
    SHRINKS,
    DropBlock,
    Dropout,
    EarlyStop,
    Hard,
    Ridge,
    Shrink,
    WeightDecay,
    parsed,
)
from offdiag.progress import Progress
from offdiag.solvers import spectral
from offdiag.solvers.products import Product, ScaledProduct, check_range, item_scale
from offdiag.weights import Symmetric

__all__ = [
    "SHRINKS",
    "DropBlock",
    "Dropout",
    "EarlyStop",
    "Hard",
    "Ridge",
    "Shrink",
    "Spectral",
    "WeightDecay",
    "parsed",
]


@dataclass(kw_only=True, eq=False)
class Spectral(_LowRank):
    """B = Q f(σ) Qᵀ from X = P σ Qᵀ: the components of the data, each as much as ``shrink`` lets it.

    ``shrink`` is one of od.spectral.Hard(), Ridge(), WeightDecay(), Dropout(), DropBlock(), EarlyStop(), or its text,
    e.g. "dropout:drop=0.3". ``with_shrink`` changes it after the fit, sharing the decomposition. ``item_power`` weighs
    items by popularity^(−item_power) before the decomposition: 0 as they are, 1 all alike. With a shrink that is given,
    "auto" is 0, the plain theory; where nothing is given, Dropout(drop=0.5) with item_power 0.5, which ranks better.
    """

    rank: int = 200
    shrink: Shrink | str = "auto"
    item_power: float | Auto = "auto"
    user_power: float | Auto = "auto"
    seed: int = 0
    products: Literal["auto", "gram", "data"] = "auto"
    dtype: Literal["float32", "float64"] = "float32"

    def __post_init__(self) -> None:
        if not _is_auto(self.shrink):
            self.shrink = parsed(self.shrink)

    @property
    def singular_values_(self) -> NDArray[np.float64]:
        """σ, largest first, of the data with its user and item weights."""
        return self._spectrum().sigma.copy()

    def with_shrink(self, shrink: Shrink | str) -> Self:
        """The same decomposition, shrunk in another way: a new fitted model that shares Q with this one."""
        spectrum = self._spectrum()
        model = copy.copy(self)
        model.shrink = parsed(shrink)
        model.item_power = self.settings_["item_power"]  # what a fit with these parameters would need
        chosen = _resolved(model.shrink, self.auto_l2_)
        model.weights_ = replace(spectrum, shrink=chosen(spectrum.sigma))
        model.settings_ = self.settings_ | {"shrink": str(chosen)}
        model._tell_objective()
        return model

    def _tell_objective(self) -> None:
        """‖XR − X̂R‖², the squared error that the shrinkage leaves, components not found included."""
        spectrum = cast(Symmetric, self.weights_)
        squares = spectrum.sigma**2
        left = float((squares * (1 - spectrum.shrink) ** 2).sum())
        self.objective_ = max(self.total_ - float(squares.sum()), 0.0) + left
        self.objectives_ = [self.objective_]

    def _spectrum(self) -> Symmetric:
        return cast(Symmetric, self._fitted().weights_)

    def _checked(self) -> dict[str, Any]:
        params = {name: value for name, value in self.get_params().items() if name != "shrink"}
        settings = self._checked_params(params)
        if settings["item_power"] == "auto":
            settings["item_power"] = 0.5 if _is_auto(self.shrink) else 0.0
        return settings | {"l2": "auto"}  # resolved for a shrink that asks for it, now or later: cheap

    def _solve(
        self,
        product: Product,
        settings: dict[str, Any],
        item_ids: NDArray[Any],
        sums: NDArray[np.float64],
        n_users: int,
        progress: Progress | None,
    ) -> Self:
        check_range(product)
        settings["rank"] = min(settings["rank"], int(np.count_nonzero(product.g)))
        l2 = settings.pop("l2")
        chosen = _resolved(Dropout(drop=0.5) if _is_auto(self.shrink) else parsed(self.shrink), l2)
        scale = item_scale(product.g, settings["item_power"])
        if settings["item_power"]:
            product = ScaledProduct(product, scale)
        found = spectral.decompose(product, settings["rank"], seed=self.seed, progress=progress)
        sigma = np.sqrt(found.eigenvalues)
        factors = chosen(sigma)
        # Nothing is assigned before this line: a failed fit leaves an earlier one intact.
        self.weights_ = Symmetric(found.Q, sigma, factors, scale.astype(product.dtype))
        self.total_ = found.total  # ‖X‖², with the weights of users and items
        self.auto_l2_ = l2  # what l2="auto" of a shrink means here
        self.stopped_ = "closed form" if found.stopped == "converged" else found.stopped
        self.kkt_residual_ = None
        self._tell_objective()
        self.item_ids_ = item_ids
        self.popularity_ = sums
        self.n_users_ = n_users
        self.settings_ = settings | {"shrink": str(chosen)}
        if found.stopped == "interrupted":
            warnings.warn(
                "the decomposition was interrupted; the components found so far are kept",
                InterruptedFitWarning,
                stacklevel=3,
            )
        return self


def _is_auto(shrink: Any) -> bool:
    return isinstance(shrink, str) and shrink == "auto"


def _resolved(shrink: Shrink, l2: float) -> Shrink:
    """With the l2 that was chosen from the data in place of "auto"."""
    return replace(shrink, l2=l2) if getattr(shrink, "l2", None) == "auto" else shrink  # type: ignore[call-arg]
