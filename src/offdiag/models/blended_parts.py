"""Fitted models as one set of weights: their shares, and one fading of the past for all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from offdiag.errors import OffdiagError
from offdiag.models.recommender import Recommender
from offdiag.ranking import Recency
from offdiag.weights import Blended


def blended(parts: Sequence[Recommender], shares: NDArray[np.float64]) -> tuple[Blended, Recency | None]:
    """The weights of fitted models as one, and how the age of a choice weighs in a history."""
    recency, powers = _common_recency([part._recency() for part in parts])
    return Blended.of([part.weights_ for part in parts], shares, powers), recency


def _common_recency(each: list[Recency | None]) -> tuple[Recency | None, NDArray[np.float64]]:
    """The fastest fading of the parts, and the power of its weights that each part has: ρ_p^place = (ρ^place)^power."""
    if all(one is None for one in each):
        return None, np.ones(len(each))
    lives = [one.half_life for one in each if one is not None and one.half_life is not None]
    decays = [one.decay for one in each if one is not None and one.half_life is None]
    if lives and decays:
        raise OffdiagError(
            "expected parts whose histories fade by place or by time, received both; use history_decay or "
            "history_half_life in all of them"
        )
    if lives:
        fastest = min(lives)
        return Recency(half_life=fastest), np.array([0.0 if one is None else fastest / _life(one) for one in each])
    base = min((decay for decay in decays if decay > 0), default=0.5)
    base = base if base < 1 else 0.5
    return Recency(base), np.array([0.0 if one is None else _power(one.decay, base) for one in each])


def _life(one: Recency) -> float:
    assert one.half_life is not None
    return one.half_life


def _power(decay: float, base: float) -> float:
    """The last item only (decay 0) is what remains of any power that is large enough."""
    return math.inf if decay == 0 else math.log(decay) / math.log(base)
