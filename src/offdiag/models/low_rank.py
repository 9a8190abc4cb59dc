"""Low-rank linear autoencoders: two small embeddings per item, no m×m matrix [Steck20]; see docs/models.md."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import memory
from offdiag.errors import InterruptedFitWarning
from offdiag.gramian import layout
from offdiag.gramian.packed import Gram, as_matrix, gram
from offdiag.gramian.sparse import SparseGram, sparse_gram
from offdiag.living import low_rank as low_rank_living
from offdiag.living.exact_change import Change, NewWeights
from offdiag.living.past import Past
from offdiag.models import auto
from offdiag.models.fields import Auto, check_gram, check_not_empty, checked, checked_item_ids
from offdiag.models.recommender import Recommender
from offdiag.progress import Progress
from offdiag.solvers import lapack, low_rank, spectral, subspace
from offdiag.solvers.low_rank import Factors
from offdiag.solvers.products import DataProduct, GramProduct, PairProduct, Product, check_range, data_is_cheaper
from offdiag.weights import LowRank, Symmetric

Start = tuple[NDArray[np.floating], NDArray[np.floating]]
WORKING_COLUMNS = 17  # arrays of m×rank that a fit holds at its peak (measured): 8 are the basis of the start


class _LowRank(Recommender):
    """From data to two embeddings; a subclass is its hyper-parameters and the solver it calls."""

    changeable: ClassVar[bool] = True
    rank: int
    l2: float | Auto
    user_power: float | Auto
    products: Literal["auto", "gram", "data"]
    dtype: Literal["float32", "float64"]
    weights_: LowRank | Symmetric
    objective_: float  # the value that was reached (docs/models.md), in squared units of the weighted data
    objectives_: list[float]  # after each iteration, never rising
    kkt_residual_: float | None  # of the zero-diagonal problem; None for the others
    stopped_: str  # "closed form", "full rank", "converged", "iterations" or "interrupted"
    full_rank_weight: ClassVar[float] = 0.0  # kept_weight of the full-rank model this one becomes at rank m

    def fit(self, X: Any, *, progress: Progress | None = None) -> Self:
        """Learn from Interactions, a scipy sparse matrix or an array of users×items.

        Needs no m×m matrix where ``products`` is "data", which "auto" takes when it is cheaper or nothing else fits.
        Ctrl-C during the iterations keeps the best weights found so far and warns.
        """
        settings = self._checked()
        matrix = as_matrix(X)
        check_not_empty(matrix.nnz, *matrix.shape)
        item_ids = checked_item_ids(getattr(X, "item_ids", None), matrix.shape[1])
        settings = auto.from_data(matrix, settings, progress=progress)
        rank = min(settings["rank"], matrix.shape[1])
        settings["products"] = self._chosen_products(matrix, rank)
        sums = np.bincount(matrix.indices, weights=matrix.data, minlength=matrix.shape[1]).astype(np.float64)
        product: Product
        if settings["products"] == "gram":
            product = GramProduct(gram(matrix, settings["user_power"], dtype=self.dtype, progress=progress))
        else:
            product = DataProduct(matrix, settings["user_power"], self.dtype, rank=rank)
        past = Past.of_fit(matrix, X)
        return self._solve(product, settings, item_ids, sums, matrix.shape[0], progress, past)

    def fit_gram(self, G: Gram | SparseGram, *, item_ids: Any = None, progress: Progress | None = None) -> Self:
        """Learn from a Gram alone; its ``user_power`` stands."""
        settings = self._checked()
        check_gram(G, settings["user_power"], also=SparseGram)
        item_ids = checked_item_ids(item_ids, G.n_items)
        self._check_memory(G.n_items, min(settings["rank"], G.n_items), 0)
        settings = auto.from_gram(G, settings) | {"products": "gram"}
        past, sums = Past.of_fit(G), G.item_sums.copy()
        return self._solve(self._product_of(G), settings, item_ids, sums, G.n_users, progress, past)

    @property
    def encoder_(self) -> NDArray[np.floating]:
        """U, a row per item: a history x becomes the vector x @ encoder_."""
        return _read_only(self._fitted().weights_.U)

    @property
    def decoder_(self) -> NDArray[np.floating]:
        """V, a row per item: the score of an item is the inner product of its row with the history's vector."""
        return _read_only(self._fitted().weights_.V)

    def _product_of(self, G: Gram | SparseGram) -> Product:
        if isinstance(G, SparseGram):
            return PairProduct(G, self.dtype)
        return GramProduct(G if G.dtype == np.dtype(self.dtype) else G.astype(self.dtype))

    def _count_gram(self, matrix: Any, user_power: float, progress: Progress | None) -> Gram | SparseGram:
        if isinstance(matrix, SparseGram):
            return matrix
        if self.settings_["products"] == "data":  # m² numbers are too many, or more than pairs that share a user
            return sparse_gram(matrix, user_power, progress=progress)
        return super()._count_gram(matrix, user_power, progress)

    def _follow(self, change: Change, progress: Progress | None) -> NewWeights:
        return low_rank_living.follow(self, change, progress)

    def _tolerances(self) -> tuple[float, float]:
        return low_rank_living.tolerances(self)

    def _solve(
        self,
        product: Product,
        settings: dict[str, Any],
        item_ids: NDArray[Any],
        sums: NDArray[np.float64],
        n_users: int,
        progress: Progress | None,
        past: Past,
    ) -> Self:
        check_range(product)
        learned, _ = self._learned(product, settings, progress)
        self._store(learned.pop("weights_"), item_ids, sums, n_users, settings, past, **learned)
        if self.stopped_ == "interrupted":
            warnings.warn(
                f"the fit was interrupted after {len(self.objectives_) - 1} iterations; "
                f"the best weights so far are kept, objective {self.objective_:.6g}",
                InterruptedFitWarning,
                stacklevel=3,
            )
        return self

    def _learned(
        self, product: Product, settings: dict[str, Any], progress: Progress | None, start: Start | None = None
    ) -> tuple[dict[str, Any], float]:
        """What the fit found, by the name of the attribute, and the gain of its last step; may complete the settings.

        ``start`` are the factors of a problem that was nearly this one.
        """
        live = np.flatnonzero(product.g > 0)
        if settings["rank"] >= len(live):
            settings["rank"] = len(live)
            found = self._full_rank(product, live, settings)
        else:
            found = self._factors(product, settings, progress, start)
        learned = {
            "weights_": LowRank(found.U, found.V),
            "objective_": found.objective,
            "objectives_": found.objectives,
            "stopped_": found.stopped,
            "kkt_residual_": found.kkt_residual,
        }
        return learned, found.gain

    def _factors(
        self, product: Product, settings: dict[str, Any], progress: Progress | None, start: Start | None
    ) -> Factors:
        raise NotImplementedError

    def _tolerance(self) -> float:
        """Of the gain of the last step, relative to what the model explains."""
        return subspace.tolerance_of(np.dtype(self.dtype))

    def _full_rank(self, product: Product, live: NDArray[np.int64], settings: dict[str, Any]) -> Factors:
        """As many dimensions as items: the exact full-rank optimum B, held as U = B, V = I over the items in use."""
        return low_rank.full_rank(
            product, live, dropout=settings.get("dropout", 0.0), l2=settings["l2"],
            kept_weight=settings.get("kept_weight", self.full_rank_weight),
        )  # fmt: skip

    def _checked(self) -> dict[str, Any]:
        return self._checked_params(self.get_params())

    def _checked_params(self, params: dict[str, Any]) -> dict[str, Any]:
        params = checked(params)
        del params["dtype"]
        return params

    def _chosen_products(self, matrix: sparse.csr_array, rank: int) -> str:
        """How G @ V is computed; raises when neither way fits in memory."""
        m, itemsize = matrix.shape[1], np.dtype(self.dtype).itemsize
        gram_bytes = layout.size(m) * itemsize * 17 // 16
        if self.products == "auto":
            there = memory.available()
            needed = gram_bytes + WORKING_COLUMNS * m * rank * itemsize
            too_big = m > lapack.MAX_ITEMS or (there is not None and needed > there)
            chosen = "data" if too_big or data_is_cheaper(matrix) else "gram"
        else:
            chosen = self.products
        self._check_memory(m, rank, gram_bytes if chosen == "gram" else matrix.nnz * 8)
        return chosen

    def _check_memory(self, m: int, rank: int, data_bytes: int) -> None:
        memory.require(
            WORKING_COLUMNS * m * rank * np.dtype(self.dtype).itemsize + data_bytes,
            f"a model of {m:,} items and rank {rank:,}",
            "lower the rank, use dtype='float32' or products='data', or keep fewer items (od.prepare.min_counts)",
        )


