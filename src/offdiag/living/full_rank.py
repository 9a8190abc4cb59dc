"""A full-rank model after a change of users: its inverse by Woodbury, checked against the exact Gram, or a new one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.gramian import layout
from offdiag.gramian.packed import Gram
from offdiag.living import exact_change
from offdiag.living.exact_change import Change, NewWeights
from offdiag.models import side_information
from offdiag.progress import Progress
from offdiag.solvers import cholesky, feature_gram, woodbury
from offdiag.weights import Packed

if TYPE_CHECKING:
    from offdiag.models.full_rank import FullRankModel

TOLERANCE = {"float32": 1e-5, "float64": 1e-12}  # of the weights


def follow(model: FullRankModel, change: Change, progress: Progress | None) -> NewWeights:
    """The cheaper of an update of the inverse (m²s flops), if that is exact enough, and a new one (m³)."""
    G, W, settings = change.G, model.weights_, model.settings_
    assert isinstance(G, Gram)
    m = G.n_items
    users = G.own_diagonal()
    features = _features_of(model, change, users)
    if features is None:
        return exact_change.refit(model, G, change.item_ids, progress)
    tolerance = TOLERANCE[model.dtype]
    l2 = settings["l2"] / G.scale
    # Penalties differ by item and depend on all items, or the common penalty has made a step (``scale_of``).
    moved = getattr(model, "penalty_", None) != l2
    if moved or not isinstance(W, Packed) or woodbury.flops(m, len(change.items)) >= float(m) ** 3:
        return exact_change.refit(model, G, change.item_ids, progress)
    change.hold()
    try:
        C = woodbury.change(W.C, len(W.scale), step(change, settings.get("dropout", 0.0), l2))
        if C is None:
            return exact_change.refit(model, G, change.item_ids, progress)
        g = users + features.squares
        reading = cholesky.read(C[layout.diagonal_positions(m)], g, l2=l2, **model._objective(settings))
        solution = cholesky.Solution(C, *reading)
        weights = model._weights_of(solution, G.item_sums, settings)
        exact = cholesky.penalties(g, settings.get("dropout", 0.0), l2)
        residual, distance = woodbury.residual(C, G.values, m, exact, g > 0, features.product)
        off = np.abs(solution.scale.astype(np.float64)) * distance
        if not off.max(initial=0.0) <= tolerance:
            return exact_change.refit(model, G, change.item_ids, progress)
    except BaseException:  # on any error, restore an overwritten inverse
        if change.places is None and W.C.flags.writeable:
            model.weights_ = _weights_before(model, W, change, l2, features)
        raise
    rarity = np.divide(weights.scale, solution.scale, where=solution.scale != 0, out=np.ones(m, dtype=C.dtype))
    error = float((np.abs(rarity) * off).max(initial=0.0))  # of the final weights, divided by popularity or not
    return NewWeights({"weights_": weights, "objective_": solution.objective * G.scale}, "woodbury", residual, error)


def step(change: Change, dropout: float, penalty: float) -> woodbury.Step:
    """H' − H on the items of the users: the Gram, and c times its diagonal."""
    c = dropout / (1 - dropout)
    m = change.G.n_items
    at = None
    if change.places is not None:
        at = np.full(m, -1, dtype=np.int64)
        stays = change.places >= 0
        at[change.places[stays]] = np.flatnonzero(stays)
    before, after = np.diag(change.before), np.diag(change.after)
    was = change.items if at is None else at[change.items]
    ends = (before > 0) & (after == 0)
    live = after > 0
    delta = (change.after - change.before)[np.ix_(live, live)]
    delta[np.diag_indices(len(delta))] *= 1 + c
    fresh = before[live] == 0
    delta[fresh, fresh] = 0.0
    dropped = np.flatnonzero(change.places < 0) if change.places is not None else np.zeros(0, dtype=np.int64)
    return woodbury.Step(
        old=np.where(fresh, -1, was[live]),
        new=change.items[live],
        gone=np.concatenate([was[ends], dropped]),
        left=change.items[ends],
        delta=delta,
        pivots=(1 + c) * after[live] + penalty,
        empty_pivot=penalty if penalty > 0 else 1.0,
        at=at,
    )


@dataclass(frozen=True, eq=False)
class _Features:
    """The part w F Fᵀ of H, the same before and after."""

    F: sparse.csr_array | None
    weight: float

    @property
    def squares(self) -> NDArray[np.float64] | float:
        return 0.0 if self.F is None else self.weight * feature_gram.squares(self.F)

    @property
    def product(self) -> Callable[[NDArray[np.float64]], NDArray[np.float64]] | None:
        F = self.F
        return None if F is None else lambda y: self.weight * np.asarray((F @ (F.T @ y.T)).T)


def _features_of(model: FullRankModel, change: Change, g: NDArray[np.float64]) -> _Features | None:
    """The features in H; None if they change it beyond the items of the users.

    An item that comes or goes brings or takes a row that is filled wherever it shares a feature, and where the mean
    weight of users makes a step, so do the features.
    """
    used, side = model._unfitted_copy(), side_information.side_of_fit(model, change.item_ids)
    if side.rows is None:
        return _Features(None, 0.0)
    before = g.copy()
    before[change.items] = np.diag(change.before)
    weight = side.weight(used, g)
    comes_or_goes = ((before > 0) != (g > 0)).any()
    if change.places is not None or comes_or_goes or weight != side.weight(used, before):
        return None
    return _Features(side.rows, weight)


def _weights_before(model: FullRankModel, W: Packed, change: Change, penalty: float, features: _Features) -> Packed:
    """The old weights, computed from the old Gram."""
    G = change.G
    values = G.values.astype(model.dtype)
    values[layout.positions(G.n_items, change.items, change.items)] = change.before
    if features.F is not None:
        feature_gram.add(values, features.F, features.weight)
    cholesky.solve(values, G.n_items, l2=penalty, **model._objective(model.settings_))
    return Packed(values, W.scale, W.own)
