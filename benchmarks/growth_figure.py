"""docs/growth.svg from results/growth.json: a panel per task and quantity, with the derived slopes."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from offdiag.plots import svg
from offdiag.plots.svg import Figure, Frame

HERE = Path(__file__).parent
FIGURE = HERE.parent / "docs" / "growth.svg"
KINDS = (("seconds", "processor time", "circle", 1), ("bytes", "memory", "square", 2))
AXES = (("items", "items, same interactions"), ("users", "users, same histories"), ("interactions", "longer histories"))
WIDTH, LEFT, RIGHT, GAP, TOP, HEIGHT = 720.0, 36.0, 8.0, 26.0, 54.0, 128.0
DECADES = 4  # shown below the last point


def figure(found: dict[str, Any]) -> Figure:
    wide = (WIDTH - LEFT - RIGHT - 2 * GAP) / 3
    out = [svg.mark(6, 8, KINDS[0][2], 1, ""), svg.text(16, 12.5, "processor time, and as derived (dashed)")]
    out += [svg.mark(366, 8, KINDS[1][2], 2, ""), svg.text(376, 12.5, "peak memory, and as derived (dashed)")]
    out += [svg.text(LEFT + k * (wide + GAP), 36, title, "strong small") for k, (_, title) in enumerate(AXES)]
    for row, task in enumerate(found["tasks"].values()):
        top = TOP + row * HEIGHT
        out.append(svg.text(LEFT, top + 8, task["title"], "small"))
        for column, (axis, _) in enumerate(AXES):
            left = LEFT + column * (wide + GAP)
            out.append(panel(task[axis], top + 12, left, left + wide))
    label = (
        "Time and memory of each task against items, users and interactions, on logarithmic axes, relative to the last"
    )
    return Figure(label, TOP + HEIGHT * len(found["tasks"]), "".join(out), width=WIDTH)


def panel(found: dict[str, Any], top: float, left: float, right: float) -> str:
    xs = np.log10(found["x"])
    frame = Frame(x=(xs[0], xs[-1]), y=(-DECADES, 0.0), top=top, bottom=top + 86, left=left, right=right)
    out = [svg.line(left, frame.py(y), right, frame.py(y), "grid") for y in range(-DECADES, 1)]
    if left == LEFT:
        out += [svg.text(left - 4, frame.py(y) + 4, t, "end soft small") for y, t in ((0, "1"), (-DECADES, "10⁻⁴"))]
    out.append(svg.line(left, frame.bottom, right, frame.bottom, "axis"))
    for x, value in ((xs[0], found["x"][0]), (xs[-1], found["x"][-1])):
        place = "soft small" if x == xs[0] else "end soft small"
        out.append(svg.text(frame.px(x), frame.bottom + 13, f"{value:,.0f}", place))
    for kind, name, shape, colour in KINDS:
        part = found[kind]
        ys = np.log10(np.array(part["y"]) / part["y"][-1])
        derived = np.maximum(np.log10(np.array(part["formula_y"]) / part["y"][-1]), -DECADES)
        ends = [(frame.px(x), frame.py(min(y, 0.0))) for x, y in zip(xs, derived, strict=True)]
        out.append(svg.polyline(ends, colour, dash="3 3", width=1.2))
        inside = [(x, y) for x, y in zip(xs, ys, strict=True) if y >= -DECADES]
        for (x1, y1), (x2, y2) in pairwise(inside):
            out.append(svg.polyline([(frame.px(x1), frame.py(y1)), (frame.px(x2), frame.py(y2))], colour, width=1.6))
        for x, y in inside:
            tip = f"{name}: {10**y * part['y'][-1]:.3g} at {10**x:,.0f}"
            out.append(svg.mark(frame.px(x), frame.py(y), shape, colour, tip))
    return "".join(out)


def draw(found: dict[str, Any]) -> None:
    figure(found).save(FIGURE)


if __name__ == "__main__":
    draw(json.loads((HERE / "results" / "growth.json").read_text(encoding="utf-8")))
