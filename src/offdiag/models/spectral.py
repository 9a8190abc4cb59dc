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
from offdiag.solvers.products import Product, ScaledProduct, item_scale
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
    """B = R Q f(σ) Qᵀ R⁻¹ from X R = P σ Qᵀ: the components of the data, each as much as ``shrink`` lets it.

    R = diag(g_i^(−item_power/2)) weighs items by their popularity g before the decomposition: 0 as they are, 1 alike.
    ``shrink`` is one of od.spectral.Hard, Ridge, WeightDecay, Dropout, DropBlock, EarlyStop, or its text, e.g.
    "dropout:drop=0.3". ``with_shrink`` changes it after the fit, sharing the decomposition.
    """

    rank: int = 200
    shrink: Shrink | str = "dropout:drop=0.5"
    item_power: float = 0.5
    user_power: float | Auto = "auto"
    seed: int = 0
    products: Literal["auto", "gram", "data"] = "auto"
    dtype: Literal["float32", "float64"] = "float32"

    def __post_init__(self) -> None:
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
        chosen = _resolved(model.shrink, self.settings_["l2"])
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
        self.shrink = parsed(self.shrink)
        params = {name: value for name, value in self.get_params().items() if name != "shrink"}
        return self._checked_params(params) | {"l2": "auto"}  # the scale of the data; cheap beside the decomposition

    def _solve(
        self,
        product: Product,
        settings: dict[str, Any],
        item_ids: NDArray[Any],
        sums: NDArray[np.float64],
        n_users: int,
        progress: Progress | None,
    ) -> Self:
        settings["rank"] = min(settings["rank"], int(np.count_nonzero(product.g)))
        chosen = _resolved(parsed(self.shrink), settings["l2"])
        scale = item_scale(product.g, settings["item_power"])
        if settings["item_power"]:
            product = ScaledProduct(product, scale)
        found = spectral.decompose(product, settings["rank"], seed=self.seed, progress=progress)
        sigma = np.sqrt(found.eigenvalues)
        factors = chosen(sigma)
        # Nothing is assigned before this line: a failed fit leaves an earlier one intact.
        self.weights_ = Symmetric(found.Q, sigma, factors, scale.astype(product.dtype))
        self.total_ = found.total
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


def _resolved(shrink: Shrink, l2: float) -> Shrink:
    """With the l2 that was chosen from the data in place of "auto"."""
    return replace(shrink, l2=l2) if getattr(shrink, "l2", None) == "auto" else shrink  # type: ignore[call-arg]
