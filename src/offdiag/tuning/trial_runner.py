"""How settings are evaluated: the Gram is counted once per user_power, and a small problem comes before the whole one.

The small problem has the most popular items and some of the users. Its Gram is a part of the whole one, so a trial on
it costs hundredths of a second where a fit takes seconds.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import memory
from offdiag.data.features import Features
from offdiag.data.read_features import read_features
from offdiag.data.split import HeldOut
from offdiag.errors import OffdiagError
from offdiag.evaluation import Result, evaluate
from offdiag.files import checkpoints
from offdiag.gramian import layout
from offdiag.gramian.packed import Gram, as_matrix, gram
from offdiag.gramian.user_weights import weights_of
from offdiag.models import side_information
from offdiag.models.recommender import Recommender
from offdiag.progress import Progress
from offdiag.protocols import GramLearner, Learner, Ranker
from offdiag.solvers import penalty_path
from offdiag.weights import Packed

SMALL_ITEMS = 800
SMALL_USERS = 600  # validation users of the small problem
SMALL_TRAIN = 200  # training users of the small problem, for the left-out error
MOST_GRAMS = 5  # one for each user_power that is searched
LEFT_OUT = 250  # training users whose exact leave-one-out error is reported


@dataclass(frozen=True, eq=False)
class Small:
    """Some columns, some validation users and some training users."""

    items: NDArray[np.int64]
    held_out: HeldOut
    rows: NDArray[np.int64]  # of the training data


class Bench:
    """Training data, validation users, and what all trials share."""

    def __init__(self, train: Any, validation: Any, metric: str, item_features: Any = None) -> None:
        self.train, self.metric = train, metric
        if item_features is not None and not isinstance(item_features, Features):
            item_features = read_features(item_features)
        self.also: dict[str, Any] = {} if item_features is None else {"item_features": item_features}
        self.matrix = as_matrix(train)
        self.item_ids = getattr(train, "item_ids", None)
        self.validation = validation
        self.small = _small(self.matrix, validation)
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
        if self._by_gram(model):
            words: dict[str, Any] = {"item_ids": self.item_ids, "progress": progress, **self.also}
            if model.starts_warm:  # fast from the result of other settings
                words["start"] = self._last
            model.fit_gram(self.gram(model.user_power, progress), **words)
            self._last = model if model.starts_warm else None
        else:
            stops_early = getattr(model, "stops_early", False)
            also = self.also | ({"validation": self.validation} if stops_early else {})
            model.fit(self.train, progress=progress, **also)
        return self.measure(model)

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
        """The same on the small problem; None if the whole one is small, or the model does not learn from a Gram."""
        if self.small is None or not self._by_gram(model):
            return None
        words: dict[str, Any] = {}
        if self.also and self.item_ids is not None:
            words = {"item_ids": self.item_ids[self.small.items], **self.also}
        model.fit_gram(part_of(self.gram(model.user_power, progress), self.small.items), **words)
        return evaluate(model, self.small.held_out, [self.metric])

    def _by_gram(self, model: Learner) -> TypeGuard[GramLearner]:
        power = getattr(model, "user_power", None)
        wanted = getattr(model, "learns_from_gram", False) and not getattr(model, "prefers_data", False)
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
