"""SparseEDLAE: each item from its most telling neighbours only, for catalogues of any size; see docs/models.md."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from offdiag import memory, packed
from offdiag.errors import OffdiagError
from offdiag.gramian import Gram, as_matrix
from offdiag.models import defaults
from offdiag.models.block_checkpoints import BlockCheckpoints, data_facts
from offdiag.models.full_rank import inverse_propensity
from offdiag.models.recommender import Recommender, checked_item_ids
from offdiag.models.settings import Auto, check_gram, check_not_empty, checked
from offdiag.progress import Progress
from offdiag.solvers import gram_rows, ranked, support
from offdiag.solvers.products import item_scale
from offdiag.weights import Sparse

NEIGHBOURS = 500
_NOT_OF_THE_FIT = ("block_bytes",)  # settings that change how it is computed, not what comes out


@dataclass(kw_only=True, eq=False)
class SparseEDLAE(Recommender):
    """EDLAE where item i is regressed on its ``neighbours`` only: those with the largest G_ji²/H_jj, H = G + Λ.

    Each column is solved exactly on its support. ``max_bytes`` drops the weakest weights of all and solves again on the
    rest, so that the model fits. ``weight_power`` above 1 lets strong neighbours speak louder: the scores add up
    sign(β)·|β|^weight_power. ``block_bytes`` bounds the part of the Gram held at a time ("auto": 60 % of the memory
    that is free); it changes no result.
    """

    prefers_data: ClassVar[bool] = True  # fit needs less than the Gram that fit_gram would be given
    neighbours: int | Auto = "auto"
    dropout: float | Auto = "auto"
    l2: float | Auto = "auto"
    user_power: float | Auto = "auto"
    item_power: float = 0.0
    propensity_power: float = 0.0
    weight_power: float = 1.0
    max_bytes: int | None = None
    block_bytes: int | Auto = "auto"
    dtype: Literal["float32", "float64"] = "float32"

    def fit(
        self, X: Any, *, checkpoint: str | os.PathLike[str] | None = None, progress: Progress | None = None
    ) -> Self:
        """Learn from Interactions, a scipy sparse matrix or an array of users×items.

        Memory: the interactions twice, two numbers per neighbour (four while the model is put together), and
        ``block_bytes``. ``checkpoint`` names a folder from which a fit that was killed goes on, to the same bytes.
        """
        settings = self._checked()
        matrix = as_matrix(X)
        n, m = matrix.shape
        check_not_empty(matrix.nnz, n, m)
        item_ids = checked_item_ids(getattr(X, "item_ids", None), m)
        k = self._check_memory(m, matrix.nnz, settings)
        kept = None
        if checkpoint is not None:
            told = {name: value for name, value in settings.items() if name not in _NOT_OF_THE_FIT}
            kept = BlockCheckpoints(checkpoint, told | {"dtype": self.dtype}, data_facts(matrix, item_ids))
        settings = defaults.from_data(matrix, settings, progress=progress)
        n_u = np.diff(matrix.indptr)
        weight = ranked.exact_weights(n_u, settings["user_power"])
        counts = np.bincount(matrix.indices, minlength=m)
        rank = ranked.popularity_rank(counts)
        data = ranked.by_popularity(matrix, weight, rank)
        g = ranked.diagonal(data)
        scale = float(n_u.sum() / (weight @ n_u))
        H = _penalised(g, settings, scale, self.dtype)
        supports = support.choose(data, H, k, self.dtype, progress=progress)

        def solve(supports: support.Supports, stage: str) -> NDArray[np.float64]:
            plan = gram_rows.plan(supports, np.dtype(self.dtype).itemsize, _block_bytes(settings["block_bytes"]))
            at = kept and kept.stage(stage)
            return support.solve(data, H, supports, plan, kept=at, progress=progress)

        supports, explained = _to_size(supports, H, settings["max_bytes"], solve)
        sums = np.bincount(matrix.indices, weights=matrix.data, minlength=m).astype(np.float64)
        return self._learned(supports, rank, g, explained, scale, settings, item_ids, sums, n)

    def fit_gram(self, G: Gram, *, item_ids: Any = None, progress: Progress | None = None) -> Self:
        """Learn from a Gram alone; its ``user_power`` stands. G is not changed. Memory: as much as G, once more."""
        settings = self._checked()
        check_gram(G, settings["user_power"])
        m = G.n_items
        item_ids = checked_item_ids(item_ids, m)
        k = self._check_memory(m, 0, settings, also=packed.size(m) * np.dtype(self.dtype).itemsize)
        settings = defaults.from_gram(G, settings)
        rank = ranked.popularity_rank(G.item_counts)
        order = np.argsort(rank)
        g = G.values[packed.diagonal_positions(m)].astype(np.float64)[order]
        H = _penalised(g, settings, G.scale, self.dtype)

        def rows(lo: int, hi: int) -> NDArray[np.float64]:
            found: NDArray[np.float64] = G.values[packed.positions(m, order[lo:hi], order)].astype(np.float64)
            return found

        supports = support.choose_from_rows(rows, g, H, k, self.dtype)
        arrays = gram_rows.of_gram(G.values, m, order, self.dtype)
        columns = np.arange(m, dtype=np.int32)

        def solve(supports: support.Supports, stage: str) -> NDArray[np.float64]:
            explained = np.zeros(m)
            support.solve_block(arrays, H, supports, columns, explained, progress=support.Told(progress, m).within(m))
            return explained

        supports, explained = _to_size(supports, H, settings["max_bytes"], solve)
        return self._learned(supports, rank, g, explained, G.scale, settings, item_ids, G.item_sums.copy(), G.n_users)

    def with_propensity(self, power: float) -> Self:
        """The same fit with its scores divided by another power of popularity."""
        model = copy.copy(self._fitted())
        model.propensity_power = float(power)
        model.settings_ = self.settings_ | {"propensity_power": model._checked()["propensity_power"]}
        before = inverse_propensity(self.popularity_, self.settings_["propensity_power"])
        ratio = (inverse_propensity(self.popularity_, power) / before).astype(self.dtype)
        W = self.weights_
        assert isinstance(W, Sparse)
        model.weights_ = Sparse(W.indptr, W.indices, W.data * ratio[W.indices])
        return model

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
    ) -> Self:
        rarity = inverse_propensity(sums, settings["propensity_power"]).astype(self.dtype)
        weights = Sparse(*support.to_rows(supports, rank, rarity, settings["weight_power"]))
        # Nothing is assigned before this line: a failed or interrupted fit leaves an earlier one intact.
        self.weights_ = weights
        self.objective_ = float((g - explained).sum()) * scale
        self.item_ids_ = item_ids
        self.popularity_ = sums
        self.n_users_ = n_users
        self.settings_ = {name: value for name, value in settings.items() if name not in _NOT_OF_THE_FIT}
        return self

    def _check_memory(self, m: int, nnz: int, settings: dict[str, Any], also: int = 0) -> int:
        """That the fit has room; returns the length of the supports."""
        k = max(min(int(settings["neighbours"]), m - 1), 1)
        itemsize = np.dtype(self.dtype).itemsize
        copies = 2 if settings["max_bytes"] is None else 3
        memory.require(
            12 * nnz + (4 + itemsize) * m * k * copies + also,
            f"a sparse model of {m:,} items with {k:,} neighbours each",
            "ask for fewer neighbours, or keep fewer items with od.prepare.min_counts(items=...)",
        )
        if settings["max_bytes"] is not None and settings["max_bytes"] < 8 * (m + 1) + 4 + itemsize:
            raise OffdiagError(
                f"max_bytes must be at least {8 * (m + 1) + 4 + itemsize:,} for {m:,} items, "
                f"received {settings['max_bytes']:,}"
            )
        return k

    def _checked(self) -> dict[str, Any]:
        """The hyper-parameters, validated; the number of neighbours is always a number."""
        params = self.get_params()
        unset = {name: params.pop(name) for name in ("max_bytes", "block_bytes") if params[name] in (None, "auto")}
        if params["neighbours"] == "auto":
            params["neighbours"] = NEIGHBOURS
        settings = unset | checked(params)
        if settings["item_power"] == "auto":
            raise OffdiagError("item_power of SparseEDLAE must be a number, received 'auto'")
        del settings["dtype"]
        return settings


def _block_bytes(wanted: int | Auto) -> int:
    """What of the Gram may be held at a time."""
    if not isinstance(wanted, str):
        return wanted
    there = memory.available()
    return 1 << 30 if there is None else max(int(0.6 * there), 1 << 26)


def _penalised(g: NDArray[np.float64], settings: dict[str, Any], scale: float, dtype: str) -> NDArray[np.float64]:
    """diag(H) = diag(G) + Λ, for G in its own unit, which is ``scale`` times smaller."""
    if not np.isfinite(g).all() or float(g.max(initial=0.0)) > float(np.finfo(dtype).max) / 64:
        raise OffdiagError("the sums of squares overflow; scale the values down, binarise them, or use dtype='float64'")
    l2: Any = settings["l2"] / scale
    if settings["item_power"]:
        l2 = l2 / item_scale(g, settings["item_power"]) ** 2
    dropout = settings["dropout"]
    return np.asarray(g * (1 + dropout / (1 - dropout)) + l2)


def _to_size(
    supports: support.Supports,
    H: NDArray[np.float64],
    max_bytes: int | None,
    solve: Callable[[support.Supports, str], NDArray[np.float64]],
) -> tuple[support.Supports, NDArray[np.float64]]:
    """Solve, and if the weights would be too large, once more without the weakest."""
    itemsize = supports.values.dtype.itemsize
    entries = len(supports.rows)
    if max_bytes is not None:
        entries = min(entries, (max_bytes - 8 * len(supports.ptr)) // (4 + itemsize))
    if entries == len(supports.rows):
        return supports, solve(supports, "all")
    G = supports.values.copy()
    solve(supports, "all")
    pruned = support.strongest(supports, H, G, entries)
    return pruned, solve(pruned, "pruned")
