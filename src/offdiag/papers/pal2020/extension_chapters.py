"""Chapters on extensions of DropBlock: any noise, DropConnect, blocks anywhere, a deep net [Pal20 sections 3 to 5]."""

from __future__ import annotations

import numpy as np

from offdiag.papers.claims import SURE, Chapter
from offdiag.papers.pal2020 import figures, formulas
from offdiag.papers.pal2020.deep import Deep
from offdiag.papers.pal2020.measure import Anywhere, Connect, offset
from offdiag.papers.pal2020.sizes import Net, Sizes


def general(seed: int) -> Chapter:
    numbers = formulas.general(seed)
    widths, found, by_d, printed = formulas.last_layer(seed)
    off = float(np.abs(found / by_d - 1).max())
    chapter = Chapter(
        "pal2020",
        "Any noise, and the last layer of any net",
        """The same algebra works for masks of any distribution, with means, variances and correlations of any kind, and
        for the last layer of a deep net: all that counts is the covariance of the mask divided by its means. It also
        says what noise costs a net that could produce any hidden layer whatever.""",
        numbers | {"prop33_error": off, "prop33_printed_ratio": float((printed / found).min())},
    )
    chapter.claim(
        "Lemma 3.1",
        f"against the mean over a random distribution of masks the formula is off by {numbers['lemma31_error']:.0e}",
        numbers["lemma31_error"] < 1e-10,
    )
    chapter.claim(
        "Corollary 3.2",
        f"with the factor (1−θ)/θ it is exact ({numbers['cor32_error']:.0e}); as printed it is off by "
        f"{100 * numbers['cor32_printed_error']:.0f} % at θ = 0.3",
        numbers["cor32_error"] < 1e-10 < numbers["cor32_printed_error"],
    )
    chapter.claim(
        "Proposition 3.3",
        f"with (1−θ)/(θd) in place of (1−θ)/θ the formula is exact at widths {widths[0]} to {widths[-1]} ({off:.0e}); "
        f"as printed it gives {printed:.1f} where the least loss is {found[0]:.1f} to {found[-1]:.1f}",
        off < 1e-9 and bool((printed > 1.2 * found).all()),
    )
    chapter.draw(
        "last_layer",
        "The least loss of a net that can produce any hidden layer, by the width of that layer.",
        figures.last_layer(widths, found, by_d, printed),
    )
    return chapter


def connect(found: list[Connect], others: list[Connect]) -> Chapter:
    own, white, mixed = found
    off = max(offset(c.trace) for c in found + others)
    excess = max(c.excess for c in found + others)
    most, least = (pick(others, key=lambda c: c.theta) for pick in (max, min))
    chapter = Chapter(
        "pal2020",
        "DropConnect is not dropout",
        """DropConnect drops single connections instead of units. The paper says that for the squared loss this comes to
        the same as dropout. In the proof, a sum over independent connections is treated as if they were dropped
        together. The correct penalty contains the squared size of each input, not the size of their combination, and
        both agree exactly when the inputs are uncorrelated. Three kinds of inputs are compared: those of the paper
        (independent normal numbers, so almost uncorrelated), the same whitened, and inputs of which neighbours
        correlate by 0.8. For the paper's inputs several θ are trained. The least mean loss of DropConnect is not in the
        paper: it is the minimum of ‖Y − AX‖² + (1−θ)/(θd)·‖A·diag(XXᵀ)^½‖*², a convex problem.""",
        {
            "connect_offset": off,
            "connect_misread_own": own.misread,
            "connect_misread_white": white.misread,
            "connect_misread_correlated": mixed.misread,
            "connect_apart_white": white.apart,
            "connect_apart_correlated": mixed.apart,
            "connect_excess": excess,
            "connect_bound_gap": max(c.best.gap / c.best.value for c in found + others),
        },
    )
    chapter.claim(
        "Theorem 4.1, Corollary 4.2",
        f"the corrected formula meets the sampled losses (at most {off:.1f} standard errors). Where "
        f"training ends, the printed one is {white.misread:.4f} times the exact mean on whitened inputs, "
        f"{own.misread:.3f} on the paper's and {mixed.misread:.2f} on correlated ones",
        mixed.misread < 1.01,
    )
    chapter.claim(
        "Figure 3 and Figure 6, top",
        f"over {len(found + others)} trainings, θ from {least.theta:g} to {most.theta:g}, the mean difference of a "
        f"drawn loss from the corrected formula is at most {off:.1f} standard errors; from the printed one the exact "
        f"mean at the end differs by a factor of {own.misread:.3f} at θ = 0.5",
        off <= SURE and own.misread > 1.005,
    )
    chapter.claim(
        "Figure 3 and Figure 6, bottom",
        f"at the end, dropout's over DropConnect's is {white.apart:.3f} on whitened inputs, {own.apart:.3f} on the "
        f"paper's (whose rows have cosines up to {own.cosine:.2f} by chance) and {mixed.apart:.2f} on correlated ones; "
        "on the paper's at other θ "
        + ", ".join(f"{c.apart:.3f} ({c.theta:g})" for c in others)
        + f". DropConnect ends at most {excess:.1%} above its least mean loss",
        abs(white.apart - 1) < 0.02 and mixed.apart > 1.1,
    )
    for name, some, words in (
        ("connect", found, "Figure 3, θ = 0.5, for three kinds of inputs."),
        ("connect_thetas", others, "Figure 6, the inputs of the paper, for other θ."),
    ):
        chapter.draw(
            name,
            f"{words} Top: DropConnect's loss under one mask, its exact mean, and what the printed formula says at the "
            "end. Bottom: exact mean losses of DropConnect and of dropout, from one start, as multiples of the least "
            "mean loss of DropConnect; the titles give the ratio of the two at the end.",
            figures.connect(some),
        )
    return chapter


