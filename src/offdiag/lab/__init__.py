"""Theory on small dense problems: the formulas compared with sampling; no fit needs it.

Modules load on first use: ``od.lab.dropout.optimum(M, width=20, drop=0.5)``. The examples assume ``import numpy as np``
and ``import offdiag as od``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from offdiag.lab import (
        completion,
        deep,
        descent,
        dropblock,
        dropconnect,
        dropout,
        dynamics,
        equalizer,
        frames,
        hives,
        landscape,
        layers,
        masks,
        montecarlo,
        resnet,
        saddles,
        sampled,
        spreading,
    )

__all__ = [
    "completion",
    "deep",
    "descent",
    "dropblock",
    "dropconnect",
    "dropout",
    "dynamics",
    "equalizer",
    "frames",
    "hives",
    "landscape",
    "layers",
    "masks",
    "montecarlo",
    "resnet",
    "saddles",
    "sampled",
    "spreading",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'offdiag.lab' has no attribute {name!r}")
    return import_module(f"offdiag.lab.{name}")


def __dir__() -> list[str]:
    return __all__
