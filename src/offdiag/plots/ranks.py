"""Figures of low-rank models: accuracy against rank, cosines of similar items, and how much items predict themselves.

The three panels of Figure 1 of [Steck20] and the diagonal behind them, in the style of `plots`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offdiag.errors import OffdiagError
from offdiag.plots import svg
from offdiag.plots.svg import COLOURS, Figure, Frame

if TYPE_CHECKING:
    from offdiag import Result
    from offdiag.diagnostics import RankCurve

MARKS = ("circle", "cross", "plus", "square")  # to distinguish the models in black and white, too
STROKES = ("", "6 3", "2 3", "9 3 2 3")
FULL_RANK = "6 4"
DODGE = 3.0  # between the models at one rank, so that their error bars are side by side


def accuracy(curve: RankCurve, full_rank: Result | None = None, *, colours: Mapping[str, int] | None = None) -> Figure:
    """A metric against rank on a log axis, ± one standard error; a dashed line for the full-rank model."""
    names = curve.models
    if not names:
        raise OffdiagError("a curve needs at least one model at one rank, received none: see accuracy_by_rank")
    colour = _colours(names, colours)
    ends = [(p.mean - _finite(p.sem), p.mean + _finite(p.sem)) for p in curve.points]
    if full_rank is not None:
        ends.append((full_rank.mean[curve.metric],) * 2)
    low, high = min(a for a, _ in ends), max(b for _, b in ends)
    ticks = svg.ticks_between(low, high)
    # The axis need not start at 0, because the differences are small; it starts and ends at a tick.
    bounds = (min(low, ticks[0]), max(high, ticks[-1]))
    spread = (math.log(curve.ranks[0]), math.log(curve.ranks[-1]))
    pad = 0.04 * ((spread[1] - spread[0]) or 1.0)
    frame = Frame(x=(spread[0] - pad, spread[1] + pad), y=bounds)

    def sample(n: int, x: float) -> str:
        if n == len(names):
            return svg.line(x, 8, x + 22, 8, "axis", dash=FULL_RANK)
        shade = colour[names[n]]
        return svg.stroke_sample(x, shade) + svg.mark(x + 11, 8, MARKS[n % len(MARKS)], shade, names[n])

    out = [
        svg.legend([*names, *(() if full_rank is None else ("full rank",))], sample),
        frame.y_axis(curve.metric, [(v, svg.tick_text(v, ticks)) for v in ticks]),
        frame.x_axis([(math.log(r), f"{r:,}") for r in curve.ranks], "rank (log scale)"),
    ]
    if full_rank is not None:
        y = frame.py(full_rank.mean[curve.metric])
        out.append(svg.line(frame.left, y, frame.right, y, "axis", dash=FULL_RANK))
    lines, marks = [], []
    for n, name in enumerate(names):
        shift = DODGE * (n - (len(names) - 1) / 2)
        places = [(frame.px(math.log(p.rank)) + shift, frame.py(p.mean), p) for p in curve.of(name)]
        lines.append(svg.polyline([(x, y) for x, y, _ in places], colour[name]))
        for x, y, point in places:
            title = f"{name}, rank {point.rank:,}: {point.mean:.4f}"
            if math.isfinite(point.sem) and point.sem > 0:
                title += f" ± {point.sem:.4f}"
                top, bottom = frame.py(point.mean + point.sem), frame.py(point.mean - point.sem)
                marks.append(svg.line(x, top, x, bottom, f"line s{colour[name]}", width=1.2))
            marks.append(svg.mark(x, y, MARKS[n % len(MARKS)], colour[name], title))
    return Figure(f"{curve.metric} against rank, for {', '.join(names)}", 304, "".join(out + lines + marks))


def cosines(
    similarities: Mapping[str, tuple[NDArray[np.floating], NDArray[np.floating]]], *, bins: int = 50
) -> dict[str, Figure]:
    """For each model a histogram of the median cosines of its encoder and its decoder, all on the same axes.

    `similarities` maps a model's name to two arrays of `median_cosines`: those of U and those of V.
    """
    parts = {name: {"encoder U": u, "decoder V": v} for name, (u, v) in similarities.items()}
    values = [np.asarray(array) for part in parts.values() for array in part.values()]
    lowest = min([float(np.nanmin(v)) for v in values if np.isfinite(v).any()], default=0.0)
    edges = np.linspace(min(math.floor(10 * lowest) / 10, 0.0), 1.0, bins + 1)
    top = max([float(_shares(v, edges).max(initial=0)) for v in values], default=0.0)
    colour = {"encoder U": 1, "decoder V": 5}
    figures = {}
    for name, part in parts.items():
        label = f"Median cosines between similar items in {name}: " + ", ".join(
            f"{side} {_middle(v)}" for side, v in part.items()
        )
        figures[name] = _histogram(part, edges, top, colour, "median cosine within a group of similar items", label)
    return figures


def diagonals(
    values: Mapping[str, NDArray[np.floating]], *, bins: int = 60, colours: Mapping[str, int] | None = None
) -> Figure:
    """How much each item predicts itself: the distribution of diag(UVᵀ), for one or more models."""
    if not values:
        raise OffdiagError("a figure of diagonals needs at least one model, received none")
    every = np.concatenate([np.asarray(v, dtype=np.float64) for v in values.values()])
    every = every[np.isfinite(every)]
    if not every.size:
        raise OffdiagError("a figure of diagonals needs finite values, received none")
    # A few outliers would squeeze all other items into one bin: the outermost half per cent shares the end bins.
    low, high = (float(q) for q in np.quantile(every, [0.005, 0.995]))
    low, high = min(low, 0.0), max(high, 0.0)
    room = (high - low) or 1.0
    edges = np.linspace(low - 0.03 * room, high + 0.03 * room, bins + 1)
    clipped = {name: np.clip(v, edges[0], edges[-1]) for name, v in values.items()}
    top = max(float(_shares(v, edges).max()) for v in clipped.values())
    label = "Distribution of the diagonal of UVᵀ: " + ", ".join(f"{k} {_middle(v)}" for k, v in values.items())
    colour = _colours(list(values), colours)
    return _histogram(clipped, edges, top, colour, "diagonal entry uᵢ·vᵢ", label)


def _histogram(
    parts: Mapping[str, NDArray[np.floating]],
    edges: NDArray[np.float64],
    top: float,
    colour: Mapping[str, int],
    title: str,
    label: str,
) -> Figure:
    """Overlaid outlines, each lightly filled."""
    frame = Frame(x=(float(edges[0]), float(edges[-1])), y=(0, top or 1.0))
    names = list(parts)
    out = [
        svg.legend(names, lambda n, x: svg.stroke_sample(x, colour[names[n]], STROKES[n % len(STROKES)])),
        frame.y_axis("% of items"),
    ]
    for n, (name, values) in enumerate(parts.items()):
        shares = _shares(values, edges)
        filled = np.flatnonzero(shares)
        if not filled.size:
            continue
        first, last = int(filled[0]), int(filled[-1]) + 1  # no line along the axis over empty bins
        corners = [(frame.px(float(edges[first])), frame.bottom)]
        for low, high, share in zip(edges[first:last], edges[first + 1 : last + 1], shares[first:last], strict=True):
            corners += [(frame.px(float(x)), frame.py(float(share))) for x in (low, high)]
        corners.append((frame.px(float(edges[last])), frame.bottom))
        out.append(svg.polygon(corners, colour[name], 0.14))
        tip = f"{name}: {_middle(values)}"
        out.append(svg.polyline(corners, colour[name], dash=STROKES[n % len(STROKES)], width=1.8, title=tip))
    ticks = svg.ticks_between(float(edges[0]), float(edges[-1]))
    inside = [v for v in ticks if edges[0] - 1e-9 <= v <= edges[-1] + 1e-9]
    out.append(frame.x_axis([(v, svg.tick_text(v, ticks)) for v in inside], title))
    return Figure(label, 304, "".join(out))


def _shares(values: Any, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Per cent of the values in each bin; NaN is in no bin."""
    values = np.asarray(values, dtype=np.float64)
    values = np.clip(values[np.isfinite(values)], edges[0], edges[-1])  # a cosine of 1 + 1e-7 is 1
    shares: NDArray[np.float64] = 100 * np.histogram(values, edges)[0] / max(values.size, 1)
    return shares


def _middle(values: Any) -> str:
    values = np.asarray(values)
    values = values[np.isfinite(values)]
    return f"median {np.median(values):.2f}".replace("-", "−") if values.size else "no value"


def _colours(names: Sequence[str], given: Mapping[str, int] | None) -> dict[str, int]:
    return {name: (given or {}).get(name, n + 1) % COLOURS for n, name in enumerate(names)}


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0
