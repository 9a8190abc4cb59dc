"""Items added to a fitted model by their features alone, and removed again: no fit, no users."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import checks, memory, notebook, tables, wording
from offdiag.data.features import Features, check_features, same_columns, united
from offdiag.data.ids import positions
from offdiag.data.read_features import read_features
from offdiag.errors import FeaturesWarning, OffdiagError
from offdiag.models.estimator import Estimator
from offdiag.solvers import new_items as solver
from offdiag.weights import Grown, Weights
from offdiag.weights.grown import grow, mix_columns

if TYPE_CHECKING:
    from offdiag.models.recommender import Recommender

LIKE = 50  # known items that a new one counts as in a history


@dataclass(frozen=True, eq=False)
class NewItems(tables.Tabular):
    """The items that were added to a model after its fit, and what each is like.

    As a table: item, like (a known item), and its weight in the mixture; the strongest first, at most five each.
    """

    items: NDArray[Any]
    like: dict[Any, list[tuple[Any, float]]]  # by item: the known items it is like most, strongest first

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"NewItems({len(self):,} items: {wording.shorten(self.items.tolist())})"

    def _columns(self, form: str) -> Mapping[str, Any]:
        rows = [(item, other, weight) for item, pairs in self.like.items() for other, weight in pairs]
        ids = self.items.dtype
        return {
            "item": np.array([item for item, _, _ in rows], dtype=ids),
            "like": np.array([other for _, other, _ in rows], dtype=ids),
            "weight": np.array([weight for _, _, weight in rows], dtype=np.float64),
        }

    def _repr_html_(self) -> str:
        return notebook.card("New items", {"items": f"{len(self):,}"}, self.to_polars())


class Growing(Estimator):
    """``add_items`` and ``remove_items``, for every model whose scores are X @ W."""

    _features: Features | None = None
    added_items_: tuple[tuple[Any, float], ...] = ()  # every item that was added, with its boost; some have users now

    @property
    def item_features_(self) -> Features | None:
        """What is known about its items (``od.read_features``), kept in its file; new items are placed by it."""
        return self._features

    def _keep_features(self, features: Features | None) -> Self:
        """After a fit with item_features."""
        self._features = features
        return self

    @property
    def new_items_(self) -> NewItems:
        """The items that were added after the fit and that no user of the model has chosen yet.

        Example:
            >>> import offdiag as od
            >>> shop = {"item": ["tea", "mate", "cup"], "kind": ["drink", "drink", "thing"]}
            >>> X = od.read({"user": [1, 1, 2], "item": ["tea", "cup", "cup"]})
            >>> model = od.EASE(l2=1.0).fit(X).add_items(od.read_features(shop, categories="kind"))
            >>> model.new_items_.items.tolist()
            ['mate']
        """
        weights = self._require_fit().weights_
        if not isinstance(weights, Grown):
            return NewItems(self.item_ids_[:0], {})
        known, new = np.split(self.item_ids_, [weights.base.shape[0]])
        like = {item: weights.likeness(place) for place, item in enumerate(new.tolist())}
        named = {item: [(known[j].item(), weight) for j, weight in pairs] for item, pairs in like.items()}
        return NewItems(new, named)

    def add_items(self, features: Any, *, item_features: Any = None, boost: float = 1.0) -> Self:
        """Add items that nobody has chosen yet, by their features: in place, without a fit, in a few seconds at most.

        A new item gets a mixture of the weights of the known items that it is like, calibrated on known items treated
        as if they were new (docs/features.md#new-items). It is recommended and explained from then on; scores of other
        items do not change. ``new_items_`` lists what each is like. Once ``update`` brings users of a new item, it has
        its own weights, as after a fit.

        ``features`` are Features, or a table that is read like those of the model; items that the model knows are
        skipped. The features of known items are those of the fit, or else ``item_features``, or else rows of
        ``features``. ``boost`` multiplies the scores of these items: above 1, they are shown more.

        Example:
            >>> import offdiag as od
            >>> shop = {"item": ["tea", "mate", "cup"], "kind": ["drink", "drink", "thing"]}
            >>> X = od.read({"user": [1, 1, 2], "item": ["tea", "cup", "cup"]})
            >>> model = od.EASE(l2=1.0).fit(X).add_items(od.read_features(shop, categories="kind"))
            >>> [pairs[0][0] for pairs in model.recommend([["cup"]], k=1, block=["tea"])]
            ['mate']
        """
        model = self._require_fit()
        checks.number("boost", boost, 0, above=True)
        _check_weights(model)
        known, features = _both_features(model, features, item_features)
        ids = _unknown_ids(features, model.item_ids_)
        learned = model.item_ids_[: model.weights_.learned.shape[0]]
        check_features(known, learned)
        rows = known.rows(learned), features.rows(ids)
        weights, added = _added(model.weights_, model.popularity_, *rows, known.kinds, boost)
        if len(added) < len(ids):
            left_out = np.delete(ids, added).tolist()
            warnings.warn(
                f"{len(left_out):,} of {len(ids):,} new items share no feature with an item of the model and were left "
                f"out: {wording.shorten(left_out)}",
                FeaturesWarning,
                stacklevel=2,
            )
        vars(self).update(
            weights_=weights,
            item_ids_=np.concatenate([model.item_ids_, ids[added]]),
            popularity_=np.concatenate([model.popularity_, np.zeros(len(added))]),
            _features=united(known, features.select(ids[added])),
            added_items_=(*model.added_items_, *((item, float(boost)) for item in ids[added].tolist())),
        )
        return self

    def remove_items(self, items: Any) -> Self:
        """Remove items that were added after the fit and have no users yet: in place, and nothing of them is left.

        Example:
            >>> import offdiag as od
            >>> shop = {"item": ["tea", "mate", "cup"], "kind": ["drink", "drink", "thing"]}
            >>> X = od.read({"user": [1, 1, 2], "item": ["tea", "cup", "cup"]})
            >>> model = od.EASE(l2=1.0).fit(X).add_items(od.read_features(shop, categories="kind"))
            >>> model.remove_items(["mate"]).item_ids_.tolist()
            ['cup', 'tea']
        """
        model = self._require_fit()
        wanted = [items] if isinstance(items, str | int | np.generic) else list(items)
        at = positions(wanted, model.item_ids_)
        m = model.weights_.learned.shape[0]
        if unknown := [item for item, place in zip(wanted, at.tolist(), strict=True) if place < m]:
            raise OffdiagError(
                f"expected items that were added after the fit (model.new_items_), received {wording.shorten(unknown)}"
                "; an item that users have chosen leaves with them (forget)"
            )
        _keep(self, np.setdiff1d(np.arange(m, len(model.item_ids_)), at))
        return self


def _keep(model: Growing, places: NDArray[np.int64]) -> None:
    """Keep only these of the new items, by position in the catalogue."""
    weights, m = model.weights_, model.weights_.learned.shape[0]
    kept = np.concatenate([np.arange(m), places])
    gone = np.delete(model.item_ids_, kept)
    features = model._features
    if features is not None:
        features = features.select(np.setdiff1d(features.items, gone.astype(features.items.dtype)))
    vars(model).update(
        weights_=weights.select(places - m) if isinstance(weights, Grown) else weights,
        added_items_=tuple(pair for pair in model.added_items_ if pair[0] not in set(gone.tolist())),
        item_ids_=model.item_ids_[kept],
        popularity_=model.popularity_[kept],
        _features=features,
    )


@contextmanager
def set_aside(model: Recommender) -> Iterator[None]:
    """While users are added or forgotten the model has only what it learned; added items are then placed again.

    What they are made of follows from the weights after the change alone. Added items that have users now have their
    own weights, and those that have lost their last one are new again. An error restores everything.
    """
    before = {name: getattr(model, name) for name in ("weights_", "item_ids_", "popularity_", "_features")}
    added = model.added_items_
    if not added:
        yield
        return
    weights = before["weights_"]
    m = weights.learned.shape[0]
    vars(model).update(
        weights_=weights.learned, item_ids_=model.item_ids_[:m], popularity_=model.popularity_[:m], added_items_=()
    )
    try:
        yield
        _place_again(model, added)
    except BaseException:
        if isinstance(weights, Grown):  # the inverse may have been overwritten and computed again
            parts = weights.indptr, weights.indices, weights.data, weights.into
            before["weights_"] = Grown(model.weights_.learned, *parts)
        vars(model).update(before, added_items_=added)
        raise


def _place_again(model: Recommender, added: tuple[tuple[Any, float], ...]) -> None:
    features = model._features
    assert features is not None  # every added item came with features
    lacking = positions([item for item, _ in added], model.item_ids_) < 0
    by_boost: dict[float, list[Any]] = {}
    for (item, boost), lacks in zip(added, lacking.tolist(), strict=True):
        if lacks:
            by_boost.setdefault(boost, []).append(item)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FeaturesWarning)  # announced when they were added
        for boost, items in by_boost.items():
            model.add_items(features.select(items), boost=boost)
    model._features, model.added_items_ = features, added


def _check_weights(model: Growing) -> None:
    weights, name = model.weights_, type(model).__name__
    if weights.lossy:
        raise OffdiagError(f"a compressed {name} cannot get new items: add them to its original, then compress")
    if not weights.linear or not getattr(weights, "in_files", True):
        raise OffdiagError(
            f"expected a linear model, whose new items are mixtures of known ones, received {name} with {weights.kind} "
            "weights; use EDLAE, SparseEDLAE, LowRankEDLAE or NextItem"
        )


def _both_features(model: Growing, features: Any, item_features: Any) -> tuple[Features, Features]:
    """Of the known items and of the new ones, in the same columns."""
    known = item_features if item_features is not None else model._features
    if known is not None and not isinstance(known, Features):
        known = read_features(known)
    if not isinstance(features, Features):
        features = read_features(features, like=known)
    if known is None:
        return features, features
    if not same_columns(known, features):
        raise OffdiagError(
            f"expected new items with the features of the known ones, {known!r}, received {features!r}, whose columns "
            "mean something else; read them with od.read_features(source, like=model.item_features_)"
        )
    return known, features


def _unknown_ids(features: Features, item_ids: NDArray[Any]) -> NDArray[Any]:
    """The ids of the features that the model does not have, of the type of its own."""
    whole = item_ids.dtype.kind in "iu"
    try:
        ids = features.items.astype(np.int64 if whole else np.str_)
    except ValueError as error:
        raise OffdiagError(
            "expected item ids that are whole numbers, as those of the model, received text such as "
            f"{features.items[0].item()!r}"
        ) from error
    new = ids[positions(ids, item_ids) < 0]
    if not len(new):
        raise OffdiagError(
            f"expected features of new items, received {len(ids):,} that the model has already; there is nothing to add"
        )
    return np.sort(new)


def _added(
    W: Weights,
    popularity: NDArray[np.float64],
    F: sparse.csr_array,
    f: sparse.csr_array,
    kinds: NDArray[np.int64],
    boost: float,
) -> tuple[Weights, NDArray[np.int64]]:
    """The weights with new items of the features f, and which of these could be placed."""
    base = W.learned
    m, n = base.shape[0], f.shape[0]
    room = m * n * base.dtype.itemsize
    memory.require(3 * room, f"the weights of {n:,} new items", "add fewer at a time")
    placed = solver.place(F, f, _sample(base, popularity[:m], F), kinds)
    like = solver.strongest(placed.like, LIKE)
    added = np.flatnonzero(np.diff(like.indptr))
    into = mix_columns(base, placed.columns)
    _add(into, placed.direct)
    into = into if len(added) == n else into[:, added]
    if boost != 1:
        into *= base.dtype.type(boost)
    parts = sparse.csr_array(like[added]), into
    if isinstance(W, Grown):
        parts = sparse.csr_array(sparse.vstack([W.like, parts[0]])), np.concatenate([W.into, parts[1]], axis=1)
    return (grow(base, *parts) if parts[0].shape[0] else W), added


def _add(into: NDArray[Any], direct: sparse.csr_array) -> None:
    """In place, where direct (new × known) has entries: as a dense matrix it would be as large as the columns."""
    direct.sum_duplicates()
    place = np.repeat(np.arange(direct.shape[0]), np.diff(direct.indptr))
    into[direct.indices, place] += direct.data.astype(into.dtype)


def _sample(W: Weights, popularity: NDArray[np.float64], F: sparse.csr_array) -> solver.Sample:
    """Known items to treat as new, and what the weights say about them: nothing here depends on single users."""
    held = solver.held_out(F, popularity)
    one_each = sparse.csr_array((np.ones(len(held)), held, np.arange(len(held) + 1)), shape=(len(held), W.shape[0]))
    largest = mix_columns(W, one_each).max(axis=0, initial=0)
    X = solver.typical_histories(popularity, held)
    return solver.Sample(held, X, np.asarray(X @ W, dtype=np.float64), float(largest.mean()) if len(held) else 0.0)
