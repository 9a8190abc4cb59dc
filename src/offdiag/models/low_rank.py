"""Low-rank linear autoencoders: two small embeddings per item, no m×m matrix [Steck20]; see docs/models.md."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Literal, Self, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import memory
from offdiag.errors import InterruptedFitWarning, NoMinimiserWarning
from offdiag.gramian import layout
from offdiag.gramian.packed import Gram, gram
from offdiag.gramian.sparse import SparseGram, sparse_gram
from offdiag.living import low_rank as low_rank_living
from offdiag.living.exact_change import Change, NewWeights
from offdiag.models import auto, fields, side_information
from offdiag.models.fields import Auto, number
from offdiag.models.recommender import Recommender
from offdiag.models.side_information import side_of
from offdiag.models.source import Reading, Source, check_gram, product_of, read_data, read_gram
from offdiag.progress import Progress, reporter
from offdiag.solvers import low_rank, spectral, subspace
from offdiag.solvers.low_rank import Factors
from offdiag.solvers.products import DataProduct, GramProduct, Product, check_range, data_is_cheaper
from offdiag.weights import LowRank, Symmetric

Start = tuple[NDArray[np.floating], NDArray[np.floating]]
WORKING_COLUMNS = 17  # m×rank arrays held at the peak of a fit (measured), 8 of them for the starting basis


@fields.model
class _Settings(Recommender):
    """The settings that all low-rank models share."""

    user_power: float | Auto = fields.user_power()
    feature_weight: float | Auto = fields.feature_weight()
    seed: int = fields.seed()
    products: Literal["auto", "gram", "data"] = fields.setting(
        "auto", choices=("auto", "gram", "data"), auto="whichever is cheaper and fits in memory",
        help="How products with XᵀX are computed. Gram: all pairs of items are counted first, items × items numbers. "
        "Data: from the interactions, without that matrix.",
    )  # fmt: skip
    dtype: Literal["float32", "float64"] = fields.dtype()


class LowRankModel(_Settings):
    """From data to two embeddings; a subclass is its settings and the solver it calls."""

    cluster_fit = "low rank"
    learns_from_gram = True
    can_change = True
    l2_of_ease = True
    auto_of_ease = True
    rank: int
    weights_: LowRank | Symmetric
    objective_: float  # the value reached (docs/models.md), in squared units of the weighted data
    objectives_: list[float]  # after each iteration, never increasing
    kkt_residual_: float | None  # of the zero-diagonal problem; None for the others
    stopped_: str  # "closed form", "full rank", "converged", "iterations", "interrupted" or "no minimiser: …"
    full_rank_weight: ClassVar[float] = 0.0  # kept_weight of the full-rank model this one becomes at rank m
    several_minima: ClassVar[bool] = False  # so that two fits of one problem may differ

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        item_features: Any = None,
        progress: Progress | bool | None = None,
        **reading: Unpack[Reading],
    ) -> Self:
        """Learn from Interactions, a matrix of users×items, or any table, with the options of ``od.read``.

        ``item_features`` is what is known about the items (``od.read_features``, docs/features.md).
        Needs no m×m matrix where ``products`` is "data", which "auto" chooses if it is cheaper or nothing else fits.
        Ctrl-C during the iterations keeps the best weights found so far and warns.
        """
        progress = reporter(progress)
        used = self._validate()
        matrix, source = read_data(X, reading)
        side = side_of(used, source.item_ids, item_features)
        used._resolve(lambda model: auto.from_data(matrix, model, progress=progress))
        side_information.choose(used, side, matrix, progress)
        user_power, rank = number(used.user_power), min(used.rank, matrix.shape[1])
        used.products = used._choose_products(matrix, rank)
        product: Product
        if used.products == "gram":
            product = GramProduct(gram(matrix, user_power, dtype=self.dtype, progress=progress))
        else:
            product = DataProduct(matrix, user_power, self.dtype, rank=rank)
        return self._solve(side.added(product, used), used, source, progress)._keep_features(side.features)

    def fit_gram(
        self,
        G: Gram | SparseGram,
        *,
        item_ids: Any = None,
        item_features: Any = None,
        progress: Progress | bool | None = None,
    ) -> Self:
        """Learn from a Gram alone, with its ``user_power``; ``feature_weight`` must then be a number.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> model = od.LowRankDLAE(rank=5).fit_gram(od.gram(X, user_power=0.5), item_ids=X.item_ids)
            >>> model.recommend([[]], k=3).lengths
            array([3])
        """
        progress = reporter(progress)
        used = self._validate()
        check_gram(G, used.user_power, also=SparseGram)
        source = read_gram(G, item_ids)
        self._check_memory(G.n_items, min(used.rank, G.n_items), 0)
        side = side_of(used, source.item_ids, item_features)
        used._resolve(lambda model: auto.from_gram(G, model))
        side_information.require_numbers(used, side)
        used.products = "gram"
        fitted = self._solve(side.added(product_of(G, self.dtype), used), used, source, progress)
        return fitted._keep_features(side.features)

    @property
    def encoder_(self) -> NDArray[np.floating]:
        """U, a row per item: a history x becomes the vector x @ encoder_."""
        return _read_only(self._require_fit().weights_.U)

    @property
    def decoder_(self) -> NDArray[np.floating]:
        """V, a row per item: the score of an item is the inner product of its row with the history's vector."""
        return _read_only(self._require_fit().weights_.V)

    def _count_gram(self, matrix: Any, user_power: float, progress: Progress | None) -> Gram | SparseGram:
        if isinstance(matrix, SparseGram):
            return matrix
        if self.settings_["products"] == "data":  # m² numbers are too many, or more than the pairs that share a user
            return sparse_gram(matrix, user_power, progress=progress)
        return super()._count_gram(matrix, user_power, progress)

    def _follow(self, change: Change, progress: Progress | None) -> NewWeights:
        return low_rank_living.follow(self, change, progress)

    def _tolerances(self) -> tuple[float, float]:
        return low_rank_living.tolerances(self)

    def _objective_gap(self, learned: dict[str, Any], fresh: Recommender, G: Gram | SparseGram) -> float | None:
        assert isinstance(fresh, LowRankModel)
        return low_rank_living.objective_gap(learned["weights_"], fresh, G) if self.several_minima else None

    def _resolve(self, choose: Callable[[Recommender], None]) -> None:
        """Replace every "auto" by its value."""
        choose(self)

    def _solve(self, product: Product, used: Self, source: Source, progress: Progress | None) -> Self:
        check_range(product)
        learned, _ = used._learn(product, progress)
        self._store(learned.pop("weights_"), **vars(source), settings=used._settings(), **learned)
        if self.stopped_ == "interrupted":
            warnings.warn(
                f"the fit was interrupted after {len(self.objectives_) - 1} iterations; "
                f"the best weights so far are kept, objective {self.objective_:.6g}",
                InterruptedFitWarning,
                stacklevel=3,
            )
        elif self.stopped_ == low_rank.NO_MINIMISER:
            diagonal = np.abs(np.einsum("ij,ij->i", self.encoder_, self.decoder_, dtype=np.float64))
            warnings.warn(
                f"with kept_weight=0 this problem has no minimum at rank {self.settings_['rank']}: the weight of item "
                f"{self.item_ids_[diagonal.argmax()]} for itself grows without bound, {diagonal.max():.3g} so far; "
                "the lists are usable, the embeddings of that item are not; kept_weight above 0 gives a minimum",
                NoMinimiserWarning,
                stacklevel=3,
            )
        return self

    def _learn(
        self, product: Product, progress: Progress | None, start: Start | None = None
    ) -> tuple[dict[str, Any], float]:
        """The fitted attributes by name, and the gain of the last step; may lower the rank.

        ``start`` holds the factors of a nearby problem.
        """
        live = np.flatnonzero(product.g > 0)
        if self.rank >= len(live):
            self.rank = len(live)
            found = self._full_rank(product, live, progress)
        else:
            found = self._factors(product, progress, start)
        learned = {
            "weights_": LowRank(found.U, found.V),
            "objective_": found.objective,
            "objectives_": found.objectives,
            "stopped_": found.stopped,
            "kkt_residual_": found.kkt_residual,
        }
        return learned, found.gain

    def _factors(self, product: Product, progress: Progress | None, start: Start | None) -> Factors:
        raise NotImplementedError

    def _tolerance(self) -> float:
        """The tolerance of the gain of the last step, relative to what the model explains."""
        return subspace.tolerance_of(np.dtype(self.dtype))

    def _full_rank(self, product: Product, live: NDArray[np.int64], progress: Progress | None) -> Factors:
        """As many dimensions as items: the exact full-rank optimum B, held as U = B, V = I over the items in use."""
        settings = {"kept_weight": self.full_rank_weight} | self._settings()
        return low_rank.full_rank(
            product, live, dropout=settings["dropout"], l2=settings["l2"], kept_weight=settings["kept_weight"]
        )

    def _choose_products(self, matrix: sparse.csr_array, rank: int) -> Literal["gram", "data"]:
        """How G @ V is computed; raises an error if neither way fits in memory."""
        m, itemsize = matrix.shape[1], np.dtype(self.dtype).itemsize
        gram_bytes = layout.size(m) * itemsize * 17 // 16
        chosen = self.products
        if chosen == "auto":
            there = memory.available()
            needed = gram_bytes + WORKING_COLUMNS * m * rank * itemsize
            too_big = there is not None and needed > there
            chosen = "data" if too_big or data_is_cheaper(matrix) else "gram"
        self._check_memory(m, rank, gram_bytes if chosen == "gram" else matrix.nnz * 8)
        return chosen

    def _check_memory(self, m: int, rank: int, data_bytes: int) -> None:
        memory.require(
            WORKING_COLUMNS * m * rank * np.dtype(self.dtype).itemsize + data_bytes,
            f"a model of {m:,} items and rank {rank:,}",
            "lower the rank, use dtype='float32' or products='data', or keep fewer items (od.prepare.min_counts)",
        )


