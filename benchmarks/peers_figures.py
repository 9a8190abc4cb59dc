"""Two figures of the comparison with other packages: accuracy against fit time, and against memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from offdiag.plots import svg
from offdiag.plots.results import Z95
from offdiag.plots.svg import WIDTH, Figure, Frame

Box = tuple[float, float, float, float]  # left, top, right, bottom
BELOW, LINE = 324, 18  # where the list of models begins, and the height of a line of it
OURS, THEIRS = 1, 2  # colours
SHOWN = 0.9  # of the best: rows below would squeeze all others into a line; they are in the table
DOT, GAP, HEIGHT = 5.0, 12.0, 12.0  # half a dot, from its centre to the nearest label, height of a label


def scatter(rows: dict[str, Any], cost: Callable[[Any], float], title: str, metric: str) -> Figure:
    """A numbered dot per model; x is the cost of a row on a logarithmic axis.

    Bars are 95 % intervals of the paired difference to the reference, whose accuracy is the dashed line.
    """
    ordered = sorted(rows.items(), key=lambda pair: -pair[1]["mean"][metric])
    top = ordered[0][1]["mean"][metric]
    ordered = [pair for pair in ordered if pair[1]["mean"][metric] >= SHOWN * top]
    places = [math.log10(max(cost(row), 1e-3)) for _, row in ordered]
    spans = [(row["mean"][metric], Z95 * row.get("difference_sem", 0.0)) for _, row in ordered]
    low, high = min(m - e for m, e in spans), max(m + e for m, e in spans)
    frame = Frame(x=(math.floor(min(places)), math.ceil(max(places) + 1e-9)), y=(low, high))
    up = [tick for tick in svg.ticks_between(low, high) if low <= tick <= high]
    decades = range(int(frame.x[0]), int(frame.x[1]) + 1)
    out = [
        frame.y_axis(metric, [(tick, svg.tick_text(tick, up)) for tick in up]),
        frame.x_axis([(n, f"{10.0**n:g}") for n in decades], f"{title} (log scale)"),
    ]
    dots = [(frame.px(place), frame.py(mean)) for place, (mean, _) in zip(places, spans, strict=True)]
    lines = [(x, frame.py(m + e), x, frame.py(m - e)) for (x, _), (m, e) in zip(dots, spans, strict=True)]
    out += [svg.line(*ends, "axis") for ends in lines]
    for (_, row), (_, y) in zip(ordered, dots, strict=True):
        if row.get("is_reference"):
            lines.append((frame.left, y, frame.right, y))
            out.append(svg.line(*lines[-1], "axis", dash="4 4"))
    labels = label_places(dots, [svg.text_width(str(n + 1), 12) for n in range(len(dots))], lines, frame)
    for n, ((name, row), (x, y), (at, below)) in enumerate(zip(ordered, dots, labels, strict=True)):
        ours = row["package"] == "offdiag"
        if math.hypot(at - x, below - HEIGHT / 3 - y) > 1.5 * GAP:  # far from its dot: a line leads there
            out.append(svg.line(x, y, at, below - HEIGHT / 3, "axis"))
        out.append(
            svg.mark(
                x, y, "circle" if ours else "square", OURS if ours else THEIRS, f"{name}: {row['mean'][metric]:.4f}"
            )
        )
        out.append(svg.text(at, below, str(n + 1), "middle soft small"))
    listed, height = names([(name, row["package"] == "offdiag") for name, row in ordered])
    return Figure(f"{metric} against {title}; circles are models of offdiag", BELOW + height, "".join([*out, listed]))


def names(models: list[tuple[str, bool]]) -> tuple[str, float]:
    """The numbered list below a figure, in two columns if the longest names fit, and its height."""
    words = [f"{n + 1}  {name}" for n, (name, _) in enumerate(models)]
    half = -(-len(words) // 2)
    widths = [max(map(_width, part), default=0.0) for part in (words[:half], words[half:])]
    if sum(widths) + GAP > WIDTH:
        half = len(words)
    right = max(WIDTH / 2, widths[0] + GAP) if widths[0] > WIDTH / 2 - GAP else min(WIDTH / 2, WIDTH - widths[1])
    out = []
    for n, (line, (_, ours)) in enumerate(zip(words, models, strict=True)):
        left, below = (0.0 if n < half else right), BELOW + LINE * (n % half)
        out.append(svg.text(left, below, line, "strong small" if ours else "small"))
    return "".join(out), LINE * half


def _width(line: str) -> float:
    return svg.text_width(line, 12) * 1.06  # bold letters are wider


def label_places(
    dots: list[tuple[float, float]], widths: list[float], lines: list[Box], frame: Frame
) -> list[tuple[float, float]]:
    """Middle and base line of each label: as near to its dot as it gets without touching a dot, a line or a label."""
    taken: list[Box] = [(x - DOT, y - DOT, x + DOT, y + DOT) for x, y in dots]
    taken += [(left - 1, top - 1, right + 1, bottom + 1) for left, top, right, bottom in lines]
    found = []
    for (x, y), width in zip(dots, widths, strict=True):
        boxes = list(_around(x, y, width))
        inside = [
            box for box in boxes if box[0] > frame.left and box[2] < WIDTH and box[1] > 0 and box[3] < frame.bottom
        ]
        free = (box for box in inside if not any(_touch(box, other) for other in taken))
        box = next(free, boxes[0])
        taken.append(box)
        found.append(((box[0] + box[2]) / 2, box[3] - 1))
    return found


def _around(x: float, y: float, width: float) -> Iterator[Box]:
    """Boxes of a label around a dot, the nearest first."""
    for distance in (GAP, 1.5 * GAP, 2 * GAP, 3 * GAP, 4 * GAP, 5 * GAP):
        for angle in (315, 0, 45, 225, 180, 135, 270, 90):  # to the right first, off the vertical bar
            at, middle = x + distance * math.cos(math.radians(angle)), y + distance * math.sin(math.radians(angle))
            yield at - width / 2, middle - HEIGHT / 2, at + width / 2, middle + HEIGHT / 2


def _touch(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
