"""Steck (2020), Autoencoders that don't overfit towards the Identity: Figure 1, Table 1 and the theorems."""

from __future__ import annotations

from dataclasses import replace

from offdiag.data import synthetic
from offdiag.papers.claims import Reproduction, Size
from offdiag.papers.steck2020 import figure1, figure1_chapters, theorem_chapters
from offdiag.progress import Progress

SUMMARY = """
A linear autoencoder predicts what a user chooses from what the user has chosen. It can cheat by predicting each item
from itself. The paper shows that dropout at the input does not stop that beyond its L2 penalty, and that emphasis does:
training on the dropped entries alone. The best full-rank model then has a closed form, and in a low-rank one the
embeddings of similar items are pushed apart.

The equations are confirmed by averaging over every mask and by searching for better models. What is said about accuracy
and embeddings is measured on the data of this page, and the verdicts belong to that data.
"""


def reproduce(figure: figure1.Figure1, size: Size, *, given: bool = True) -> Reproduction:
    """The page of the paper from a run of Figure 1; ``given`` if its data was given, not made."""
    chapters = [
        figure1_chapters.accuracy(figure),
        figure1_chapters.embeddings(figure),
        theorem_chapters.theorems(figure.seed),
    ]
    return Reproduction(
        paper="steck2020",
        title="Autoencoders that don't overfit towards the Identity",
        authors="Steck (2020)",
        size=size,
        seed=figure.seed,
        summary=SUMMARY,
        chapters=chapters,
        data=figure.source,
        folders=[],
        seconds=figure.seconds,
        part="figure1 DATA" if given else "figure1",
    )


def run(*, size: Size, seed: int, progress: Progress | None = None) -> Reproduction:
    """Figure 1 and the theorems, on a synthetic catalogue; Table 1 is ``table1.run``."""
    sizes = figure1.SIZES[size]
    inter = synthetic.interactions(sizes.users, sizes.items, sizes.interactions, names=False, seed=seed)
    figure = figure1.run(inter, f"a synthetic catalogue (seed {seed})", size=size, seed=seed, progress=progress)
    if progress is not None:
        progress("Theorems", 1.0)
    return replace(reproduce(figure, size, given=False), seconds=figure.seconds)
