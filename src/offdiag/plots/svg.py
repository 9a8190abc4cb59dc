"""The building blocks of every SVG drawing: colours, the figure, axes, legends, marks and text.

Colours are defined only here; they are CSS variables, so that a figure follows the light or dark setting of the page
that contains it. Text is escaped here: names of models and items come from users.
"""

from __future__ import annotations

import math
import os
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

WIDTH = 400  # drawing units; narrow enough that text stays readable when a phone shows the whole figure
SIZE = 13  # of the text

# Ink, faint ink, grid, then one colour per model: distinguishable for colour-blind readers, in both settings.
LIGHT = {
    "ink": "#1d2430", "soft": "#5b6575", "grid": "#dfe3ea", "paper": "#ffffff", "minus": "#b4532a",
    "c0": "#8b94a3", "c1": "#2f6fb7", "c2": "#c27c0e", "c3": "#0b8a6a", "c4": "#8c4fb0", "c5": "#bf3f5e",
}  # fmt: skip
DARK = {
    "ink": "#e8ebf0", "soft": "#a3adbb", "grid": "#343c49", "paper": "#161b22", "minus": "#e58a62",
    "c0": "#8590a1", "c1": "#6aa9ee", "c2": "#e2ab4b", "c3": "#3cc79f", "c4": "#c08be0", "c5": "#f0809a",
}  # fmt: skip
COLOURS = 6

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
    """The colours as CSS variables of `scope` (":root" for a page, ".od" for a single drawing), light and dark."""
    light, dark = (" ".join(f"--{k}: {v};" for k, v in c.items()) for c in (LIGHT, DARK))
    return f"{scope} {{ {light} }}\n@media (prefers-color-scheme: dark) {{ {scope} {{ {dark} }} }}\n"


@dataclass(frozen=True)
class Figure:
    """A drawing and a sentence that describes it."""

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

    def __html__(self) -> str:  # templates insert it without escaping it again
        return self.inline()


@dataclass(frozen=True)
class Frame:
    """A plotting area with linear axes (logarithms are taken before)."""

    x: tuple[float, float]
    y: tuple[float, float]
    top: float = 34
    bottom: float = 262
    left: float = 46
    right: float = WIDTH - 8

    def px(self, value: float) -> float:
        return self.left + (value - self.x[0]) / ((self.x[1] - self.x[0]) or 1) * (self.right - self.left)

    def py(self, value: float) -> float:
        return self.bottom - (value - self.y[0]) / ((self.y[1] - self.y[0]) or 1) * (self.bottom - self.top - 8)

    def x_axis(self, ticks: Iterable[tuple[float, str]], title: str) -> str:
        out = [line(self.left, self.bottom, self.right, self.bottom, "axis")]
        last = -math.inf
        for value, label in ticks:
            x = self.px(value)
            out.append(line(x, self.bottom, x, self.bottom + 4, "axis"))
            half = text_width(label, 12) / 2
            at = min(x, WIDTH - half - 2)
            if at - half > last + 4:  # a label that would touch its neighbour is left out, its tick stays
                out.append(text(at, self.bottom + 18, label, "middle soft small"))
                last = at + half
        out.append(text((self.left + self.right) / 2, self.bottom + 37, title, "middle soft small"))
        return "".join(out)

    def y_axis(self, title: str, ticks: Iterable[tuple[float, str]] | None = None) -> str:
        ticks = [(v, f"{v:g}") for v in ticks_to(self.y[1])] if ticks is None else ticks
        out = [text(0, self.top - 8 if self.top < 30 else self.top - 2, title, "soft small")]
        for value, label in ticks:
            y = self.py(value)
            out += [line(self.left, y, self.right, y, "grid"), text(self.left - 6, y + 4, label, "end soft small")]
        return "".join(out)


def element(tag: str, classes: str, title: str = "", **attributes: float | str | None) -> str:
    """One SVG element. Attributes without a value are left out; the title is what a browser shows on hover."""
    shown = {name.replace("_", "-"): value for name, value in attributes.items() if value is not None and value != ""}
    parts = "".join(f' {name}="{v if isinstance(v, str) else f"{round(v, 2):g}"}"' for name, v in shown.items())
    tip = f"<title>{escape(title)}</title>" if title else ""
    return f'<{tag} class="{classes}"{parts}>{tip}</{tag}>'


def text(x: float, y: float, content: str, classes: str = "", title: str = "") -> str:
    if not content:
        return ""
    tip = f"<title>{escape(title)}</title>" if title and title != content else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{classes}">{escape(content)}{tip}</text>'


def line(
    x1: float, y1: float, x2: float, y2: float, classes: str, *, dash: str = "", width: float | None = None
) -> str:
    return element("line", classes, x1=x1, y1=y1, x2=x2, y2=y2, stroke_dasharray=dash, style=_stroke_width(width))


