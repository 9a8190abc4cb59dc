"""The deep part of Pal et al. (2020): a residual net with DropBlock before its last layer, against the bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np

from offdiag.data._sets import images
from offdiag.lab import dropblock, resnet
from offdiag.lab.checks import Matrix
from offdiag.papers.driver import TITLES, picture_set
from offdiag.papers.pal2020.sizes import Net
from offdiag.progress import Progress

HIDDEN, BLOCK, DROP = 80, 5, 0.5  # the last hidden layer of the paper


@dataclass(frozen=True, eq=False)
class Deep:
    """One training run of the whole net."""

    name: str
    losses: Matrix  # the mean loss over all masks, by step
    bound: float  # below every net, however deep
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


def pictures(n: int, seed: int, folders: Mapping[str, str | None]) -> list[Pictures]:
    """Each data set from its folder, or synthetic."""
    return [
        Pictures(title, folders.get(name) is not None, *picture_set(name, folders.get(name), n, seed))
        for name, title in TITLES.items()
    ]


def trainings(given: list[Pictures], net: Net, seed: int, progress: Progress) -> list[Deep]:
    """One training run per data set; none without torch."""
    found: list[Deep] = []
    for title, from_files, pixels, labels in given if available() else []:

        def report(stage: str, fraction: float, title: str = title) -> None:
            progress(f"{stage} · {title}", fraction)

        report("residual net", 0.0)
        Y = resnet.targets(labels)
        run = resnet.train(
            pixels,
            Y,
            stages=net.stages,
            width=net.width,
            hidden=HIDDEN,
            block=BLOCK,
            drop=DROP,
            steps=net.steps,
            learning_rate=net.learning_rate,
            seed=seed,
            progress=report,
        )
        # a net that may produce any hidden layer is the linear net with X = I [Pal20 Prop. 3.3]
        best = dropblock.optimum(Y, np.eye(len(labels)), HIDDEN, BLOCK, DROP)
        found.append(
            Deep(
                name=title if from_files else f"invented, {title}-like",
                losses=run.losses,
                bound=best.bound,
                targets=_singular(Y)[: len(best.singular_values)],
                predicted=best.singular_values,
                singular=_singular(run.predictions),
            )
        )
    return found


def _singular(M: Matrix) -> Matrix:
    return np.asarray(np.linalg.svd(M, compute_uv=False), dtype=np.float64)
