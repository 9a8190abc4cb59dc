"""Figures of results, as small SVG drawings: for notebooks, files and the report, without a plotting library.

Each function returns a `Figure`, which a notebook displays directly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from offdiag.errors import OffdiagError
from offdiag.plots import svg
from offdiag.plots.svg import COLOURS, WIDTH, Figure, Frame

if TYPE_CHECKING:
    from offdiag import Interactions, Result
    from offdiag.ranking import Explanation

LEAST = 0.8  # width of the bar of a value of 0
Z95 = 1.96  # a mean ± 1.96 standard errors is its 95 % interval
# Dashes and marks distinguish lines that coincide.
DASHES = ("", "7 3", "2 3", "", "9 3 2 3", "5 5")


def comparison(results: Mapping[str, Result], metrics: Sequence[str] | None = None, *, width: float = WIDTH) -> Figure:
    """One bar per model and metric, from 0, with the 95 % interval of each mean."""
    names = _models(results)
    shown = _shared(results, metrics)
    left = min(max(svg.text_width(name, svg.SIZE) for name in names) + 10, 170)
    right, row, gap = width - 58, 25, 36
    out, y = [], 4.0
    for metric in shown:
        means = [results[name].mean[metric] for name in names]
        errors = [Z95 * results[name].sem[metric] for name in names]
        top = max(m + (e if math.isfinite(e) else 0) for m, e in zip(means, errors, strict=True)) or 1.0
        scale = (right - left) / top
        out.append(svg.text(0, y + 12, metric, "strong"))
        y += 20
        for n, (name, mean, error) in enumerate(zip(names, means, errors, strict=True)):
            middle = y + row / 2
            out.append(svg.text(left - 8, middle + 4.5, svg.short(name, left - 8), "end"))
            length = max(mean * scale, LEAST)
            out.append(svg.rect(left, y + 4, length, row - 8, f"f{n % COLOURS}", f"{name}: {mean:.4f}", rx=2))
            if math.isfinite(error) and error > 0:
                out.append(svg.whisker(left + (mean - error) * scale, left + (mean + error) * scale, middle))
            out.append(svg.text(width, middle + 4.5, f"{mean:.4f}", "end soft"))
            y += row
        out.append(svg.line(left, y - len(names) * row, left, y, "axis"))
        y += gap - 20
    best = ", ".join(f"{m} best with {max(results, key=lambda name: results[name].mean[m])}" for m in shown)
    return Figure(f"Means with 95 % intervals: {best}", y - gap + 24, "".join(out), width)


def curve(results: Mapping[str, Result], metric: str = "recall_all") -> Figure:
    """A metric against the length k of the list, for the cut-offs at which it was evaluated."""
    names = _models(results)
    cuts = sorted(int(key.partition("@")[2]) for key in _shared(results, None) if key.partition("@")[0] == metric)
    if len(cuts) < 2:
        raise OffdiagError(f"a curve needs {metric}@k at two values of k or more, received {len(cuts)}: evaluate more")
    values = {name: [results[name].mean[f"{metric}@{k}"] for k in cuts] for name in names}
    frame = Frame(x=(math.log(cuts[0]), math.log(cuts[-1])), y=(0, max(map(max, values.values()))))
    out = [
        svg.legend(names, lambda n, x: svg.stroke_sample(x, n % COLOURS, DASHES[n % COLOURS])),
        frame.y_axis(metric.replace("_all", "")),
        frame.x_axis([(math.log(k), str(k)) for k in cuts], "length k of the list (log scale)"),
    ]
    lines, dots = [], []
    for n, name in enumerate(names):
        colour, dash = n % COLOURS, DASHES[n % COLOURS]
        points = [(frame.px(math.log(k)), frame.py(v)) for k, v in zip(cuts, values[name], strict=True)]
        lines.append((bool(dash), svg.polyline(points, colour, dash=dash)))
        dots += [
            svg.dot(x, y, colour, f"{name}, k = {k}: {v:.4f}", r=3.5)
            for (x, y), k, v in zip(points, cuts, values[name], strict=True)
        ]
    # Dots, then lines, the dashed ones last: where two models coincide, both can still be seen.
    out += dots + [line for _, line in sorted(lines, key=lambda pair: pair[0])]
    return Figure(f"{metric} against the length of the list, for {', '.join(names)}", 304, "".join(out))


def distribution(
    results: Mapping[str, Result], metric: str = "ndcg@100", *, models: Sequence[str] | None = None, bins: int = 10
) -> Figure:
    """The number of users by value of the metric: not only the mean, but how many are served well or badly.

    `models` picks some of the results; each keeps the colour it has among all of them.
    """
    colour = {name: n % COLOURS for n, name in enumerate(_models(results))}
    names = list(models) if models else list(colour)
    for name in names:
        if name not in results or metric not in results[name].per_user:
            raise OffdiagError(f"{metric!r} has no value per user in a result of {name}: evaluate it first")
    edges = np.linspace(0, 1, bins + 1)
    shares = {
        name: 100 * np.histogram(results[name].per_user[metric], edges)[0] / max(results[name].n_users, 1)
        for name in names
    }
    frame = Frame(x=(0, 1), y=(0, max(float(s.max()) for s in shares.values())))
    out = [
        svg.legend(names, lambda n, x: svg.rect(x, 2, 12, 12, f"f{colour[names[n]]}", rx=2), lead=18),
        frame.y_axis("% of users"),
    ]
    width = (frame.px(1 / bins) - frame.px(0) - 4) / len(names)
    for n, name in enumerate(names):
        for low, share in zip(edges[:-1], shares[name], strict=True):
            x, y = frame.px(float(low)) + 2 + n * width, frame.py(float(share))
            title = f"{name}: {share:.1f} % of users between {low:.1f} and {low + 1 / bins:.1f}"
            height = max(frame.bottom - y, 0)
            out.append(svg.rect(x, y, max(width - 1, 1), height, f"f{colour[name]}", title, rx=1.5))
    out.append(frame.x_axis([(v, f"{v:g}") for v in (0, 0.2, 0.4, 0.6, 0.8, 1.0)], f"{metric} of a user"))
    return Figure(f"Distribution of {metric} over users, for {', '.join(names)}", 304, "".join(out))


def popularity(inter: Interactions) -> Figure:
    """The long tail: users per item, from the most popular item to the rarest, on log scales."""
    counts = np.bincount(inter.matrix.indices, minlength=inter.n_items)
    counts = np.sort(counts[counts > 0])[::-1].astype(np.float64)
    if not counts.size:
        raise OffdiagError("a figure of popularity needs at least one interaction, received none")
    ranks = np.unique(np.geomspace(1, counts.size, 160).round().astype(np.int64))
    decades_x, decades_y = svg.decades(counts.size), svg.decades(float(counts[0]))
    frame = Frame(x=(0, max(math.log10(counts.size), 0.5)), y=(0, max(math.log10(counts[0]), 0.5)), top=26)
    out = [frame.y_axis("users of the item", [(math.log10(v), f"{v:,}") for v in decades_y])]
    points = [(frame.px(math.log10(r)), frame.py(math.log10(counts[r - 1]))) for r in ranks.tolist()]
    feet = [(points[0][0], frame.bottom), *points, (points[-1][0], frame.bottom)]
    out += [svg.polygon(feet, 1, 0.18), svg.polyline(points, 1)]
    tenth = max(1, round(counts.size / 10))
    share = 100 * counts[:tenth].sum() / counts.sum()
    x = frame.px(math.log10(tenth))
    anchor, shift = ("end", -6) if x > WIDTH / 2 else ("", 6)
    out.append(svg.line(x, frame.top, x, frame.bottom, "axis", dash="3 3"))
    # Next to the dashed line, low and inside the area: the curve itself runs above.
    out.append(svg.text(x + shift, frame.bottom - 26, f"{tenth:,} most popular items:", f"{anchor} small"))
    out.append(svg.text(x + shift, frame.bottom - 10, f"{share:.0f} % of all interactions", f"{anchor} small strong"))
    out.append(frame.x_axis([(math.log10(v), f"{v:,}") for v in decades_x], "rank of the item (log scale)"))
    return Figure(f"Users per item by rank; the top tenth holds {share:.0f} % of interactions", 304, "".join(out))


def contributions(explanation: Explanation, most: int = 8) -> Figure:
    """What each item of the history adds to the score of the recommended one, strongest first."""
    names = [str(item) for item in explanation.items[:most].tolist()]
    parts = explanation.contributions[:most].tolist()
    rest = explanation.contributions[most:]
    if rest.size:
        names.append("one more item" if rest.size == 1 else f"{rest.size} more items together")
        parts.append(float(rest.sum()))
    low, high = min([0.0, *parts]), max([1e-12, *parts])
    row, width = 36, 290  # names are above their bars, so that long ones need not be truncated
    scale = width / (high - low)
    zero = -low * scale
    out, y = [], 2.0
    for name, part in zip(names, parts, strict=True):
        out.append(svg.text(0, y + 12, svg.short(name, width - 46, 12), "small", title=name))
        out.append(svg.text(width, y + 12, f"{part:+.3f}".replace("-", "−"), "end soft small"))
        out.append(svg.line(zero, y + 16, zero, y + 28, "axis"))
        x = zero if part >= 0 else zero + part * scale
        length, kind = max(abs(part) * scale, LEAST), "f3" if part >= 0 else "fm"
        out.append(svg.rect(x, y + 17, length, 9, kind, f"{name}: {part:+.4f}", rx=2))
        y += row
    return Figure(f"Contributions to the score of {explanation.item}", y - 4, "".join(out), width)


def _models(results: Mapping[str, Result]) -> list[str]:
    if not results:
        raise OffdiagError("a figure needs at least one result, received none: pass {'name': od.evaluate(...)}")
    return list(results)


def _shared(results: Mapping[str, Any], metrics: Sequence[str] | None) -> list[str]:
    common = [m for m in next(iter(results.values())).mean if all(m in r.mean for r in results.values())]
    missing = [m for m in metrics or [] if m not in common]
    if missing:
        raise OffdiagError(f"not every result has {', '.join(missing)}; they share {', '.join(common)}")
    return list(metrics) if metrics else common
