"""What the autopilot tried: accuracy against the time at which it was known."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from offdiag.errors import OffdiagError
from offdiag.plots import svg
from offdiag.plots.results import Z95
from offdiag.plots.svg import WIDTH, Figure, Frame

if TYPE_CHECKING:
    from offdiag.autopilot import Autopilot


BELOW = 324  # where the list of models begins
LINE = 18  # height of a line of the list below the axes


def race(found: Autopilot) -> Figure:
    """A numbered dot per model with its 95 % interval, the best so far as a line, a ring on the chosen one."""
    name = found.metric
    rows = sorted(
        ((row.begun + row.fit_seconds, row, row.result) for row in found.rows if row.result is not None),
        key=lambda one: one[0],
    )
    if not rows:
        raise OffdiagError("expected an autopilot with a measured model, received none")
    spans = [(result.mean[name], _error(result.sem[name])) for _, _, result in rows]
    low, high = min(mean - error for mean, error in spans), max(mean + error for mean, error in spans)
    last = 1.05 * max(rows[-1][0], 1e-9)
    frame = Frame(x=(0.0, last), y=(max(low - 0.1 * (high - low), 0.0), high or 1.0))
    across = svg.ticks_to(rows[-1][0])
    up = [tick for tick in svg.ticks_between(*frame.y) if frame.y[0] <= tick <= frame.y[1]]
    known = [(when, mean) for (when, _, _), (mean, _) in zip(rows, spans, strict=True)]
    out = [
        frame.y_axis(name, [(tick, svg.tick_text(tick, up)) for tick in up]),
        frame.x_axis([(tick, svg.tick_text(tick, across)) for tick in across], "seconds since the start"),
        svg.polyline(_best_so_far(known, frame), 1),
    ]
    half = -(-len(rows) // 2)
    for n, ((when, row, _), (mean, error)) in enumerate(zip(rows, spans, strict=True)):
        x, y, colour = frame.px(when), frame.py(mean), n % svg.COLOURS
        out.append(svg.line(x, frame.py(mean - error), x, frame.py(mean + error), "axis"))
        out.append(svg.dot(x, y, colour, f"{row.family}: {mean:.4f}"))
        if row is found.chosen:
            out.append(svg.ring(x, y))
        out.append(svg.text(x + 6, y - 6, str(n + 1), "soft small"))
        tuned = ", tuned" if row.note.startswith("tuned") else ""
        words = f"{n + 1}  {row.family}{tuned} {mean:.3f}"
        left, below = (0.0 if n < half else WIDTH / 2), BELOW + LINE * (n % half)
        out.append(svg.text(left, below, words, "strong small" if row is found.chosen else "small"))
    label = f"{name} of each model by the time it was known; chosen: {found.chosen.family}"
    return Figure(label, BELOW + LINE * half, "".join(out))


def _best_so_far(points: list[tuple[float, float]], frame: Frame) -> list[tuple[float, float]]:
    """Steps, from the first model to the right edge."""
    best = -math.inf
    steps: list[tuple[float, float]] = []
    for when, mean in points:
        if mean > best:
            steps += [(frame.px(when), frame.py(best))] * bool(steps)
            best = mean
            steps.append((frame.px(when), frame.py(best)))
    return [*steps, (frame.right, frame.py(best))]


def _error(sem: float) -> float:
    return Z95 * sem if math.isfinite(sem) else 0.0
