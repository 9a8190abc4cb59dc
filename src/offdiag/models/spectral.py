"""One truncated SVD, then a shrinkage chosen by theory; it can be changed for free. See docs/theory/spectral.md."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray

from offdiag.errors import OffdiagError
from offdiag.models import fields
from offdiag.models.fields import Auto, number
from offdiag.models.full_rank import EASE
from offdiag.models.low_rank import LowRankModel, Start
from offdiag.models.recommender import Recommender
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

POLISHED = 64  # components up to which ``gap_`` searches for the best net
SAME = 1e-9  # a gap below this share of the loss is rounding
SMOOTH_RANK = 512
SMOOTH_SHARE = 8  # of users and items for each direction of a smooth part: with more, it follows noise


class _Spectrum(LowRankModel):
    """What a fit of Spectral learns besides the weights."""

    l2_of_ease = False
    auto_of_ease = False
    total_: float  # ‖X‖², with the weights of users and items
    auto_l2_: float  # the value of l2="auto" of a shrink for this data


@fields.model
class Spectral(_Spectrum):
    """The leading components of the data, each shrunk as one kind of noise would shrink it (docs/theory/spectral.md).

    B = Q f(σ) Qᵀ,  X = P σ Qᵀ,  f the shrinkage

    Use it to study regularisers: one decomposition serves them all; ``with_shrink`` changes it after the fit. With
    DropBlock the result is the optimum of a convex bound; ``tight_`` says whether a net attains it, ``gap_`` how far
    above it the best one is.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> model = od.Spectral(rank=8, shrink=od.spectral.Dropout(drop=0.3)).fit(X)
        >>> model.with_shrink("hard").settings_["shrink"]
        'hard'
    """

    rank: int = fields.rank()
    shrink: Shrink | str = fields.setting(
        "auto", takes="a shrinkage of od.spectral or its text", auto="Dropout(drop=0.5)",
        help='How components are shrunk, e.g. "dropout:drop=0.5", "ridge:l2=300" or "hard". '
        "One of od.spectral.Hard(), Ridge(), WeightDecay(), Dropout(), DropBlock(), EarlyStop().",
    )  # fmt: skip
    item_power: float | Auto = fields.item_power(
        "auto", auto="0 with a shrinkage that is given, the plain theory; else 0.5, which ranks better",
        search=fields.Range(0.0, 1.0),
        help="Items have weight popularity^-item_power in the decomposition. 0: no weights. 1: items count equally.",
    )  # fmt: skip
    outer_power: float | Auto = fields.setting(
        "auto", low=-5, high=5, optional=True, auto="half of item_power, as in the decomposition",
        help="Histories are multiplied by popularity^-outer_power, scores by popularity^outer_power. "
        "Below half of item_power popular items count for more in a history, and for less in a list.",
    )  # fmt: skip

    decomposition: Literal["converged", "quick"] = fields.setting(
        "converged", choices=("converged", "quick"), optional=True,
        help="How exact the components are. quick: a fixed number of products with the data, a quarter of the time; "
        "enough for the hard shrinkage, of which only the span of all components matters.",
    )  # fmt: skip

    def __post_init__(self) -> None:
        if not _is_auto(self.shrink):
            with suppress(OffdiagError):  # which the fit reports, as for every other setting
                self.shrink = parsed(self.shrink)

    @property
    def singular_values_(self) -> NDArray[np.float64]:
        """σ, largest first, of the data with its user and item weights."""
        return self._spectrum().sigma.copy()

    @property
    def tight_(self) -> bool | None:
        """Whether a net under this noise attains the optimum that the shrinkage computes.

        True for Dropout. DropBlock shrinks by a convex bound, which is the optimum only where it is attained
        (``lab.dropblock.spectral_optimum``). None for a shrinkage that is no noise in hidden units. Computed on demand.
        """
        share = self.gap_
        return None if share is None else share <= SAME

    @property
    def gap_(self) -> float | None:
        """The loss of the best such net that was found, above the bound, as a share of the loss; 0 where tight.

        With more than POLISHED components the net is built but not improved by a search: the gap is then an upper
        limit. None for a shrinkage that is no noise in hidden units. Computed on demand, in up to some seconds.
        """
        chosen, sigma = parsed(self._require_fit().settings_["shrink"]), self._spectrum().sigma
        if isinstance(chosen, Dropout):
            return 0.0  # one unit per block: always attained [Mianjy18 Thm. 3.6]
        if not isinstance(chosen, DropBlock):
            return None
        from offdiag.lab import dropblock

        width = chosen.units(len(sigma))
        polish = len(sigma) <= POLISHED
        best = dropblock.spectral_optimum(sigma, width, chosen.block, chosen.drop, polish=polish)
        outside = max(self.total_ - float(sigma @ sigma), 0.0)  # the components that were truncated
        share = (best.value - best.bound) / max(best.value + outside, np.finfo(np.float64).tiny)
        return max(share, 0.0) if share > SAME else 0.0

    def with_shrink(self, shrink: Shrink | str) -> Self:
        """The same decomposition, shrunk in another way: a new fitted model that shares Q with this one."""
        spectrum = self._spectrum()
        model = copy.copy(self)
        model.shrink = parsed(shrink)
        model.item_power = self.settings_["item_power"]  # a fit with these parameters needs it
        model.outer_power = self.settings_.get("outer_power", "auto")
        chosen = _fill_auto(model.shrink, self.auto_l2_)
        model.weights_ = replace(spectrum, shrink=chosen(spectrum.sigma))
        model.settings_ = self.settings_ | {"shrink": str(chosen)}
        model.objective_ = _remaining_error(model.weights_, self.total_)
        model.objectives_ = [model.objective_]
        return model

    def with_outer_power(self, power: float) -> Self:
        """The same decomposition with another ``outer_power``: a new fitted model that shares Q with this one.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> model = od.Spectral(rank=8, shrink="hard", item_power=1.0).fit(X)
            >>> model.with_outer_power(0.4).settings_["outer_power"]
            0.4
        """
        spectrum, settings = self._spectrum(), self.settings_
        before = settings.get("outer_power", settings["item_power"] / 2)
        if not before:
            raise OffdiagError("expected a fit whose outer_power is not 0, received 0; fit with another one instead")
        model = copy.copy(self)
        model.outer_power = number(self._with({"outer_power": power})._validate().outer_power)
        scale = spectrum.scale.astype(np.float64) ** (model.outer_power / before)
        model.weights_ = replace(spectrum, scale=scale.astype(model.dtype))
        model.settings_ = settings | {"outer_power": model.outer_power}
        return model

    def _validate(self) -> Self:
        used = super()._validate()
        if not _is_auto(used.shrink):
            used.shrink = parsed(used.shrink)
        return used

    def _spectrum(self) -> Symmetric:
        return cast(Symmetric, self._require_fit().weights_)

    def _settings(self) -> dict[str, Any]:
        settings = super()._settings()
        return settings | {"shrink": str(settings.pop("shrink"))}  # the last one in a file

    def _unfitted_copy(self) -> Self:
        used = super()._unfitted_copy()
        used.auto_l2_ = self.auto_l2_  # a setting, once chosen
        return used

    def _resolve(self, choose: Callable[[Recommender], None]) -> None:
        ease = EASE(user_power=self.user_power)
        choose(ease)
        self.user_power, self.auto_l2_ = ease.user_power, number(ease.l2)  # l2 for any shrink, now or later: cheap
        if self.item_power == "auto":
            self.item_power = 0.5 if _is_auto(self.shrink) else 0.0
        self.shrink = _fill_auto(Dropout(drop=0.5) if _is_auto(self.shrink) else parsed(self.shrink), self.auto_l2_)

    def _learn(
        self, product: Product, progress: Progress | None, start: Start | None = None
    ) -> tuple[dict[str, Any], float]:
        self.rank = min(self.rank, int(np.count_nonzero(product.g)))
        chosen, item_power = parsed(self.shrink), number(self.item_power)
        g = product.g
        scale = item_scale(g, item_power)
        if item_power:
            product = ScaledProduct(product, scale)
        if self.decomposition == "quick":
            found = spectral.decompose_quickly(product, self.rank, seed=self.seed, progress=progress)
        else:
            found = spectral.decompose(product, self.rank, seed=self.seed, start=start and start[0], progress=progress)
        sigma = np.sqrt(found.eigenvalues)
        shrink = chosen(sigma)
        if 0 < shrink.max(initial=0.0) < np.finfo(product.dtype).tiny / np.finfo(product.dtype).eps:
            raise OffdiagError(
                f"shrink={str(chosen)!r} leaves at most {shrink.max():.1e} of a component, which is nothing in "
                f"{np.dtype(product.dtype).name}; use smaller numbers in shrink"
            )
        outer = scale if self.outer_power == "auto" else item_scale(g, 2 * number(self.outer_power))
        weights = Symmetric(found.Q, sigma, shrink, outer.astype(product.dtype))
        left = _remaining_error(weights, found.total)
        learned = {
            "weights_": weights,
            "objective_": left,
            "objectives_": [left],
            "stopped_": "closed form" if found.stopped == "converged" else found.stopped,
            "kkt_residual_": None,
            "total_": found.total,
            "auto_l2_": self.auto_l2_,
        }
        return learned, found.gain

    def _refit(self, G: Any, progress: Progress | None = None, item_ids: Any = None) -> Self:
        fresh = super()._refit(G, progress, item_ids)
        fresh.auto_l2_ = self.auto_l2_  # a setting, once chosen
        return fresh

    def _tolerance(self) -> float:
        return spectral.tolerance_of(np.dtype(self.dtype))


def smooth_part(n_users: int, n_items: int) -> Spectral:
    """What a blend adds to sharp neighbours: a history is projected on the smoothest directions of the data [Shen21].

    All users and all items count the same in the decomposition. Next to EDLAE an ``outer_power`` of 0.4 was as good as
    the 0.5 of the plain filter, or better, on six of seven data sets (docs/models.md).
    """
    rank = max(1, min(SMOOTH_RANK, n_users // SMOOTH_SHARE, n_items // SMOOTH_SHARE))
    return Spectral(rank=rank, shrink="hard", item_power=1.0, outer_power=0.4, user_power=1.0, decomposition="quick")


def _remaining_error(weights: Symmetric, total: float) -> float:
    """‖XR − X̂R‖², the squared error that remains after the shrinkage, including the components that were truncated."""
    squares = weights.sigma**2
    return max(total - float(squares.sum()), 0.0) + float((squares * (1 - weights.shrink) ** 2).sum())


def _is_auto(shrink: Any) -> bool:
    return isinstance(shrink, str) and shrink == "auto"


def _fill_auto(shrink: Shrink, l2: float) -> Shrink:
    """The shrink with "auto" replaced by the l2 chosen from the data."""
    return replace(shrink, l2=l2) if getattr(shrink, "l2", None) == "auto" else shrink  # type: ignore[call-arg]