@fields.model
class LowRankDLAE(LowRankModel):
    """Denoising with two embeddings per item: DLAE of low rank, its global optimum [Steck20].

    min ‖X − X U Vᵀ‖² + ‖Λ^½ U Vᵀ‖²,  Λ = dropout/(1 − dropout)·diag(XᵀX) + l2

    Use it where an items × items matrix is too large and you want a closed form; LowRankEDLAE ranks better. With
    hidden_dropout the minimum is over nets that drop hidden units as well, which shrinks U Vᵀ (docs/models.md).

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> model = od.LowRankDLAE(rank=8, dropout=0.5, l2=20.0).fit(X)
        >>> model.encoder_.shape, model.stopped_
        ((40, 8), 'closed form')
    """

    rank: int = fields.rank()
    dropout: float | Auto = fields.dropout()
    # At low rank, where items may explain themselves, l2 does much of the regularisation.
    l2: float | Auto = fields.l2(search=fields.around_l2(30, 300))
    hidden_dropout: float = fields.setting(
        0.0, low=0, high=1, below=True,
        help="Probability with which each of the rank hidden units is dropped while learning. "
        "0: none. Above 0 all components of the model are shrunk by the same amount, weak ones to nothing.",
    )  # fmt: skip
    full_rank_weight: ClassVar[float] = 1.0

    def _factors(self, product: Product, progress: Progress | None, start: Start | None) -> Factors:
        return low_rank.dlae(
            product, self.rank, dropout=number(self.dropout), l2=number(self.l2), hidden_dropout=self.hidden_dropout,
            seed=self.seed, start=start and start[0], progress=progress,
        )  # fmt: skip

    def _full_rank(self, product: Product, live: NDArray[np.int64], progress: Progress | None) -> Factors:
        if not self.hidden_dropout:
            return super()._full_rank(product, live, progress)
        return self._factors(product, progress, None)


