"""SparseEDLAE: each item from its most informative neighbours only, for catalogues of any size; see docs/models.md."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from offdiag import memory
from offdiag.errors import OffdiagError
from offdiag.gramian import layout
from offdiag.gramian.packed import Gram, as_matrix
from offdiag.gramian.sparse import SparseGram, sparse_gram
from offdiag.gramian.user_weights import scale_of, weights_of
from offdiag.living import sparse
from offdiag.living.exact_change import Change, NewWeights
from offdiag.living.past import Past
from offdiag.models import auto, fields, sparse_from_gram
from offdiag.models.block_checkpoints import BlockCheckpoints, data_facts
from offdiag.models.fields import Auto, check_gram, check_not_empty, checked_item_ids
from offdiag.models.full_rank import divide_by_popularity, inverse_propensity
from offdiag.models.recommender import Recommender
from offdiag.progress import Progress
from offdiag.solvers import gram_rows, low_pass, popularity_order, support
from offdiag.solvers.products import DataProduct, GramProduct, PairProduct, Product
from offdiag.weights import Smoothed, Sparse

NEIGHBOURS = 500
MOST_NEIGHBOURS = 2_000  # cap of "auto" with max_bytes, which starts from four times the neighbours that will remain
_NOT_OF_THE_FIT = ("block_bytes",)  # settings that change the computation, not the result


class _Fit(Recommender):
    """What a fit of SparseEDLAE learns besides the weights."""

    penalty_: float | None  # l2 in the unit of the unscaled Gram; None: one per item
    objective_: float


@fields.model
class SparseEDLAE(_Fit):
    """EDLAE where each item is predicted from its most informative neighbours only, for catalogues of any size.

    min ‖x_i − X_S β‖² + ‖Λ^½ β‖² for each item i, S its neighbours,  Λ = dropout/(1 − dropout)·diag(XᵀX) + l2

    Use it beyond some 20,000 items, or where the model must be small. Each column is solved exactly on its support, the
    items j with the largest G_ji²/(G + Λ)_jj, G = XᵀX; no items × items matrix is ever held.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> model = od.SparseEDLAE(neighbours=10, dropout=0.5, l2=20.0).fit(X)
        >>> model.weights_.tocsr().nnz <= 40 * 10
        True
    """

    cluster_fit = "sparse"
    learns_from_gram = True
    prefers_data = True
    checkpoints_in_folder = True
    can_change = True
    has_propensity = True
    l2_of_ease = True
    auto_of_ease = True

    # A trial on a large catalogue takes long, so the search ranges are narrow. No Gram is kept, so user_power is free.
    neighbours: int | Auto = fields.setting(
        "auto", whole=True, low=1, search=fields.up_to_items(100, 800),
        auto="500, or with max_bytes about four times as many as will be left",
        help="Number of items that each item is predicted from. More are more accurate, but cost memory and time.",
    )  # fmt: skip
    dropout: float | Auto = fields.dropout(search=fields.Range(0.3, 0.9))
    l2: float | Auto = fields.l2(search=fields.around_l2(6, 6))
    user_power: float | Auto = fields.user_power(search=fields.Range(0.0, 0.8, step=0.1))
    item_power: float = fields.item_power()
    propensity_power: float = fields.propensity_power()
    weight_power: float = fields.setting(
        1.0, low=0.2, high=5, search=fields.Range(1.0, 1.4),
        help="Scores add up sign(β)·|β|^weight_power. Above 1 strong neighbours count for more; the fit is the same.",
    )  # fmt: skip
    rank: int = fields.setting(
        0, low=0, expected="a whole number, 0 for no smooth part",
        help="Rank of a smooth part that is added to the scores; 0 for none. It projects a history on the first "
        "directions of the normalised data [Shen21]; worth trying to predict future interactions.",
    )  # fmt: skip
    smooth: float = fields.setting(0.2, low=0, high=10, help="Weight of the smooth part, if rank is above 0.")
    max_bytes: int | None = fields.setting(
        None, whole=True, low=1, size=True,
        help="Largest size of the weights in bytes. The weakest are dropped and the rest is solved again.",
    )  # fmt: skip
    block_bytes: int | Auto = fields.setting(
        "auto", whole=True, low=1, size=True, auto="60 % of the memory that is free",
        help="Part of XᵀX that is held at a time, in bytes. It does not change the result.",
    )  # fmt: skip
    dtype: Literal["float32", "float64"] = fields.dtype()

    def fit(
        self, X: Any, *, checkpoint: str | os.PathLike[str] | None = None, progress: Progress | None = None
    ) -> Self:
        """Learn from Interactions, a scipy sparse matrix or an array of users×items.

        Memory: the interactions twice, two numbers per neighbour (four while the model is assembled), and
        ``block_bytes``. ``checkpoint`` names a folder from which a killed fit resumes, with the same bytes as result.
        """
        settings = self._checked()
        matrix = as_matrix(X)
        n, m = matrix.shape
        check_not_empty(matrix.nnz, n, m)
        item_ids = checked_item_ids(getattr(X, "item_ids", None), m)
        k = self._check_memory(m, matrix.nnz, settings)
        kept = None
        if checkpoint is not None:
            settings_of_fit = {name: value for name, value in settings.items() if name not in _NOT_OF_THE_FIT}
            kept = BlockCheckpoints(checkpoint, settings_of_fit | {"dtype": self.dtype}, data_facts(matrix, item_ids))
        settings = auto.from_data(matrix, settings, progress=progress)
        n_u = np.diff(matrix.indptr)
        weight = weights_of(n_u, settings["user_power"])
        counts = np.bincount(matrix.indices, minlength=m)
        rank = popularity_order.popularity_rank(counts)
        data = popularity_order.by_popularity(matrix, weight, rank)
        g = popularity_order.diagonal(data)
        scale = scale_of(np.bincount(n_u), settings["user_power"])
        H = support.penalised(
            g, scale, self.dtype,
            dropout=settings["dropout"], l2=settings["l2"], item_power=settings["item_power"],
        )  # fmt: skip
        supports = support.choose(data, H, k, self.dtype, progress=progress)

        def solve(supports: support.Supports, stage: str) -> NDArray[np.float64]:
            plan = gram_rows.plan(supports, np.dtype(self.dtype).itemsize, block_bytes(settings["block_bytes"]))
            at = kept and kept.stage(stage)
            return support.solve(data, H, supports, plan, kept=at, progress=progress)

        supports, explained = support.to_size(supports, H, self._budget(m, settings), solve)
        sums = np.bincount(matrix.indices, weights=matrix.data, minlength=m).astype(np.float64)
        smooth = None
        if settings["rank"]:
            product = DataProduct(matrix, 1.0, self.dtype, rank=low_pass.width(settings["rank"], m))
            smooth = sparse.low_pass_of(product, settings["rank"], progress)
        past = Past.of_fit(matrix, X)
        return self._learned(supports, rank, g, explained, scale, settings, item_ids, sums, n, smooth, past)

    def fit_gram(self, G: Gram | SparseGram, *, item_ids: Any = None, progress: Progress | None = None) -> Self:
        """Learn from a Gram alone, with its ``user_power``. G is not changed. Memory: the size of G once more.

        A smooth part (``rank`` > 0) is learned from a Gram with user_power=1 only: all its users weigh the same.
        """
        settings = self._checked()
        check_gram(G, settings["user_power"], also=SparseGram)
        if settings["rank"] and G.user_power != 1:
            raise OffdiagError("the smooth part (rank > 0) is not learned from a Gram; use fit with data, or rank=0")
        m = G.n_items
        item_ids = checked_item_ids(item_ids, m)
        also = layout.size(m) * np.dtype(self.dtype).itemsize if isinstance(G, Gram) else G.nbytes
        k = self._check_memory(m, 0, settings, also=also)
        settings = auto.from_gram(G, settings)
        if isinstance(G, SparseGram):
            held = block_bytes(settings["block_bytes"])
            posed = sparse_from_gram.by_rows(G, k, settings, self.dtype, held, progress)
        else:
            posed = sparse_from_gram.packed_rows(G, k, settings, self.dtype, progress)
        supports, explained = support.to_size(posed.supports, posed.H, self._budget(m, settings), posed.solve)
        smooth = self._smooth_of(G, settings["rank"], progress)
        sums, past = G.item_sums.copy(), Past.of_fit(G)
        return self._learned(
            supports, posed.rank, posed.g, explained, G.scale, settings, item_ids, sums, G.n_users, smooth, past
        )

    def _budget(self, m: int, settings: dict[str, Any]) -> int | None:
        """Bytes for the weights of the columns."""
        budget: int | None = settings["max_bytes"]
        return budget and budget - _smooth_bytes(m, settings["rank"], np.dtype(self.dtype).itemsize)

    def _smooth_of(
        self, G: Gram | SparseGram, rank: int, progress: Progress | None
    ) -> tuple[NDArray[np.floating], NDArray[np.float64]] | None:
        if not rank:
            return None
        product: Product
        product = PairProduct(G, self.dtype) if isinstance(G, SparseGram) else GramProduct(G.astype(self.dtype))
        return sparse.low_pass_of(product, rank, progress)

    def _count_gram(self, matrix: Any, user_power: float, progress: Progress | None) -> SparseGram:
        return matrix if isinstance(matrix, SparseGram) else sparse_gram(matrix, user_power, progress=progress)

    def _follow(self, change: Change, progress: Progress | None) -> NewWeights:
        return sparse.follow(self, change, progress)

    def _tolerances(self) -> tuple[float, float]:
        return sparse.tolerances(self)

    def with_propensity(self, power: float) -> Self:
        """The same fit with its scores divided by another power of popularity."""
        return divide_by_popularity(self, power)

    def _learned(
        self,
        supports: support.Supports,
        rank: NDArray[np.int32],
        g: NDArray[np.float64],
        explained: NDArray[np.float64],
        scale: float,
        settings: dict[str, Any],
        item_ids: NDArray[Any],
        sums: NDArray[np.float64],
        n_users: int,
        smooth: tuple[NDArray[np.floating], NDArray[np.float64]] | None = None,
        past: Past | None = None,
    ) -> Self:
        if settings["rank"] and smooth is None:
            raise OffdiagError("the smooth part (rank > 0) is not learned here; use fit, or rank=0")
        rarity = inverse_propensity(sums, settings["propensity_power"]).astype(self.dtype)
        sharp = Sparse(*support.to_rows(supports, rank, rarity, settings["weight_power"]))
        weights: Sparse | Smoothed = sharp
        if smooth is not None:
            Q, said = smooth
            heard = (settings["smooth"] / said).astype(self.dtype) * rarity
            weights = Smoothed(sharp, Q, said.astype(self.dtype), heard)
            settings = settings | {"rank": Q.shape[1]}  # the data may have fewer directions than requested
        left_out = _NOT_OF_THE_FIT if settings["rank"] else (*_NOT_OF_THE_FIT, "rank", "smooth")
        used = {name: value for name, value in settings.items() if name not in left_out and value is not None}
        penalty = None if settings["item_power"] else settings["l2"] / scale
        objective = float((g - explained).sum()) * scale
        return self._store(weights, item_ids, sums, n_users, used, past, penalty_=penalty, objective_=objective)

    def _settled(self, settings: dict[str, Any], scale: Callable[..., float]) -> dict[str, Any]:
        """Every "auto" replaced, for a fit on a cluster."""
        return auto.from_scale(settings, scale)

    def _check_memory(self, m: int, nnz: int, settings: dict[str, Any], also: int = 0) -> int:
        """Check that the fit has enough memory; return the length of the supports and resolve it if it is "auto"."""
        itemsize = np.dtype(self.dtype).itemsize
        if settings["neighbours"] == "auto":
            fitting = (settings["max_bytes"] or 0) // (4 + itemsize) // max(m, 1)
            settings["neighbours"] = max(NEIGHBOURS, min(4 * fitting, MOST_NEIGHBOURS))
        k = max(min(int(settings["neighbours"]), m - 1), 1)
        copies = 2 if settings["max_bytes"] is None else 3
        work = low_pass.width(settings["rank"], m) * low_pass.ARRAYS * m * itemsize if settings["rank"] else 0
        memory.require(
            12 * nnz + (4 + itemsize) * m * k * copies + work + also,
            f"a sparse model of {m:,} items with {k:,} neighbours each",
            "ask for fewer neighbours (or a smaller rank), or keep fewer items with od.prepare.min_counts(items=...)",
        )
        least = _smooth_bytes(m, settings["rank"], itemsize) + 8 * (m + 1) + 4 + itemsize
        if settings["max_bytes"] is not None and settings["max_bytes"] < least:
            raise OffdiagError(
                f"max_bytes must be at least {least:,} for {m:,} items, received {settings['max_bytes']:,}"
            )
        return k


def block_bytes(wanted: int | Auto) -> int:
    """How much of the Gram may be held at a time."""
    if not isinstance(wanted, str):
        return wanted
    there = memory.available()
    return 1 << 30 if there is None else max(int(0.6 * there), 1 << 26)


def _smooth_bytes(m: int, rank: int, itemsize: int) -> int:
    """The share of ``max_bytes`` that the smooth part takes."""
    return m * (min(rank, m) + 2) * itemsize if rank else 0
