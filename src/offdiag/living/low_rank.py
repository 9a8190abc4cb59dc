"""A low-rank model after a change of users: solved again from the old factors, which are nearly right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from offdiag.living.exact_change import Change, NewWeights
from offdiag.models.fields import check_not_empty
from offdiag.models.side_information import side_of_fit
from offdiag.models.source import product_of
from offdiag.solvers import alternating, low_rank
from offdiag.solvers.products import check_range
from offdiag.weights import LowRank, Symmetric

if TYPE_CHECKING:
    from offdiag.gramian.packed import Gram
    from offdiag.gramian.sparse import SparseGram
    from offdiag.models.low_rank import LowRankModel, Start
    from offdiag.progress import Progress

SMALL = 0.1  # of the sum of all squares: a larger change may move the best minimum away from the old one

# Two fits with the same gain in the last round differ by up to this many times its square root (measured). False: for
# problems with several minima, where a refit may also find another one.
SPREAD = {True: 10.0, False: 30.0}


def follow(model: LowRankModel, change: Change, progress: Progress | None) -> NewWeights:
    """The same settings on the changed Gram, from the old factors; a large change starts from scratch.

    Cost: as a fit, with a quarter of its random start, and fewer rounds. The closed forms reach the same optimum;
    problems with several minima reach the one near the old factors.
    """
    G = change.G
    check_not_empty(G.n_interactions, G.n_users, G.n_items)
    used = model._unfitted_copy()
    product = side_of_fit(model, change.item_ids).added(product_of(G, model.dtype), used)
    check_range(product)
    warm = used.rank < int(np.count_nonzero(product.g)) and _share_changed(change) <= SMALL
    attributes, gain = used._learn(product, progress, _start(model, change) if warm else None)
    if attributes["stopped_"] == "interrupted":
        raise KeyboardInterrupt  # no incomplete change: the model stays as it was
    error = _spread(attributes["stopped_"], gain) * _largest(attributes["weights_"])
    return NewWeights(attributes, "warm restart" if warm else "refit", gain, error)


def tolerances(model: LowRankModel) -> tuple[float, float]:
    """The largest gain of the last round and the largest weight error accepted without another round."""
    tolerance = model._tolerance()
    return tolerance, _spread(model.stopped_, tolerance) * _largest(model.weights_)


def objective_gap(weights: LowRank, fresh: LowRankModel, G: Gram | SparseGram) -> float:
    """How far the objective is above that of a new fit, as a share of what this one explains; below 0: it is lower.

    Both are computed from the Gram in double precision, whatever the precision of the fits.
    """
    settings = fresh.settings_
    product = side_of_fit(fresh, fresh.item_ids_).added(product_of(G, "float64"), fresh._unfitted_copy())
    problem = low_rank.emphasised(product, settings["dropout"], settings["l2"], settings.get("kept_weight", 1.0))
    ours, theirs = (
        alternating.value(problem, *(np.ascontiguousarray(A, dtype=np.float64) for A in (W.U, W.V)))
        for W in (weights, fresh.weights_)
    )
    return (ours - theirs) / max(problem.total - theirs, 1e-300)


def _spread(stopped: str, gain: float) -> float:
    return SPREAD[stopped in ("closed form", "full rank")] * float(np.sqrt(gain))


def _share_changed(change: Change) -> float:
    moved = float(np.abs(np.diagonal(change.after) - np.diagonal(change.before)).sum())
    return moved * change.G.scale / max(float(change.G.diagonal().sum()), 1e-300)


def _start(model: LowRankModel, change: Change) -> Start:
    """The old factors in the new catalogue; new items begin at 0."""
    U, V = model.weights_.warm_start
    return _place(U, change), _place(V, change)


def _place(A: NDArray[np.floating], change: Change) -> NDArray[np.floating]:
    if change.places is None:
        return np.ascontiguousarray(A)
    out = np.zeros((change.G.n_items, A.shape[1]), dtype=A.dtype)
    stays = change.places >= 0
    out[change.places[stays]] = A[stays]
    return out


def _largest(W: LowRank | Symmetric) -> float:
    """No weight is larger than the longest row of U times the longest of V."""
    U, V = W.U, W.V
    lengths = [float(np.sqrt(np.einsum("ij,ij->i", A, A, dtype=np.float64).max(initial=0.0))) for A in (U, V)]
    return lengths[0] * lengths[1]
