"""Weighted matrix factorisation of implicit data [Hu08], with the penalty that made it strong again [Rendle22]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray

from offdiag import memory
from offdiag.errors import OffdiagError
from offdiag.gramian.packed import as_matrix
from offdiag.models.fields import Auto, check_not_empty, checked, checked_item_ids
from offdiag.models.recommender import Recommender
from offdiag.progress import Progress
from offdiag.solvers import als
from offdiag.weights import ImplicitFactors

if TYPE_CHECKING:
    from offdiag.ranking import Explanation

OBSERVED_SHARE = 0.1  # of the weight of all pairs, for alpha="auto": near the best on validation data of five kinds


class _Fit(Recommender):
    """What a fit of WMF learns besides the weights."""

    objectives_: list[float]  # after each iteration, never rising


@dataclass(kw_only=True, eq=False)
class WMF(_Fit):
    """A vector per item and per user; an observed pair counts ``alpha`` times as much as an unobserved one.

    Minimises Σ α x_ui (z_u·v_i − 1)² over the observed pairs + ‖Z Vᵀ‖² over all + penalties, that of a user being
    l2·(α Σ_i x_ui + items)^l2_power·‖z_u‖², that of an item alike: with ``l2_power=1`` as much as the data weigh
    [Rendle22], with 0 the same for all [Hu08]. ``alpha="auto"`` makes all observed pairs together weigh a tenth of
    all pairs. Only item vectors are kept: any history, of a new user too, gets its vector from one exact
    least-squares problem.
    """

    rank: int = 128
    alpha: float | Auto = "auto"
    l2: float = 0.005
    l2_power: float = 1.0
    iterations: int = 16
    seed: int = 0
    dtype: Literal["float32", "float64"] = "float32"

    def fit(self, X: Any, *, progress: Progress | None = None) -> Self:
        """Learn from Interactions, a scipy sparse matrix or an array of users×items."""
        settings = self._checked()
        matrix = as_matrix(X)
        check_not_empty(matrix.nnz, *matrix.shape)
        n, m = matrix.shape
        item_ids = checked_item_ids(getattr(X, "item_ids", None), m)
        sums = np.bincount(matrix.indices, weights=matrix.data, minlength=m).astype(np.float64)
        if settings["alpha"] == "auto":
            users = int(np.count_nonzero(np.diff(matrix.indptr)))
            settings["alpha"] = OBSERVED_SHARE * users * int(np.count_nonzero(sums)) / float(sums.sum())
        rank, size = settings["rank"], np.dtype(self.dtype).itemsize
        memory.require(
            # both factors and the first draw, the data in both orders, a Gram in double precision and one per thread
            (n + 2 * m) * rank * size + 24 * matrix.nnz + rank * rank * (8 + 3 * size),
            f"a WMF of rank {rank:,} for {n:,} users and {m:,} items",
            "lower rank, or keep fewer items (od.prepare.min_counts)",
        )
        given = {name: settings[name] for name in ("rank", "alpha", "l2", "iterations", "seed")}
        found = als.factorise(matrix, power=settings["l2_power"], dtype=self.dtype, progress=progress, **given)
        if not np.isfinite(found.V).all() or not np.isfinite(found.objectives).all():
            raise OffdiagError(
                f"the factors left the range of {self.dtype}: the data and alpha={settings['alpha']:g} weigh too much; "
                "use smaller values (od.prepare.binarize), a smaller alpha or dtype='float64'"
            )
        weights = ImplicitFactors(
            found.V, settings["alpha"], settings["l2"], settings["l2_power"], float(np.count_nonzero(sums))
        )
        return self._store(weights, item_ids, sums, n, settings, objectives_=found.objectives)

    @property
    def item_factors_(self) -> NDArray[np.floating]:
        """V, a row per item."""
        return cast(ImplicitFactors, self._fitted().weights_).V

    def explain(self, history: Any, item: Any) -> Explanation:
        raise OffdiagError(
            "WMF solves for the vector of a history: what an item adds to a score depends on the others; "
            "explain with EDLAE instead"
        )

    def _checked(self) -> dict[str, Any]:
        settings = checked(self.get_params())
        if settings["l2"] == "auto" or not settings["l2"] > 0:
            raise OffdiagError(f"l2 of WMF must be a number above 0, received {settings['l2']!r}")
        if settings["alpha"] != "auto" and not settings["alpha"] > 0:
            raise OffdiagError(f"alpha of WMF must be a number above 0 or 'auto', received {settings['alpha']!r}")
        if settings["iterations"] < 1:
            raise OffdiagError("iterations of WMF must be a whole number of at least 1, received 0")
        del settings["dtype"]
        return settings
