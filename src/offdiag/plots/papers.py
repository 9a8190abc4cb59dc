"""Figures of the theory papers, with matplotlib (the extra ``plot``): one style for all, PNG and SVG files."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from offdiag.errors import OffdiagError
from offdiag.plots.svg import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from offdiag.models.spectral import Spectral

COLOURS = tuple(LIGHT[f"c{n}"] for n in (1, 2, 3, 4, 5, 0))
STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so figures look the same everywhere
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": LIGHT["soft"],
    "axes.labelcolor": LIGHT["ink"],
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "grid.color": LIGHT["grid"],
    "xtick.color": LIGHT["soft"],
    "ytick.color": LIGHT["soft"],
    "text.color": LIGHT["ink"],
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.hashsalt": "offdiag",  # the same figure gives the same file
}


def panels(rows: int, columns: int, *, width: float = 3.4, height: float = 2.7) -> tuple[Figure, Any]:
    """A figure of rows × columns axes (always a 2-D array), in the common style; no window, no global state.

    The style applies to the axes made here; draw with the methods of the axes and the colours of ``COLOURS``.
    """
    matplotlib = load_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(rows, columns, squeeze=False)
    return figure, axes


def lines(axes: Axes, x: Any, series: dict[str, Any], **kwargs: Any) -> None:
    """One line per name in the legend."""
    for n, (name, y) in enumerate(series.items()):
        axes.plot(x, y, label=name, color=COLOURS[n % len(COLOURS)], **kwargs)
    axes.legend(frameon=False, fontsize=8.5)


def log_scale(axis: Any) -> None:
    """A logarithmic y axis with at least two labelled ticks, also when it spans less than a decade."""
    load_matplotlib()
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    axis.set_yscale("log")
    low, high = axis.get_ylim()
    decades = math.log10(high / low)
    steps = (1.0,) if decades > 3 else (1.0, 3.0) if decades > 1.5 else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    axis.yaxis.set_major_locator(LogLocator(subs=steps, numticks=12))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value)))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_minor_formatter(NullFormatter())


def tick_text(value: float) -> str:
    """A short number: 0.02, 300, 50k, 2M, 1.5G."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


def shrinkages(model: Spectral, shrinks: Sequence[Any]) -> Figure:
    """How much of each component each shrinkage keeps, for a fitted Spectral model; largest component first."""
    figure, axes = panels(1, 1, width=6.8, height=3.4)
    axis = axes[0, 0]
    for n, shrink in enumerate(shrinks):
        other = model.with_shrink(shrink)
        kept: Any = other.weights_
        label = other.settings_["shrink"].split(",start")[0].replace(":", " ").replace(",", ", ")
        label = re.sub(r"\d+\.\d{3,}", lambda digits: f"{float(digits[0]):.3g}", label)
        axis.plot(range(1, len(kept.shrink) + 1), kept.shrink, label=label, color=COLOURS[n % len(COLOURS)])
    axis.set_xlabel("component, the largest first")
    axis.set_ylabel("share that is kept, f(σ)")
    axis.set_ylim(bottom=0)
    axis.legend(frameon=False, fontsize=8.5)
    return figure


def rendered(figure: Figure, suffix: str) -> bytes:
    """The figure as the bytes of a "png" or "svg" file, without a date."""
    matplotlib = load_matplotlib()
    out = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        for axis in figure.axes:  # titles drawn outside of this style are centred; move them to the left
            if text := axis.get_title(loc="center"):
                axis.set_title("", loc="center")
                axis.set_title(text, loc="left")
        metadata = {"Date": None} if suffix == "svg" else {"Software": None}
        figure.savefig(out, format=suffix, dpi=140, facecolor="white", metadata=metadata)
    return out.getvalue()


def load_matplotlib() -> Any:
    """The module, or an error that names the extra to install."""
    try:
        import matplotlib
    except ImportError:
        raise OffdiagError("figures need matplotlib: pip install 'offdiag[plot]'") from None
    return matplotlib