@fields.model
class LowRankEDLAE(LowRankModel):
    """Denoising that counts the hidden items, with two embeddings per item: EDLAE of low rank [Steck20].

    min E ‖A^½ ⊙ (X − X̃ U Vᵀ)‖² + l2·‖U Vᵀ‖²,  A = 1 where X̃ dropped an entry, kept_weight where it kept one

    Use it where an items × items matrix is too large, or if you want embeddings. It finds a local minimum of the exact
    expectation over all masks, from a start that is close to the best one. kept_weight=1 is LowRankDLAE.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> model = od.LowRankEDLAE(rank=8, dropout=0.5, l2=20.0).fit(X)
        >>> model.similar(X.item_ids[:1], k=4, space="encoder").items.shape
        (1, 4)
    """

    rank: int = fields.rank()
    dropout: float | Auto = fields.dropout()
    l2: float | Auto = fields.l2()
    kept_weight: float = fields.kept_weight()
    iterations: int = fields.iterations()
    starts: int = fields.setting(
        1, low=1, help="Number of random starts, of which the best is kept. Worth it for small problems only."
    )
    several_minima: ClassVar[bool] = True

    def _factors(self, product: Product, progress: Progress | None, start: Start | None) -> Factors:
        return low_rank.edlae(
            product, self.rank, dropout=number(self.dropout), l2=number(self.l2), kept_weight=self.kept_weight,
            iterations=self.iterations, starts=self.starts, seed=self.seed, start=start and start[0], progress=progress,
        )  # fmt: skip

    def _tolerance(self) -> float:
        return low_rank.edlae_tolerance(np.dtype(self.dtype))


