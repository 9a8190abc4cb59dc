"""Figures of results, as small SVG drawings: for notebooks, files and the report, with no plotting library.

Each function returns a `Figure`, which a notebook shows by itself. Colours live here and nowhere else; they are
CSS variables, so that a figure follows the light or dark setting of the page it stands in.
"""

from __future__ import annotations

import math
import os
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    from offdiag import Interactions, Result
    from offdiag.ranking import Explanation

WIDTH = 400  # drawing units; narrow enough that text stays readable when a phone shows the whole figure
SIZE = 13  # of the text
Z95 = 1.96  # a mean ± 1.96 standard errors is its 95 % interval

# Ink, faint ink, grid, then one colour per model: told apart by people who are colour-blind, in both settings.
LIGHT = {
    "ink": "#1d2430", "soft": "#5b6575", "grid": "#dfe3ea", "paper": "#ffffff", "minus": "#b4532a",
    "c0": "#8b94a3", "c1": "#2f6fb7", "c2": "#c27c0e", "c3": "#0b8a6a", "c4": "#8c4fb0", "c5": "#bf3f5e",
}  # fmt: skip
DARK = {
    "ink": "#e8ebf0", "soft": "#a3adbb", "grid": "#343c49", "paper": "#161b22", "minus": "#e58a62",
    "c0": "#8590a1", "c1": "#6aa9ee", "c2": "#e2ab4b", "c3": "#3cc79f", "c4": "#c08be0", "c5": "#f0809a",
}  # fmt: skip
COLOURS = 6
# Lines that lie on each other are still told apart by their dashes and marks.
DASHES = ("", "7 3", "2 3", "", "9 3 2 3", "5 5")

CSS = """
.od text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--ink); }
.od .soft { fill: var(--soft); } .od .small { font-size: 12px; } .od .strong { font-weight: 650; }
.od .grid { stroke: var(--grid); stroke-width: 1; } .od .axis { stroke: var(--soft); stroke-width: 1; }
.od .error { stroke: var(--ink); stroke-width: 1.4; } .od .halo { stroke: var(--paper); stroke-width: 1.5; }
.od .line { fill: none; stroke-width: 2.2; stroke-linejoin: round; }
.od .end { text-anchor: end; } .od .middle { text-anchor: middle; }
""" + "".join(f".od .f{n} {{ fill: var(--c{n}); }} .od .s{n} {{ stroke: var(--c{n}); }}\n" for n in range(COLOURS))
CSS += ".od .fm { fill: var(--minus); }\n"


def palette(scope: str) -> str:
    """The colours as CSS variables of `scope` (":root" for a page, ".od" for a drawing alone), light and dark."""
    light, dark = (" ".join(f"--{k}: {v};" for k, v in c.items()) for c in (LIGHT, DARK))
    return f"{scope} {{ {light} }}\n@media (prefers-color-scheme: dark) {{ {scope} {{ {dark} }} }}\n"


