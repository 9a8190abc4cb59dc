"""The figures of [Mianjy18], and two more for its theorems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from offdiag.lab import landscape
from offdiag.lab.checks import Matrix
from offdiag.papers.mianjy2018.measure import FIGURE_1, LAMBDAS, Shrinkage, drop_of
from offdiag.papers.mianjy2018.surface import Curvature
from offdiag.papers.mianjy2018.training import Toy, Training
from offdiag.plots import papers
from offdiag.plots.papers import COLOURS, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _styled(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Apply the common style to titles and labels set by ``draw``, too."""

    @wraps(draw)
    def styled(*arguments: Any) -> Figure:
        with papers.load_matplotlib().rc_context(papers.STYLE):
            return draw(*arguments)

    return styled


@_styled
def landscapes(m: float = 2.0) -> Figure:
    """Figure 1: the surface of a scalar with two tied units, from the side and from above, for three λ."""
    figure, axes = panels(2, len(FIGURE_1), width=3.2, height=3.0)
    for n, lam in enumerate(FIGURE_1):
        found = landscape.contours(m, drop_of(lam), reach=2.0)
        axes[0, n].remove()
        side: Any = figure.add_subplot(2, len(FIGURE_1), n + 1, projection="3d")
        side.plot_surface(*_bowl(m, lam), cmap="viridis", linewidth=0, rcount=36, ccount=72)
        side.set(zlim=(0, 1.5 * m**2), title=f"λ = {lam:g}", xlabel="w₁", ylabel="w₂", xlim=(-2, 2), ylim=(-2, 2))
        side.view_init(elev=50, azim=-65)
        side.set(xticks=(-2, 0, 2), yticks=(-2, 0, 2))
        side.tick_params(labelsize=7)
        _contours(axes[1, n], found)
        axes[1, n].set(xlabel="w₁", ylabel="w₂")
    return figure


def _bowl(m: float, lam: float) -> tuple[Matrix, Matrix, Matrix]:
    """The surface up to 1.5·m², in rings around the origin, so that its rim is smooth."""
    angle = np.linspace(0, 2 * np.pi, 145)
    bend = 1 + lam * (np.cos(angle) ** 4 + np.sin(angle) ** 4)
    rim = np.sqrt((m + np.sqrt(m**2 + bend * m**2 / 2)) / bend)  # where (m − ρ²)² + (bend − 1)·ρ⁴ = 1.5·m²
    radius = np.linspace(0, 1, 50)[:, None] * rim
    x, y = radius * np.cos(angle), radius * np.sin(angle)
    return x, y, (m - x**2 - y**2) ** 2 + lam * (x**4 + y**4)


@_styled
def traces(toys: Sequence[Toy]) -> Figure:
    """Figure 2: two runs of dropout over the contours of a scalar, for three λ."""
    figure, axes = panels(1, len(toys), width=3.3, height=3.4)
    for axis, toy in zip(axes[0], toys, strict=True):
        _contours(axis, toy.contours, marks=False)
        for trace, colour in zip(toy.traces, (COLOURS[0], COLOURS[3]), strict=True):
            assert trace.path is not None
            path = trace.path[0, :, 0]
            axis.plot(path[:, 0], path[:, 1], color=colour, linewidth=1.0)
            axis.plot(*path[0], "o", color="#c0392b", markersize=7, zorder=5)
        for w in toy.contours.minima:
            axis.plot(*w, "o", color="#1e8449", markersize=7, zorder=5)
        axis.set(title=f"λ = {toy.lam:g}", xlabel="w₁", ylabel="w₂")
    return figure


@_styled
def convergence(trainings: Sequence[Training]) -> Figure:
    """Figure 3: objective of the iterates against the closed form, and the variance of the norm products."""
    widths = sorted({t.width for t in trainings})
    figure, axes = panels(len(widths), len(LAMBDAS) + 1, width=3.0, height=2.6)
    for row, width in enumerate(widths):
        group = [t for t in trainings if t.width == width]
        for axis, t in zip(axes[row], group, strict=False):
            values = t.trace.objectives
            axis.fill_between(t.trace.steps, values.min(axis=0), values.max(axis=0), color=COLOURS[0], alpha=0.2, lw=0)
            axis.plot(t.trace.steps, t.objective, color=COLOURS[0], label="dropout")
            axis.axhline(t.best.value, color="#c0392b", linewidth=1.4, label="closed form")
            axis.set(title=f"width {width}, λ = {t.lam:g}", xlabel="step", ylabel="exact objective")
            papers.log_scale(axis)
            _thousands(axis)
        axes[row, 0].legend(frameon=False, fontsize=8.5)
        last = axes[row, -1]
        for t, colour in zip(group, COLOURS, strict=False):
            last.plot(t.trace.steps, t.variance, color=colour, label=f"λ = {t.lam:g}")
        last.set(title=f"width {width}, variance of ‖u‖‖v‖", xlabel="step")
        papers.log_scale(last)
        last.legend(frameon=False, fontsize=8.5)
        _thousands(last)
    return figure


@_styled
def shrinkage(found: Shrinkage) -> Figure:
    """Theorem 3.6: how much is left of each singular value, and how many are left, by λ."""
    figure, axes = panels(1, 2, width=4.6, height=3.0)
    left, right = axes[0]
    index = np.arange(1, len(found.sigma) + 1)
    left.plot(index, found.sigma, color=COLOURS[-1], label="M", linewidth=1.2)
    for (lam, kept), colour in zip(found.left.items(), COLOURS, strict=False):
        left.plot(index, kept, color=colour, label=f"λ = {lam:g}")
    left.set(title="singular values, width 20", xlabel="place")
    left.legend(frameon=False, fontsize=8.5)
    right.step(found.lambdas, found.ranks, color=COLOURS[0], where="mid")
    right.set(title="rank of the optimum", xscale="log", xlabel="λ", ylim=(0, 21))
    return figure


@_styled
def curvature(found: Curvature) -> Figure:
    """Theorem 4.3: the flattest descent direction of any saddle, below and above the bound."""
    figure, axes = panels(1, 1, width=6.0, height=3.0)
    axis = axes[0, 0]
    axis.plot(found.multiples, found.flattest, "o-", color=COLOURS[0], label="flattest saddle")
    axis.axhline(0, color=COLOURS[-1], linewidth=1)
    axis.axvline(1, color="#c0392b", linewidth=1, linestyle="--", label="bound of Theorem 4.3")
    axis.set(
        xscale="log",
        xlabel="λ as a multiple of the bound",
        ylabel="smallest eigenvalue / ‖M‖",
        title="every saddle has a way down, on both sides of the bound",
    )
    axis.legend(frameon=False, fontsize=8.5)
    return figure


def _contours(axis: Any, found: landscape.Contours, marks: bool = True) -> None:
    lowest = float(found.values.min())
    levels = lowest + 9 * np.linspace(0, 1, 15)[1:] ** 2
    axis.contour(found.w, found.w, found.values, levels=levels, cmap="viridis", linewidths=0.8)
    axis.set_aspect("equal")
    axis.grid(visible=False)
    if marks:
        axis.plot(*found.minima.T, "o", color="#1e8449", markersize=4 if len(found.minima) > 4 else 7, linestyle="")
        axis.plot(*found.saddles.T, "x", color="#c0392b", markersize=6, linestyle="")
        axis.plot(*found.maxima.T, "^", color=COLOURS[-1], markersize=6, linestyle="")


def _thousands(axis: Any) -> None:
    axis.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value else "0")