def anywhere(s: Sizes, found: list[Anywhere]) -> Chapter:
    grid, right, same, printed = found
    assert grid.trace is not None
    assert right.trace is not None
    apart = float(right.trace.deterministic[-1] / grid.trace.deterministic[-1])
    chapter = Chapter(
        "pal2020",
        "Blocks on a grid, blocks anywhere",
        f"""DropBlock as first proposed drops blocks at any position; the theory puts them on a grid. A unit is then
        covered by {s.block} possible blocks and survives if none of them is dropped, so each must be kept more often
        for the unit to be kept as often. The paper gives a correction and finds that training is then about the
        same.""",
        {
            "kept_grid": grid.kept,
            "kept_corrected": right.kept,
            "kept_printed": printed.kept,
            "anywhere_over_grid": apart,
        },
    )
    chapter.claim(
        "Section 5.3",
        f"with θ = 0.5 and blocks of {s.block} a unit survives with {right.kept:.3f} if θ′ = θ^(1/{s.block}) = "
        f"{right.seeds:.3f}, with {same.kept:.3f} if θ′ = θ, and with {printed.kept:.1e} if θ′ is as printed "
        f"({printed.seeds:.3f}, k read as the block size)",
        abs(right.kept - 0.5) < 0.01 and printed.kept < 0.01,
    )
    chapter.claim(
        "Figure 4",
        f"with the right correction the final mean loss is {apart:.4f} times that of the grid; with θ′ = θ it is "
        + (
            f"{float(same.trace.deterministic[-1] / grid.trace.deterministic[-1]):.2f} times"
            if same.trace
            else "not reached"
        ),
        abs(apart - 1) < 0.03,
    )
    chapter.draw(
        "anywhere",
        "Figure 4. Left: exact mean losses along training, each under its own masks; those of the grid and of seeds "
        "kept with θ^(1/r) nearly coincide. Right: how often a unit survives, over 20,000 masks.",
        figures.anywhere(found, 0.5),
    )
    return chapter


def deep(found: list[Deep], net: Net) -> Chapter:
    text = """Does the bound mean anything for a real network? A residual net reads pictures; its last hidden layer
    has 80 units, dropped in blocks of 5 with θ = 0.5, and a linear layer leads to the ten classes (1 for the right one,
    squared error). The bound holds for every such net, because it holds for every hidden layer. The paper finds that
    training a ResNet-50 comes close to it, and that the singular values of the predictions are the ones foretold.

    """
    if not found:
        text += "Needs torch, the extra neural, which is not installed here."
        chapter = Chapter("pal2020", "A deep net", text)
        for side in ("left", "right"):
            chapter.claim(f"Section 5.2, Figure 2, {side}", "needs torch", None)
        return chapter
    text += f"""Here it is {net.words}, trained on {net.pictures} pictures at once, each under fifty masks per step, for
    {net.steps} steps of Adam. That is far fewer than the paper may have taken, and sized for a CPU."""
    ratios = " and ".join(f"{d.ratio:.2f} ({d.name})" for d in found)
    offs = " and ".join(f"{d.off:.1%} ({d.name})" for d in found)
    starts = " and ".join(f"{d.losses[0] / d.bound:.0f}" for d in found)
    above = min(float(d.losses.min() / d.bound) for d in found)
    most, most_off = max(d.ratio for d in found), max(d.off for d in found)
    chapter = Chapter(
        "pal2020",
        "A deep net",
        text,
        {"deep_ratio": most, "deep_least_ratio": above, "deep_singular_values": most_off},
    )
    chapter.claim(
        "Section 5.2, Figure 2, left",
        f"the mean loss over masks falls from {starts} times the bound to {ratios} times, and is never below it",
        most < net.ratio and above >= 1,
    )
    chapter.claim(
        "Section 5.2, Figure 2, right",
        f"the largest difference, relative to the largest singular value, is {offs}",
        most_off < net.off,
    )
    chapter.draw(
        "deep",
        "Figure 2. Left: the mean loss over all masks by training step, and the bound. Right: singular values of the "
        "targets, as foretold for the predictions, and as the net has them.",
        figures.deep(found),
    )
    return chapter