@dataclass(kw_only=True, eq=False)
class LowRankDLAE(_LowRank):
    """The global optimum of min ‖X − X U Vᵀ‖² + ‖Λ^½ U Vᵀ‖², Λ = p/(1−p)·diag(XᵀX) + l2: denoising without emphasis."""

    rank: int = 200
    dropout: float | Auto = "auto"
    l2: float | Auto = "auto"
    user_power: float | Auto = "auto"
    seed: int = 0
    products: Literal["auto", "gram", "data"] = "auto"
    dtype: Literal["float32", "float64"] = "float32"
    full_rank_weight: ClassVar[float] = 1.0

    def _factors(
        self, product: Product, settings: dict[str, Any], progress: Progress | None, start: Start | None
    ) -> Factors:
        return low_rank.dlae(
            product, settings["rank"], dropout=settings["dropout"], l2=settings["l2"], seed=self.seed,
            start=start and start[0], progress=progress,
        )  # fmt: skip


@dataclass(kw_only=True, eq=False)
class LowRankEDLAE(_LowRank):
    """Emphasised denoising of low rank: a = 1 for dropped entries, b = ``kept_weight`` for kept ones.

    A local minimum of the exact expectation over masks, from a start that is close to the best one; with ``starts`` > 1
    the best of several, which is worth it for small problems. kept_weight=1 is LowRankDLAE.
    """

    rank: int = 200
    dropout: float | Auto = "auto"
    l2: float | Auto = "auto"
    kept_weight: float = 0.0
    iterations: int = 30
    starts: int = 1
    user_power: float | Auto = "auto"
    seed: int = 0
    products: Literal["auto", "gram", "data"] = "auto"
    dtype: Literal["float32", "float64"] = "float32"

    def _factors(
        self, product: Product, settings: dict[str, Any], progress: Progress | None, start: Start | None
    ) -> Factors:
        return low_rank.edlae(
            product, settings["rank"], dropout=settings["dropout"], l2=settings["l2"],
            kept_weight=settings["kept_weight"], iterations=settings["iterations"], starts=settings["starts"],
            seed=settings["seed"], start=start and start[0], progress=progress,
        )  # fmt: skip

    def _tolerance(self) -> float:
        return low_rank.edlae_tolerance(np.dtype(self.dtype))


