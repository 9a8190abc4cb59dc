"""How settings are evaluated: the Gram is counted once per user_power, and a small problem comes before the whole one.

The small problem has the most popular items and some of the users. Its Gram is a part of the whole one, so a trial on
it costs hundredths of a second where a fit takes seconds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import memory
from offdiag.data.features import Features
from offdiag.data.groups import group_numbers, read_groups
from offdiag.data.read_features import read_features
from offdiag.data.split import HeldOut
from offdiag.errors import NotEnoughMemory, OffdiagError
from offdiag.evaluation import Result, evaluate
from offdiag.files import checkpoints
from offdiag.gramian import layout
from offdiag.gramian.packed import Gram, as_matrix, gram
from offdiag.gramian.user_weights import weights_of
from offdiag.models import side_information
from offdiag.models.recommender import Recommender
from offdiag.models.shared_fits import SharedFits
from offdiag.models.sparse import SparseEDLAE
from offdiag.progress import Progress
from offdiag.protocols import GramLearner, Learner, Ranker
from offdiag.solvers import penalty_path
from offdiag.weights import Packed

SMALL_ITEMS = 800
SMALL_USERS = 600  # validation users of the small problem
SMALL_TRAIN = 200  # training users of the small problem, for the left-out error
MOST_GRAMS = 5  # one for each user_power that is searched
SOME_OF = 8  # where fits share work, one in so many validation users is asked first
FEWEST_SOME = 250  # of these users; fewer reject nothing
LEFT_OUT = 250  # training users whose exact leave-one-out error is reported


@dataclass(frozen=True, eq=False)
class Small:
    """Some columns, some validation users and some training users."""

    items: NDArray[np.int64]
    held_out: HeldOut
    rows: NDArray[np.int64]  # of the training data


class Bench:
    """Training data, validation users, and what all trials share."""

    def __init__(self, train: Any, validation: Any, metric: str, groups: Any = None, item_features: Any = None) -> None:
        self.train, self.metric = train, metric
        if item_features is not None and not isinstance(item_features, Features):
            item_features = read_features(item_features)
        self.also: dict[str, Any] = {} if item_features is None else {"item_features": item_features}
        self.matrix = as_matrix(train)
        self.item_ids = getattr(train, "item_ids", None)
        ids = np.arange(self.matrix.shape[1]) if self.item_ids is None else self.item_ids
        self.groups = None if groups is None else group_numbers(read_groups(groups, ids), ids)
        self.validation = validation
        self.small = _small(self.matrix, validation)
        self._some = _some(validation)
        self._fits: SharedFits | None = None
        self._grams: dict[float, Gram] = {}
        self._last: GramLearner | None = None
        m = self.matrix.shape[1]
        there = memory.available()
        room = MOST_GRAMS if there is None else there // 4 // max(4 * layout.size(m), 1)
        self._most_grams = min(int(room), MOST_GRAMS)

    def gram(self, user_power: float, progress: Progress | None = None) -> Gram:
        """From the cache, or counted; the cache holds as many as fit in a quarter of the free memory."""
        if user_power not in self._grams:
            while len(self._grams) >= max(self._most_grams, 1):
                self._grams.pop(next(iter(self._grams)))
            self._grams[user_power] = gram(self.matrix, user_power, dtype=np.float32, progress=progress)
        return self._grams[user_power]

    def whole(self, model: Learner, progress: Progress | None) -> Result:
        """Fit on all training data and measure all validation users."""
        if self.shares(model):
            return self.measure(self._fit_one(model, progress))
        if self._by_gram(model):
            words: dict[str, Any] = {"item_ids": self.item_ids, "progress": progress, **self.also}
            if model.starts_warm:  # fast from the result of other settings
                words["start"] = self._last
            if self.groups is not None:
                words["groups"] = self.groups
            model.fit_gram(self.gram(model.user_power, progress), **words)
            self._last = model if model.starts_warm else None
        else:
            stops_early = getattr(model, "stops_early", False)
            also = self.also | ({"validation": self.validation} if stops_early else {})
            if self.groups is not None:
                also["groups"] = self.groups
            model.fit(self.train, progress=progress, **also)
        return self.measure(model)

    def shares(self, model: object) -> TypeGuard[SparseEDLAE]:
        """Whether fits of this model share their work."""
        if not isinstance(model, SparseEDLAE) or self.groups is not None or self.also:
            return False
        self._fits = self._fits or SharedFits(self.train)
        return self._fits.takes(model)

    def at_once(self, models: Sequence[Learner]) -> int:
        """How many of the first of these models can be fitted together, at least one."""
        alike: list[SparseEDLAE] = []
        for model in models:
            if not self.shares(model):
                break
            alike.append(model)
        return self._fits.at_once(alike) if self._fits and len(alike) > 1 else 1

    def fit_together(self, models: Sequence[Learner], progress: Progress | None) -> Iterator[Any]:
        """Each model fitted, as by its own fit, or its error."""
        shared = [model for model in models if self.shares(model)]
        if self._fits and len(shared) == len(models):
            return self._fits.fit(shared, progress)
        return iter([self._fit_alone(model, progress) for model in models])

    def _fit_alone(self, model: Learner, progress: Progress | None) -> Learner | OffdiagError:
        try:
            fitted: Learner = model.fit(self.train, progress=progress)
        except NotEnoughMemory:
            raise
        except OffdiagError as error:
            return error
        return fitted

    def _fit_one(self, model: Learner, progress: Progress | None) -> Any:
        (fitted,) = self.fit_together([model], progress)
        if isinstance(fitted, OffdiagError):
            raise fitted
        return fitted

    def measure_some(self, model: Ranker) -> Result | None:
        """The same as ``measure`` on some of the validation users; None if there are few."""
        return None if self._some is None else evaluate(model, self._some, [self.metric])

    def automatic_weight(self, model: Learner) -> dict[str, float]:
        """What the model would let its features count for, if that does not depend on the order of events."""
        if not self.also or not isinstance(model, Recommender) or not model.auto_of_ease:
            return {}
        item_ids = np.arange(self.matrix.shape[1]) if self.item_ids is None else self.item_ids
        side = side_information.side_of(model, item_ids, **self.also)
        side_information.choose(model, side, self.matrix)
        return {"feature_weight": float(vars(model)["feature_weight"])}

    def measure(self, model: Ranker) -> Result:
        return evaluate(model, self.validation, [self.metric])

    def glance(self, model: Learner, progress: Progress | None = None) -> Result | None:
        """The same on a smaller problem; None if the whole one is small, or the model does not learn from a Gram."""
        if self.shares(model):
            return None if self._some is None else self.measure_some(self._fit_one(model, progress))
        if self.small is None or not self._by_gram(model):
            return None
        words: dict[str, Any] = {}
        if self.groups is not None:
            words["groups"] = self.groups[self.small.items]
            if len(np.unique(words["groups"])) == 1:  # no popular item may explain another
                return None
        if self.also and self.item_ids is not None:
            words |= {"item_ids": self.item_ids[self.small.items], **self.also}
        model.fit_gram(part_of(self.gram(model.user_power, progress), self.small.items), **words)
        return evaluate(model, self.small.held_out, [self.metric])

    def _by_gram(self, model: Learner) -> TypeGuard[GramLearner]:
        power = getattr(model, "user_power", None)
        wanted = getattr(model, "learns_from_gram", False) and not getattr(model, "prefers_data", False)
        wanted = wanted and not getattr(model, "dislike_weight", 0.0)  # no Gram has dislikes
        if self.also and getattr(model, "feature_weight", 0.0) == "auto":  # which is chosen from data
            return False
        return wanted and isinstance(power, int | float) and self._most_grams > 0

    def left_out_error(self, model: Learner) -> float | None:
        """Mean ‖e‖²/‖x‖² of training users if each were left out (exact for fixed Λ); None if there is no formula.

        e is the error of predicting each item from the others through the model's own inverse C.
        """
        weights = getattr(model, "weights_", None)
        settings = getattr(model, "settings_", {})
        formula = settings.get("kept_weight", 0.0) in (0.0, 1.0) and not settings.get("propensity_power")
        if not isinstance(weights, Packed) or not formula:
            return None
        n_u = np.diff(self.matrix.indptr)
        users = np.flatnonzero(n_u >= 2)
        if not len(users):
            return None
        users = users[np.linspace(0, len(users) - 1, min(LEFT_OUT, len(users))).astype(np.int64)]
        X = sparse.csr_array(self.matrix[users]).astype(np.float32)
        dense = X.toarray()
        y = (dense - X @ weights) / -weights.scale  # B = I − C·dMat(ν)
        C_ii = weights.C[layout.diagonal_positions(len(weights.scale))].astype(np.float64)
        t = np.einsum("ij,ij->i", dense, y, dtype=np.float64)
        weight = weights_of(n_u[users], settings["user_power"])
        return float(np.mean(penalty_path.left_out(dense, y, C_ii, t, weight)))

    def fingerprint(self) -> str:
        """A digest of the training data and the validation users: a study belongs to one such pair."""
        digest = hashlib.blake2b(digest_size=16)
        parts = [self.matrix, sparse.csr_array(self.validation.histories), sparse.csr_array(self.validation.targets)]
        for part in parts:
            digest.update(str(part.shape).encode())
            checkpoints.add_matrix(digest, part, "<i8", "<i8", "<f8" if part.data.dtype.kind == "f" else "<i8")
        if self.groups is not None:
            digest.update(self.groups.astype("<i8").tobytes())
        for features in self.also.values():
            checkpoints.add_matrix(digest, features.matrix, "<i8", "<i8", "<f8")
        return digest.hexdigest()


def part_of(G: Gram, items: NDArray[np.int64]) -> Gram:
    """The Gram of some of the items, from that of all; users keep their weights."""
    m = len(items)
    values = np.empty(layout.size(m), dtype=G.dtype)
    local = np.arange(m)
    values[layout.positions(m, local, local)] = G.values[layout.positions(G.n_items, items, items)]
    return replace(G, values=values, item_counts=G.item_counts[items], item_sums=G.item_sums[items])


def _small(matrix: sparse.csr_array, validation: Any) -> Small | None:
    n, m = matrix.shape
    if m < 1.5 * SMALL_ITEMS:
        return None
    popular = np.argsort(-np.bincount(matrix.indices, minlength=m), kind="stable")[:SMALL_ITEMS]
    items = np.sort(popular)
    histories = sparse.csr_array(sparse.csr_array(validation.histories)[:, items])
    targets = sparse.csr_array(sparse.csr_array(validation.targets)[:, items])
    users = np.flatnonzero((np.diff(histories.indptr) > 0) & (np.diff(targets.indptr) > 0))
    if len(users) < 50:  # too few to reject anything
        return None
    users = users[np.linspace(0, len(users) - 1, min(SMALL_USERS, len(users))).astype(np.int64)]
    rows = np.linspace(0, n - 1, min(SMALL_TRAIN, n)).astype(np.int64)
    return Small(items, HeldOut(histories[users], targets[users], np.arange(len(users))), rows)


def _some(validation: Any) -> HeldOut | None:
    """Validation users evenly spread over those with targets."""
    histories, targets = sparse.csr_array(validation.histories), sparse.csr_array(validation.targets)
    users = np.flatnonzero(np.diff(targets.indptr))[::SOME_OF]
    if len(users) < FEWEST_SOME or getattr(getattr(validation, "ordered", None), "dislikes", None) is not None:
        return None
    return HeldOut(histories[users], targets[users], users, getattr(validation, "item_ids", None))


def validation_of(split: Any) -> Any:
    """The validation part, which must exist and have users with targets; the test part is never touched."""
    train, validation = getattr(split, "train", None), getattr(split, "validation", None)
    if train is None or not hasattr(split, "validation"):
        raise OffdiagError(f"expected a split with train and validation, received {type(split).__name__}; see od.split")
    if validation is None:
        raise OffdiagError(
            "this split has no validation users to tune on, and the test users must not be used for that; "
            "make one with od.split.strong(…) or od.split.weak(…, validation=0.1)"
        )
    if not sparse.csr_array(validation.targets).nnz:
        raise OffdiagError("none of the validation users has a target, so no setting can be compared; hold out more")
    return validation
