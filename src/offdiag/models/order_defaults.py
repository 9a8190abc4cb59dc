"""What "auto" means in models of order: settings from the training data alone, at a fraction of the cost of the fit.

How much the order matters, and how fast the past fades, differ too much between data sets for constants: films are
rated in any order, clicks follow each other. So the last event of each user is predicted from the events before it, on
the most popular items only, for a few values of each setting in turn, and the best value is taken. Ages in these
histories count the events of all items: without the rare ones, a past would seem to fade faster than it does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag._kernels import parallel
from offdiag.data.sequences import Sequences, weighted_rows
from offdiag.gramian.order import Ageing, OrderSums, count_order
from offdiag.models import auto
from offdiag.models.fields import number
from offdiag.progress import Progress
from offdiag.ranking import Recency
from offdiag.solvers import blas, next_item

if TYPE_CHECKING:
    from offdiag.models.next_item import NextItem

USER_POWER = 0.0
ITEMS = 1_000  # most popular items used; 2,000 took two to three times as long and was hardly better on ml-1m
UNIT_ITEMS, UNIT_USERS = 500, 1_000  # for the unit of l2, which need not be exact
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
    with blas.one_thread():  # the problems are small, and several are solved at a time
        unit = auto.unseen_user_l2(matrix, USER_POWER, items=UNIT_ITEMS, users=UNIT_USERS)
        fixed = {name: getattr(model, name) for name in vars(Choice()) if name not in free}
        if "l2" in fixed:
            fixed["l2"] /= unit
        small = SmallProblem.of(sequences, matrix.shape[1], repeats=model.repeats)
        found = Search(model, small, unit, free).run(replace(Choice(), **fixed), progress)
    for name in free:
        setattr(model, name, getattr(found, name) * (unit if name == "l2" else 1.0))


class Search:
    """One setting after the other, each from where it is as long as its values get better.

    The recency of histories is chosen again for each value, since it needs no fit. Nothing is counted twice: the sums
    over histories depend on the decay alone, and mix, dropout and l2 only weight them.
    """

    def __init__(self, model: NextItem, small: SmallProblem, unit: float, free: list[str]) -> None:
        self.model, self.small, self.unit = model, small, unit
        self.tried = [name for name in VALUES if name in free and not (name == "decay" and model.half_life is not None)]
        self.by_place = "history_decay" in free and model.history_half_life is None
        self.found: dict[tuple[float, ...], tuple[Choice, float]] = {}
        self.sums: dict[float, OrderSums] = {}

    def run(self, best: Choice, progress: Progress | None) -> Choice:
        if len(self.small.targets) < FEWEST:
            return best
        self.together = self.small.count(self.model, best.decay, mix=1.0)
        best, reached = self.measured([best])[0]
        done, of = 0, PASSES * len(self.tried)
        for _ in range(PASSES):
            before = best
            for name in self.tried:
                best, reached = self.climb(best, reached, name)
                done += 1
                if progress:
                    progress("choosing settings", done / of)
            if best == before:
                break
        if progress:
            progress("choosing settings", 1.0)
        return best

    def climb(self, best: Choice, reached: float, name: str) -> tuple[Choice, float]:
        """The values of a setting, upwards and downwards from the present one, until one is not better."""
        values, now = VALUES[name], getattr(best, name)
        above, below = [v for v in values if v > now], [v for v in reversed(values) if v < now]
        start = best
        first = [replace(start, **{name: side[0]}) for side in (above, below) if side]
        (best, reached), base = max([*self.measured(first), (best, reached)], key=lambda each: each[1]), reached
        if reached == base:
            return start, base
        side = above if getattr(best, name) > now else below
        for value in side[1:]:
            other, there = self.measured([replace(best, **{name: value})])[0]
            if there <= reached:
                break
            best, reached = other, there
        return best, reached

    def measured(self, choices: list[Choice]) -> list[tuple[Choice, float]]:
        """Each choice with its best recency of histories, and the nDCG of both."""
        keys = [(choice.mix, choice.dropout, choice.l2, choice.decay) for choice in choices]
        new = [(key, choice) for key, choice in zip(keys, choices, strict=True) if key not in self.found]
        for decay in {choice.decay for choice in choices} - set(self.sums):
            self.sums[decay] = self.small.count(self.model, decay)
        parallel.run_parallel(self.measure, new)
        return [self.found[key] for key in keys]

    def measure(self, key: tuple[float, ...], choice: Choice) -> None:
        B = self.fit(choice)
        if not self.by_place:
            self.found[key] = choice, self.ndcg(B, choice.history_decay)
            return

        @cache
        def at(index: int) -> float:
            return self.ndcg(B, HISTORY_DECAYS[index])

        best = int(np.argmin(np.abs(np.array(HISTORY_DECAYS) - choice.history_decay)))
        for step in (1, -1):
            while 0 <= best + step < len(HISTORY_DECAYS) and at(best + step) > at(best):
                best += step
        self.found[key] = replace(choice, history_decay=HISTORY_DECAYS[best]), at(best)

    def ndcg(self, B: NDArray[np.floating], decay: float) -> float:
        recency = Recency(decay, self.model.history_half_life)
        return self.small.ndcg(B, recency, repeats=self.model.repeats)

    def fit(self, choice: Choice) -> NDArray[np.floating]:
        """B on the small problem, as ``NextItem`` would have it."""
        order, mix = self.sums[choice.decay], np.float32(choice.mix)
        A = mix * self.together.A + (1 - mix) * order.A
        K = mix * self.together.K + (1 - mix) * order.K
        l2, repeats = choice.l2 * self.unit, self.model.repeats
        return next_item.solve(A, K, dropout=choice.dropout, l2=l2, repeats=repeats)


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

    def count(self, model: NextItem, decay: float, mix: float = 0.0) -> OrderSums:
        """The sums over ordered histories; with mix=1, over what occurs together whatever the order."""
        ageing = Ageing(decay if model.half_life is None else 1.0, model.half_life, model.window)
        return count_order(
            self.past, self.matrix.shape[1], ageing, later=model.targets == "later",
            user_power=number(model.user_power), mix=mix, matrix=self.matrix,
        )  # fmt: skip

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
