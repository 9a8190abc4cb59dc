"""One truncated SVD, then a shrinkage chosen by theory; changing it costs nothing. See docs/theory/spectral.md."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray

from offdiag.errors import OffdiagError
from offdiag.models.fields import Auto
from offdiag.models.low_rank import Start, _LowRank
from offdiag.models.shrinkages import SHRINKS, DropBlock, Dropout, EarlyStop, Hard, Ridge, Shrink, WeightDecay, parsed
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


class _Spectrum(_LowRank):
    """What a fit of Spectral learns besides the weights."""

    total_: float  # ‖X‖², with the weights of users and items
    auto_l2_: float  # what l2="auto" of a shrink means for this data


@dataclass(kw_only=True, eq=False)
class Spectral(_Spectrum):
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
        model.objective_ = _left(model.weights_, self.total_)
        model.objectives_ = [model.objective_]
        return model

    def _spectrum(self) -> Symmetric:
        return cast(Symmetric, self._fitted().weights_)

    def _checked(self) -> dict[str, Any]:
        params = {name: value for name, value in self.get_params().items() if name != "shrink"}
        settings = self._checked_params(params)
        if settings["item_power"] == "auto":
            settings["item_power"] = 0.5 if _is_auto(self.shrink) else 0.0
        return settings | {"l2": "auto"}  # resolved for a shrink that asks for it, now or later: cheap

    def _learned(
        self, product: Product, settings: dict[str, Any], progress: Progress | None, start: Start | None = None
    ) -> tuple[dict[str, Any], float]:
        settings["rank"] = min(settings["rank"], int(np.count_nonzero(product.g)))
        if "shrink" in settings:  # those of a fit
            l2, chosen = self.auto_l2_, parsed(settings["shrink"])
        else:
            l2 = settings.pop("l2")
            chosen = _resolved(Dropout(drop=0.5) if _is_auto(self.shrink) else parsed(self.shrink), l2)
        settings["shrink"] = str(chosen)
        scale = item_scale(product.g, settings["item_power"])
        if settings["item_power"]:
            product = ScaledProduct(product, scale)
        found = spectral.decompose(
            product, settings["rank"], seed=self.seed, start=start and start[0], progress=progress
        )
        sigma = np.sqrt(found.eigenvalues)
        shrink = chosen(sigma)
        if 0 < shrink.max(initial=0.0) < np.finfo(product.dtype).tiny / np.finfo(product.dtype).eps:
            raise OffdiagError(
                f"shrink={str(chosen)!r} leaves at most {shrink.max():.1e} of a component, which is nothing in "
                f"{np.dtype(product.dtype).name}; use smaller numbers in shrink"
            )
        weights = Symmetric(found.Q, sigma, shrink, scale.astype(product.dtype))
        left = _left(weights, found.total)
        learned = {
            "weights_": weights,
            "objective_": left,
            "objectives_": [left],
            "stopped_": "closed form" if found.stopped == "converged" else found.stopped,
            "kkt_residual_": None,
            "total_": found.total,
            "auto_l2_": l2,
        }
        return learned, found.gain

    def _refit(self, G: Any, progress: Progress | None = None) -> Self:
        fresh = super()._refit(G, progress)
        fresh.auto_l2_ = self.auto_l2_  # a setting, once it was chosen
        return fresh

    def _tolerance(self) -> float:
        return spectral.tolerance_of(np.dtype(self.dtype))


def _left(weights: Symmetric, total: float) -> float:
    """‖XR − X̂R‖², the squared error that the shrinkage leaves, components not found included."""
    squares = weights.sigma**2
    return max(total - float(squares.sum()), 0.0) + float((squares * (1 - weights.shrink) ** 2).sum())


def _is_auto(shrink: Any) -> bool:
    return isinstance(shrink, str) and shrink == "auto"


def _resolved(shrink: Shrink, l2: float) -> Shrink:
    """With the l2 that was chosen from the data in place of "auto"."""
    return replace(shrink, l2=l2) if getattr(shrink, "l2", None) == "auto" else shrink  # type: ignore[call-arg]
