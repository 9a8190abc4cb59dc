"""Pal, Lane, Vidal & Haeffele (2020), On the Regularization Properties of Structured Dropout: reproduced."""

from __future__ import annotations

import time

import numpy as np

from offdiag.lab import dropblock
from offdiag.papers.claims import Reproduction, Size
from offdiag.papers.pal2020 import deep, dropblock_chapters, extension_chapters, formulas, measure
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


def run(
    *,
    size: Size,
    seed: int,
    progress: Progress | None = None,
    mnist: str | None = None,
    cifar10: str | None = None,
) -> Reproduction:
    """Compute everything; ``size="small"`` shrinks data, training and the deep net. Folders may hold the images."""
    begun = time.perf_counter()
    tell = progress or (lambda stage, fraction: None)
    pictures = deep.pictures(size, seed, mnist=mnist, cifar10=cifar10)  # first: a wrong folder is reported at once
    s = measure.SETTINGS[size]
    trials = 200 if size == "paper" else 60
    tell("formulas · masks", 0.0)
    given = measure.data(s, seed)
    error = measure.lemma21(s, given)
    general, layer = formulas.general(seed), formulas.last_layer(seed)
    tell("formulas · norm and prox", 0.4)
    norms, proxes, times = formulas.norms(seed, trials), formulas.proxes(seed, trials), formulas.speed()
    tell("formulas · width and rank", 0.7)
    width, doubling = formulas.capacity(seed), formulas.doubling(seed)
    rank, few = formulas.attainable(seed), formulas.few_blocks(seed)
    runs = measure.descents(s, given, seed, progress)
    connects = measure.connects(s, given, seed, progress)
    tell("blocks · anywhere", 0.0)
    places = measure.anywhere(s, given, seed)
    nets: list[deep.Deep] = []
    words = "no pictures (torch is missing)"
    if deep.available():
        nets = deep.trainings(pictures, size, seed, progress)
        words = "; ".join(some.words for some in pictures)
    equal = max(_unequal(run, given) for run in runs)
    return Reproduction(
        paper="pal2020",
        title="On the Regularization Properties of Structured Dropout",
        authors="Pal, Lane, Vidal & Haeffele (2020)",
        size=size,
        seed=seed,
        summary=SUMMARY,
        chapters=[
            dropblock_chapters.penalty(error, runs, s),
            dropblock_chapters.minimum(runs, proxes, rank, times, s),
            dropblock_chapters.capacity(width, doubling),
            dropblock_chapters.norm(norms, *formulas.shrunk(), runs),
            dropblock_chapters.balanced(runs, few, equal),
            extension_chapters.general(general, layer),
            extension_chapters.connect(connects),
            extension_chapters.anywhere(places, s),
            extension_chapters.deep(nets, size),
        ],
        numbers=numbers(error, runs, norms, proxes, rank, general)
        | {
            "few_blocks_gap": few[0][1],
            "more_blocks_gap": max(gap for k, gap in few if k > 2),
            "capacity_fixed": float(width[1][-1] / width[1][0]),
            "capacity_scaled_spread": float(np.ptp(width[2]) / width[2][0]),
            "prop33_error": float(np.abs(layer[1] / layer[2] - 1).max()),
            "prop33_printed_ratio": float((layer[3] / layer[1]).min()),
            "block_inequality": equal,
            "kept_grid": places[0].kept,
            "kept_corrected": places[1].kept,
            "kept_printed": places[3].kept,
        }
        | _of_connects(connects)
        | _of_places(places)
        | _of_nets(nets),
        data=f"drawn from a standard normal (seed {seed}); {words}",
        seconds=time.perf_counter() - begun,
    )


def numbers(
    error: float,
    runs: list[measure.Run],
    norms: formulas.Numbers,
    proxes: formulas.Numbers,
    rank: formulas.Numbers,
    general: formulas.Numbers,
) -> dict[str, float]:
    """The numbers compared with the expectations; times appear only in the text."""
    found = {"lemma21_error": error} | norms | proxes | general
    found |= {name: rank[name] for name in ("rank_gap",)}
    found["rank_raw_ratio"] = rank["rank_raw"] / rank["rank_bound"]
    found["trace_offset"] = max(run.offset for run in runs)
    found["largest_excess"] = max(run.excess for run in runs)
    found["smallest_ratio_to_bound"] = min(float(run.trace.deterministic.min() / run.best.bound) for run in runs)
    found["spread_after"] = max(run.spread[1] for run in runs)
    half = [run.best.value for run in runs if run.theta == 0.5]
    found["block_size_matters"] = max(half) / min(half) - 1
    return found


def _of_connects(found: list[measure.Connect]) -> dict[str, float]:
    own, white, mixed = found
    return {
        "connect_offset": max(measure.z_score((c.trace.stochastic / c.trace.deterministic - 1)[1:]) for c in found),
        "connect_misread_own": own.misread,
        "connect_misread_white": white.misread,
        "connect_misread_correlated": mixed.misread,
        "connect_apart_white": white.apart,
        "connect_apart_correlated": mixed.apart,
    }


def _of_places(found: list[measure.Anywhere]) -> dict[str, float]:
    grid, right = found[0].trace, found[1].trace
    if grid is None or right is None:
        return {}
    return {"anywhere_over_grid": float(right.deterministic[-1] / grid.deterministic[-1])}


def _of_nets(nets: list[deep.Deep]) -> dict[str, float]:
    if not nets:
        return {}
    return {
        "deep_ratio": max(net.ratio for net in nets),
        "deep_least_ratio": min(float(net.losses.min() / net.bound) for net in nets),
        "deep_singular_values": max(net.off for net in nets),
    }


def _unequal(run: measure.Run, given: measure.Data) -> float:
    """The spread of the block norms of the closed form, relative to their mean."""
    norms = dropblock.block_norms(run.best.U, run.best.V, given.X, run.block)
    return float(np.ptp(norms) / norms.mean())
