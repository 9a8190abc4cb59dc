"""What "auto" means in models of order: settings from the training data alone, at a fraction of the cost of the fit.

How much the order matters, and how fast the past fades, differ too much between data sets for constants: films are
rated in any order, clicks follow each other. So the last event of each user is predicted from the events before it, on
the most popular items only, for a few values of each setting in turn, and the best value is taken. Ages in these
histories count the events of all items: without the rare ones, a past would seem to fade faster than it does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.data.sequences import Sequences, weighted_rows
from offdiag.gramian.order import Ageing, count_order
from offdiag.models import auto
from offdiag.progress import Progress
from offdiag.ranking import Recency
from offdiag.solvers import next_item

if TYPE_CHECKING:
    from offdiag.models.next_item import NextItem

USER_POWER = 0.0
ITEMS = 1_000  # most popular items used; 2,000 took two to three times as long and was hardly better on ml-1m
USERS = 3_000  # users whose last event is predicted, evenly spread over the rows
FEWEST = 50  # with fewer users the usual values are taken
FORGOTTEN = 1e-3  # events that count less are left out of the histories
RULE = "the value that best predicts the last event of each user on the most popular items"


@dataclass(frozen=True)
class Choice:
    """The settings that are chosen; ``l2`` is in units of the l2 at which EASE best predicts unseen users."""

    mix: float = 0.3
    dropout: float = 0.5
    l2: float = 1.0
    decay: float = 0.8
    history_decay: float = 0.6


VALUES = {
    "mix": (0.1, 0.2, 0.3, 0.5, 0.7),
    "dropout": (0.1, 0.3, 0.5, 0.7),
    "l2": (0.1, 0.3, 1.0, 3.0),
    "decay": (0.5, 0.65, 0.8, 0.9, 0.95),
}
HISTORY_DECAYS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
PASSES = 2  # over the settings: the best mix depends on l2, and the other way round


def resolve(model: NextItem, matrix: sparse.csr_array, sequences: Sequences, progress: Progress | None) -> None:
    """Replace every "auto" of a model by its value."""
    if model.user_power == "auto":
        model.user_power = USER_POWER
    free = [name for name in vars(Choice()) if getattr(model, name) == "auto"]
    if not free:
        return
    unit = auto.unseen_user_l2(matrix, USER_POWER)
    fixed = {name: getattr(model, name) for name in vars(Choice()) if name not in free}
    if "l2" in fixed:
        fixed["l2"] /= unit
    found = _search(model, sequences, matrix.shape[1], unit, replace(Choice(), **fixed), free, progress)
    for name in free:
        setattr(model, name, getattr(found, name) * (unit if name == "l2" else 1.0))


def _search(
    model: NextItem,
    sequences: Sequences,
    m: int,
    unit: float,
    best: Choice,
    free: list[str],
    progress: Progress | None,
) -> Choice:
    """One setting after the other; the recency of histories is chosen again for each, since it needs no fit."""
    small = SmallProblem.of(sequences, m, repeats=model.repeats)
    if len(small.targets) < FEWEST:
        return best
    tried = [name for name in VALUES if name in free and not (name == "decay" and model.half_life is not None)]
    of = PASSES * sum(len(VALUES[name]) for name in tried) + 1
    by_place = "history_decay" in free and model.history_half_life is None
    found: dict[tuple[float, ...], tuple[Choice, float]] = {}
    done = 0

    def measured(choice: Choice) -> tuple[Choice, float]:
        nonlocal done
        done += 1
        if progress:
            progress("choosing settings", min(done / of, 1.0))
        key = (choice.mix, choice.dropout, choice.l2, choice.decay)
        if key not in found:
            B = small.fit(model, choice, unit)
            options = [replace(choice, history_decay=h) for h in HISTORY_DECAYS] if by_place else [choice]
            recencies = [Recency(each.history_decay, model.history_half_life) for each in options]
            values = [small.ndcg(B, recency, repeats=model.repeats) for recency in recencies]
            found[key] = options[int(np.argmax(values))], max(values)
        return found[key]

    best, reached = measured(best)
    for _ in range(PASSES):
        before = best
        for name in tried:
            for value in VALUES[name]:
                other, there = measured(replace(best, **{name: value}))
                if there > reached:
                    best, reached = other, there
        if best == before:
            break
    return best


@dataclass(frozen=True, eq=False)
class SmallProblem:
    """The most popular items, the events before the last one of each user, and users whose last one is predicted."""

    past: Sequences
    matrix: sparse.csr_array  # the pairs of the past, 0/1
    histories: Sequences
    places: NDArray[np.int64]  # of the events of the histories: how many events, of any item, came until the last one
    targets: NDArray[np.int32]

    @classmethod
    def of(cls, sequences: Sequences, m: int, *, repeats: bool) -> SmallProblem:
        popular = np.argsort(-np.bincount(sequences.items, minlength=m), kind="stable")[:ITEMS]
        column = np.full(m, -1, dtype=np.int64)
        column[np.sort(popular)] = np.arange(len(popular))
        small = sequences.renumber_items(column)
        users = np.flatnonzero(small.lengths >= 2)
        last = np.zeros(small.n_events, dtype=bool)
        last[small.indptr[users + 1] - 1] = True
        kept = np.flatnonzero(column[sequences.items] >= 0)  # where the events of ``small`` are in ``sequences``
        past = small.select_events(~last)
        matrix = weighted_rows(past, len(popular), np.ones(past.n_events))
        matrix.data[:] = 1
        targets = small.items[small.indptr[users + 1] - 1]
        if not repeats:  # such a target could not be recommended
            seen = np.asarray(matrix[users, targets]).ravel() > 0 if len(users) else np.zeros(0, dtype=bool)
            users, targets = users[~seen], targets[~seen]
        some = np.unique(np.linspace(0, max(len(users) - 1, 0), min(USERS, len(users))).astype(np.int64))
        histories = past.select_users(users[some])
        places = Sequences(past.indptr, past.items, kept[~last]).select_users(users[some]).ages().astype(np.int64)
        return cls(past, matrix, histories, places, targets[some])

    def fit(self, model: NextItem, choice: Choice, unit: float) -> NDArray[np.floating]:
        ageing = Ageing(choice.decay if model.half_life is None else 1.0, model.half_life, model.window)
        sums = count_order(
            self.past, self.matrix.shape[1], ageing, later=model.targets == "later", user_power=float(model.user_power),
            mix=choice.mix, matrix=self.matrix,
        )  # fmt: skip
        return next_item.solve(sums.A, sums.K, dropout=choice.dropout, l2=choice.l2 * unit, repeats=model.repeats)

    def ndcg(self, B: NDArray[np.floating], recency: Recency, *, repeats: bool) -> float:
        """The mean of ``gains``."""
        return float(np.mean(self.gains(B, recency, repeats=repeats)))

    def gains(self, B: NDArray[np.floating], recency: Recency, *, repeats: bool) -> NDArray[np.float64]:
        """1/log2(1 + rank) of each target, ranked among what can be recommended, last among their equals.

        Without a cut at k: every user counts, so the mean is less noisy than the metrics that it stands for.
        """
        weight = recency.decay**self.places if recency.half_life is None else recency.weights(self.histories)
        counted = weight > FORGOTTEN
        scores = weighted_rows(self.histories.select_events(counted), len(B), weight[counted].astype(B.dtype)) @ B
        own = scores[np.arange(len(scores)), self.targets]
        if not repeats:
            scores[self.histories.users, self.histories.items] = -np.inf
        gains: NDArray[np.float64] = 1.0 / np.log2(1 + (scores >= own[:, None]).sum(axis=1))
        return gains
