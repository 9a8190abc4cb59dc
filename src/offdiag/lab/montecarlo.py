"""A mean over random masks, and how far it may be off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Estimate:
    """The mean of independent draws with its standard error."""

    mean: float
    standard_error: float
    draws: int


def estimate(samples: NDArray[np.floating]) -> Estimate:
    """From one number per draw, at least two of them."""
    spread = float(np.std(samples, ddof=1, dtype=np.float64))
    return Estimate(float(np.mean(samples, dtype=np.float64)), spread / float(np.sqrt(len(samples))), len(samples))
