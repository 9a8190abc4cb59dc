"""What "auto" means: settings from the training data alone, at a fraction of the cost of the fit.

dropout and user_power are constants that lose little on the data we tried; l2 must follow the data. Its scale L is the
l2 at which EASE would best predict an unseen user, found exactly (``solvers.leave_one_out``) on the most popular
items. The more of the regularisation dropout does, the less is left for l2: l2 = (1.3 − 0.55·dropout)·L. The constants
were chosen on ten public data sets; docs/models.md shows how well they hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.gramian.packed import Gram, gram
from offdiag.gramian.sparse import SparseGram
from offdiag.gramian.user_weights import user_weights
from offdiag.progress import Progress
from offdiag.solvers import leave_one_out

if TYPE_CHECKING:
    from offdiag.models.recommender import Recommender

DROPOUT = 0.65
USER_POWER = 0.5
ITEMS = 1_000  # most popular items used: 500 to 2,000 gave the same L within a fifth
USERS = 4_000  # users left out, evenly spread over the rows


def from_data(matrix: sparse.csr_array, model: Recommender, *, progress: Progress | None = None) -> None:
    """Replace every "auto" of a model by its value, from the interactions."""

    def l2(user_power: float) -> float:
        if progress:
            progress("choosing l2", 0.0)
        found = unseen_user_l2(matrix, user_power)
        if progress:
            progress("choosing l2", 1.0)
        return found

    _resolve(model, USER_POWER, l2)


def from_gram(G: Gram | SparseGram, model: Recommender) -> None:
    """The same if only the Gram is known: cross-validation with average instead of exact leverages."""
    _resolve(model, G.user_power, lambda _: gram_l2(G))


def from_scale(scale: Callable[..., float], model: Recommender) -> None:
    """The same where the data is elsewhere: ``scale(user_power, items=…, users=…)`` is L (``od.cluster``)."""
    _resolve(model, USER_POWER, lambda user_power: scale(user_power, items=ITEMS, users=USERS))


def _resolve(model: Recommender, user_power: float, l2: Callable[[float], float]) -> None:
    settings = vars(model)
    for name, value in (("dropout", DROPOUT), ("user_power", user_power)):
        if settings.get(name) == "auto":
            settings[name] = value
    if settings["l2"] == "auto":
        settings["l2"] = share(settings.get("dropout", 0.0)) * l2(settings["user_power"])


def share(dropout: float) -> float:
    """The share of l2 next to dropout, in units of L."""
    return 1.3 - 0.55 * dropout


def unseen_user_l2(matrix: sparse.csr_array, user_power: float, *, items: int = ITEMS, users: int = USERS) -> float:
    """L: the l2 that minimises the leave-one-user-out error of EASE on the most popular items."""
    from offdiag._kernels import pair_counts

    by_item, by_user = np.zeros(matrix.shape[1]), np.zeros(matrix.shape[0])
    pair_counts.sums_of_squares(matrix.indptr, matrix.indices, matrix.data, by_item, by_user)
    top = _largest(by_item, items)
    n_u = np.diff(matrix.indptr).astype(np.float64)
    weight = user_weights(matrix, user_power)
    unit = float(weight @ by_user) / max(int((n_u > 0).sum()), 1)  # mean n_u for 0/1 data
    part = sparse.csr_array(matrix[:, top])
    able = np.flatnonzero(np.diff(part.indptr) >= 2)
    if len(able) < 10:
        return 3.5 * unit  # too few to learn from; about right on ordinary data
    some = able if len(able) <= users else able[np.linspace(0, len(able) - 1, users).astype(np.int64)]
    weighted: Any = part.astype(np.float64)
    weighted.data *= np.repeat(np.sqrt(weight), np.diff(part.indptr))
    G = gram(weighted, dtype=np.float64).toarray().astype(np.float64)
    histories = part[some].toarray().astype(np.float32)
    return leave_one_out.minimum(leave_one_out.user_loss(G, histories, weight[some]), unit)


def gram_l2(G: Gram | SparseGram) -> float:
    """L from G alone: between two cross-validations, with equal leverages and with leverage in proportion to n_u."""
    g = G.diagonal().astype(np.float64)
    top = _largest(g, ITEMS)
    part = G.part(top) * G.scale
    trace, n = float(np.trace(part)), max(G.n_users, 1)
    skew = max(1.0, float(part.sum()) * n / trace**2)
    unit = float(g.sum()) / n
    equal = leave_one_out.minimum(leave_one_out.gram_loss(part, n, 1.0), unit)
    skewed = leave_one_out.minimum(leave_one_out.gram_loss(part, n, skew), unit)
    factor = 1.35 - 1.2 * min(max(G.user_power, 0.0), 0.5)
    return float(max(1.5 * unit, factor * np.sqrt(equal * skewed)))


def _largest(g: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """The ``count`` items with the largest g, in catalogue order; items without users are left out."""
    best = np.argsort(-g, kind="stable")[:count]
    return np.sort(best[g[best] > 0])
