"""Stochastic gradient descent on a linear net with one hidden layer under noise [Pal20 Alg. 1]; traces of both losses.

A step takes a few samples, draws the noise, and moves U and V along the gradient of the squared error of that draw.
On average it follows the deterministic objective; the trace holds that and one draw of the noisy one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag.checks import number, whole
from offdiag.errors import OffdiagError
from offdiag.lab import checks
from offdiag.lab.checks import Matrix

Rng = np.random.Generator
# z/mean for ``count`` samples: (width, count) for units, (inputs, width) for connections
Noise = Callable[[int, Rng], Matrix]


@dataclass(frozen=True, eq=False)
class Trace:
    """The record of a training run; ``steps`` holds the steps at which the objectives were computed.

    Example:
        >>> od.lab.dropblock.sgd([[1.0]], [[1.0]], width=1, block=1, drop=0.5, steps=4, record=3).steps
        array([0, 2, 4])
    """

    steps: NDArray[np.int64]
    stochastic: Matrix  # ‖Y − U diag(z/θ) VᵀX‖² of the whole data under one fresh mask
    deterministic: Matrix  # its mean over all masks at the same U, V
    U: Matrix  # (a, width)
    V: Matrix  # (b, width)


SETTINGS = ("steps", "learning_rate", "batch", "decay", "record", "start", "seed")


def known(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that a caller passes on to ``descend``.

    Example:
        >>> od.lab.descent.known({"steps": 10})
        {'steps': 10}
    """
    for name in settings:
        if name not in SETTINGS:
            raise OffdiagError(f"the settings are {', '.join(SETTINGS)}; received {name!r}, which is not one of them")
    return settings


def annealed(step: Any, steps: int) -> Any:
    """The factor of the step size: 1 for the first half of the steps, then falling to 0 linearly.

    Example:
        >>> od.lab.descent.annealed(np.array([0, 4, 6, 8]), 8)
        array([1. , 1. , 0.5, 0. ])
    """
    return np.minimum(1.0, 2 * (1 - step / steps))


def descend(
    Y: Any,
    X: Any,
    width: int,
    noise: Noise,
    objective: Callable[[Matrix, Matrix], float],
    *,
    connections: bool = False,
    steps: int = 10_000,
    learning_rate: float = 1e-4,
    batch: int = 1,
    decay: bool = True,
    record: int = 100,
    start: tuple[Any, Any] | None = None,
    seed: int = 0,
) -> Trace:
    """Algorithm 1 of the paper when ``batch`` is 1 and ``decay`` is False.

    ``batch`` samples share a step, each with its own mask (one mask for all when connections are dropped). With
    ``decay`` the step size is constant for half of the time and then falls to 0 linearly. ``record`` objectives are
    computed, evenly spaced, always including the last one.
    ``start`` is (U, V); without it both are drawn from N(0, 1), as in the paper.

    Example:
        >>> X = np.eye(2)
        >>> plain = {"noise": lambda n, rng: np.ones((2, n)), "objective": lambda U, V: np.sum((X - U @ V.T) ** 2)}
        >>> run = od.lab.descent.descend(X, X, width=2, **plain, learning_rate=0.1)
        >>> bool(run.deterministic[-1] < 1e-6)
        True
    """
    Y, X = checks.samples(Y, X)
    steps, batch, record = whole("steps", steps, 1), whole("batch", batch, 1), whole("record", record, 1)
    learning_rate = number("learning_rate", learning_rate, 0, checks.LARGEST, above=True)
    rng = np.random.default_rng(whole("seed", seed))
    U, V = (rng.standard_normal((len(M), width)) for M in (Y, X))
    if start is not None:
        given = checks.pair(start, "start")
        U, V = (checks.matrix(M, name, W.shape).copy() for M, name, W in zip(given, "UV", (U, V), strict=True))
    times = np.unique(np.append(np.linspace(0, steps, record, dtype=np.int64), steps))
    noisy, exact = [], []
    due = 0
    for step in range(steps + 1):
        if due < len(times) and step == times[due]:
            with np.errstate(over="ignore", invalid="ignore"):
                noisy.append(_draw(Y, X, U, V, noise, connections, rng))
                exact.append(objective(U, V))
            due += 1
            if not np.isfinite(exact[-1]):
                raise OffdiagError(f"the descent diverged by step {step}; choose a learning_rate below {learning_rate}")
        if step == steps:
            break
        rate = learning_rate * (annealed(step, steps) if decay else 1.0)
        some = rng.integers(X.shape[1], size=batch)
        with np.errstate(over="ignore", invalid="ignore"):
            _step(Y[:, some], X[:, some], U, V, noise(batch, rng), connections, rate / batch)
    return Trace(times, np.array(noisy), np.array(exact), U, V)


def _step(Y: Matrix, X: Matrix, U: Matrix, V: Matrix, z: Matrix, connections: bool, rate: float) -> None:
    """One step in place; both gradients are computed before either factor changes."""
    if connections:
        hidden = (z * V).T @ X
        error = U @ hidden - Y
        towards_V = z * (X @ (error.T @ U))
    else:
        hidden = z * (V.T @ X)  # (width, batch)
        error = U @ hidden - Y
        towards_V = X @ (z * (U.T @ error)).T
    U -= rate * (error @ hidden.T)
    V -= rate * towards_V


def _draw(Y: Matrix, X: Matrix, U: Matrix, V: Matrix, noise: Noise, connections: bool, rng: Rng) -> float:
    z = noise(1, rng)
    hidden = (z * V).T @ X if connections else z * (V.T @ X)
    return float(np.sum((Y - U @ hidden) ** 2))
