"""Autoencoders with one hidden layer on images, trained step by step, and how much they learn of each direction.

Plain full-batch gradient descent in float32, written out: with one hidden layer the gradient is four products. The
denoising net sees new Gaussian noise at every step, as in the paper, not its expectation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from offdiag.lab import dynamics
from offdiag.papers.claims import Size
from offdiag.papers.driver import TITLES, PictureName, picture_set

Activation = Literal["linear", "tanh", "relu"]
Kind = Literal["AE", "WDAE", "DAE"]
KINDS: tuple[Kind, ...] = ("AE", "WDAE", "DAE")
ACTIVATIONS: tuple[Activation, ...] = ("linear", "tanh", "relu")
VARIANCE = 2.0  # of the noise on a pixel in [0, 1], as in the supplement's Figure 1
MODES = 8


@dataclass(frozen=True)
class Sizes:
    """The size of the training run; ``pool`` is the side of the squares of pixels that are averaged."""

    samples: int
    hidden: int
    steps: int
    pool: int

    @property
    def variance(self) -> float:
        """Averaging k×k pixels divides the variance of their noise by k², and the energy of the signal as well."""
        return VARIANCE / self.pool**2


SIZES: dict[Size, dict[PictureName, Sizes]] = {
    "small": {
        "mnist": Sizes(samples=200, hidden=40, steps=400, pool=2),
        "cifar10": Sizes(samples=200, hidden=40, steps=400, pool=4),
    },
    "paper": {
        "mnist": Sizes(samples=1500, hidden=128, steps=500, pool=1),
        "cifar10": Sizes(samples=1500, hidden=128, steps=500, pool=2),
    },
}


@dataclass(frozen=True, eq=False)
class Pictures:
    """Rows of pixels minus the mean image, and the directions they vary in."""

    name: PictureName
    words: str  # what the page calls them
    X: NDArray[np.float64]  # (samples, pixels)
    basis: tuple[NDArray[np.float64], NDArray[np.float64]]
    sizes: Sizes

    @property
    def eigenvalues(self) -> NDArray[np.float64]:
        return self.basis[0][:MODES]


@dataclass(frozen=True, eq=False)
class Curves:
    """How much a net has learnt of the leading directions during training."""

    steps: NDArray[np.int64]  # (records,)
    values: NDArray[np.float64]  # (records, MODES)
    loss: float  # mean squared error per image on clean input, at the end

    def time_to(self, level: Any) -> NDArray[np.float64]:
        """(MODES,) the step at which each direction first passes its level, interpolated; inf if it never does."""
        level = np.broadcast_to(level, self.values.shape[1])
        passed = self.values >= level
        after, mode = np.argmax(passed, axis=0), np.arange(self.values.shape[1])
        before = np.maximum(after - 1, 0)
        low, high = self.values[before, mode], self.values[after, mode]
        share = np.where(high > low, (level - low) / np.where(high > low, high - low, 1), 0)
        time = self.steps[before] + share * (self.steps[after] - self.steps[before])
        return np.asarray(np.where(passed.any(axis=0), time, np.inf))


def pictures(name: PictureName, folder: str | None, sizes: Sizes, seed: int) -> Pictures:
    pixels, _ = picture_set(name, folder, sizes.samples, seed)
    pooled = _pooled(pixels / 255, sizes.pool)
    words = (
        f"{sizes.samples} {'pictures of' if folder else 'synthetic images in place of'} {TITLES[name]}, "
        f"{pooled.shape[1]}×{pooled.shape[2]} pixels{' in three colours' if name == 'cifar10' else ''}"
    )
    X = pooled.reshape(sizes.samples, -1)
    X = X - X.mean(axis=0)
    return Pictures(name, words, X, dynamics.eigenbasis(X), replace(sizes, hidden=min(sizes.hidden, X.shape[1])))


def start(data: Pictures, seed: int, scale: float = 0.1) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """W1 with orthogonal rows of length ``scale`` in random directions, W2 = W1ᵀ: balanced, small, not aligned."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((data.X.shape[1], data.sizes.hidden)))[0]
    return scale * Q.T, scale * Q


def matched_decay(data: Pictures, mode: int = 3) -> float:
    """The γ with the same fixed point as the noise in one of the leading directions; in the others they differ."""
    n = len(data.X)
    return float(dynamics.equivalent_decay(data.eigenvalues[mode], n * data.sizes.variance)) / n


def rate(data: Pictures) -> float:
    """0.15·N/λ₁, the same for all nets: a smaller step than the leading direction allows."""
    return 0.15 * len(data.X) / float(data.eigenvalues[0])


def train(data: Pictures, activation: Activation, kind: Kind, seed: int, *, records: int = 40) -> Curves:
    """Gradient descent on 1/2N·Σ‖x − x̂‖², plus γ/2·(‖W1‖² + ‖W2‖²) for the WDAE, from noisy input for the DAE."""
    rng = np.random.default_rng(seed + 1)
    X = data.X.astype(np.float32)
    W1, W2 = (W.astype(np.float32) for W in start(data, seed))  # (hidden, pixels), (pixels, hidden)
    b1 = np.zeros(len(W1), np.float32)
    deviation = np.float32(np.sqrt(data.sizes.variance)) if kind == "DAE" else None
    gamma = np.float32(matched_decay(data) if kind == "WDAE" else 0)
    step = np.float32(rate(data))
    every = max(1, data.sizes.steps // records)
    steps, values = [], []
    for count in range(data.sizes.steps + 1):
        if count % every == 0 or count == data.sizes.steps:
            steps.append(count)
            net = _net(W1, b1, W2, activation)
            values.append(dynamics.estimate(data.X, net, basis=data.basis, modes=MODES).values)
        if count == data.sizes.steps:
            break
        Z = X if deviation is None else X + deviation * rng.standard_normal(X.shape, dtype=np.float32)
        H = _act(Z @ W1.T + b1, activation)
        error = (H @ W2.T - X) / np.float32(len(X))
        back = (error @ W2) * _slope(H, activation)
        W2 -= step * (error.T @ H + gamma * W2)
        W1 -= step * (back.T @ Z + gamma * W1)
        if activation != "linear":  # a linear net on centred data does not need it
            b1 -= step * back.sum(axis=0)
    rest = data.X - _net(W1, b1, W2, activation)(data.X)
    return Curves(np.array(steps), np.array(values), float(np.sum(rest**2) / len(X)))


def _net(W1: Any, b1: Any, W2: Any, activation: Activation) -> Any:
    return lambda rows: _act(rows.astype(np.float32) @ W1.T + b1, activation) @ W2.T


def _act(A: Any, activation: Activation) -> Any:
    if activation == "tanh":
        return np.tanh(A)
    return np.maximum(A, 0) if activation == "relu" else A


def _slope(H: Any, activation: Activation) -> Any:
    """The derivative of the activation, from its value."""
    if activation == "tanh":
        return 1 - H * H
    return (H > 0).astype(np.float32) if activation == "relu" else np.float32(1)


def _pooled(pixels: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """Means over squares of k×k pixels."""
    n, rows, columns = pixels.shape[:3]
    return np.asarray(pixels.reshape(n, rows // k, k, columns // k, k, -1).mean(axis=(2, 4)))
