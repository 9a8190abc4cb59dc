"""A sparse model after a change of users: only the columns whose problem has changed are solved again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offdiag.errors import OffdiagError
from offdiag.gramian.sparse import SparseGram, of_packed
from offdiag.living import exact_change
from offdiag.living.exact_change import Change, NewWeights
from offdiag.models.fields import check_not_empty
from offdiag.models.full_rank import inverse_propensity
from offdiag.models.side_information import side_of_fit
from offdiag.progress import Progress
from offdiag.solvers import gram_rows, gram_supports, support
from offdiag.weights import Smoothed, Sparse

if TYPE_CHECKING:
    from offdiag.models.sparse import SparseEDLAE

WORTH = 0.9  # share of the flops of all columns above which all are solved again


def follow(model: SparseEDLAE, change: Change, progress: Progress | None) -> NewWeights:
    """Solve the touched columns on the changed Gram and keep the others; or solve all, if that costs no more.

    Cost: a pass over G, then about twenty |S|² flops for each touched column with a support S.
    """
    settings, W = model.settings_, model.weights_
    B = W.B if isinstance(W, Smoothed) else W
    assert isinstance(B, Sparse)
    if settings.get("rank") and settings["user_power"] != 1:
        raise OffdiagError(
            "this SparseEDLAE cannot be updated: its smooth part (rank > 0) counts every user alike, which its Gram "
            f"does only at user_power=1, not {settings['user_power']:g}; fit it again on the changed data"
        )
    check_not_empty(change.G.n_interactions, change.G.n_users, change.G.n_items)
    used, side = model._unfitted_copy(), side_of_fit(model, change.item_ids)
    G = change.G if isinstance(change.G, SparseGram) else of_packed(change.G)
    users_before = G.own_diagonal()
    users_before[change.items] = np.diagonal(change.before)
    if side.rows is not None:  # an item that comes has pairs wherever it shares a feature
        again = change.places is not None or side.weight(used, users_before) != side.weight(used, G.own_diagonal())
        if again:
            return exact_change.refit(model, change.G, change.item_ids, progress)
        with_features = side.added_gram(G, used)
        assert isinstance(with_features, SparseGram)
        G = with_features
    penalty = settings["l2"] / G.scale
    # Penalties differ by item, all columns share a byte budget, or the common penalty has made a step: all change.
    moved = getattr(model, "penalty_", None) != penalty or settings.get("max_bytes") is not None
    if moved or model.groups_ is not None or _all_are_neighbours(model, G):
        return exact_change.refit(model, change.G, change.item_ids, progress)
    growth = 1 + settings["dropout"] / (1 - settings["dropout"])
    g = G.own_diagonal()
    g_before = g.copy()
    g_before[change.items] = np.diagonal(change.before) + (g - change.G.own_diagonal())[change.items]
    k = max(min(settings["neighbours"], G.n_items - 1), 1)
    fresh = gram_supports.touched(G, change.items, g_before * growth + penalty, g * growth + penalty, k)
    places = np.arange(B.shape[0]) if change.places is None else change.places
    if _share_of_flops(B, places, fresh) > WORTH:
        return exact_change.refit(model, change.G, change.item_ids, progress)
    attributes = _solve_columns(model, G, B, places, fresh, k, progress)
    if isinstance(W, Smoothed):
        smooth = model._smooth_of(change.G, settings["rank"], progress)  # again, by a few products
        assert smooth is not None
        rarity = inverse_propensity(G.item_sums, settings["propensity_power"]).astype(model.dtype)
        attributes["weights_"] = model._add_smooth(attributes["weights_"], smooth, settings["smooth"], rarity)
    return NewWeights(attributes, "columns", *tolerances(model))


def tolerances(model: SparseEDLAE) -> tuple[float, float]:
    """The residual that the solver leaves in a column, and so the error of its weights."""
    rounding = 8 * float(np.finfo(model.dtype).eps)
    return rounding, rounding


def _all_are_neighbours(model: SparseEDLAE, G: SparseGram) -> bool:
    """Whether a support may hold all other items, before or after: then it includes items that share no user."""
    return bool(model.settings_["neighbours"] >= min(G.n_items, model.weights_.shape[0]) - 1)


def _share_of_flops(B: Sparse, places: NDArray[np.int64], fresh: NDArray[np.bool_]) -> float:
    """The share of the fresh columns in the work on all: Σ|S|², by their old weights."""
    lengths = np.bincount(B.indices, minlength=B.shape[0]).astype(np.float64) ** 2
    stays = places >= 0
    again = np.ones(len(places), dtype=bool)
    again[stays] = fresh[places[stays]]
    return float(lengths[again].sum() / max(lengths.sum(), 1.0))


def _solve_columns(
    model: SparseEDLAE,
    G: SparseGram,
    B: Sparse,
    places: NDArray[np.int64],
    fresh: NDArray[np.bool_],
    k: int,
    progress: Progress | None,
) -> dict[str, Any]:
    """The fresh columns from G, the others from B, and the objective of all."""
    from offdiag.models.sparse import block_bytes

    settings, m = model.settings_, G.n_items
    data = gram_supports.RankedGram.of(G)
    g = data.diagonal()
    H = model._unfitted_copy()._penalise(g, G.scale)
    columns = np.sort(data.rank[np.flatnonzero(fresh)])
    supports = gram_supports.choose(data, H, k, model.dtype, items=columns, progress=progress)
    itemsize = np.dtype(model.dtype).itemsize
    plan = gram_rows.plan(supports, itemsize, block_bytes(model.block_bytes), columns=columns)
    explained = support.solve(data, H, supports, plan, progress=progress)
    power = settings["propensity_power"]
    rarity = inverse_propensity(G.item_sums, power).astype(model.dtype)
    new = Sparse(*support.to_rows(supports, data.rank, rarity, settings["weight_power"]))
    factor = np.ones(m)
    if power:
        old = inverse_propensity(model.popularity_, power).astype(model.dtype)
        stays = places >= 0
        factor[places[stays]] = rarity[places[stays]].astype(np.float64) / old[stays]
    weights = _replace_columns(B, places, fresh, factor, new)
    kept = _explained_by_kept(G, weights, fresh, rarity, settings["weight_power"])
    return {
        "weights_": weights,
        "objective_": (float((g - explained).sum()) - kept) * G.scale,
        "penalty_": model.penalty_,
    }


def _replace_columns(
    B: Sparse, places: NDArray[np.int64], fresh: NDArray[np.bool_], factor: NDArray[np.float64], new: Sparse
) -> Sparse:
    """Columns of B in the new catalogue, each times its factor, with the fresh ones replaced."""
    from offdiag._kernels import parallel, sparse_gram_rows

    m = len(fresh)
    at = np.full(m, -1, dtype=np.int64)
    stays = np.flatnonzero(places >= 0)
    at[places[stays]] = stays
    lengths = np.zeros(m, dtype=np.int64)
    sparse_gram_rows.kept_lengths(B.indptr, B.indices, places, fresh, new.indptr, lengths)
    ptr = np.concatenate([[0], np.cumsum(lengths)])
    indices, data = np.empty(ptr[-1], dtype=np.int32), np.empty(ptr[-1], dtype=B.dtype)

    def work(lo: int, hi: int) -> None:
        sparse_gram_rows.kept_rows(
            *B.arrays().values(), at, places, fresh, factor, *new.arrays().values(), lo, hi, ptr, indices, data
        )

    parallel.run_parallel(work, parallel.ranges(m, 8 * parallel.n_threads()))
    return Sparse(ptr, indices, data)


def _explained_by_kept(
    G: SparseGram, W: Sparse, skip: NDArray[np.bool_], scale: NDArray[np.floating], power: float
) -> float:
    """Σ G_iS·β over the columns that are not skipped: what they explain of ‖x_i‖²."""
    from offdiag._kernels import parallel, sparse_gram_rows

    out = np.zeros(G.n_items)

    def work(lo: int, hi: int) -> None:
        sparse_gram_rows.explained_by_weights(
            G.indptr, G.indices, G.values, *W.arrays().values(), skip, power, scale, lo, hi, out
        )

    parallel.run_parallel(work, parallel.ranges(G.n_items, 8 * parallel.n_threads()))
    return float(out.sum())
