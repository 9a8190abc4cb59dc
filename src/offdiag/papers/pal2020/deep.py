"""The deep part of Pal et al. (2020): a residual net with DropBlock before its last layer, against the bound."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from offdiag.data._sets import images
from offdiag.lab import dropblock, resnet
from offdiag.lab.checks import Matrix
from offdiag.papers.claims import Size
from offdiag.progress import Progress

HIDDEN, BLOCK, DROP = 80, 5, 0.5  # the last hidden layer of the paper


@dataclass(frozen=True, eq=False)
class Deep:
    """One training run of the whole net."""

    name: str
    pictures: int
    parameters: int
    losses: Matrix  # the mean loss over all masks, by step
    bound: float  # below every net, however deep
    tight: bool
    targets: Matrix  # singular values of Y
    predicted: Matrix  # those of the predictions at the bound
    singular: Matrix  # those of the predictions of the net

    @property
    def ratio(self) -> float:
        return float(self.losses[-1] / self.bound)

    @property
    def off(self) -> float:
        """The largest difference of a singular value from its prediction, relative to the largest."""
        return float(np.abs(self.singular[: len(self.predicted)] - self.predicted).max() / self.predicted[0])


def settings(size: Size) -> dict[str, Any]:
    """Sizes: ResNet-50 on a hundred images, or a net of four bottlenecks on sixty-four."""
    if size == "paper":
        return {"pictures": 100, "steps": 80, "learning_rate": 1.5e-3, "stages": resnet.RESNET50, "width": 64}
    return {"pictures": 64, "steps": 45, "learning_rate": 4e-3, "stages": (1, 1, 1, 1), "width": 16}


def available() -> bool:
    return find_spec("torch") is not None


class Pictures(NamedTuple):
    """The data of one training run."""

    title: str  # MNIST or CIFAR-10
    given: bool  # read from files, not synthetic
    pixels: images.Pixels
    labels: images.Pixels

    @property
    def words(self) -> str:
        return (
            f"the first {len(self.labels)} training pictures of {self.title}"
            if self.given
            else f"synthetic images in the shape of {self.title}"
        )


def pictures(size: Size, seed: int, *, mnist: str | None, cifar10: str | None) -> list[Pictures]:
    """Both data sets, from files or synthetic."""
    n = settings(size)["pictures"]
    return [
        Pictures(
            "MNIST",
            mnist is not None,
            *(images.mnist(mnist, n) if mnist is not None else images.invented(n, "mnist", seed)),
        ),
        Pictures(
            "CIFAR-10",
            cifar10 is not None,
            *(images.cifar10(cifar10, n) if cifar10 is not None else images.invented(n, "cifar10", seed)),
        ),
    ]


def trainings(given: list[Pictures], size: Size, seed: int, progress: Progress | None) -> list[Deep]:
    """One training run per data set."""
    found = []
    for title, from_files, pixels, labels in given:
        how = settings(size)
        n = how.pop("pictures")
        if progress is not None:
            progress(f"residual net · {title}", 0.0)
        Y = resnet.targets(labels)
        net = resnet.train(
            pixels, Y, hidden=HIDDEN, block=BLOCK, drop=DROP, seed=seed, progress=_told(progress, title), **how
        )
        # a net that may produce any hidden layer is the linear net with X = I [Pal20 Prop. 3.3]
        best = dropblock.optimum(Y, np.eye(n), HIDDEN, BLOCK, DROP)
        found.append(
            Deep(
                name=title if from_files else f"invented, {title}-like",
                pictures=n,
                parameters=net.parameters,
                losses=net.losses,
                bound=best.bound,
                tight=best.tight,
                targets=_singular(Y)[: len(best.singular_values)],
                predicted=best.singular_values,
                singular=_singular(net.predictions),
            )
        )
    return found


def _singular(M: Matrix) -> Matrix:
    return np.asarray(np.linalg.svd(M, compute_uv=False), dtype=np.float64)


def _told(progress: Progress | None, title: str) -> Progress | None:
    if progress is None:
        return None
    return lambda stage, fraction: progress(f"{stage} · {title}", fraction)
