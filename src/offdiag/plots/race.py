"""What the autopilot tried: accuracy against the time at which it was known."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from offdiag.errors import OffdiagError
from offdiag.plots import svg
from offdiag.plots.results import Z95
from offdiag.plots.svg import Figure, Frame

if TYPE_CHECKING:
    from offdiag.autopilot import Autopilot


def race(found: Autopilot) -> Figure:
    """A dot per model with its 95 % interval; a line for the best so far, and a ring for the chosen one."""
    name = found.metric
    rows = sorted(
        ((row.begun + row.fit_seconds, row, row.result) for row in found.rows if row.result is not None),
        key=lambda one: one[0],
    )
    if not rows:
        raise OffdiagError("expected an autopilot with a measured model, received none")
    top = max(result.mean[name] + _error(result.sem[name]) for _, _, result in rows)
    last = max(rows[-1][0], 1e-9)
    frame = Frame(x=(0.0, 1.05 * last), y=(0, top or 1.0))
    ticks = svg.ticks_to(last)
    out = [
        frame.y_axis(name),
        frame.x_axis([(tick, svg.tick_text(tick, ticks)) for tick in ticks], "seconds since the start"),
    ]
    best = -math.inf
    steps: list[tuple[float, float]] = []
    for when, _, result in rows:
        if result.mean[name] > best:
            if steps:
                steps.append((frame.px(when), frame.py(best)))
            best = result.mean[name]
            steps.append((frame.px(when), frame.py(best)))
    out.append(svg.polyline([*steps, (frame.px(1.05 * last), frame.py(best))], 1))
    for n, (when, row, result) in enumerate(rows):
        x, y, error = frame.px(when), frame.py(result.mean[name]), _error(result.sem[name])
        low, high = frame.py(max(result.mean[name] - error, 0)), frame.py(result.mean[name] + error)
        out.append(svg.line(x, low, x, high, "axis"))
        out.append(svg.dot(x, y, n % svg.COLOURS, f"{row.family}: {result.mean[name]:.4f}"))
        if row is found.chosen:
            out.append(svg.ring(x, y))
        right = x > (frame.px(0) + frame.px(last)) / 2
        out.append(svg.text(x + (-9 if right else 9), y + 4, row.family, "end soft" if right else "soft"))
    label = f"{name} of each model by the time it was known; chosen: {found.chosen.family}"
    return Figure(label, 304, "".join(out))


def _error(sem: float) -> float:
    return Z95 * sem if math.isfinite(sem) else 0.0
