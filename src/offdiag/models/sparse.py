"""SparseEDLAE: each item from its most informative neighbours only, for catalogues of any size; see docs/models.md."""

from __future__ import annotations

import os
from typing import Any, Literal, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from offdiag import memory
from offdiag.data.columns import Roles
from offdiag.errors import OffdiagError
from offdiag.files.block_checkpoints import BlockCheckpoints, data_facts
from offdiag.gramian import layout
from offdiag.gramian.packed import Gram
from offdiag.gramian.sparse import SparseGram, sparse_gram
from offdiag.gramian.user_weights import scale_of, weights_of
from offdiag.living import sparse
from offdiag.living.exact_change import Change, NewWeights
from offdiag.living.past import Past
from offdiag.models import auto, fields, side_information, sparse_from_gram
from offdiag.models.fields import Auto, number
from offdiag.models.full_rank import Regression, inverse_propensity
from offdiag.models.grouping import Grouping, grouping_of
from offdiag.models.side_information import side_of
from offdiag.models.source import Reading, check_gram, product_of, read_data, read_gram
from offdiag.progress import Progress, reporter
from offdiag.solvers import gram_rows, gram_triangles, low_pass, popularity_order, support
from offdiag.solvers.products import DataProduct, Product, ScaledProduct, check_range, item_scale
from offdiag.weights import Smoothed, Sparse

NEIGHBOURS = 500
MOST_NEIGHBOURS = 2_000  # cap of "auto" with max_bytes, which starts from four times the neighbours that will remain
LowPass = tuple[NDArray[np.floating], NDArray[np.float64]]  # Q and the diagonal of R of a smooth part
_NOT_OF_THE_FIT = ("block_bytes",)  # settings that change the computation, not the result