def polyline(
    places: Iterable[tuple[float, float]], colour: int, *, dash: str = "", width: float | None = None, title: str = ""
) -> str:
    return element(
        "polyline", f"line s{colour}", title, points=_points(places), stroke_dasharray=dash, style=_stroke_width(width)
    )


def polygon(places: Iterable[tuple[float, float]], colour: int, opacity: float) -> str:
    return element("polygon", f"f{colour}", points=_points(places), fill_opacity=opacity)


def rect(
    x: float, y: float, width: float, height: float, classes: str, title: str = "", *,
    rx: float | None = None, opacity: float | None = None,
) -> str:  # fmt: skip
    return element("rect", classes, title, x=x, y=y, width=width, height=height, rx=rx, fill_opacity=opacity)


def dot(x: float, y: float, colour: int, title: str, r: float = 4) -> str:
    return element("circle", f"f{colour} halo", title, cx=x, cy=y, r=r)


def ring(x: float, y: float) -> str:
    return element("circle", "error", fill="none", cx=x, cy=y, r=7)


def path(classes: str, d: str, title: str, opacity: float | None = None) -> str:
    return element("path", classes, title, d=d, fill_opacity=opacity)


def whisker(low: float, high: float, y: float) -> str:
    ends = "".join(line(x, y - 4, x, y + 4, "error") for x in (low, high))
    return line(low, y, high, y, "error") + ends


def mark(x: float, y: float, shape: str, colour: int, title: str) -> str:
    """A circle, square, triangle, plus or cross: distinguishable in black and white, too."""
    if shape == "circle":
        return dot(x, y, colour, title)
    if shape == "square":
        return rect(x - 3.5, y - 3.5, 7, 7, f"f{colour} halo", title)
    if shape == "triangle":
        d = f"M{x - 4.8:.1f} {y + 4:.1f}L{x:.1f} {y - 5:.1f}L{x + 4.8:.1f} {y + 4:.1f}Z"
        return path(f"f{colour} halo", d, title)
    if shape == "plus":
        d = f"M{x - 4.2:.1f} {y:.1f}H{x + 4.2:.1f}M{x:.1f} {y - 4.2:.1f}V{y + 4.2:.1f}"
    else:
        left, right, top, bottom = (f"{v:.1f}" for v in (x - 3.6, x + 3.6, y - 3.6, y + 3.6))
        d = f"M{left} {top}L{right} {bottom}M{left} {bottom}L{right} {top}"
    return path(f"line s{colour}", d, title)


def group(marks: str, transform: str) -> str:
    return f'<g transform="{transform}">{marks}</g>'


def _points(places: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _stroke_width(width: float | None) -> str:
    return "" if width is None else f"stroke-width: {width:g}"


def legend(names: Sequence[str], sample: Callable[[int, float], str], *, lead: float = 28) -> str:
    """Names in one row at the top, each after its `sample(number, x)`; truncated if they do not fit."""
    gap = lead + 14
    fits = sum(text_width(name, SIZE) + gap for name in names) <= WIDTH + 14
    out, x = [], 0.0
    for n, name in enumerate(names):
        shown = name if fits else short(name, WIDTH / len(names) - gap)
        out += [sample(n, x), text(x + lead, 12.5, shown)]
        x += gap + text_width(shown, SIZE)
    return "".join(out)


def stroke_sample(x: float, colour: int, dash: str = "") -> str:
    return line(x, 8, x + 22, 8, f"line s{colour}", dash=dash)


def text_width(content: str, size: float) -> float:
    """A conservative estimate: no font metrics are available."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in content)
    capitals = sum(c.isupper() for c in content)
    return size * (0.55 * (len(content) - wide) + 0.14 * capitals + wide)


def short(content: str, room: float, size: float = SIZE) -> str:
    """The beginning of a label that fits."""
    if text_width(content, size) <= room:
        return content
    while content and text_width(content + "…", size) > room:
        content = content[:-1]
    return content.rstrip() + "…"


def ticks_to(top: float, about: int = 5) -> list[float]:
    """Round numbers from 0 to at most `top`."""
    if top <= 0:
        return [0.0]
    step = _step(top / about)
    return [n * step for n in range(math.floor(top / step * (1 + 1e-9)) + 1)]


def ticks_between(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers from at most `low` to at least `high`."""
    room = high - low
    step = _step((room if room > 0 else abs(high) or 1.0) / about)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(n * step, 12) for n in range(first, max(last, first + 1) + 1)]


def _step(raw: float) -> float:
    power = 10.0 ** math.floor(math.log10(raw))
    return next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= raw * 0.999)


def decades(top: float) -> list[int]:
    return [10**n for n in range(int(math.log10(max(top, 1)) + 1e-9) + 1)]


def tick_text(value: float, ticks: Sequence[float]) -> str:
    """All ticks with the same number of decimals."""
    step = ticks[1] - ticks[0]
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    while decimals < 6 and abs(round(step, decimals) - step) > 1e-9 * step:
        decimals += 1
    return f"{value:.{decimals}f}".replace("-", "−")
