"""Figures of the pages on Pretorius, Kroon & Kamper (2018): arrays in, matplotlib figures out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag.lab import dynamics
from offdiag.papers.pretorius2018.nets import ACTIVATIONS, KINDS, Kind, Pictures, Runs
from offdiag.plots.papers import COLOURS, lines, panels
from offdiag.plots.svg import LIGHT

Array = NDArray[np.float64]
KIND_COLOUR: dict[str, str] = dict(zip(KINDS, COLOURS, strict=False))  # blue, orange, green, as in the paper
_SOFT = COLOURS[-1]
_INK = LIGHT["ink"]


def expected_loss(variances: Array, exact: Array, printed: Array, means: Array, errors: Array) -> Any:
    figure, axes = panels(1, 1, width=5.2, height=3.0)
    at = axes[0, 0]
    lines(at, variances, {"noise term inside 1/2N": exact, "as printed": printed})
    at.errorbar(variances, means, yerr=4 * errors, fmt="o", ms=4, color=COLOURS[2], label="drawn, ± 4 standard errors")
    at.set(
        xlabel="variance of the noise, s²", ylabel="expected loss", yscale="log", title="Only one reading is the mean"
    )
    at.legend(frameon=False, fontsize=8.5)
    return figure


def surfaces(noises: list[float], paths: list[list[Array]]) -> Any:
    """Contours of the scalar loss for λ = 1 with the paths of gradient descent; one list of (points, 2) per noise."""
    figure, axes = panels(1, len(noises), width=3.3, height=3.2)
    grid = np.linspace(-1.6, 1.6, 97)
    a, b = np.meshgrid(grid, grid)
    for at, eps, ways in zip(axes[0], noises, paths, strict=True):
        loss = 0.5 * (1 - a * b) ** 2 + eps / 2 * (a * b) ** 2
        at.contourf(a, b, np.log10(loss - loss.min() + 1e-3), levels=12, cmap="Greys_r", alpha=0.55)
        at.contour(a, b, a * b, levels=[1 / (1 + eps)], colors=[COLOURS[4]], linewidths=1.6)
        for way in ways:
            at.plot(way[:, 0], way[:, 1], color=COLOURS[2], lw=1.3)
            at.plot(*way[0], "o", ms=3, color=COLOURS[2])
            at.plot(*way[-1], "s", ms=4, color=COLOURS[1])
        at.set(title=f"noise ε = {eps:g}", xlabel="w1", aspect="equal", xlim=(-1.6, 1.6), ylim=(-1.6, 1.6))
        at.grid(visible=False)
    axes[0, 0].set_ylabel("w2")
    return figure


def by_eigenvalue(t: Array, eigenvalues: Array, curves: dict[str, Array], dots: dict[str, tuple[Array, Array]]) -> Any:
    """One panel per kind of net; lines are closed forms (times, eigenvalues), dots an ODE solver."""
    figure, axes = panels(1, len(curves))
    for at, (kind, values) in zip(axes[0], curves.items(), strict=True):
        for n, lam in enumerate(eigenvalues):
            at.plot(t, values[:, n], color=COLOURS[n % 5], label=f"λ = {lam:g}")
            at.plot(dots[kind][0], dots[kind][1][:, n], "o", ms=3, color=COLOURS[n % 5])
        at.set(title=kind, xlabel="t/τ", ylim=(-0.03, 1.06))
    axes[0, 0].set_ylabel("learnt share w(t)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=8.5)
    return figure


def decay(t: Array, ours: Array, printed: Array, truth: Array, lam: float, unequal: tuple[Array, Array, Array]) -> Any:
    figure, axes = panels(1, 2, width=3.9)
    at = axes[0, 0]
    lines(at, t, {"with λ in the exponent": ours, "as printed": printed})
    at.plot(t[::6], truth[::6], "o", ms=3.5, color=COLOURS[2], label="ODE solver")
    at.set(title=f"Weight decay, λ = {lam:g}", xlabel="t/τ", ylabel="w(t)")
    at.legend(frameon=False, fontsize=8.5)
    names = ("from w1·w2", "from ((w1 + w2)/2)²")
    lines(axes[0, 1], t, dict(zip(names, unequal[1:], strict=True)))
    axes[0, 1].plot(t[::6], unequal[0][::6], "o", ms=3.5, color=COLOURS[2], label="ODE solver")
    axes[0, 1].set(title="Started from unequal weights", xlabel="t/τ")
    axes[0, 1].legend(frameon=False, fontsize=8.5, loc="lower right")
    return figure


def ends(eigenvalues: Array, noise: float, at_one: float, t: Array, curves: dict[str, Array]) -> Any:
    figure, axes = panels(1, 2, width=3.9)
    left, right = axes[0]
    equal = dynamics.equivalent_decay(at_one, noise)
    left.plot(eigenvalues, dynamics.dae_fixed_point(eigenvalues, noise), color=KIND_COLOUR["DAE"], label="DAE")
    left.plot(eigenvalues, dynamics.wdae_fixed_point(eigenvalues, equal), color=KIND_COLOUR["WDAE"], label="WDAE")
    left.axvline(at_one, color=_SOFT, lw=1, ls=":")
    left.set(xscale="log", xlabel="eigenvalue λ", ylabel="where w ends", title="Equal in one direction only")
    left.legend(frameon=False, fontsize=8.5)
    for kind, values in curves.items():
        right.plot(t, values, color=KIND_COLOUR[kind], label=kind)
    right.set(xlabel="t/τ", ylabel="w(t)", title=f"The direction where they agree, λ = {at_one:g}")
    right.legend(frameon=False, fontsize=8.5)
    return figure


def rates(noises: Array, dae: Array, wdae: Array, steps: dict[str, Array]) -> Any:
    figure, axes = panels(1, 2, width=3.9)
    left, right = axes[0]
    left.plot(noises, dae, color=KIND_COLOUR["DAE"], label="DAE, N/(2λ + 3ε)")
    left.plot(noises, wdae, color=KIND_COLOUR["WDAE"], label="WDAE, N/(2λ + Nγ)")
    left.set(xlabel="noise ε (λ = 1)", ylabel="α/N", title="Rates that the paper calls optimal")
    left.legend(frameon=False, fontsize=8.5)
    looks = [(KIND_COLOUR["DAE"], "-"), (KIND_COLOUR["WDAE"], "--"), (COLOURS[3], "-")]  # the first two coincide
    for (name, values), (colour, dashes) in zip(steps.items(), looks, strict=True):
        right.plot(noises, values, color=colour, ls=dashes, label=name)
    right.set(xlabel="noise ε (λ = 1)", ylabel="steps to within 1 % of the end", title="Steps that they need")
    right.legend(frameon=False, fontsize=8.5)
    return figure


def whole_net(found: dict[str, Any], theory: dict[str, Array]) -> Any:
    figure, axes = panels(1, len(found))
    for at, (kind, descent) in zip(axes[0], found.items(), strict=True):
        for n in range(theory[kind].shape[1]):
            at.plot(descent.steps, theory[kind][:, n], color=COLOURS[n % 5], lw=1.4)
            at.plot(descent.steps[::4], descent.values[::4, n], "o", ms=3.2, color=COLOURS[n % 5])
        at.set(title=kind, xlabel="steps", ylim=(-0.03, 1.06))
    axes[0, 0].set_ylabel("learnt share of a direction")
    return figure


def learning(data: Pictures, runs: Runs, theory: dict[Kind, Array]) -> Any:
    """A panel per activation; leading directions 1, 2, 4 and 8, darker for the larger ones, over the epochs."""
    figure, axes = panels(1, len(ACTIVATIONS), width=3.6, height=3.0)
    shown = [0, 1, 3, 7]
    for at, activation in zip(axes[0], ACTIVATIONS, strict=True):
        for kind in KINDS:
            run = runs[activation, kind]
            epochs = run.steps / data.sizes.steps_per_epoch
            for rank, mode in enumerate(shown):
                values = run.values[:, :, mode]
                look = {"color": KIND_COLOUR[kind], "alpha": 1 - 0.2 * rank}
                at.plot(epochs, values.mean(axis=0), lw=1.6, label=kind if rank == 0 else None, **look)
                at.fill_between(epochs, values.min(axis=0), values.max(axis=0), lw=0, color=look["color"], alpha=0.25)
                ink = _INK if activation == "linear" else KIND_COLOUR[kind]  # there the dots lie on the lines
                at.plot(epochs, theory[kind][:, :, mode].mean(axis=0), color=ink, lw=0.9, ls=":")
        at.set_xscale("function", functions=(np.sqrt, np.square))  # room for the rise, which is early
        at.set(title={"relu": "ReLU"}.get(activation, activation), xlabel="epochs, square-root axis")
        at.set(xticks=data.sizes.epochs * np.linspace(0, 1, 5) ** 2, xlim=(0, data.sizes.epochs), ylim=(-0.05, 1.1))
        at.xaxis.set_major_formatter("{x:.3g}")
    axes[0, 0].plot([], [], color=_INK, lw=0.9, ls=":", label="theory\n(linear)")
    axes[0, 0].set_ylabel("estimated share learnt")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=8.5)
    what, _, run_of = data.words.partition(" pixels")
    figure.suptitle(
        f"Learning {what} pixels{run_of.partition(', ')[0]}: directions 1, 2, 4 and 8; mean and range of "
        f"{data.sizes.seeds} seeds",
        fontsize=10.5,
    )
    return figure
