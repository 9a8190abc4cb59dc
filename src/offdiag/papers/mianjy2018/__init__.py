"""Mianjy, Arora & Vidal (2018), On the Implicit Bias of Dropout: every claim and figure, reproduced."""

from __future__ import annotations

from functools import partial

from offdiag.papers.driver import Content, paper, run_sections
from offdiag.papers.mianjy2018 import optimum_chapters, training_chapters
from offdiag.papers.mianjy2018.sizes import SIZES, Sizes
from offdiag.progress import Progress

SUMMARY = """
Dropout switches hidden units off at random while a network learns. For a network with one hidden layer and no
non-linearity, the paper asks what that does, and answers exactly: it adds a penalty, the penalty makes all hidden units
equally important, the best such network is a shrunken singular value decomposition of what is to be learnt, and plain
training with dropout finds it.

The theorems are confirmed here by independent means: by averaging over every possible mask, by searching for better
networks, by listing every point at which training could stop. What is misprinted is corrected below, each with a
number. One theorem is weaker than it could be: the condition of Theorem 4.3 is not needed. One remark is mistaken: any
two layers can be equalised by one common rotation. And the importance of the units does become equal in training, but
not monotonically.
"""


@paper("On the Implicit Bias of Dropout", "Mianjy, Arora & Vidal (2018)", SUMMARY, SIZES)
def run(sizes: Sizes, seed: int, progress: Progress) -> Content:
    sections = {
        "Section 1 · masks": partial(optimum_chapters.penalty, seed),
        "Section 2 · equalising": partial(optimum_chapters.equal, sizes.pairs, seed),
        "Section 3 · optimum": partial(optimum_chapters.optimum, seed),
        "Section 4 · landscape": partial(training_chapters.landscape, sizes, seed),
        "Figure 2 · two starts": partial(training_chapters.training, sizes, seed, progress),
    }
    data = f"drawn: M with exponentially falling singular values, inputs from a standard normal (seed {seed})"
    return run_sections(progress, sections), data
