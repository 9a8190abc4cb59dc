"""Pretorius, Kroon & Kamper (2018), Learning Dynamics of Linear Denoising Autoencoders: its supplement, reproduced.

Only the supplement was available; claims of the paper itself are those that it quotes or describes.
"""

from __future__ import annotations

from functools import partial

from offdiag.papers.driver import Content, PictureName, paper, run_sections
from offdiag.papers.pretorius2018 import curve_chapters, end_chapters, nets, picture_chapters
from offdiag.progress import Progress

SUMMARY = """An autoencoder learns to give back its input through a hidden layer. Trained on noisy input (a
denoising autoencoder, DAE) it learns to leave out what noise would drown; trained with a penalty on its weights
(weight decay, WDAE) it does something similar. The paper asks how such a net gets there, step by step, and answers
with formulas for linear nets: each direction in which the data varies is learnt on its own, the strong ones first.

The formulas are right where they matter, after corrections: a factor belongs inside a bracket (section A), an
eigenvalue is missing in an exponent (section C), and the number of samples N in three places (sections D and E). As
printed, the main formula cannot be computed for long times or equal starting weights; rewritten, it can. Only the
supplement of the paper was at hand, and this page goes through all of its sections."""


@paper("Learning Dynamics of Linear Denoising Autoencoders", "Pretorius, Kroon & Kamper (2018)", SUMMARY, nets.SIZES)
def run(sizes: dict[PictureName, nets.Sizes], seed: int, progress: Progress, **folders: str | None) -> Content:
    # First, so that a folder without the files is reported at once.
    sets = [nets.pictures(name, folders.get(name), some, seed) for name, some in sizes.items()]
    chapters = run_sections(
        progress,
        {
            "theory · expected loss": partial(curve_chapters.expected_loss, seed),
            "theory · one direction": partial(curve_chapters.one_direction, seed),
            "theory · weight decay": curve_chapters.weight_decay,
            "theory · where they end": partial(end_chapters.ends, seed),
            "theory · learning rates": end_chapters.learning_rates,
            "theory · a whole net": partial(end_chapters.whole_net, seed),
        },
    )
    progress("theory", 1.0)
    chapters += [picture_chapters.pictures(data, seed, progress) for data in sets]
    return chapters, "; ".join(data.words for data in sets)
