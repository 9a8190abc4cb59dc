"""How a model ages: its accuracy after a cut in time, as it was fitted and kept up to date."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from offdiag.plots import svg
from offdiag.plots.results import DASHES, Z95
from offdiag.plots.svg import Figure, Frame

if TYPE_CHECKING:
    from offdiag.over_time import OverTime

LINES = ("kept up to date", "as fitted")  # named by colour: 1, 2
SHOWN = 12  # labels of the axis


def ageing(over_time: OverTime, metric: str | None = None) -> Figure:
    """A line for the model as it was fitted and one for the same model kept up to date, with 95 % intervals.

    The gap between the two is what not refitting costs; a dashed line marks the age from which it is certain.
    """
    after, name = over_time.refit_after(metric), metric or over_time.metrics[0]
    ages = [period.age for period in over_time.periods]
    results = [[getattr(period, kind) for period in over_time.periods] for kind in ("updated", "as_fitted")]
    errors = [[_error(result.sem[name]) for result in line] for line in results]
    top = max(
        result.mean[name] + e
        for line, es in zip(results, errors, strict=True)
        for result, e in zip(line, es, strict=True)
    )
    frame = Frame(x=(ages[0], ages[-1]), y=(0, top or 1.0))
    every = max(1, math.ceil(len(ages) / SHOWN))
    out = [
        svg.legend(LINES, lambda n, x: svg.stroke_sample(x, n + 1, DASHES[n])),
        frame.y_axis(name),
        frame.x_axis([(age, str(age)) for age in ages[::every]], "periods since the fit"),
    ]
    if after is not None:
        out.append(svg.line(frame.px(after), frame.top, frame.px(after), frame.bottom, "axis", dash="3 3"))
    for n, (label, line, error) in enumerate(zip(LINES, results, errors, strict=True)):
        colour = n + 1
        means = [result.mean[name] for result in line]
        band = [(frame.px(a), frame.py(m + e)) for a, m, e in zip(ages, means, error, strict=True)]
        band += [
            (frame.px(a), frame.py(max(m - e, 0))) for a, m, e in reversed([*zip(ages, means, error, strict=True)])
        ]
        points = [(frame.px(a), frame.py(m)) for a, m in zip(ages, means, strict=True)]
        out += [svg.polygon(band, colour, 0.12), svg.polyline(points, colour, dash=DASHES[n])]
        out += [
            svg.dot(x, y, colour, f"{label}, period {a}: {m:.4f}", r=3)
            for (x, y), a, m in zip(points, ages, means, strict=True)
        ]
    label = f"{name} of {over_time.model} by the age of the model: {over_time.verdict(metric)}"
    return Figure(label, 304, "".join(out))


def _error(sem: float) -> float:
    return Z95 * sem if math.isfinite(sem) else 0.0