@dataclass(frozen=True)
class Figure:
    """A drawing and the sentence that says what it shows."""

    label: str
    height: float
    marks: str
    width: float = WIDTH

    def inline(self) -> str:
        """For a page that already has `CSS` and `palette`."""
        return (
            f'<svg class="od" viewBox="0 0 {self.width:g} {self.height:g}" role="img" '
            f'aria-label="{escape(self.label)}">{self.marks}</svg>'
        )

    def svg(self) -> str:
        """A complete SVG file."""
        style = f'<style>{palette(".od")}{CSS}</style><rect width="100%" height="100%" style="fill: var(--paper)"/>'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:g}" height="{self.height:g}"'
        return self.inline().replace("<svg", head, 1).replace(">", f">{style}", 1)

    def save(self, path: str | os.PathLike[str]) -> None:
        Path(path).write_text(self.svg(), encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg()


def comparison(results: Mapping[str, Result], metrics: Sequence[str] | None = None, *, width: float = WIDTH) -> Figure:
    """One bar per model and metric, from 0, with the 95 % interval of each mean."""
    names = _models(results)
    shown = _shared(results, metrics)
    left, right, row, gap = _label_width(names), width - 58, 25, 36
    out, y = [], 4.0
    for metric in shown:
        means = [results[name].mean[metric] for name in names]
        errors = [Z95 * results[name].sem[metric] for name in names]
        top = max(m + (e if math.isfinite(e) else 0) for m, e in zip(means, errors, strict=True)) or 1.0
        scale = (right - left) / top
        out.append(_text(0, y + 12, metric, "strong"))
        y += 20
        for n, (name, mean, error) in enumerate(zip(names, means, errors, strict=True)):
            middle = y + row / 2
            out.append(_text(left - 8, middle + 4.5, _short(name, left - 8), "end"))
            out.append(_bar(left, y + 4, mean * scale, row - 8, f"f{n % COLOURS}", f"{name}: {mean:.4f}"))
            if math.isfinite(error) and error > 0:
                out.append(_whisker(left + (mean - error) * scale, left + (mean + error) * scale, middle))
            out.append(_text(width, middle + 4.5, f"{mean:.4f}", "end soft"))
            y += row
        out.append(_line(left, y - len(names) * row, left, y, "axis"))
        y += gap - 20
    best = ", ".join(f"{m} best with {_best(results, m)}" for m in shown)
    return Figure(f"Means with 95 % intervals: {best}", y - gap + 24, "".join(out), width)


def curve(results: Mapping[str, Result], metric: str = "recall_all") -> Figure:
    """A metric against the length k of the list, for the cut-offs at which it was evaluated."""
    names = _models(results)
    cuts = sorted(int(key.partition("@")[2]) for key in _shared(results, None) if key.partition("@")[0] == metric)
    if len(cuts) < 2:
        raise OffdiagError(f"a curve needs {metric}@k at two values of k or more, received {len(cuts)}: evaluate more")
    values = {name: [results[name].mean[f"{metric}@{k}"] for k in cuts] for name in names}
    frame = _Frame(x=(math.log(cuts[0]), math.log(cuts[-1])), y=(0, max(map(max, values.values()))), top=34, bottom=262)
    out = [
        _legend(names, {name: n % COLOURS for n, name in enumerate(names)}, lines=True),
        frame.y_axis(metric.replace("_all", "")),
    ]
    out.append(frame.x_axis([(math.log(k), str(k)) for k in cuts], "length k of the list (log scale)"))
    lines, dots = [], []
    for n, name in enumerate(names):
        points = [(frame.px(math.log(k)), frame.py(v)) for k, v in zip(cuts, values[name], strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        lines.append((bool(_dash(n)), f'<polyline class="line s{n % COLOURS}" points="{path}"{_dash(n)}/>'))
        dots += [
            f'<circle class="f{n % COLOURS} halo" cx="{x:.1f}" cy="{y:.1f}" r="3.5">'
            f"<title>{escape(f'{name}, k = {k}: {v:.4f}')}</title></circle>"
            for (x, y), k, v in zip(points, cuts, values[name], strict=True)
        ]
    # Dots, then lines, the dashed ones last: where two models coincide, both can still be seen.
    out += dots + [line for _, line in sorted(lines, key=lambda pair: pair[0])]
    return Figure(f"{metric} against the length of the list, for {', '.join(names)}", 304, "".join(out))


def distribution(
    results: Mapping[str, Result],
    metric: str = "ndcg@100",
    *,
    models: Sequence[str] | None = None,
    bins: int = 10,
) -> Figure:
    """How many users have which value: not only the mean, but who is served well and who is not.

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
    frame = _Frame(x=(0, 1), y=(0, max(float(s.max()) for s in shares.values())), top=34, bottom=262)
    out = [_legend(names, colour), frame.y_axis("% of users")]
    width = (frame.px(1 / bins) - frame.px(0) - 4) / len(names)
    for n, name in enumerate(names):
        for low, share in zip(edges[:-1], shares[name], strict=True):
            x, y = frame.px(float(low)) + 2 + n * width, frame.py(float(share))
            title = f"{name}: {share:.1f} % of users between {low:.1f} and {low + 1 / bins:.1f}"
            out.append(
                f'<rect class="f{colour[name]}" x="{x:.1f}" y="{y:.1f}" width="{max(width - 1, 1):.1f}" '
                f'height="{max(frame.bottom - y, 0):.1f}" rx="1.5"><title>{escape(title)}</title></rect>'
            )
    out.append(frame.x_axis([(v, f"{v:g}") for v in (0, 0.2, 0.4, 0.6, 0.8, 1.0)], f"{metric} of a user"))
    return Figure(f"Distribution of {metric} over users, for {', '.join(names)}", 304, "".join(out))


def popularity(inter: Interactions) -> Figure:
    """The long tail: users per item, from the most popular item to the rarest, on log scales."""
    counts = np.bincount(inter.matrix.indices, minlength=inter.n_items)
    counts = np.sort(counts[counts > 0])[::-1].astype(np.float64)
    if not counts.size:
        raise OffdiagError("a figure of popularity needs at least one interaction, received none")
    ranks = np.unique(np.geomspace(1, counts.size, 160).round().astype(np.int64))
    decades_x, decades_y = _decades(counts.size), _decades(float(counts[0]))
    frame = _Frame(x=(0, max(math.log10(counts.size), 0.5)), y=(0, max(math.log10(counts[0]), 0.5)), top=26, bottom=262)
    out = [frame.y_axis("users of the item", [(math.log10(v), f"{v:,}") for v in decades_y])]
    points = [(frame.px(math.log10(r)), frame.py(math.log10(counts[r - 1]))) for r in ranks.tolist()]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    area = f"{points[0][0]:.1f},{frame.bottom} {line} {points[-1][0]:.1f},{frame.bottom}"
    out.append(f'<polygon class="f1" fill-opacity="0.18" points="{area}"/>')
    out.append(f'<polyline class="line s1" points="{line}"/>')
    tenth = max(1, round(counts.size / 10))
    share = 100 * counts[:tenth].sum() / counts.sum()
    x = frame.px(math.log10(tenth))
    anchor, shift = ("end", -6) if x > WIDTH / 2 else ("", 6)
    out.append(_line(x, frame.top, x, frame.bottom, "axis", ' stroke-dasharray="3 3"'))
    # Beside the dashed line, low and inside the area: the curve itself runs above.
    out.append(_text(x + shift, frame.bottom - 26, f"{tenth:,} most popular items:", f"{anchor} small"))
    out.append(_text(x + shift, frame.bottom - 10, f"{share:.0f} % of all interactions", f"{anchor} small strong"))
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
    row, width = 36, 290  # names stand above their bars, so that long ones need not be cut
    scale = width / (high - low)
    zero = -low * scale
    out, y = [], 2.0
    for name, part in zip(names, parts, strict=True):
        out.append(_text(0, y + 12, _short(name, width - 46, 12), "small", title=name))
        out.append(_text(width, y + 12, f"{part:+.3f}".replace("-", "−"), "end soft small"))
        out.append(_line(zero, y + 16, zero, y + 28, "axis"))
        x = zero if part >= 0 else zero + part * scale
        out.append(_bar(x, y + 17, abs(part) * scale, 9, "f3" if part >= 0 else "fm", f"{name}: {part:+.4f}"))
        y += row
    return Figure(f"Contributions to the score of {explanation.item}", y - 4, "".join(out), width)


# Drawing


@dataclass(frozen=True)
class _Frame:
    """A plotting area with linear axes (logarithms are taken before)."""

    x: tuple[float, float]
    y: tuple[float, float]
    top: float
    bottom: float
    left: float = 46
    right: float = WIDTH - 8

    def px(self, value: float) -> float:
        return self.left + (value - self.x[0]) / ((self.x[1] - self.x[0]) or 1) * (self.right - self.left)

    def py(self, value: float) -> float:
        return self.bottom - (value - self.y[0]) / ((self.y[1] - self.y[0]) or 1) * (self.bottom - self.top - 8)

    def x_axis(self, ticks: Iterable[tuple[float, str]], title: str) -> str:
        out = [_line(self.left, self.bottom, self.right, self.bottom, "axis")]
        last = -math.inf
        for value, label in ticks:
            x = self.px(value)
            out.append(_line(x, self.bottom, x, self.bottom + 4, "axis"))
            half = _text_width(label, 12) / 2
            at = min(x, WIDTH - half - 2)
            if at - half > last + 4:  # a label that would touch its neighbour is left out, its tick stays
                out.append(_text(at, self.bottom + 18, label, "middle soft small"))
                last = at + half
        out.append(_text((self.left + self.right) / 2, self.bottom + 37, title, "middle soft small"))
        return "".join(out)

    def y_axis(self, title: str, ticks: Iterable[tuple[float, str]] | None = None) -> str:
        ticks = [(v, f"{v:g}") for v in _ticks(self.y[1])] if ticks is None else list(ticks)
        out = [_text(0, self.top - 8 if self.top < 30 else self.top - 2, title, "soft small")]
        for value, label in ticks:
            y = self.py(value)
            out.append(_line(self.left, y, self.right, y, "grid"))
            out.append(_text(self.left - 6, y + 4, label, "end soft small"))
        return "".join(out)


def _legend(names: Sequence[str], colour: Mapping[str, int], *, lines: bool = False) -> str:
    gap = 42 if lines else 32
    fits = sum(_text_width(name, SIZE) + gap for name in names) <= WIDTH + 14
    out, x = [], 0.0
    for name in names:
        n, shown = colour[name], name if fits else _short(name, WIDTH / len(names) - gap)
        if lines:
            out.append(f'<line class="line s{n}" x1="{x:g}" y1="8" x2="{x + 22:g}" y2="8"{_dash(n)}/>')
        else:
            out.append(f'<rect class="f{n}" x="{x:g}" y="2" width="12" height="12" rx="2"/>')
        x += 28 if lines else 18
        out.append(_text(x, 12.5, shown, ""))
        x += _text_width(shown, SIZE) + 14
    return "".join(out)


def _dash(n: int) -> str:
    return f' stroke-dasharray="{DASHES[n % COLOURS]}"' if DASHES[n % COLOURS] else ""


def _text(x: float, y: float, content: str, classes: str, title: str | None = None) -> str:
    tip = f"<title>{escape(title)}</title>" if title is not None and title != content else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{classes}">{escape(content)}{tip}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, classes: str, extra: str = "") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{classes}"{extra}/>'


def _bar(x: float, y: float, width: float, height: float, classes: str, title: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.8):.1f}" height="{height:g}" rx="2" class="{classes}">'
        f"<title>{escape(title)}</title></rect>"
    )


def _whisker(low: float, high: float, y: float) -> str:
    ends = "".join(_line(x, y - 4, x, y + 4, "error") for x in (low, high))
    return _line(low, y, high, y, "error") + ends


def _text_width(content: str, size: float) -> float:
    """An estimate on the safe side: no font can be asked."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in content)
    capitals = sum(c.isupper() for c in content)
    return size * (0.55 * (len(content) - wide) + 0.14 * capitals + wide)


def _short(content: str, room: float, size: float = SIZE) -> str:
    """The beginning of a label that fits."""
    if _text_width(content, size) <= room:
        return content
    while content and _text_width(content + "…", size) > room:
        content = content[:-1]
    return content.rstrip() + "…"


def _label_width(names: Iterable[str]) -> float:
    return min(max((_text_width(name, SIZE) for name in names), default=0.0) + 10, 170)


def _ticks(top: float, about: int = 5) -> list[float]:
    """Round numbers from 0 to at most `top`."""
    if top <= 0:
        return [0.0]
    raw = top / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= raw * 0.999)
    return [n * step for n in range(math.floor(top / step * (1 + 1e-9)) + 1)]


def _decades(top: float) -> list[int]:
    return [10**n for n in range(int(math.log10(max(top, 1)) + 1e-9) + 1)]


def _models(results: Mapping[str, Result]) -> list[str]:
    if not results:
        raise OffdiagError("a figure needs at least one result, received none: pass {'name': od.evaluate(...)}")
    return list(results)


def _best(results: Mapping[str, Result], metric: str) -> str:
    return max(results, key=lambda name: results[name].mean[metric])


def _shared(results: Mapping[str, Any], metrics: Sequence[str] | None) -> list[str]:
    common = [m for m in next(iter(results.values())).mean if all(m in r.mean for r in results.values())]
    missing = [m for m in metrics or [] if m not in common]
    if missing:
        raise OffdiagError(f"not every result has {', '.join(missing)}; they share {', '.join(common)}")
    return list(metrics) if metrics else common
