"""Autoencoders with one hidden layer on images, trained step by step, and how much they learn of each direction.

Gradient descent in float32, written out: with one hidden layer the gradient is four products. A step sees one batch of
images, so that the paper's sample counts take minutes, not days; its mean over an epoch is the full gradient. The
denoising net sees new Gaussian noise at every step, as in the paper, not its expectation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from offdiag.lab import dynamics
from offdiag.papers.claims import Size
from offdiag.papers.driver import TITLES, PictureName, picture_set

Array = NDArray[np.float64]
Single = NDArray[np.float32]
Activation = Literal["linear", "tanh", "relu"]
Kind = Literal["AE", "WDAE", "DAE"]
KINDS: tuple[Kind, ...] = ("AE", "WDAE", "DAE")
ACTIVATIONS: tuple[Activation, ...] = ("linear", "tanh", "relu")
VARIANCE = 2.0  # of the noise on a pixel in [0, 1], as in the supplement's Figure 1
MODES = 8


@dataclass(frozen=True)
class Sizes:
    """The size of the training runs; ``pool`` is the side of the squares of pixels that are averaged."""

    samples: int
    pool: int
    hidden: int
    batch: int  # divides samples; equal to it, a step is an epoch of full-batch descent
    epochs: int
    seeds: int  # runs of each net, which differ in the start, the order of the images and the noise
    records: int = 40  # how often a net is measured on all samples, after the start

    @property
    def variance(self) -> float:
        """Averaging k×k pixels divides the variance of their noise by k², and the energy of the signal as well."""
        return VARIANCE / self.pool**2

    @property
    def steps_per_epoch(self) -> int:
        return self.samples // self.batch

    @property
    def steps(self) -> int:
        return self.epochs * self.steps_per_epoch


SIZES: dict[Size, dict[PictureName, Sizes]] = {
    "small": {
        "mnist": Sizes(samples=200, pool=2, hidden=40, batch=200, epochs=400, seeds=3),
        "cifar10": Sizes(samples=200, pool=4, hidden=40, batch=200, epochs=400, seeds=3),
    },
    "paper": {  # samples and images as in the paper; it does not say how many hidden units and epochs it has
        "mnist": Sizes(samples=50_000, pool=1, hidden=128, batch=1000, epochs=12, seeds=3),
        "cifar10": Sizes(samples=30_000, pool=1, hidden=128, batch=250, epochs=6, seeds=3, records=20),
    },
}


@dataclass(frozen=True, eq=False)
class Pictures:
    """Rows of pixels minus the mean image, and the directions they vary in."""

    name: PictureName
    words: str  # what the page calls them
    X: Single  # (samples, pixels)
    eigenvalues: Array  # (MODES,) the largest of Σ xxᵀ
    V: Array  # (pixels, MODES) their eigenvectors
    sizes: Sizes


@dataclass(frozen=True, eq=False)
class Curves:
    """How much nets that differ in their seed have learnt of the leading directions during training."""

    steps: NDArray[np.int64]  # (records,)
    values: Array  # (seeds, records, MODES)

    @property
    def ends(self) -> Array:
        """(seeds, MODES) after the last step."""
        return self.values[:, -1]

    def last_growth(self) -> Array:
        """(MODES,) by how much the means over the seeds grow in the last tenth of the steps."""
        mean, late = self.values.mean(axis=0), 0.9 * self.steps[-1]
        return np.array([curve[-1] - np.interp(late, self.steps, curve) for curve in mean.T])

    def time_to(self, level: Any) -> Array:
        """(seeds, MODES) the step at which each direction passes its level, interpolated; inf if it never does."""
        level = np.broadcast_to(level, self.ends.shape)
        passed = self.values >= level[:, None]
        after = np.argmax(passed, axis=1)
        before = np.maximum(after - 1, 0)
        low, high = (np.take_along_axis(self.values, at[:, None], axis=1)[:, 0] for at in (before, after))
        share = np.where(high > low, (level - low) / np.where(high > low, high - low, 1), 0)
        time = self.steps[before] + share * (self.steps[after] - self.steps[before])
        return np.asarray(np.where(passed.any(axis=1), time, np.inf))


Runs = dict[tuple[Activation, Kind], Curves]


def pictures(name: PictureName, folder: str | None, sizes: Sizes, seed: int) -> Pictures:
    pixels, _ = picture_set(name, folder, sizes.samples, seed)
    pooled = _pooled(pixels.astype(np.float32) / np.float32(255), sizes.pool)
    X = pooled.reshape(sizes.samples, -1)
    X -= X.mean(axis=0, dtype=np.float64).astype(np.float32)
    sizes = replace(sizes, hidden=min(sizes.hidden, X.shape[1]))
    batches = f"{sizes.epochs:,} epochs" + (
        f" in batches of {sizes.batch:,}" if sizes.batch < sizes.samples else " of one full batch"
    )
    words = (
        f"{sizes.samples:,} {'pictures of' if folder else 'synthetic images in place of'} {TITLES[name]}, "
        f"{pooled.shape[1]}×{pooled.shape[2]} pixels{' in three colours' if name == 'cifar10' else ''}, "
        f"{batches}, {sizes.hidden} hidden units, {sizes.seeds} seeds"
    )
    eigenvalues, V = dynamics.eigenbasis(X)
    return Pictures(name, words, X, eigenvalues[:MODES], V[:, :MODES], sizes)


def start(data: Pictures, seed: int, scale: float = 0.1) -> tuple[Array, Array]:
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


def records(sizes: Sizes) -> NDArray[np.int64]:
    """Steps at which nets are measured, from 0 to the last: denser at first, where the curves rise."""
    return np.unique(np.rint(sizes.steps * np.linspace(0, 1, sizes.records + 1) ** 2).astype(np.int64))


def curves(data: Pictures, activation: Activation, kind: Kind, seed: int) -> Curves:
    """``sizes.seeds`` nets, from seeds that follow each other."""
    runs = [train(data, activation, kind, one) for one in seeds(data, seed)]
    return Curves(records(data.sizes), np.stack(runs))


def seeds(data: Pictures, seed: int) -> range:
    return range(seed, seed + data.sizes.seeds)


def train(data: Pictures, activation: Activation, kind: Kind, seed: int) -> Array:
    """(records, MODES): what a net has learnt of each direction during gradient descent.

    Down 1/2N·Σ‖x − x̂‖², plus γ/2·(‖W1‖² + ‖W2‖²) for the WDAE, from noisy input for the DAE, batch by batch.
    """
    rng = np.random.default_rng([seed, 1])  # another stream than that of the start
    W1, W2 = (W.astype(np.float32) for W in start(data, seed))  # (hidden, pixels), (pixels, hidden)
    b1 = np.zeros(len(W1), np.float32)
    deviation = np.float32(np.sqrt(data.sizes.variance)) if kind == "DAE" else None
    gamma = np.float32(matched_decay(data) if kind == "WDAE" else 0)
    step = np.float32(rate(data))
    measured, values = set(records(data.sizes).tolist()), []
    projected = data.X @ data.V.astype(np.float32)
    for count, X in enumerate(_batches(data, rng)):
        if count in measured:
            values.append(_learnt(data, projected, (W1, b1, W2), activation))
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
    return np.array(values)


def _batches(data: Pictures, rng: np.random.Generator) -> Iterator[Single]:
    """Batches without end, in a new order every epoch; the whole data if it is one batch."""
    size = data.sizes.batch
    while True:
        order = rng.permutation(len(data.X)) if size < len(data.X) else None
        for begin in range(0, data.sizes.steps_per_epoch * size, size):
            yield data.X if order is None else data.X[order[begin : begin + size]]


def _learnt(data: Pictures, projected: Single, weights: tuple[Single, Single, Single], activation: Activation) -> Array:
    """``dynamics.estimate`` of the leading directions for all samples; x̂ is computed only along V."""
    W1, b1, W2 = weights
    guess = _act(data.X @ W1.T + b1, activation) @ (W2.T @ data.V.astype(np.float32))  # (samples, MODES)
    overlap = np.einsum("ij,ij->j", projected, guess, dtype=np.float64)
    return np.asarray(overlap / data.eigenvalues)  # [Pretorius18 sec. F]


def _act(A: Any, activation: Activation) -> Any:
    if activation == "tanh":
        return np.tanh(A)
    return np.maximum(A, 0) if activation == "relu" else A


def _slope(H: Any, activation: Activation) -> Any:
    """The derivative of the activation, from its value."""
    if activation == "tanh":
        return 1 - H * H
    return (H > 0).astype(np.float32) if activation == "relu" else np.float32(1)


def _pooled(pixels: Single, k: int) -> Single:
    """Means over squares of k×k pixels."""
    n, rows, columns = pixels.shape[:3]
    return np.asarray(pixels.reshape(n, rows // k, k, columns // k, k, -1).mean(axis=(2, 4)))
