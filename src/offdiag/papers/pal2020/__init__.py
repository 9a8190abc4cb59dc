"""Pal, Lane, Vidal & Haeffele (2020), On the Regularization Properties of Structured Dropout: reproduced."""

from __future__ import annotations

from offdiag.papers.driver import Content, paper
from offdiag.papers.pal2020 import deep, dropblock_chapters, extension_chapters, measure
from offdiag.papers.pal2020.sizes import SIZES, Sizes
from offdiag.progress import Progress

SUMMARY = """
DropBlock and DropConnect are relatives of dropout: one switches hidden units off in blocks, the other cuts single
connections. For networks with one hidden layer and no non-linearity, and for the last layer of any network, the paper
asks what such noise does. Blocks add a penalty; the penalty shrinks singular values by the k-support norm, which lies
between ridge regression and low-rank methods; the best network can be written down; training finds it.

All of that is confirmed, after corrections. Several formulas lack a factor or a condition. One theorem is wrong as
stated: DropConnect equals dropout only for uncorrelated inputs, and on correlated ones it differs much. And one thing
is not said: on the paper's own synthetic data the block size changes nothing, because no singular value stands out.
"""


@paper("On the Regularization Properties of Structured Dropout", "Pal, Lane, Vidal & Haeffele (2020)", SUMMARY, SIZES)
def run(s: Sizes, seed: int, progress: Progress, **folders: str | None) -> Content:
    # First, so that a folder without the files is reported at once.
    pictures = deep.pictures(s.net.pictures, seed, folders)
    given = measure.data(s, seed)
    runs = measure.descents(s, given, seed, progress)
    progress("formulas · masks, norm and prox", 0.0)
    chapters = [
        dropblock_chapters.penalty(s, given, runs),
        dropblock_chapters.minimum(s, runs, seed),
        dropblock_chapters.capacity(seed),
        dropblock_chapters.norm(s, runs, seed),
        dropblock_chapters.balanced(given, runs, seed),
        extension_chapters.general(seed),
        extension_chapters.connect(*measure.connects(s, given, seed, progress)),
        extension_chapters.anywhere(s, measure.anywhere(s, given, seed, progress)),
        extension_chapters.deep(deep.trainings(pictures, s.net, seed, progress), s.net),
    ]
    words = "; ".join(some.words for some in pictures) if deep.available() else "no pictures (torch is missing)"
    return chapters, f"drawn from a standard normal (seed {seed}); {words}"