@dataclass(kw_only=True, eq=False)
class ZeroDiagonalLAE(_LowRank):
    """min ‖X − X U Vᵀ‖² + ‖Λ^½ U Vᵀ‖² with diag(U Vᵀ) = 0 [Steck20 Eq. 11]: encoder and decoder of an item orthogonal.

    ``kkt_residual_`` tells how far the result is from stationary, relative to the data.
    """

    rank: int = 200
    dropout: float | Auto = "auto"
    l2: float | Auto = "auto"
    iterations: int = 50
    user_power: float | Auto = "auto"
    seed: int = 0
    products: Literal["auto", "gram", "data"] = "auto"
    dtype: Literal["float32", "float64"] = "float32"

    def _factors(
        self, product: Product, settings: dict[str, Any], progress: Progress | None, start: Start | None
    ) -> Factors:
        return low_rank.zero_diagonal(
            product, settings["rank"], dropout=settings["dropout"], l2=settings["l2"],
            iterations=settings["iterations"], seed=settings["seed"], start=start, progress=progress,
        )  # fmt: skip

    def _tolerance(self) -> float:
        return low_rank.zero_diagonal_tolerance(np.dtype(self.dtype))


@dataclass(kw_only=True, eq=False)
class WeightDecayLAE(_LowRank):
    """The global optimum of min ‖X − X U Vᵀ‖² + l2(‖U‖² + ‖V‖²): shrunk principal components, U = V."""

    rank: int = 200
    l2: float | Auto = "auto"
    user_power: float | Auto = "auto"
    seed: int = 0
    products: Literal["auto", "gram", "data"] = "auto"
    dtype: Literal["float32", "float64"] = "float32"

    def _factors(
        self, product: Product, settings: dict[str, Any], progress: Progress | None, start: Start | None
    ) -> Factors:
        return low_rank.weight_decay(
            product, settings["rank"], l2=settings["l2"], seed=settings["seed"], start=start and start[0],
            progress=progress,
        )  # fmt: skip

    def _tolerance(self) -> float:
        return spectral.tolerance_of(np.dtype(self.dtype))

    def _full_rank(self, product: Product, live: NDArray[np.int64], settings: dict[str, Any]) -> Factors:
        return self._factors(product, settings, None, None)


def _read_only(array: NDArray[np.floating]) -> NDArray[np.floating]:
    view = array.view()
    view.flags.writeable = False
    return view
