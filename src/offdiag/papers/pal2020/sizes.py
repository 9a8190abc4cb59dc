"""How large the experiments on [Pal20] are."""

from __future__ import annotations

from dataclasses import dataclass

from offdiag.lab.resnet import RESNET50
from offdiag.papers.claims import Size


@dataclass(frozen=True)
class Net:
    """The residual net of [Pal20 sec. 5.2], its training, and how close to the bound it must come."""

    words: str
    stages: tuple[int, ...]
    width: int
    pictures: int
    steps: int
    learning_rate: float
    ratio: float  # of the final loss to the bound
    off: float  # of a singular value, relative to the largest


@dataclass(frozen=True)
class Sizes:
    """The synthetic experiment [Pal20 sec. 5.1], what is varied in it, and the net."""

    outputs: int
    inputs: int
    samples: int
    width: int
    blocks: tuple[int, ...]  # at θ = 0.5
    thetas: tuple[float, ...]  # at the block of the paper
    block: int
    steps: int  # of one sample each
    trials: int  # random vectors for the formulas
    net: Net


_LARGE = Net("ResNet-50 (bottlenecks 3, 4, 6, 3)", RESNET50, 64, 100, 80, 1.5e-3, 1.3, 0.15)
_SMALL = Net("a small residual net (four bottlenecks)", (1, 1, 1, 1), 16, 64, 45, 4e-3, 2.5, 0.4)
SIZES: dict[Size, Sizes] = {
    "paper": Sizes(80, 100, 1000, 50, (1, 2, 5, 10), (0.1, 0.3, 0.5, 0.7, 0.9), 5, 100_000, 200, _LARGE),
    "small": Sizes(16, 20, 200, 20, (1, 5), (0.3, 0.5, 0.9), 5, 20_000, 60, _SMALL),
}
