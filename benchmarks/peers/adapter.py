"""What the runner knows about a model of another package: how to fit it, what to try, and what it says it solves.

Imported by processes that have nothing but NumPy, SciPy and the package under test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Settings = dict[str, Any]
BATCH = 1_000  # users scored at a time where a package returns scores for all items


@dataclass(frozen=True)
class Fitted:
    """A fitted model: `recommend(histories, users, k)` gives columns (n, k), best first, -1 for an empty place.

    `users` are the rows of these users in the fitted matrix; only models that cannot serve new users need them.
    """

    recommend: Callable[[Any, Any, int], Any]
    arrays: tuple[Any, ...]  # what a recommendation needs to keep, without the histories
    weights: Callable[[], Any] | None = None  # B (m, m), if scores are histories @ B
    chosen: Settings = field(default_factory=dict)  # settings the model chose itself


@dataclass(frozen=True)
class Between:
    """A range of numbers, on a logarithmic scale unless `linear`; whole numbers if both ends are."""

    low: float
    high: float
    linear: bool = False

    def at(self, part: float) -> float | int:
        """The number at this part of the range, from 0 to 1."""
        linear = self.low + part * (self.high - self.low)
        found = linear if self.linear else self.low * (self.high / self.low) ** part
        return round(found) if isinstance(self.low, int) else float(f"{found:.4g}")


@dataclass(frozen=True)
class Model:
    """A model of a package, as the comparison runs it."""

    package: str
    label: str
    fit: Callable[[Any, Settings], Fitted]
    space: Mapping[str, Between]
    fixed: Settings = field(default_factory=dict)
    usual: Settings = field(default_factory=dict)  # the settings the package's user gets without a choice: first trial
    new_users: bool = True  # False: the histories of held-out users have to be in the fitted matrix
    solves: tuple[str, str | None] | None = None  # settings that hold l2 and dropout of a closed form
    note: str = ""


def best(scores: Any, histories: Any, k: int) -> Any:
    """The columns of the k best scores of each row, best first, without those of its history."""
    scores = np.array(scores, dtype=np.float32)
    scores[histories.nonzero()] = -np.inf
    k = min(k, scores.shape[1])
    top = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    values = np.take_along_axis(scores, top, 1)
    order = np.argsort(-values, axis=1, kind="stable")
    top, values = np.take_along_axis(top, order, 1), np.take_along_axis(values, order, 1)
    return np.where(np.isfinite(values), top, -1)


def by_scores(score: Callable[[Any, Any], Any]) -> Callable[[Any, Any, int], Any]:
    """`recommend` of a package that gives the scores of all items: batches of users and a partition by NumPy."""

    def recommend(histories: Any, users: Any, k: int) -> Any:
        parts = []
        for low in range(0, histories.shape[0], BATCH):
            some = histories[low : low + BATCH]
            parts.append(best(score(some, users[low : low + BATCH]), some, k))
        return np.vstack(parts)

    return recommend


def padded(lists: list[Any], k: int) -> Any:
    """Lists of different lengths as one array."""
    out = np.full((len(lists), k), -1, dtype=np.int64)
    for row, found in zip(out, lists, strict=True):
        row[: len(found[:k])] = found[:k]
    return out


def triples(X: Any) -> tuple[Any, Any, Any]:
    """Users, items and values of a CSR matrix."""
    X = X.tocoo()
    return X.row, X.col, X.data
