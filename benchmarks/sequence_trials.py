"""The search of benchmarks/sequences.py: the same number of trials for every model, around its defaults.

The largest of many values is partly luck, so the defaults stay unless the best trial surely beats them: by more than a
standard error of the paired difference over the validation users.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offdiag.evaluation import paired_t_test

Step = Callable[[Any], Any]
DECAYS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)  # of histories
SURE = 1.0  # standard errors by which the best trial must beat the defaults
DRAWS = 1000  # of settings that were not tried yet, before a search gives up: all that can be reached are known


class Search(NamedTuple):
    """Settings that validation users decide between."""

    cls: type
    steps: Mapping[str, tuple[Step, ...]]  # by setting: its next values, each from the present one
    decays: bool = False  # whether the decay of histories is chosen, too, without a new fit


def times(*factors: float) -> tuple[Step, ...]:
    return tuple(lambda now, by=by: type(now)(max(now * by, 1)) if isinstance(now, int) else now * by for by in factors)


def plus(*steps: float, low: float = 0.0, high: float = 0.95) -> tuple[Step, ...]:
    return tuple(lambda now, by=by: round(min(max(now + by, low), high), 4) for by in steps)


class Trials:
    """One setting after the other, in steps from the best so far; then several at random, until the trials are used."""

    def __init__(self, number: int, decay: float | None) -> None:
        self.number, self.decay = number, decay  # the decay of histories to start from; None: not chosen
        self.found: dict[tuple[Any, ...], tuple[float, float | None]] = {}
        self.gain = 0.0, 0.0  # of the best trial over the defaults, and its standard error

    def search(
        self,
        best: dict[str, Any],
        steps: Mapping[str, tuple[Step, ...]],
        fit: Callable[[dict[str, Any]], Any],
        measure: Callable[[Any, float | None], NDArray[np.float64]],
        tell: Callable[..., None] = lambda *_: None,
    ) -> tuple[dict[str, Any], float | None, float]:
        """The chosen settings, their decay of histories, and the mean of ``measure``, a number per user, for both."""
        now, reached = -np.inf, np.zeros(0)

        def is_better(settings: dict[str, Any]) -> bool:
            nonlocal best, now, reached
            key = tuple(settings.values())
            if key in self.found or len(self.found) >= self.number:
                return False
            values, decay = self.recency(fit(settings), measure)
            value = float(values.mean())
            self.found[key] = value, decay
            tell(settings, decay, round(value, 5))
            if value <= now:
                return False
            best, now, reached, self.decay = settings, value, values, decay
            return True

        is_better(best)
        defaults = best, self.decay, now
        before = reached
        rng = np.random.default_rng(0)
        moved = True
        for _ in range(DRAWS):
            while moved:
                moved = sum(is_better(best | {name: step(best[name])}) for name in steps for step in steps[name]) > 0
            if len(self.found) >= self.number:
                break
            moved = is_better(self.drawn(best, steps, rng))
        self.gain = paired_t_test(reached - before)[:2]
        return (best, self.decay, now) if self.gain[0] > SURE * self.gain[1] else defaults

    @staticmethod
    def drawn(best: dict[str, Any], steps: Mapping[str, tuple[Step, ...]], rng: np.random.Generator) -> dict[str, Any]:
        """About half of the settings moved, by one step or several in one direction."""
        other = dict(best)
        for name, ways in steps.items():
            if len(steps) == 1 or rng.random() < 0.5:
                step = ways[rng.integers(len(ways))]
                for _ in range(rng.geometric(0.5)):
                    other[name] = step(other[name])
        return other

    def recency(
        self, fitted: Any, measure: Callable[[Any, float | None], NDArray[np.float64]]
    ) -> tuple[NDArray[np.float64], float | None]:
        """The best decay of histories, up and down from that of the best trial so far, and its values."""
        if self.decay is None:
            return measure(fitted, None), None
        at = int(np.argmin(np.abs(np.array(DECAYS) - self.decay)))
        value = {at: measure(fitted, DECAYS[at])}
        for step in (1, -1):
            while 0 <= at + step < len(DECAYS):
                if at + step not in value:
                    value[at + step] = measure(fitted, DECAYS[at + step])
                if value[at + step].mean() <= value[at].mean():
                    break
                at += step
        return value[at], DECAYS[at]
