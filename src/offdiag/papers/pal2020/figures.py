"""The figures of Pal et al. (2020), drawn from the results of ``measure``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offdiag.lab.checks import Matrix
from offdiag.papers.pal2020.formulas import FewBlocks
from offdiag.papers.pal2020.measure import Anywhere, Connect, Run
from offdiag.plots.papers import COLOURS, lines, log_scale, panels, tick_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from offdiag.papers.pal2020.deep import Deep

BLUE, SOFT = COLOURS[0], COLOURS[5]


def training(runs: list[Run]) -> Figure:
    """Figures 1 and 5, top: the loss of one draw and its exact mean along the descent."""
    figure, axes = panels(1, len(runs), width=3.1, height=2.9)
    for axis, run in zip(axes[0], runs, strict=True):
        t = run.trace
        axis.plot(t.steps, t.stochastic, color=COLOURS[1], linewidth=0.7, label="one mask (stochastic)")
        mean = np.convolve(t.stochastic, np.full(40, 1 / 40), mode="valid")
        axis.plot(t.steps[20 : 20 + len(mean)], mean, color=COLOURS[2], label="mean of 40 draws around")
        axis.plot(t.steps, t.deterministic, color=BLUE, label="formula (deterministic)")
        _logarithmic(axis, f"θ = {run.theta:g}, block {run.block}")
    axes[0, 0].set_ylabel("loss")
    axes[0, 0].legend(frameon=False, fontsize=8)
    return figure


def minima(runs: list[Run]) -> Figure:
    """Figures 1 and 5, bottom: the mean loss falls to the closed-form minimum."""
    figure, axes = panels(1, len(runs), width=3.1, height=2.9)
    for axis, run in zip(axes[0], runs, strict=True):
        t = run.trace
        axis.plot(t.steps, t.deterministic, color=BLUE, label="DropBlock descent")
        axis.axhline(run.best.value, color=COLOURS[4], linestyle="--", linewidth=1.4, label="minimum in closed form")
        _logarithmic(axis, f"θ = {run.theta:g}, block {run.block}")
    axes[0, 0].set_ylabel("mean loss over masks")
    axes[0, 0].legend(frameon=False, fontsize=8)
    return figure


def spectra(m: Matrix, shrunk: dict[int, Matrix], runs: list[Run]) -> Figure:
    """The effect of blocks on singular values: a steep spectrum, and those of the experiment."""
    figure, axes = panels(1, 2, width=4.6, height=3.1)
    n = np.arange(1, len(m) + 1)
    axes[0, 0].plot(n, m, color=SOFT, linestyle=":", label="before")
    names = {min(shrunk): " (dropout)", max(shrunk): " (ridge)"}
    for colour, (block, x) in zip(COLOURS, shrunk.items(), strict=False):
        axes[0, 0].plot(n, x, color=colour, label=f"block {block}{names.get(block, '')}")
    axes[0, 0].set(title="a steep spectrum, 60 units, θ = 0.5", xlabel="singular value, by size", ylabel="value")
    axes[0, 0].legend(frameon=False, fontsize=8)
    colours = dict(zip(sorted({run.theta for run in runs}), COLOURS, strict=False))
    drawn: list[float] = []
    for run in runs:  # the first of each θ as a line, other blocks at the same θ as marks on it
        again = drawn.count(run.theta)
        style = {"linestyle": "none", "marker": "x+o"[again % 3 - 1], "markersize": 5} if again else {}
        x = run.best.singular_values
        at = np.arange(len(x))[again::3] if again else np.arange(len(x))
        label = f"θ = {run.theta:g}, block {run.block}"
        axes[0, 1].plot(at + 1, x[at], label=label, color=colours[run.theta], **style)
        drawn.append(run.theta)
    axes[0, 1].set(title="the experiment: what the optimum keeps", xlabel="singular value, by size")
    axes[0, 1].legend(frameon=False, fontsize=8)
    return figure


def capacity(widths: Matrix, fixed: Matrix, scaled: Matrix) -> Figure:
    figure, axes = panels(1, 1, width=9.0, height=2.8)
    axis = axes[0, 0]
    lines(axis, widths, {"θ = 0.5 at every width": fixed, "θ(d) of Eq. 7": scaled}, marker="o", markersize=4)
    axis.set_xscale("log", base=2)
    axis.set(xlabel="width d of the hidden layer", ylabel="least loss / ‖Y‖²", title="A wider net pays less for noise")
    axis.set_ylim(0, None)
    return figure


def balance(runs: list[Run], few: list[FewBlocks]) -> Figure:
    """Balanced blocks at the end of training, and cases where few blocks leave a gap above the bound."""
    figure, axes = panels(1, 2, width=4.6, height=3.0)
    at = np.arange(len(runs))
    axes[0, 0].bar(at - 0.2, [run.spread[0] for run in runs], 0.4, color=SOFT, label="at the start")
    axes[0, 0].bar(at + 0.2, [run.spread[1] for run in runs], 0.4, color=BLUE, label="after training")
    axes[0, 0].set_xticks(at, [f"{run.theta:g}\n{run.block}" for run in runs])
    axes[0, 0].set(title="how unequal the blocks are", xlabel="θ (above), block (below)", ylabel="sd / mean of norms")
    axes[0, 0].legend(frameon=False, fontsize=8.5)
    for axis in axes[0]:
        axis.set_axisbelow(True)
    axes[0, 1].bar([one.k for one in few], [100 * one.gap for one in few], color=COLOURS[1])
    axes[0, 1].set(title="least loss above the bound", xlabel="number of blocks (block 3)", ylabel="gap, % of the loss")
    return figure


def last_layer(widths: list[int], found: Matrix, by_d: Matrix, printed: float) -> Figure:
    figure, axes = panels(1, 1, width=9.0, height=2.8)
    axis = axes[0, 0]
    axis.plot(widths, found, color=BLUE, marker="o", linestyle="none", label="least loss found")
    axis.plot(widths, by_d, color=COLOURS[2], label="(1−θ)/(θd)·‖A‖*² (corrected)")
    axis.axhline(printed, color=COLOURS[4], linestyle="--", label="(1−θ)/θ·‖A‖*² (as printed)")
    axis.set(xlabel="width d of the last hidden layer", ylabel="loss", title="A net that can do anything")
    axis.set_ylim(0, None)
    axis.legend(frameon=False, fontsize=8.5)
    return figure


def connect(found: list[Connect]) -> Figure:
    """Figures 3 and 6: DropConnect against its exact mean (top) and against dropout (bottom)."""
    figure, axes = panels(2, len(found), width=3.3, height=2.7)
    for column, c in enumerate(found):
        top, bottom = axes[0, column], axes[1, column]
        top.plot(c.trace.steps, c.trace.stochastic, color=COLOURS[1], linewidth=0.7, label="DropConnect, one mask")
        top.plot(c.trace.steps, c.trace.deterministic, color=BLUE, label="formula (corrected)")
        last = c.trace.steps[-1], float(c.trace.deterministic[-1]) * c.misread
        top.plot(*last, color=COLOURS[4], marker="x", linestyle="none", label="formula as printed, at the end")
        bottom.plot(c.trace.steps, c.trace.deterministic / c.best.value, color=BLUE, label="DropConnect")
        bottom.plot(c.dropout.steps, c.dropout.deterministic / c.best.value, color=COLOURS[3], label="dropout")
        bottom.axhline(1.0, color=COLOURS[4], linestyle="--", linewidth=1.2, label="least of DropConnect")
        bottom.set_ylim(0.95, 1.8)
        _along_steps(bottom, f"dropout / DropConnect: {c.apart:.3f}")
        _logarithmic(top, f"inputs {c.inputs}, θ = {c.theta:g}")
    axes[0, 0].set_ylabel("loss")
    axes[1, 0].set_ylabel("mean loss / least of DropConnect")
    for axis in axes[:, 0]:
        axis.legend(frameon=False, fontsize=8)
    return figure


def anywhere(found: list[Anywhere], theta: float) -> Figure:
    """Figure 4: blocks on a grid and blocks anywhere."""
    figure, axes = panels(1, 2, width=4.8, height=3.1)
    colours = dict(zip([way.name for way in found], COLOURS, strict=False))
    for way in found:
        if way.trace is not None:
            label = way.name.replace("anywhere, ", "anywhere,\n")
            style = {"linewidth": 3.5} if way is found[0] else {"linestyle": "--"}  # others may lie on the first
            axes[0, 0].plot(way.trace.steps, way.trace.deterministic, color=colours[way.name], label=label, **style)
    _logarithmic(axes[0, 0], "training, θ = " + f"{theta:g}")
    axes[0, 0].set_ylabel("mean loss over masks")
    axes[0, 0].legend(frameon=False, fontsize=8)
    at = np.arange(len(found))
    axes[0, 1].barh(at, [way.kept for way in found], color=[colours[way.name] for way in found])
    axes[0, 1].axvline(theta, color=SOFT, linestyle="--", linewidth=1.2)
    axes[0, 1].set_yticks(at, [way.name.replace("anywhere, ", "anywhere,\n") for way in found], fontsize=8.5)
    axes[0, 1].invert_yaxis()
    axes[0, 1].set_axisbelow(True)
    axes[0, 1].set(title="how often a unit is kept (wanted: dashed)", xlabel="share")
    return figure


def deep(found: list[Deep]) -> Figure:
    """Figure 2: the loss of the whole net against the bound, and the singular values it ends with."""
    figure, axes = panels(len(found), 2, width=4.6, height=2.8)
    for row, d in zip(axes, found, strict=True):
        row[0].plot(np.arange(len(d.losses)), d.losses, color=BLUE, label="residual net with DropBlock")
        row[0].axhline(d.bound, color=COLOURS[4], linestyle="--", linewidth=1.4, label="bound")
        _logarithmic(row[0], d.name)
        row[0].set_ylabel("mean loss over masks")
        n = np.arange(1, len(d.predicted) + 1)
        row[1].plot(n, d.targets, color=SOFT, linestyle=":", label="of the targets")
        row[1].plot(n, d.predicted, color=COLOURS[4], linestyle="--", label="predicted by the theorem")
        row[1].plot(n, d.singular[: len(n)], color=BLUE, marker="o", markersize=4, linestyle="none", label="of the net")
        row[1].set(title="singular values", xlabel="by size")
        row[1].set_ylim(0, None)
    for axis in axes[0]:
        axis.legend(frameon=False, fontsize=8)
    return figure


def _logarithmic(axis: Any, title: str) -> None:
    log_scale(axis)
    _along_steps(axis, title)


def _along_steps(axis: Any, title: str) -> None:
    axis.set(title=title, xlabel="step")
    axis.xaxis.set_major_formatter(lambda value, _: tick_text(value) if value else "0")