@fields.model
class SparseEDLAE(Regression):
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
    takes_groups = True
    prefers_data = True
    checkpoints_in_folder = True

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
    feature_weight: float | Auto = fields.feature_weight()
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
    block_bytes: int | Auto = fields.block_bytes()
    dtype: Literal["float32", "float64"] = fields.dtype()

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        item_features: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Progress | bool | None = None,
        **reading: Unpack[Reading],
    ) -> Self:
        """Learn from Interactions, a matrix of users×items, or any table, with the options of ``od.read``.

        ``groups`` are items that are variants of one thing and never explain each other (docs/groups.md): a dict of
        item id to group, a group for each item, or a table with the columns item and group.

        Memory: the interactions twice, two numbers per neighbour (four while the model is assembled), and
        ``block_bytes``. ``checkpoint`` names a folder from which a killed fit resumes, with the same bytes as result.
        ``item_features`` is what is known about the items (``od.read_features``, docs/features.md).
        """
        progress = reporter(progress)
        settings = self._valid_settings()
        matrix, source = read_data(X, reading)
        side = side_of(self, source.item_ids, item_features)
        m = matrix.shape[1]
        kinds = grouping_of(self, groups, source.item_ids)
        k = self._check_memory(m, matrix.nnz, settings)
        kept = None
        if checkpoint is not None:
            of_fit = {name: value for name, value in settings.items() if name not in _NOT_OF_THE_FIT}
            of_fit |= {"dtype": self.dtype} | ({} if kinds is None else {"groups": kinds.digest})
            facts = data_facts(matrix, source.item_ids) | side.facts()
            kept = BlockCheckpoints(checkpoint, of_fit, facts)
        used = self._with(settings)
        auto.from_data(matrix, used, progress=progress)
        side_information.choose(used, side, matrix, progress)
        n_u, user_power = np.diff(matrix.indptr), number(used.user_power)
        rank = popularity_order.popularity_rank(np.bincount(matrix.indices, minlength=m))
        data = popularity_order.by_popularity(*side.stacked(matrix, weights_of(n_u, user_power), used), rank)
        g, scale = popularity_order.diagonal(data), scale_of(np.bincount(n_u), user_power)
        H = used._penalise(g, scale)
        supports = support.choose(data, H, k, self.dtype, groups=used._groups_by(rank, kinds), progress=progress)

        def solve(supports: support.Supports, stage: str) -> NDArray[np.float64]:
            arrange = gram_rows.plan if kept else gram_triangles.plan  # smaller blocks lose less if killed
            plan = arrange(supports, np.dtype(self.dtype).itemsize, block_bytes(used.block_bytes))
            return support.solve(data, H, supports, plan, kept=kept and kept.stage(stage), progress=progress)

        supports, explained = support.to_size(supports, H, used._budget(m), solve)
        smooth = None
        if used.rank:
            product = DataProduct(matrix, 1.0, self.dtype, rank=low_pass.width(used.rank, m))
            smooth = smooth_directions(product, used.rank, progress)
        self._finish(supports, rank, g, explained, scale, used._settings(), **vars(source), smooth=smooth, kinds=kinds)
        return self._keep_features(side.features)

    def fit_gram(
        self,
        G: Gram | SparseGram,
        *,
        item_ids: Any = None,
        groups: Any = None,
        item_features: Any = None,
        progress: Progress | bool | None = None,
    ) -> Self:
        """Learn from a Gram alone, with its ``user_power``. G is not changed. Memory: the size of G once more.

        ``item_features``, whose ``feature_weight`` must be a number, add 12 bytes per pair of items that share one.
        A smooth part (``rank`` > 0) is learned from a Gram with user_power=1 only: all its users weigh the same.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> model = od.SparseEDLAE(l2=20.0).fit_gram(od.gram(X, user_power=0.5), item_ids=X.item_ids)
            >>> model.recommend([[]], k=3).lengths
            array([3])
        """
        progress = reporter(progress)
        settings = self._valid_settings()
        check_gram(G, settings["user_power"], also=SparseGram)
        source = read_gram(G, item_ids)
        side = side_of(self, source.item_ids, item_features)
        kinds = grouping_of(self, groups, source.item_ids)
        if settings["rank"] and G.user_power != 1:
            raise OffdiagError("the smooth part (rank > 0) is not learned from a Gram; use fit with data, or rank=0")
        m = G.n_items
        also = layout.size(m) * np.dtype(self.dtype).itemsize if isinstance(G, Gram) else G.nbytes
        k = self._check_memory(m, 0, settings, also=also)
        used = self._with(settings)
        auto.from_gram(G, used)
        side_information.require_numbers(used, side)
        users, G = G, side.added_gram(G, used)
        if isinstance(G, SparseGram):
            columns = sparse_from_gram.by_rows(G, k, used, block_bytes(used.block_bytes), kinds, progress)
        else:
            columns = sparse_from_gram.packed_rows(G, k, used, kinds, progress)
        supports, explained = support.to_size(columns.supports, columns.H, used._budget(m), columns.solve)
        smooth = self._smooth_of(users, used.rank, progress)
        self._finish(
            supports, columns.rank, columns.g, explained, G.scale, used._settings(), **vars(source), smooth=smooth,
            kinds=kinds,
        )  # fmt: skip
        return self._keep_features(side.features)

    def _budget(self, m: int) -> int | None:
        """Bytes for the weights of the columns."""
        return self.max_bytes and self.max_bytes - _smooth_bytes(m, self.rank, np.dtype(self.dtype).itemsize)

    def _penalise(self, g: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
        """diag(H) for the diagonal of a Gram in its own unit."""
        return support.penalised(
            g, scale, self.dtype, dropout=number(self.dropout), l2=number(self.l2), item_power=self.item_power
        )

    def _groups_by(self, rank: NDArray[np.int32], kinds: Grouping | None) -> support.Groups:
        """The groups of the items by popularity, as the solver takes them."""
        if kinds is None:
            return support.ALONE
        return support.Groups(kinds.numbers[np.argsort(rank)], 1 / (1 - number(self.dropout)))

    def _smooth_of(self, G: Gram | SparseGram, rank: int, progress: Progress | None) -> LowPass | None:
        return smooth_directions(product_of(G, self.dtype), rank, progress) if rank else None

    def _add_smooth(self, sharp: Sparse, smooth: LowPass, strength: float, rarity: NDArray[np.floating]) -> Smoothed:
        Q, scale = smooth
        return Smoothed(sharp, Q, scale.astype(self.dtype), (strength / scale).astype(self.dtype) * rarity)

    def _count_gram(self, matrix: Any, user_power: float, progress: Progress | None) -> SparseGram:
        return matrix if isinstance(matrix, SparseGram) else sparse_gram(matrix, user_power, progress=progress)

    def _follow(self, change: Change, progress: Progress | None) -> NewWeights:
        return sparse.follow(self, change, progress)

    def _tolerances(self) -> tuple[float, float]:
        return sparse.tolerances(self)

    def _finish(
        self,
        supports: support.Supports,
        rank: NDArray[np.int32],
        g: NDArray[np.float64],
        explained: NDArray[np.float64],
        scale: float,
        settings: dict[str, Any],
        item_ids: NDArray[Any],
        popularity: NDArray[np.float64],
        n_users: int,
        past: Past | None = None,
        columns: Roles | None = None,
        counts_users: bool = False,
        smooth: LowPass | None = None,
        kinds: Grouping | None = None,
    ) -> Self:
        if settings["rank"] and smooth is None:
            raise OffdiagError("the smooth part (rank > 0) is not learned here; use fit, or rank=0")
        rarity = inverse_propensity(popularity, settings["propensity_power"]).astype(self.dtype)
        sharp = Sparse(*support.to_rows(supports, rank, rarity, settings["weight_power"]))
        weights: Sparse | Smoothed = sharp
        if smooth is not None:
            weights = self._add_smooth(sharp, smooth, settings["smooth"], rarity)
            settings = settings | {"rank": weights.Q.shape[1]}  # the data may have fewer directions than requested
        left_out = _NOT_OF_THE_FIT if settings["rank"] else (*_NOT_OF_THE_FIT, "rank", "smooth")
        used = {name: value for name, value in settings.items() if name not in left_out and value is not None}
        penalty = None if settings["item_power"] else settings["l2"] / scale
        objective = float((g - explained).sum()) * scale
        return self._store(
            weights, item_ids, popularity, n_users, used, past, columns, counts_users,
            penalty_=penalty, objective_=objective, _groups=kinds and kinds.catalogue,
        )  # fmt: skip

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


def smooth_directions(product: Product, rank: int, progress: Progress | None) -> LowPass:
    """R Q Qᵀ R⁻¹ projects a history on the smoothest directions; all items weigh the same."""
    check_range(product)
    scale = item_scale(product.g, 1.0)
    return low_pass.leading(ScaledProduct(product, scale), rank, progress=progress), scale


def _smooth_bytes(m: int, rank: int, itemsize: int) -> int:
    """The share of ``max_bytes`` that the smooth part takes."""
    return m * (min(rank, m) + 2) * itemsize if rank else 0