@fields.model
class ZeroDiagonalLAE(LowRankModel):
    """Low rank in which no item explains itself: its encoder and its decoder are orthogonal [Steck20 Eq. 11].

    min ‖X − X U Vᵀ‖² + ‖Λ^½ U Vᵀ‖²,  diag(U Vᵀ) = 0,  Λ = dropout/(1 − dropout)·diag(XᵀX) + l2

    Use it to compare with LowRankEDLAE, which needs no constraint. ``kkt_residual_`` is the distance from a stationary
    point, relative to the data.

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> model = od.ZeroDiagonalLAE(rank=8, dropout=0.5, l2=20.0).fit(X)
        >>> bool(abs((model.encoder_ * model.decoder_).sum(axis=1)).max() < 1e-5)
        True
    """

    rank: int = fields.rank()
    dropout: float | Auto = fields.dropout()
    l2: float | Auto = fields.l2()
    iterations: int = fields.iterations(50)
    several_minima: ClassVar[bool] = True

    def _factors(self, product: Product, progress: Progress | None, start: Start | None) -> Factors:
        return low_rank.zero_diagonal(
            product, self.rank, dropout=number(self.dropout), l2=number(self.l2), iterations=self.iterations,
            seed=self.seed, start=start, progress=progress,
        )  # fmt: skip

    def _tolerance(self) -> float:
        return low_rank.zero_diagonal_tolerance(np.dtype(self.dtype))


@fields.model
class WeightDecayLAE(LowRankModel):
    """Low rank with the usual penalty on both embeddings: shrunk principal components, its global optimum.

    min ‖X − X U Vᵀ‖² + l2·(‖U‖² + ‖V‖²)

    Use it to see what plain weight decay loses against dropout (docs/ranks.md).

    Example:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> model = od.WeightDecayLAE(rank=8, l2=5.0).fit(X)
        >>> model.decoder_.shape, model.stopped_
        ((40, 8), 'closed form')
    """

    rank: int = fields.rank()
    # Without dropout, l2 does all of the regularisation.
    l2: float | Auto = fields.l2(search=fields.around_l2(30, 300))

    def _factors(self, product: Product, progress: Progress | None, start: Start | None) -> Factors:
        return low_rank.weight_decay(
            product, self.rank, l2=number(self.l2), seed=self.seed, start=start and start[0], progress=progress
        )

    def _tolerance(self) -> float:
        return spectral.tolerance_of(np.dtype(self.dtype))

    def _full_rank(self, product: Product, live: NDArray[np.int64], progress: Progress | None) -> Factors:
        return self._factors(product, progress, None)


def _read_only(array: NDArray[np.floating]) -> NDArray[np.floating]:
    view = array.view()
    view.flags.writeable = False
    return view
