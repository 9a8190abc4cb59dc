"""Figure 1 of [Steck20] with the markers and colours of the paper, and its histograms in both gauges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from offdiag.papers.steck2020.figure1 import BALANCED, DLAE, EDLAE, SIDES, ZERO, Figure1, middle
from offdiag.plots import papers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = np.linspace(-0.2, 1.0, 49)
# As printed: EDLAE black •, zero diagonal green ×, DLAE blue +; encoder solid blue, decoder dashed red.
CURVES = {EDLAE: ("black", "o"), ZERO: ("tab:green", "x"), DLAE: ("tab:blue", "+")}
LINES = {"encoder": ("tab:blue", "-"), "decoder": ("tab:red", "--")}
LETTERS = {"encoder": "U", "decoder": "V"}


def figure1(figure: Figure1) -> Figure:
    """Three panels as in the paper: accuracy by rank, cosines of EDLAE, cosines of DLAE.

    The paper calls its centre panel "like in EDLAE"; its notebook draws the zero-diagonal model there.
    """
    with papers.load_matplotlib().rc_context(papers.STYLE):
        drawn, axes = papers.panels(1, 3, width=3.6, height=3.3)
        _accuracy(axes[0, 0], figure)
        top = max(_histogram(axes[0, n], figure, BALANCED, name) for n, name in ((1, EDLAE), (2, DLAE)))
        for axis in axes[0, 1:]:
            axis.set_ylim(0, 1.08 * top)
        return drawn


def gauges(figure: Figure1) -> Figure:
    """A row of histograms per gauge, a column per model."""
    with papers.load_matplotlib().rc_context(papers.STYLE):
        drawn, axes = papers.panels(len(figure.cosines), len(CURVES), width=3.4, height=2.7)
        top = 0.0
        for row, gauge in enumerate(figure.cosines):
            for column, name in enumerate(CURVES):
                top = max(top, _histogram(axes[row, column], figure, gauge, name, f"{name}, {gauge}"))
        for axis in axes.flat:
            axis.set_ylim(0, 1.08 * top)
        return drawn


def _accuracy(axis: Axes, figure: Figure1) -> None:
    for name, (colour, marker) in CURVES.items():
        points = [*figure.curve.of(name), figure.full_rank[name]]
        sems = [p.sem if np.isfinite(p.sem) else 0.0 for p in points]
        axis.errorbar(
            [p.rank for p in points], [p.mean for p in points], sems,
            color=colour, marker=marker, markersize=6, linewidth=1.2, elinewidth=0.8, label=name,
        )  # fmt: skip
    axis.set_xscale("log")
    ranks = [*figure.curve.ranks, figure.train.n_items]
    axis.set_xticks(ranks, [f"{r:,}" for r in ranks[:-1]] + [f"{ranks[-1]:,}\n(full)"], rotation=45, fontsize=7.5)
    axis.minorticks_off()
    axis.set(title="Accuracy by rank", xlabel="rank", ylabel=figure.metric)
    axis.legend(frameon=False, fontsize=8.5, loc="lower right")


def _histogram(axis: Axes, figure: Figure1, gauge: str, name: str, title: str | None = None) -> float:
    """Draw one panel; its highest bar."""
    top = 0.0
    for side, values in zip(SIDES, figure.cosines[gauge][name], strict=True):
        shares = _shares(values)
        colour, dash = LINES[side]
        label = f"{side} {LETTERS[side]}"
        axis.stairs(shares, BINS, color=colour, linestyle=dash, linewidth=1.6, label=label)
        if np.isfinite(median := middle(values)):
            axis.axvline(median, color=colour, linestyle=":", linewidth=1.2)
        top = max(top, float(shares.max(initial=0.0)))
    axis.set(title=title or f"{name}, rank {figure.rank:,}", xlabel="median cosine of similar items")
    axis.set_ylabel("% of groups")
    axis.legend(frameon=False, fontsize=8.5)
    return top


def _shares(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Per cent of the groups in each bin; outliers are in the end bins."""
    finite = np.clip(values[np.isfinite(values)], BINS[0], BINS[-1])
    shares: NDArray[np.float64] = 100 * np.histogram(finite, BINS)[0] / max(finite.size, 1)
    return shares
