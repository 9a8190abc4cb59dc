"""The grid search of [Steck20]: dropout and l2 of a model, chosen on validation users."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from offdiag.data.interactions import Interactions
from offdiag.errors import InterruptedFitWarning
from offdiag.models.recommender import Recommender

DROPOUTS = (0.0, 0.2, 0.4, 0.6, 0.8)
NO_DROPOUT = (0.0,)  # the scalar penalty λ‖UVᵀ‖²
L2_STEP = 3.0
Setting = tuple[float, float]  # dropout, l2
Model = TypeVar("Model", bound=Recommender)


def climb(score: Callable[[float, float], float], start: Setting, dropouts: Sequence[float] = DROPOUTS) -> Setting:
    """The best point of a grid by hill climbing: neighbours have the next dropout, or three times the l2, or a third.

    The start is moved to the nearest dropout of the grid. No point is scored twice.
    """
    seen: dict[tuple[int, int], float] = {}

    def setting(at: tuple[int, int]) -> Setting:
        return dropouts[at[0]], start[1] * L2_STEP ** at[1]

    def value(at: tuple[int, int]) -> float:
        if at not in seen:
            seen[at] = score(*setting(at))
        return seen[at]

    at = (min(range(len(dropouts)), key=lambda n: abs(dropouts[n] - start[0])), 0)
    while True:
        near = [(at[0] + step, at[1]) for step in (-1, 1) if 0 <= at[0] + step < len(dropouts)]
        near += [(at[0], at[1] + step) for step in (-1, 1)]
        best = max(near, key=value)
        if value(best) <= value(at):
            return setting(at)
        at = best


def complete_fit(model: Model, train: Interactions, **words: Any) -> Model:
    """Fit; Ctrl-C raises, because the best iterate of an interrupted fit is not a measurement."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InterruptedFitWarning)
        model.fit(train, **words)
    if getattr(model, "stopped_", None) == "interrupted":
        raise KeyboardInterrupt
    return model
