"""A residual net of bottlenecks (ResNet-50 with the default layers) that ends in DropBlock and one linear layer.

images → residual layers → linear to ``hidden`` units → DropBlock → linear to the targets [Pal20 sec. 5.2].
It is trained on all images at once, so that the input of the last layer is one matrix, g(X), and the loss under noise
has an exact mean. torch is imported on first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from offdiag.checks import number, whole
from offdiag.errors import OffdiagError
from offdiag.lab import checks, dropblock, layers
from offdiag.lab.checks import Matrix
from offdiag.progress import Progress, reporter

RESNET50 = (3, 4, 6, 3)


@dataclass(frozen=True, eq=False)
class Training:
    """The mean loss over all masks at each step, and the final predictions.

    Example:
        >>> od.lab.resnet.Training(np.array([4.0, 1.0]), np.eye(2), parameters=7).losses
        array([4., 1.])
    """

    losses: Matrix  # (steps + 1,) Σ‖y − U g(x)‖² plus the exact penalty, in the norm of all images
    predictions: Matrix  # U g(X), (outputs, images)
    parameters: int


def targets(labels: Any, classes: int = 10) -> Matrix:
    """One column per image, 1 at its class (classes × images).

    Example:
        >>> od.lab.resnet.targets([0, 2], classes=3).tolist()
        [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]
    """
    found, classes = checks.vector(labels, "labels"), whole("classes", classes, 1)
    wrong = found[(found != np.floor(found)) | (found < 0) | (found >= classes)]
    if len(wrong):
        raise OffdiagError(
            f"labels must be whole numbers from 0 to {classes - 1}, received {wrong[0]:g}; give the number of classes"
        )
    return np.asarray(np.eye(classes)[found.astype(np.int64)].T)


def train(
    pixels: Any,
    Y: Any,
    *,
    stages: Sequence[int] = RESNET50,
    width: int = 64,
    hidden: int = 80,
    block: int = 5,
    drop: float = 0.5,
    steps: int = 100,
    masks: int = 50,
    learning_rate: float = 1e-3,
    seed: int = 0,
    progress: Progress | bool | None = None,
) -> Training:
    """Fit Y (outputs × images) by drawing masks: Adam, every image in every step, each under ``masks`` masks.

    ``pixels`` is (images, height, width) or (images, height, width, colours), of any size.
    The step size rises for a tenth of the time and falls to 0 as a cosine.

    Example:
        >>> words = {"stages": [1], "width": 2, "hidden": 2, "block": 1, "steps": 2}
        >>> od.lab.resnet.train(np.eye(8)[None], [[1.0]], **words).losses.shape
        (3,)
    """
    progress = reporter(progress)
    torch = layers.torch_or_error()
    images = _images(torch, pixels)
    Y = checks.matrix(Y, "Y", (None, len(images)))
    steps, masks = whole("steps", steps, 1), whole("masks", masks, 1)
    stages, width = checks.shape(stages, "stages"), whole("width", width, 1)
    learning_rate, seed = number("learning_rate", learning_rate, 0, checks.LARGEST, above=True), whole("seed", seed)
    checks.blocks(whole("hidden", hidden, 1), whole("block", block, 1))
    C = torch.tensor(dropblock.characteristic(hidden, block, drop), dtype=torch.float32)
    noise = layers.DropBlock1d(block, drop)
    state = torch.random.get_rng_state()
    try:  # the global generator of torch is restored
        torch.manual_seed(seed % 2**63)
        net = _classes()["ResNet"](images.shape[1], stages, width, hidden)
        head = torch.nn.Linear(hidden, len(Y), bias=False)
        parameters = [*net.parameters(), *head.parameters()]
        optimiser = torch.optim.Adam(parameters, lr=learning_rate)
        goal = torch.tensor(Y.T, dtype=torch.float32)
        losses = np.empty(steps + 1)
        for step in range(steps + 1):
            features = net(images)
            with torch.no_grad():
                guess = head(features)
                losses[step] = torch.sum((guess - goal) ** 2) + layers.exact_penalty(head.weight, features, C)
            if step == steps:
                break
            drawn = head(noise(features.expand(masks, *features.shape)))
            loss = torch.sum((drawn - goal) ** 2) / (masks * len(goal))
            rising = min(1.0, 10 * (step + 1) / steps)
            layers.descend(optimiser, loss, learning_rate * rising * 0.5 * (1 + np.cos(np.pi * step / steps)))
            if progress is not None:
                progress("residual net", (step + 1) / steps)
        predictions = guess.numpy().astype(np.float64).T
    finally:
        torch.random.set_rng_state(state)
    return Training(losses, predictions, sum(p.numel() for p in parameters))


def _images(torch: Any, pixels: Any) -> Any:
    array = checks.numbers(pixels, "pixels", largest=1e15)  # squares fit into float32
    if array.ndim not in (3, 4) or 0 in array.shape:
        raise OffdiagError(
            "pixels must be (pictures, height, width) or (pictures, height, width, colours), received shape "
            f"{array.shape} and type {array.dtype}"
        )
    if array.ndim == 3:
        array = array[..., None]
    values = array.astype(np.float32)
    mean, spread = values.mean(axis=(0, 1, 2)), values.std(axis=(0, 1, 2))
    values = (values - mean) / np.where(spread > 0, spread, 1)
    return torch.tensor(np.ascontiguousarray(values.transpose(0, 3, 1, 2)))


@cache
def _classes() -> dict[str, Any]:
    torch = layers.torch_or_error()
    nn = torch.nn

    def convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> list[Any]:
        made = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
        nn.init.kaiming_normal_(made.weight, mode="fan_out", nonlinearity="relu")
        return [made, nn.BatchNorm2d(outputs)]

    class Bottleneck(nn.Module):  # type: ignore[misc, name-defined]
        """1×1 to few channels, 3×3, 1×1 to four times as many, added to the input."""

        def __init__(self, inputs: int, width: int, stride: int) -> None:
            super().__init__()
            outputs = 4 * width
            self.path = nn.Sequential(
                *convolution(inputs, width, 1),
                nn.ReLU(),
                *convolution(width, width, 3, stride),
                nn.ReLU(),
                *convolution(width, outputs, 1),
            )
            nn.init.zeros_(self.path[-1].weight)  # starts as the identity
            same = stride == 1 and inputs == outputs
            self.shortcut = nn.Identity() if same else nn.Sequential(*convolution(inputs, outputs, 1, stride))

        def forward(self, x: Any) -> Any:
            return torch.relu(self.path(x) + self.shortcut(x))

    class ResNet(nn.Module):  # type: ignore[misc, name-defined]
        """Stem, stages of bottlenecks that halve the image and double the channels, mean, linear to ``hidden``."""

        def __init__(self, colours: int, stages: Sequence[int], width: int, hidden: int) -> None:
            super().__init__()
            parts: list[Any] = [*convolution(colours, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
            channels = width
            for stage, count in enumerate(stages):
                for n in range(count):
                    narrow = width * 2**stage
                    parts.append(Bottleneck(channels, narrow, 2 if stage and not n else 1))
                    channels = 4 * narrow
            self.body = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, hidden))

        def forward(self, x: Any) -> Any:
            return self.body(x)

    return {"ResNet": ResNet, "Bottleneck": Bottleneck}
