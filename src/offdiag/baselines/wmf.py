"""Weighted matrix factorisation of implicit data [Hu08], with the penalty that makes it competitive [Rendle22]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from offdiag import memory
from offdiag.errors import OffdiagError
from offdiag.models import fields
from offdiag.models.fields import Auto
from offdiag.models.recommender import Recommender
from offdiag.models.source import Reading, read_data
from offdiag.progress import Progress, reporter
from offdiag.solvers import als
from offdiag.weights import ImplicitFactors

if TYPE_CHECKING:
    from offdiag.ranking import Explanation

OBSERVED_SHARE = 0.1  # of the weight of all pairs, for alpha="auto": near the best on five kinds of validation data


def _around_alpha(scale: fields.Scale) -> fields.Range:
    alpha = OBSERVED_SHARE * scale.n_items / scale.mean_history
    return fields.Range(alpha / 10, 10 * alpha, log=True)


class _Fit(Recommender):
    """What a fit of WMF learns besides the weights."""

    objectives_: list[float]  # after each iteration, never increasing


@fields.model
class WMF(_Fit):
    """Weighted matrix factorisation: a vector per item and per user, by alternating least squares [Hu08, Rendle22].

    min Σ α·x_ui·(z_u·v_i − 1)² + ‖Z Vᵀ‖² + Σ_u l2·(α·Σ_i x_ui + items)^l2_power·‖z_u‖², and the same for items

    Use it as the latent-factor baseline. Only item vectors are kept: any history, also of a new user, gets its
    vector from one exact least-squares problem.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> model = od.WMF(rank=8, iterations=5).fit(X)
        >>> model.item_factors_.shape
        (40, 8)
    """

    rank: int = fields.rank(128, search=fields.up_to_items(32, 512), help="Dimension of the item and user vectors.")
    alpha: float | Auto = fields.setting(
        "auto", low=0, above=True, expected="a number above 0 or 'auto'", search=_around_alpha,
        auto="all observed pairs together weigh a tenth of all pairs",
        help="Weight of an observed pair relative to one that was not observed.",
    )  # fmt: skip
    l2: float = fields.setting(
        0.005, low=0, above=True, expected="a number above 0", search=fields.Range(5e-4, 0.1, log=True),
        help="Penalty on the vectors. It is multiplied by the weight of the data of the user or item, see l2_power.",
    )  # fmt: skip
    l2_power: float = fields.setting(
        1.0, low=0, high=1,
        help="How the penalty grows with the data. 1: in proportion to it [Rendle22]. 0: the same for all [Hu08].",
    )  # fmt: skip
    iterations: int = fields.iterations(
        16, low=1, expected="a whole number of at least 1", help="Number of rounds, each over all users and all items."
    )
    seed: int = fields.seed()
    dtype: Literal["float32", "float64"] = fields.dtype()

    def fit(
        self, X: Any, y: Any = None, *, progress: Progress | bool | None = None, **reading: Unpack[Reading]
    ) -> Self:
        """Learn from Interactions, a matrix of users×items, or any table, with the options of ``od.read``."""
        progress = reporter(progress)
        used = self._validate()
        matrix, source = read_data(X, reading)
        (n, m), sums = matrix.shape, source.popularity
        alpha, items = used.alpha, int(np.count_nonzero(sums))
        if alpha == "auto":
            users = int(np.count_nonzero(np.diff(matrix.indptr)))
            used.alpha = alpha = OBSERVED_SHARE * users * items / float(sums.sum())
        rank, size = used.rank, np.dtype(self.dtype).itemsize
        memory.require(
            # both factors and the first draw, the data in both orders, a Gram in double precision and one per thread
            (n + 2 * m) * rank * size + 24 * matrix.nnz + rank * rank * (8 + 3 * size),
            f"a WMF of rank {rank:,} for {n:,} users and {m:,} items",
            "lower rank, or keep fewer items (od.prepare.min_counts)",
        )
        found = als.factorise(
            matrix, rank=rank, alpha=alpha, l2=used.l2, power=used.l2_power, iterations=used.iterations,
            seed=used.seed, dtype=self.dtype, progress=progress,
        )  # fmt: skip
        if not np.isfinite(found.V).all() or not np.isfinite(found.objectives).all():
            raise OffdiagError(
                f"the factors left the range of {self.dtype}: the data and alpha={alpha:g} weigh too much; "
                "use smaller values (od.prepare.binarize), a smaller alpha or dtype='float64'"
            )
        weights = ImplicitFactors(found.V, alpha, used.l2, used.l2_power, float(items))
        return self._store(weights, **vars(source), settings=used._settings(), objectives_=found.objectives)

    @property
    def item_factors_(self) -> NDArray[np.floating]:
        """V, a row per item."""
        return cast(ImplicitFactors, self._require_fit().weights_).V

    def explain(self, history: Any, item: Any, **words: Any) -> Explanation:
        raise OffdiagError(
            "WMF solves for the vector of a history: what an item adds to a score depends on the others; "
            "explain with EDLAE instead"
        )
