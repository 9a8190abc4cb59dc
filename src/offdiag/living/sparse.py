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
from offdiag.solvers import changed_columns, gram_supports, gram_triangles, support
from offdiag.solvers.changed_columns import OldWeights
from offdiag.weights import Smoothed, Sparse

if TYPE_CHECKING:
    from offdiag.models.sparse import SparseEDLAE

WORTH = 0.9  # share of the flops of all columns with a new support above which all are solved again
BLOCK = 1 << 27  # bytes; a larger block takes longer to get from the system than another pass over a Gram that small


def follow(model: SparseEDLAE, change: Change, progress: Progress | None) -> NewWeights:
    """Solve the touched columns on the changed Gram and keep the others; or solve all, if that costs no more.

    Cost: two passes over G, then about twenty |S|² flops for each touched column with a support S.
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
    g = users = G.own_diagonal()
    if side.rows is not None:  # an item that comes has pairs wherever it shares a feature
        users_before = users.copy()
        users_before[change.items] = np.diagonal(change.before)
        again = change.places is not None or side.weight(used, users_before) != side.weight(used, users)
        if again:
            return exact_change.refit(model, change.G, change.item_ids, progress)
        with_features = side.added_gram(G, used)
        assert isinstance(with_features, SparseGram)
        G, g = with_features, with_features.own_diagonal()
    penalty = settings["l2"] / G.scale
    # Penalties differ by item, all columns share a byte budget, or the common penalty has made a step: all change.
    moved = getattr(model, "penalty_", None) != penalty or settings.get("max_bytes") is not None
    if moved or model.groups_ is not None or _all_are_neighbours(model, G):
        return exact_change.refit(model, change.G, change.item_ids, progress)
    growth = 1 + settings["dropout"] / (1 - settings["dropout"])
    g_before = g.copy()
    g_before[change.items] = np.diagonal(change.before) + (g - users)[change.items]
    k = max(min(settings["neighbours"], G.n_items - 1), 1)
    data = gram_supports.RankedGram.of(G)
    old = _old_weights(model, B, change)
    H = g_before * growth + penalty, g * growth + penalty
    columns = changed_columns.compare(data, old, change.items, *H, k, model.dtype)
    if columns.share_of_new() > WORTH:
        return exact_change.refit(model, change.G, change.item_ids, progress)
    attributes = _solve_columns(model, data, B, old, columns, g, k, progress)
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


def _old_weights(model: SparseEDLAE, B: Sparse, change: Change) -> OldWeights:
    places = np.arange(B.shape[0]) if change.places is None else change.places
    stays, scale = places >= 0, np.ones(change.G.n_items)
    scale[places[stays]] = _rarity(model, model.popularity_)[stays]
    return OldWeights(B.indptr, B.indices, B.data, places, model.settings_["weight_power"], scale)


def _rarity(model: SparseEDLAE, popularity: NDArray[np.float64]) -> NDArray[np.floating]:
    """What the weights to each item were multiplied by."""
    return inverse_propensity(popularity, model.settings_["propensity_power"]).astype(model.dtype)


def _solve_columns(
    model: SparseEDLAE,
    data: gram_supports.RankedGram,
    B: Sparse,
    old: OldWeights,
    columns: changed_columns.Columns,
    g: NDArray[np.float64],
    k: int,
    progress: Progress | None,
) -> dict[str, Any]:
    """The columns that changed from G, the others from B, and the objective of all."""
    from offdiag.models.sparse import block_bytes

    G, order = data.G, data.order
    H = model._unfitted_copy()._penalise(g[order], G.scale)
    supports = columns.to_solve(data, H, k, model.dtype, progress)
    room = min(block_bytes(model.block_bytes), max(G.nbytes, BLOCK))
    plan = gram_triangles.plan_some(supports, np.dtype(model.dtype).itemsize, room)
    held = gram_supports.StoredTriangles(data, model.dtype)
    solved = support.solve(data, H, supports, plan, held=held, progress=progress)
    rarity, power = _rarity(model, G.item_sums), model.settings_["weight_power"]
    new = Sparse(*support.to_rows(supports, data.rank, rarity, power))
    fresh = np.empty(G.n_items, dtype=bool)
    fresh[order] = columns.state != changed_columns.SAME
    explained = np.where(columns.state == changed_columns.SAME, columns.explained, solved)
    return {
        "weights_": _replace_columns(B, old.places, fresh, rarity / old.scale, new),
        "objective_": float((g[order] - explained).sum()) * G.scale,
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
