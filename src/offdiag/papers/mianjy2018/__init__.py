"""Mianjy, Arora & Vidal (2018), On the Implicit Bias of Dropout: every claim and figure, reproduced."""

from __future__ import annotations

import time

from offdiag.papers.claims import Reproduction, Size
from offdiag.papers.mianjy2018 import measure, optimum_chapters, training, training_chapters
from offdiag.papers.mianjy2018 import surface as level
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


def run(*, size: Size, seed: int, progress: Progress | None = None) -> Reproduction:
    """Compute everything; ``size="small"`` shrinks the training runs of Figure 3 and the number of random trials."""
    begun = time.perf_counter()
    tell = progress or (lambda stage, fraction: None)
    tell("Section 1 · masks", 0.0)
    penalty = measure.regulariser(seed)
    tell("Section 2 · equalising", 0.3)
    equal = measure.equalising(size, seed)
    tell("Section 3 · optimum", 0.6)
    best, shrinkage = measure.optima(seed)
    tell("Section 4 · landscape", 0.8)
    surface, curvature = level.surface(size, seed)
    surface |= level.scalar()
    tell("Figure 2 · two starts", 0.9)
    toys = training.toys(12_000 if size == "small" else 20_000, seed)
    setting = training.SETTINGS[size]
    trainings = training.trainings(setting, seed, progress)
    return Reproduction(
        paper="mianjy2018",
        title="On the Implicit Bias of Dropout",
        authors="Mianjy, Arora & Vidal (2018)",
        size=size,
        seed=seed,
        summary=SUMMARY,
        chapters=[
            optimum_chapters.penalty(penalty),
            optimum_chapters.equal(equal),
            optimum_chapters.optimum(best, shrinkage),
            training_chapters.landscape(surface, curvature),
            training_chapters.training(toys, trainings, setting),
        ],
        numbers=numbers(penalty, equal, best, surface, toys, trainings),
        data=f"drawn: M with exponentially falling singular values, inputs from a standard normal (seed {seed})",
        seconds=time.perf_counter() - begun,
    )


def numbers(
    penalty: measure.Numbers,
    equal: measure.Numbers,
    best: measure.Numbers,
    surface: measure.Numbers,
    toys: list[training.Toy],
    trainings: list[training.Training],
) -> dict[str, float]:
    """The numbers compared with the expectations; times and mere illustrations appear only in the text."""
    plain = {name: value for name, value in equal.items() if not name.endswith("_seconds")}
    plain |= {name: value for name, value in penalty.items() if name != "white_formula_on_skewed_inputs"}
    plain |= best | surface | {f"toy_distance_{toy.lam:g}": toy.distance for toy in toys}
    widths = sorted({t.width for t in trainings})
    for name, width in zip(("narrow", "wide"), widths, strict=True):
        plain[f"settle_ratio_{name}"] = training.settle_ratio(trainings, width)
        for t in trainings:
            if t.width == width:
                plain[f"excess_{name}_{t.lam:g}"] = t.excess
                plain[f"variance_left_{name}_{t.lam:g}"] = float(t.variance[-1] / t.variance[0])
    return plain
