"""One driver for the theory papers: a paper gives its sizes and chapters, the driver makes the reproduction."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Literal, Protocol

from offdiag.data._sets import images
from offdiag.papers.claims import Chapter, Reproduction, Size
from offdiag.progress import Progress

Numbers = dict[str, float]
Content = tuple[list[Chapter], str]  # the chapters of a paper, and which data was used
PictureName = Literal["mnist", "cifar10"]
TITLES: dict[PictureName, str] = {"mnist": "MNIST", "cifar10": "CIFAR-10"}


class Run(Protocol):
    """Compute everything; ``size="small"`` shrinks data, training runs and the number of random trials.

    The folders ``mnist`` and ``cifar10`` of some papers may hold the images; without them images are synthetic.
    """

    def __call__(
        self, *, size: Size, seed: int, progress: Progress | None = None, **folders: str | None
    ) -> Reproduction: ...


def paper(
    title: str, authors: str, summary: str, sizes: Mapping[Size, object]
) -> Callable[[Callable[..., Content]], Run]:
    """Decorate the function that computes a paper: ``compute(sizes[size], seed, progress, **folders)``."""

    def decorate(compute: Callable[..., Content]) -> Run:
        def run(*, size: Size, seed: int, progress: Progress | None = None, **folders: str | None) -> Reproduction:
            begun = time.perf_counter()
            chapters, data = compute(sizes[size], seed, progress or (lambda stage, fraction: None), **folders)
            return Reproduction(
                paper=compute.__module__.rpartition(".")[2],
                title=title,
                authors=authors,
                size=size,
                seed=seed,
                summary=summary,
                chapters=chapters,
                data=data,
                folders=[name for name, folder in folders.items() if folder is not None],
                seconds=time.perf_counter() - begun,
            )

        return run

    return decorate


def run_sections(progress: Progress, sections: Mapping[str, Callable[[], Chapter]]) -> list[Chapter]:
    """The chapter of each section, whose name is reported."""
    chapters = []
    for n, (stage, chapter) in enumerate(sections.items()):
        progress(stage, n / len(sections))
        chapters.append(chapter())
    return chapters


def picture_set(name: PictureName, folder: str | None, n: int, seed: int) -> tuple[images.Pixels, images.Pixels]:
    """The first ``n`` training images and labels in the folder; synthetic ones without a folder."""
    if folder is None:
        return images.invented(n, name, seed)
    return (images.mnist if name == "mnist" else images.cifar10)(folder, n)
