"""What a fit may know besides interactions: features of the items, and weights that are expected beforehand.

Features enter as users: each feature is one more row of X, of a weight that makes the rows add ``feature_weight`` times
as much to the Gram as the users of an average item do. A prior pulls the weights of the model towards given ones.
How much of either is chosen on the most popular items: for some held-out users, a part of their items is predicted
from the rest. A weight above 0 is taken if it ranks them better by more than the standard error of the difference.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.data.features import Features, check_features
from offdiag.data.hiding import hide
from offdiag.data.ids import places_of
from offdiag.data.read_features import read_features
from offdiag.errors import OffdiagError
from offdiag.gramian import layout
from offdiag.gramian.packed import Gram, gram
from offdiag.gramian.sparse import SparseGram
from offdiag.gramian.user_weights import diagonal, on_grid, user_weights
from offdiag.models.fields import number
from offdiag.progress import Progress
from offdiag.solvers import cholesky, feature_gram, prior
from offdiag.solvers.products import Product

if TYPE_CHECKING:
    from offdiag.models.recommender import Recommender

_LOG = logging.getLogger("offdiag")
WEIGHTS = (0.1, 0.3, 1.0, 3.0)  # of features
PRIORS = (0.03, 0.1, 0.3, 1.0)  # of a prior, in units of l2
ITEMS = 3_000  # most popular items used
USERS = 2_000  # held-out users, evenly spread over the rows, at most a fifth of them
FEWEST = 50  # with fewer held-out users no weight is chosen
RIDGE = 1.0  # of the features as a prior, next to rows of length 1
Doubles = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Side:
    """The features of the items of a fit, a row for each, and the weights expected beforehand."""

    rows: sparse.csr_array | None = None  # items × features
    prior: NDArray[np.floating] | None = None  # items × items
    features: Features | None = None  # as given, for items that are added later

    def unit(self, g: Doubles) -> float:
        """The weight of a pseudo-user at feature_weight 1, for g = diag(G): both have the same sum of squares.

        On the grid of user weights, so that most updates leave it as it is.
        """
        assert self.rows is not None
        own = feature_gram.squares(self.rows)
        total = float(own.sum())
        users = float(g[own > 0].sum())
        return on_grid(users, total) if users > 0 else 0.0

    def weight(self, model: Recommender, g: Doubles) -> float:
        """The weight of a pseudo-user next to a Gram with this diagonal."""
        wanted = getattr(model, "feature_weight", 0.0)
        return 0.0 if self.rows is None or not wanted else number(wanted) * self.unit(g)

    def add_to(self, G: Gram, model: Recommender) -> None:
        """Add the pseudo-users to the numbers of a Gram in place; they are not counted as users."""
        if weight := self.weight(model, G.own_diagonal()):
            assert self.rows is not None
            feature_gram.add(G.values, self.rows, weight)

    def added_gram(self, G: Gram | SparseGram, model: Recommender) -> Gram | SparseGram:
        """A Gram of the users and the pseudo-users, who are not counted as users; G itself without any."""
        weight = self.weight(model, G.own_diagonal())
        if not weight:
            return G
        assert self.rows is not None
        if isinstance(G, Gram):
            G = G.astype(np.float64)
            feature_gram.add(G.values, self.rows, weight)
            return G
        return replace(G, **feature_gram.added_rows(G.tocsr(), self.rows, weight))

    def added(self, product: Product, model: Recommender) -> Product:
        """Products with the Gram of the users and the pseudo-users."""
        weight = self.weight(model, product.g)
        if not weight:
            return product
        assert self.rows is not None
        return feature_gram.FeatureProduct(product, self.rows, weight)

    def stacked(
        self, matrix: sparse.csr_array, weight: Doubles, model: Recommender
    ) -> tuple[sparse.csr_array, Doubles]:
        """The interactions with a row for each feature below them, and the weights of all rows."""
        g = diagonal(matrix.indptr, matrix.indices, matrix.data, weight, matrix.shape[1])
        own = self.weight(model, g)
        if not own:
            return matrix, weight
        assert self.rows is not None
        below = sparse.csr_array(self.rows.T).astype(getattr(model, "dtype", matrix.dtype))
        stacked = sparse.csr_array(sparse.vstack([matrix, below], format="csr"))
        return stacked, np.concatenate([weight, np.full(below.shape[0], own)])

    def facts(self) -> dict[str, Any]:
        """What tells these features from others, for a fit that resumes."""
        if self.rows is None:
            return {}
        sums = (float(self.rows.data.sum()), float(np.arange(self.rows.nnz) @ self.rows.data))
        return {"features": [*self.rows.shape, int(self.rows.nnz), *sums]}

    def prior_weights(self, dtype: Any) -> NDArray[np.floating]:
        """The given weights as a new dense array, or those with which the features of items predict each other."""
        if self.prior is not None:
            return np.array(self.prior, dtype=dtype, order="C")
        assert self.rows is not None
        m = self.rows.shape[0]
        values = np.zeros(layout.size(m), dtype=dtype)
        feature_gram.add(values, self.rows, 1.0)
        solution = cholesky.solve(values, m, dropout=0.0, l2=RIDGE, kept_weight=0.0)
        weights = layout.unpack(solution.C, m) * solution.scale
        np.fill_diagonal(weights, 0.0)
        return weights

    def select(self, items: NDArray[np.int64]) -> Side:
        rows = None if self.rows is None else sparse.csr_array(self.rows[items])
        return Side(rows, None if self.prior is None else self.prior[np.ix_(items, items)])


NO_SIDE = Side()


def side_of(model: Recommender, item_ids: NDArray[Any], item_features: Any = None, prior: Any = None) -> Side:
    """What a caller of ``fit`` gives, checked, by item of the fit; a weight without anything to weigh is an error."""
    for name, given in (("feature_weight", item_features), ("prior_weight", prior)):
        wanted = getattr(model, name, 0.0)
        if wanted not in ("auto", 0.0) and given is None and (name == "feature_weight" or item_features is None):
            what = "features of the items" if name == "feature_weight" else "features of the items or a prior"
            option = "item_features=od.read_features(…)" if name == "feature_weight" else "prior=…"
            raise OffdiagError(f"{name}={wanted!r} needs {what}, received none; give fit {option}, or leave it out")
    rows, features = None, None
    if item_features is not None:
        features = item_features if isinstance(item_features, Features) else read_features(item_features)
        for note in check_features(features, item_ids).notes:
            _LOG.info("%s", note)
        rows = features.rows(item_ids)
    return Side(rows, None if prior is None else _prior(prior, item_ids), features)


def side_of_fit(model: Recommender, item_ids: NDArray[Any]) -> Side:
    """The features that a fitted model learned from, for these items; none where their weight is 0."""
    features = model.item_features_
    if features is None or not model.settings_.get("feature_weight"):
        return NO_SIDE
    return Side(features.rows(item_ids), None, features)


def _prior(prior: Any, item_ids: NDArray[Any]) -> NDArray[np.floating]:
    """A matrix over the items of the fit, from a matrix or from a fitted model, whose items are found by id."""
    m = len(item_ids)
    if hasattr(prior, "weights_"):
        places = places_of(item_ids, np.sort(prior.item_ids_))
        order = np.argsort(prior.item_ids_, kind="stable")
        known = np.flatnonzero(places >= 0)
        if not len(known):
            raise OffdiagError("expected a prior of the items learned from, received a model that knows none of them")
        given = np.asarray(prior.weights_.toarray())
        out = np.zeros((m, m), dtype=given.dtype)
        out[np.ix_(known, known)] = given[np.ix_(order[places[known]], order[places[known]])]
        return out
    matrix = np.asarray(prior.toarray() if sparse.issparse(prior) else prior)  # type: ignore[attr-defined]
    if matrix.ndim != 2 or matrix.shape != (m, m) or matrix.dtype.kind not in "buif":
        raise OffdiagError(
            f"expected a prior of {m:,} × {m:,} numbers, weights of each item on each, or a fitted model, received "
            f"{type(prior).__name__} of shape {matrix.shape}"
        )
    if not np.isfinite(matrix).all():
        raise OffdiagError("the prior holds NaN or infinite weights; replace them by 0")
    return matrix


def choose(model: Recommender, side: Side, matrix: sparse.csr_array, progress: Progress | None = None) -> None:
    """Replace "auto" in the weights of features and prior; dropout, l2 and user_power are numbers already."""
    choose_on(model, side, lambda: Small.of(matrix, side, number(vars(model)["user_power"])), progress)


def choose_on(
    model: Recommender, side: Side, small_part: Callable[[], Small | None], progress: Progress | None = None
) -> None:
    """The same for data that is elsewhere: ``small_part`` is called only if there is something to choose."""
    settings = vars(model)
    free = [name for name in ("feature_weight", "prior_weight") if settings.get(name) == "auto"]
    given = {"feature_weight": side.rows is not None, "prior_weight": side.prior is not None}
    tried = [name for name in free if given[name]]
    if not any(given.values()):
        return  # they stay at their defaults, as if they did not exist
    for name in free:
        settings[name] = 0.0
    if not tried:
        return
    small = small_part()
    if small is None:
        return
    l2 = number(settings["l2"] if "l2" in settings else settings["auto_l2_"])  # the latter is that of Spectral
    values = {"feature_weight": WEIGHTS, "prior_weight": tuple(share * (l2 or 1.0) for share in PRIORS)}
    steps = 1 + sum(len(values[name]) for name in tried)
    done = 0

    def measured(**weights: float) -> Doubles:
        nonlocal done
        found = small.gains(settings.get("dropout", 0.0), l2, **{"feature_weight": 0.0, "prior_weight": 0.0} | weights)
        done += 1
        if progress:
            progress("choosing what features count for", done / steps)
        return found

    chosen: dict[str, float] = {name: settings[name] for name in values if settings.get(name)}
    best = measured(**chosen)
    for name in tried:
        for value in values[name]:
            theirs = measured(**chosen | {name: value})
            gain = theirs - best
            if gain.mean() > gain.std() / np.sqrt(len(gain)):
                chosen, best = chosen | {name: value}, theirs
    settings.update(chosen)


def require_numbers(model: Recommender, side: Side) -> None:
    """Where there is no data to choose from, the weights of what is given must be numbers."""
    settings = vars(model)
    for name, given in (("feature_weight", side.rows), ("prior_weight", side.prior)):
        if settings.get(name) == "auto" and given is not None:
            raise OffdiagError(f"{name} is chosen from data, received a Gram; give a number, or use fit with data")
    if side.rows is not None or side.prior is not None:
        settings.update({name: 0.0 for name in ("feature_weight", "prior_weight") if settings.get(name) == "auto"})


def most_popular(counts: NDArray[Any]) -> NDArray[np.int64]:
    """The items on which weights are chosen, of those with users."""
    items = np.sort(np.argsort(-counts, kind="stable")[:ITEMS])
    return items[counts[items] > 0]


def held_out_of(n_users: int) -> NDArray[np.int64] | None:
    """Which of the users with two of these items or more are held out; None if they are too few."""
    n = min(USERS, n_users // 5)
    return None if n < FEWEST else np.unique(np.linspace(0, n_users - 1, n).astype(np.int64))


@dataclass(frozen=True, eq=False)
class Small:
    """The most popular items, a Gram without the held-out users, and these users."""

    G: Gram
    side: Side
    histories: sparse.csr_array
    targets: sparse.csr_array

    @classmethod
    def of(cls, matrix: sparse.csr_array, side: Side, user_power: float) -> Small | None:
        items = most_popular(np.bincount(matrix.indices, minlength=matrix.shape[1]))
        part = sparse.csr_array(matrix[:, items])
        users = np.flatnonzero(np.diff(part.indptr) >= 2)
        held = held_out_of(len(users))
        if held is None:
            return None
        users = users[held]
        held_out = hide(sparse.csr_array(part[users]))
        weighted = part.astype(np.float64)
        weight = np.sqrt(user_weights(matrix, user_power))
        weight[users] = 0.0
        weighted.data *= np.repeat(weight, np.diff(part.indptr))
        return cls(gram(weighted, dtype=np.float32), side.select(items), held_out.histories, held_out.targets)

    def gains(self, dropout: float, l2: float, feature_weight: float, prior_weight: float) -> Doubles:
        """For each held-out user, how high the hidden items are ranked: nDCG without a cut-off."""
        G, m = self.G.copy(), self.G.n_items
        if feature_weight:
            assert self.side.rows is not None
            feature_gram.add(G.values, self.side.rows, feature_weight * self.side.unit(G.own_diagonal()))
        if prior_weight:
            W = self.side.prior_weights(np.float32)
            B = prior.solve(G.values, W, prior_weight, dropout=dropout, l2=l2).B
        else:
            solution = cholesky.solve(G.values, m, dropout=dropout, l2=l2, kept_weight=0.0)
            B = layout.unpack(solution.C, m) * solution.scale
            np.fill_diagonal(B, 0.0)
        scores = np.asarray(self.histories @ B)
        found = np.empty(len(scores))
        for user, row in enumerate(scores):
            lo, hi = self.histories.indptr[user : user + 2]
            row[self.histories.indices[lo:hi]] = -np.inf
            lo, hi = self.targets.indptr[user : user + 2]
            own = np.sort(-row[self.targets.indices[lo:hi]])
            ranks = 1 + np.searchsorted(np.sort(-row), own)
            ideal = (1 / np.log2(2 + np.arange(hi - lo))).sum()
            found[user] = (1 / np.log2(1 + np.maximum(ranks, 1 + np.arange(hi - lo)))).sum() / max(ideal, 1e-300)
        return found
