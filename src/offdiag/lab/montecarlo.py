"""Random masks, the mean of a loss over them, and the standard error of that mean; all masks of a small layer.

A mask is an array of zeros and ones (kept), drawn with ``rng``, a NumPy generator or a seed. Masks are not divided by
their mean: "inverted" dropout is ``mask / (1 - drop)``. ``gaussian`` draws additive noise instead.

``keep`` = 1 − drop is the older name of the argument; it still works as a keyword, with a warning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag.checks import number, whole
from offdiag.errors import OffdiagError
from offdiag.lab import checks
from offdiag.lab.checks import Matrix

Random = np.random.Generator | int
MOST = 20  # units that are enumerated at most: a million masks


@dataclass(frozen=True)
class Estimate:
    """The mean of independent draws and its standard error.

    Example:
        >>> od.lab.montecarlo.Estimate(mean=2.0, standard_error=0.1, draws=100).mean
        2.0
    """

    mean: float
    standard_error: float
    draws: int


def estimate(samples: NDArray[np.floating]) -> Estimate:
    """From one number per draw, at least two of them.

    Example:
        >>> od.lab.montecarlo.estimate([1.0, 2.0, 3.0, 2.0]).mean
        2.0
    """
    samples = checks.numbers(samples, "samples", "a list", largest=np.inf)
    if samples.ndim != 1 or len(samples) < 2:
        raise OffdiagError(
            f"at least 2 samples are needed for a standard error, received shape {samples.shape}; give one number per "
            "draw"
        )
    spread = float(np.std(samples, ddof=1, dtype=np.float64))
    return Estimate(float(np.mean(samples, dtype=np.float64)), spread / float(np.sqrt(len(samples))), len(samples))


def dropout(width: int, draws: int, rng: Random, *, drop: float | None = None, keep: float | None = None) -> Matrix:
    """(draws, width): every unit is dropped with probability ``drop``, independently.

    Example:
        >>> od.lab.montecarlo.dropout(width=3, draws=1, rng=0, drop=0.5)
        array([[0., 1., 1.]])
    """
    return _masks(1 - checks.drop_or_keep(drop, keep), (whole("width", width, 1),), draws, rng)


def dropblock(
    width: int, block: int, draws: int, rng: Random, *, drop: float | None = None, keep: float | None = None
) -> Matrix:
    """(draws, width): units form a grid of blocks, each kept or dropped as a whole [Pal20 Eq. 3].

    Example:
        >>> od.lab.montecarlo.dropblock(width=4, block=2, draws=1, rng=0, drop=0.5)
        array([[0., 0., 1., 1.]])
    """
    theta = 1 - checks.drop_or_keep(drop, keep)
    width, block = whole("width", width, 1), whole("block", block, 1)
    return np.repeat(_masks(theta, (checks.blocks(width, block),), draws, rng), block, axis=1)


def overlapping(
    width: int,
    block: int,
    draws: int,
    rng: Random,
    *,
    drop: float | None = None,
    padded: bool = True,
    keep: float | None = None,
) -> Matrix:
    """(draws, width): blocks may begin anywhere; a unit is kept if no block that covers it is dropped [Pal20 sec. 5.3].

    A block begins at each position (a seed) and is kept with probability θ′. A unit is covered by ``block`` seeds, so
    θ′ = θ^(1/block) keeps it with probability θ = 1 − drop. Without padding, blocks lie entirely inside the layer:
    units near its ends are covered by fewer seeds and are kept more often.

    Example:
        >>> od.lab.montecarlo.overlapping(width=4, block=2, draws=1, rng=0, drop=0.5)
        array([[1., 1., 1., 0.]])
    """
    theta = 1 - checks.drop_or_keep(drop, keep)
    width, block = whole("width", width, 1), whole("block", block, 1)
    if not padded and block > width:
        raise OffdiagError(f"a block of {block} does not fit into a width of {width}; make it smaller, or pad")
    # the paper prints the inverse relation of θ and θ′, which would drop almost nothing
    seeds = _masks(theta ** (1 / block), (width + block - 1 if padded else width - block + 1,), draws, rng)
    if not padded:  # seeds outside never drop anything
        seeds = np.pad(seeds, ((0, 0), (block - 1, block - 1)), constant_values=1.0)
    return np.asarray(np.lib.stride_tricks.sliding_window_view(seeds, block, axis=1).min(axis=2))


def dropconnect(
    shape: Sequence[int] | int, draws: int, rng: Random, *, drop: float | None = None, keep: float | None = None
) -> Matrix:
    """(draws, *shape): every weight of a layer is dropped with probability ``drop``, independently.

    Example:
        >>> od.lab.montecarlo.dropconnect((2, 2), draws=1, rng=0, drop=0.5).tolist()
        [[[0.0, 1.0], [1.0, 1.0]]]
    """
    return _masks(1 - checks.drop_or_keep(drop, keep), shape, draws, rng)


def gaussian(variance: float, shape: Sequence[int] | int, draws: int, rng: Random) -> Matrix:
    """(draws, *shape): independent additive noise with mean 0 and this variance.

    Example:
        >>> od.lab.montecarlo.gaussian(4.0, 3, draws=2, rng=0).shape
        (2, 3)
    """
    deviation = math.sqrt(number("variance", variance, 0, checks.LARGEST))
    return checks.random(rng).standard_normal(_shape(shape, draws)) * deviation


def emphasised(
    drop: float, shape: Sequence[int] | int, draws: int, rng: Random, kept_weight: float
) -> tuple[Matrix, Matrix]:
    """(draws, *shape) twice: masks over the data, and the weight of each entry's error [Steck20 Eq. 1].

    A dropped entry counts 1, a kept one ``kept_weight``; zeros of the data have masks and weights too.

    Example:
        >>> od.lab.montecarlo.emphasised(0.5, 3, draws=1, rng=0, kept_weight=0.1)
        (array([[0., 1., 1.]]), array([[1. , 0.1, 0.1]]))
    """
    kept_weight = number("kept_weight", kept_weight, 0, checks.LARGEST)
    kept = _masks(1 - checks.drop(drop), shape, draws, rng)
    return kept, np.where(kept == 1, kept_weight, 1.0)


def mean_loss(loss: Callable[[Any], float], masks: Iterable[Any]) -> Estimate:
    """The mean of ``loss(mask)`` over the masks, with its standard error.

    Example:
        >>> od.lab.montecarlo.mean_loss(np.sum, [[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]).mean
        1.0
    """
    losses = np.array([float(loss(mask)) for mask in masks])
    if len(losses) < 2:
        raise OffdiagError(f"at least 2 masks are needed for a standard error, received {len(losses)}; draw more")
    return estimate(losses)


def enumerate_masks(
    width: int, block: int = 1, *, drop: float | None = None, keep: float | None = None
) -> tuple[Matrix, Matrix]:
    """All masks of a layer, (2ⁿ, width), and their probabilities, (2ⁿ,); n = width/block blocks are on or off.

    Example:
        >>> od.lab.montecarlo.enumerate_masks(width=2, drop=0.25)[1]
        array([0.0625, 0.1875, 0.1875, 0.5625])
    """
    p = checks.drop_or_keep(drop, keep)
    width, block = whole("width", width, 1), whole("block", block, 1)
    n = checks.blocks(width, block)
    if n > MOST:
        raise OffdiagError(f"{n} units that can be dropped have 2^{n} masks; at most {MOST} units, or draw masks")
    masks = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(np.float64)
    kept = masks.sum(axis=1)
    return np.repeat(masks, block, axis=1), (1 - p) ** kept * p ** (n - kept)


def exact_mean(loss: Callable[[Matrix], float], masks: Matrix, chances: Matrix) -> float:
    """Σ probability·loss(mask) over an enumeration; masks that cannot occur are skipped.

    Example:
        >>> od.lab.montecarlo.exact_mean(np.sum, *od.lab.montecarlo.enumerate_masks(width=2, drop=0.25))
        1.5
    """
    masks, chances = _enumeration(masks, chances)
    return math.fsum(chance * float(loss(mask)) for mask, chance in zip(masks, chances, strict=True) if chance)


def moments(masks: Matrix, chances: Matrix | None = None) -> tuple[Matrix, Matrix]:
    """Mean (width,) and covariance (width, width) of the units; without ``chances``, all masks have equal weight.

    Example:
        >>> od.lab.montecarlo.moments(*od.lab.montecarlo.enumerate_masks(width=2, block=2, drop=0.5))[1].tolist()
        [[0.25, 0.25], [0.25, 0.25]]
    """
    masks = checks.matrix(masks, "masks")
    if chances is None:
        chances = np.full(len(masks), 1 / len(masks))
    masks, chances = _enumeration(masks, chances)
    mean = chances @ masks
    off = masks - mean
    return mean, off.T @ (chances[:, None] * off)


def _masks(theta: float, shape: Sequence[int] | int, draws: int, rng: Random) -> Matrix:
    """Ones with probability theta."""
    return (checks.random(rng).random(_shape(shape, draws)) < theta).astype(np.float64)


def _enumeration(masks: Any, chances: Any) -> tuple[Matrix, Matrix]:
    masks, chances = checks.numbers(masks, "masks"), checks.numbers(chances, "chances")
    if chances.shape != masks.shape[:1] or (chances < 0).any() or not math.isclose(chances.sum(), 1, abs_tol=1e-9):
        raise OffdiagError(
            f"chances must be one number per mask that add up to 1: {len(masks)} masks, "
            f"{chances.size} chances with sum {chances.sum():g} received"
        )
    return masks, chances


def _shape(shape: Sequence[int] | int, draws: int) -> tuple[int, ...]:
    return whole("draws", draws, 1), *checks.shape(shape)
