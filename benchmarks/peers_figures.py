"""Two figures of the comparison with other packages: accuracy against fit time, and against memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from offdiag.plots import svg
from offdiag.plots.results import Z95
from offdiag.plots.svg import WIDTH, Figure, Frame

BELOW, LINE = 324, 18  # where the list of models begins, and the height of a line of it
OURS, THEIRS = 1, 2  # colours
SHOWN = 0.6  # of the best: rows below would squeeze all others into a line; they are in the table


def scatter(rows: dict[str, Any], cost: Callable[[Any], float], title: str, metric: str) -> Figure:
    """A numbered dot per model with its 95 % interval; x is the cost of a row on a logarithmic axis."""
    ordered = sorted(rows.items(), key=lambda pair: -pair[1]["mean"][metric])
    top = ordered[0][1]["mean"][metric]
    ordered = [pair for pair in ordered if pair[1]["mean"][metric] >= SHOWN * top]
    places = [math.log10(max(cost(row), 1e-3)) for _, row in ordered]
    spans = [(row["mean"][metric], Z95 * row["sem"][metric]) for _, row in ordered]
    low, high = min(m - e for m, e in spans), max(m + e for m, e in spans)
    frame = Frame(x=(math.floor(min(places)), math.ceil(max(places) + 1e-9)), y=(low, high))
    up = [tick for tick in svg.ticks_between(low, high) if low <= tick <= high]
    decades = range(int(frame.x[0]), int(frame.x[1]) + 1)
    out = [
        frame.y_axis(metric, [(tick, svg.tick_text(tick, up)) for tick in up]),
        frame.x_axis([(n, f"{10.0**n:g}") for n in decades], f"{title} (log scale)"),
    ]
    half = -(-len(ordered) // 2)
    for n, ((name, row), place, (mean, error)) in enumerate(zip(ordered, places, spans, strict=True)):
        x, y, ours = frame.px(place), frame.py(mean), row["package"] == "offdiag"
        out.append(svg.line(x, frame.py(mean - error), x, frame.py(mean + error), "axis"))
        out.append(svg.mark(x, y, "circle" if ours else "square", OURS if ours else THEIRS, f"{name}: {mean:.4f}"))
        out.append(svg.text(x + 6, y - 6 if n % 2 else y + 14, str(n + 1), "soft small"))
        left, below = (0.0 if n < half else WIDTH / 2), BELOW + LINE * (n % half)
        words = svg.short(f"{n + 1}  {name}", WIDTH / 2 - 8, 12)
        out.append(svg.text(left, below, words, "strong small" if ours else "small"))
    return Figure(f"{metric} against {title}; circles are models of offdiag", BELOW + LINE * half, "".join(out))
