"""The deep part of Pal et al. (2020): a residual net with DropBlock before its last layer, against the bound."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from offdiag.data import images
from offdiag.lab import dropblock, resnet
from offdiag.lab.checks import Matrix
from offdiag.papers.claims import Size
from offdiag.progress import Progress

HIDDEN, BLOCK, DROP = 80, 5, 0.5  # the last hidden layer of the paper


@dataclass(frozen=True, eq=False)
class Deep:
    """One training of the whole net."""

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
    """How large: ResNet-50 on a hundred pictures, or a net of four bottlenecks on sixty-four."""
    if size == "paper":
        return {"pictures": 100, "steps": 80, "learning_rate": 1.5e-3, "stages": resnet.RESNET50, "width": 64}
    return {"pictures": 64, "steps": 45, "learning_rate": 4e-3, "stages": (1, 1, 1, 1), "width": 16}


def available() -> bool:
    return find_spec("torch") is not None


def trainings(
    size: Size, seed: int, progress: Progress | None, *, mnist: str | None, cifar10: str | None
) -> tuple[list[Deep], str]:
    """Both data sets, from files or invented; and the words that say which."""
    found, words = [], []
    for kind, folder in (("mnist", mnist), ("cifar10", cifar10)):
        how = settings(size)
        n = how.pop("pictures")
        title = {"mnist": "MNIST", "cifar10": "CIFAR-10"}[kind]
        if folder is None:
            pixels, labels = images.invented(n, kind, seed)  # type: ignore[arg-type]
            name = f"invented pictures in the shape of {title}"
        else:
            pixels, labels = (images.mnist if kind == "mnist" else images.cifar10)(folder, n)
            name = f"the first {n} training pictures of {title}"
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
                name=title if folder else f"invented, {title}-like",
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
        words.append(name)
    return found, "; ".join(words)


def _singular(M: Matrix) -> Matrix:
    return np.asarray(np.linalg.svd(M, compute_uv=False), dtype=np.float64)


def _told(progress: Progress | None, title: str) -> Progress | None:
    if progress is None:
        return None
    return lambda stage, fraction: progress(f"{stage} · {title}", fraction)
