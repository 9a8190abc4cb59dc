"""Pretorius, Kroon & Kamper (2018), Learning Dynamics of Linear Denoising Autoencoders: its supplement, reproduced.

Only the supplement was available; claims of the paper itself are those that it quotes or describes.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from offdiag.papers.claims import Reproduction, Size
from offdiag.papers.pretorius2018 import curves, ends, nets, pictures
from offdiag.progress import Progress


def run(
    *,
    size: Size,
    seed: int,
    progress: Progress | None = None,
    mnist: str | None = None,
    cifar10: str | None = None,
) -> Reproduction:
    """The whole page; ``mnist`` and ``cifar10`` are folders with the files, without them images are synthetic."""
    begun = perf_counter()
    tell = progress or (lambda stage, fraction: None)
    # First, so that a folder without the files is reported at once.
    sets = [nets.pictures("mnist", mnist, size, seed), nets.pictures("cifar10", cifar10, size, seed)]
    theory: list[tuple[str, Callable[[], curves.Part]]] = [
        ("expected loss", lambda: curves.expected_loss(seed)),
        ("one direction", lambda: curves.one_direction(seed)),
        ("weight decay", curves.weight_decay),
        ("where they end", lambda: ends.ends(seed)),
        ("learning rates", ends.learning_rates),
        ("a whole net", lambda: ends.whole_net(seed)),
    ]
    parts: list[curves.Part] = []
    for number, (name, part) in enumerate(theory):
        tell(f"theory · {name}", number / len(theory))
        parts.append(part())
    tell("theory", 1.0)
    parts += [pictures.pictures(data, seed, tell) for data in sets]
    return Reproduction(
        paper="pretorius2018",
        title="Learning Dynamics of Linear Denoising Autoencoders",
        authors="Pretorius, Kroon & Kamper (2018)",
        size=size,
        seed=seed,
        summary=SUMMARY,
        chapters=[chapter for chapter, _ in parts],
        numbers={name: value for _, numbers in parts for name, value in numbers.items()},
        data="; ".join(data.words for data in sets),
        seconds=perf_counter() - begun,
    )


SUMMARY = """An autoencoder learns to give back its input through a hidden layer. Trained on noisy input (a
denoising autoencoder, DAE) it learns to leave out what noise would drown; trained with a penalty on its weights
(weight decay, WDAE) it does something similar. The paper asks how such a net gets there, step by step, and answers
with formulas for linear nets: each direction in which the data varies is learnt on its own, the strong ones first.

The formulas are right where they matter, after corrections: a factor belongs inside a bracket (section A), an
eigenvalue is missing in an exponent (section C), and the number of samples N in three places (sections D and E). As
printed, the main formula cannot be computed for long times or equal starting weights; rewritten, it can. Only the
supplement of the paper was at hand, and this page goes through all of its sections."""
