"""Figures of a search for settings: the value of each trial and which settings mattered, in the style of `plots`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from offdiag.checks import is_number
from offdiag.errors import OffdiagError
from offdiag.plots import svg
from offdiag.plots.svg import WIDTH, Figure, Frame

if TYPE_CHECKING:
    from offdiag import Tuned
    from offdiag.tuning import Trial

# Source of a trial: name in the legend, colour, mark. The marks distinguish them in black and white.
ORIGINS = {
    "automatic": ("automatic", 2, "square"),
    "given": ("given", 5, "plus"),
    "screening": ("map", 4, "cross"),
    "sampler": ("sampler", 1, "circle"),
    "propensity": ("propensities", 3, "triangle"),
}
BEST = 3  # colour of the running best
NEAR = 0.01  # of the best value: as good for practical purposes
DEPTH = 2.5  # how far down the figure extends, in distances of the median trial from the best one
STRIP = 18  # below the axis of values: trials that were rejected early
PANEL = 118  # height of a panel
COLUMNS = ((46.0, 212.0), (230.0, 392.0))  # left and right of the panels in a row


@dataclass(frozen=True)
class Influence:
    """How much one setting mattered."""

    setting: str
    best: Any
    good: list[Any]  # minimum and maximum, or the choices, of trials within 1 % of the best one
    share: float | None  # of the variance between trials that a parabola in this setting alone explains


def influence(tuned: Tuned) -> list[Influence]:
    """For each setting with more than one value in complete trials, the most influential first.

    If there was a small problem, the share refers to the values on it: those exist for rejected trials too. The
    sampler searches where it expects good values, so a share is a hint, not a measurement of the setting itself.
    """
    found = []
    for name in _searched(tuned):
        shown = _of_setting(tuned, name)
        top = float(_best(shown).value or 0.0)
        good = [t.settings[name] for t in shown if float(t.value or 0.0) >= (1 - NEAR) * top]
        good = [min(good), max(good)] if all(map(is_number, good)) else list(dict.fromkeys(good))
        every = [t for t in tuned.trials if name in t.settings and t.state != "failed" and t.origin != "propensity"]
        on_small = bool(every) and all(t.small_value is not None for t in every)
        pairs = [(t.settings[name], t.small_value if on_small else t.value) for t in (every if on_small else shown)]
        # A setting tried only on the best model, after the search, has no share in it.
        share = None if any(t.origin == "propensity" for t in shown) else _explained(pairs)
        won = tuned.best if name in tuned.best.settings else _best(shown)
        found.append(Influence(name, won.settings[name], good, share))
    return sorted(found, key=lambda part: -(part.share or 0.0))


def history(tuned: Tuned) -> Figure:
    """The value of each trial in order, the best so far with ± one standard error, and the trials rejected early."""
    complete = _complete(tuned)
    low, high = _bounds(tuned, error=True)
    legend, top = _legend(tuned)
    last = max(trial.number for trial in tuned.trials)
    frame = Frame(x=(-0.6, last + 0.6), y=(low, high), top=top + 22, bottom=top + 222)
    ticks = _inside(low, high)
    out = [legend, frame.y_axis(tuned.metric, [(v, svg.tick_text(v, ticks)) for v in ticks])]
    out.append(_band(complete, frame, last))
    out += [_trial(t, frame.px(t.number), frame, tuned) for t in complete]
    best = tuned.best
    out.append(svg.ring(frame.px(best.number), frame.py(float(best.value or 0.0))))
    rest = [trial for trial in tuned.trials if trial.value is None]
    out += [_rejected(trial, frame.px(trial.number), frame.bottom + STRIP / 2 + 1) for trial in rest]
    lower = replace(frame, bottom=frame.bottom + (STRIP if rest else 0))
    if rest:
        out.append(svg.line(frame.left, frame.bottom, frame.right, frame.bottom, "grid"))
    steps = [float(v) for v in svg.ticks_between(0, max(last, 1)) if v <= last and v == round(v)]
    out.append(lower.x_axis([(v, f"{v:.0f}") for v in steps], "trial"))
    label = f"{len(complete)} complete of {len(tuned.trials)} trials; best {tuned.metric} {tuned.value:.4f}"
    return Figure(label, lower.bottom + 42, "".join(out))


def panels(tuned: Tuned) -> Figure:
    """The value of complete trials against each searched setting, on one scale; below, the trials rejected early."""
    names = _searched(tuned)
    if not names:
        raise OffdiagError("no setting had more than one value in the trials, so there is nothing to draw")
    low, high = _bounds(tuned, error=False)
    legend, top = _legend(tuned)
    out = [legend, svg.text(0, top + 14, tuned.metric, "soft small")]
    y = top + 16
    for n, name in enumerate(names):
        left, right = COLUMNS[n % 2]
        axis = _Axis(tuned, name)
        frame = Frame(x=axis.bounds, y=(low, high), top=y, bottom=y + PANEL, left=left, right=right)
        out.append(_panel(tuned, axis, frame, labels=n % 2 == 0))
        y += (PANEL + 50) if n % 2 or n == len(names) - 1 else 0
    return Figure(f"{tuned.metric} against {', '.join(names)}", y - 6, "".join(out))


def overview(tuned: Tuned) -> Figure:
    """Both in one drawing: the trials in order, then a panel for each setting."""
    above = history(tuned)
    if not _searched(tuned):
        return above
    below = panels(tuned)
    legend, top = _legend(tuned)
    cut = top - 4  # one legend is enough
    marks = below.marks.replace(legend, "", 1)
    shifted = svg.group(marks, f"translate(0 {above.height + 10 - cut:g})")
    return Figure(f"{above.label}; {below.label}", above.height + below.height + 10 - cut, above.marks + shifted)


class _Axis:
    """The horizontal axis of a setting: numbers, their logarithms if they span decades, or choices."""

    def __init__(self, tuned: Tuned, name: str) -> None:
        self.name = name
        self.shown = _of_setting(tuned, name)
        self.is_log = _spans_decades([trial.settings[name] for trial in self.shown])
        rejected = [t for t in tuned.trials if t.value is None and name in t.settings]
        self.rejected = [t for t in rejected if not self.is_log or (is_number(v := t.settings[name]) and v > 0)]
        values = [trial.settings[name] for trial in [*self.shown, *self.rejected]]
        self.choices = [] if all(map(is_number, values)) else sorted(set(values), key=str)
        places = list(map(self.place, values))
        pad = 0.06 * ((max(places) - min(places)) or 1.0)
        self.bounds = (min(places) - pad, max(places) + pad)

    def place(self, value: Any) -> float:
        if self.choices:
            return float(self.choices.index(value))
        return math.log10(value) if self.is_log else float(value)

    def ticks(self) -> list[tuple[float, str]]:
        if self.choices:
            return [(float(n), str(value)) for n, value in enumerate(self.choices)]
        low, high = self.bounds
        if self.is_log:
            steps = (1, 3) if math.floor(high) - math.ceil(low) <= 1 else (1,)
            marks = [s * 10.0**d for d in range(math.floor(low), math.ceil(high) + 1) for s in steps]
            return [(math.log10(v), f"{v:g}") for v in marks if low <= math.log10(v) <= high]
        ticks = svg.ticks_between(low, high, 4)
        return [(v, svg.tick_text(v, ticks)) for v in ticks if low <= v <= high]


def _panel(tuned: Tuned, axis: _Axis, frame: Frame, *, labels: bool) -> str:
    ticks = _inside(*frame.y)
    out = [frame.y_axis("", [(v, svg.tick_text(v, ticks) if labels else "") for v in ticks])]

    def x(trial: Trial) -> float:
        return frame.px(axis.place(trial.settings[axis.name]))

    out += [_rejected(trial, x(trial), frame.bottom - 3.5, small=True) for trial in axis.rejected]
    out += [_trial(trial, x(trial), frame, tuned, small=True) for trial in axis.shown]
    fit = {**tuned.best.settings, "propensity_power": 0.0}  # the other panels show its fit
    won = [t for t in axis.shown if t is tuned.best or {**t.settings, "propensity_power": 0.0} == fit]
    best = max(won, key=lambda t: t is tuned.best) if won else _best(axis.shown)
    out.append(svg.ring(x(best), frame.py(float(best.value or 0.0))))
    suffix = " (log scale)" if axis.is_log else ""
    out.append(frame.x_axis(axis.ticks(), svg.short(axis.name + suffix, frame.right - frame.left, 12)))
    return "".join(out)


def _band(complete: Sequence[Trial], frame: Frame, last: int) -> str:
    """The best so far as steps, and one standard error on either side of it."""
    corners: list[tuple[int, float, float]] = []
    for trial in complete:
        value = float(trial.value or 0.0)
        if not corners or value > corners[-1][1]:
            corners.append((trial.number, value, trial.sem or 0.0))
    ends = [*(number for number, _, _ in corners[1:]), last + 0.5]
    line, edges = [], []
    for (start, value, sem), end in zip(corners, ends, strict=True):
        line += [(frame.px(start), frame.py(value)), (frame.px(end), frame.py(value))]
        up, down = (max(min(v, frame.y[1]), frame.y[0]) for v in (value + sem, value - sem))
        edges.append((frame.px(start), frame.px(end), frame.py(up), frame.py(down)))
    upper = [(x, up) for start, end, up, _ in edges for x in (start, end)]
    lower = [(x, down) for start, end, _, down in reversed(edges) for x in (end, start)]
    return svg.polygon(upper + lower, BEST, 0.13) + svg.polyline(line, BEST, width=1.6)


def _trial(trial: Trial, x: float, frame: Frame, tuned: Tuned, *, small: bool = False) -> str:
    """A mark at the value; values below the figure become an arrow at its lower edge."""
    value = float(trial.value or 0.0)
    error = "" if trial.sem is None else f" ± {trial.sem:.4f}"
    title = f"trial {trial.number}, {trial.origin}: {tuned.metric} {value:.4f}{error}; {_settings_text(trial)}"
    _, colour, shape = ORIGINS.get(trial.origin, ORIGINS["sampler"])
    if value < frame.y[0]:
        y = frame.bottom - 8
        arrow = f"M{x - 3.5:.1f} {y:.1f}L{x + 3.5:.1f} {y:.1f}L{x:.1f} {y + 6:.1f}Z"
        return svg.path(f"f{colour}", arrow, title, opacity=0.7)
    y = frame.py(value)
    mark = svg.mark(x, y, shape, colour, title)
    return svg.group(mark, f"translate({0.2 * x:.2f} {0.2 * y:.2f}) scale(0.8)") if small else mark


def _rejected(trial: Trial, x: float, y: float, *, small: bool = False) -> str:
    """A short stroke: rejected on a small problem, or impossible to fit."""
    half = 2.5 if small else 4.0
    why = trial.note or f"rejected early, {trial.small_value or 0.0:.4f} on the small problem"
    title = f"trial {trial.number}: {why}; {_settings_text(trial)}"
    return svg.rect(x - 0.75, y - half, 1.5, 2 * half, "soft" if trial.state == "rejected" else "fm", title)


def _legend(tuned: Tuned) -> tuple[str, float]:
    """The marks that occur, in as many rows as needed, and the height."""
    present = [origin for origin in ORIGINS if any(trial.origin == origin for trial in _complete(tuned))]
    entries = [(ORIGINS[origin][0], origin) for origin in present] + [("best so far ± s.e.", "best")]
    if any(trial.value is None for trial in tuned.trials):
        entries.append(("rejected early", "rejected"))
    out, x, y = [], 0.0, 8.0
    for name, kind in entries:
        lead = 28.0 if kind == "best" else 16.0
        need = lead + svg.text_width(name, 12)
        if x and x + need > WIDTH:
            x, y = 0.0, y + 19
        if kind == "best":
            out.append(svg.rect(x, y - 6, 22, 12, f"f{BEST}", opacity=0.13))
            out.append(svg.line(x, y, x + 22, y, f"line s{BEST}", width=1.6))
        elif kind == "rejected":
            out.append(svg.rect(x + 5, y - 4, 1.5, 8, "soft"))
        else:
            _, colour, shape = ORIGINS[kind]
            out.append(svg.mark(x + 6, y, shape, colour, name))
        out.append(svg.text(x + lead, y + 4.5, name, "small"))
        x += need + 12
    return "".join(out), y + 8


def _complete(tuned: Tuned) -> list[Trial]:
    found = [trial for trial in tuned.trials if trial.value is not None]
    if not found:
        raise OffdiagError("a figure of a search needs at least one complete trial, received none")
    return found


def _searched(tuned: Tuned) -> list[str]:
    """Settings that had more than one value among the complete trials."""
    names = dict.fromkeys(name for trial in _complete(tuned) for name in trial.settings)
    return [name for name in names if len({t.settings[name] for t in _of_setting(tuned, name)}) > 1]


def _of_setting(tuned: Tuned, name: str) -> list[Trial]:
    """Complete trials that are informative about a setting.

    Trials of propensities repeat the best other trial with changed scores: they concern only that setting, for which
    the original trial has power 0.
    """
    complete = _complete(tuned)
    tried = [trial for trial in complete if trial.origin == "propensity"]
    others = [trial for trial in complete if trial.origin != "propensity"]
    if name != "propensity_power" or not tried:
        return [t for t in others or tried if name in t.settings]
    start = [t for t in others if {**t.settings, name: None} == {**tried[0].settings, name: None}][:1]
    return [replace(t, settings={**t.settings, name: t.settings.get(name, 0.0)}) for t in start] + tried


def _best(trials: Sequence[Trial]) -> Trial:
    return max(trials, key=lambda trial: float(trial.value or 0.0))


def _bounds(tuned: Tuned, *, error: bool) -> tuple[float, float]:
    """Bounds of the values shown and the error of the best, without bad trials that would flatten all others."""
    values = np.array([float(trial.value or 0.0) for trial in _complete(tuned)])
    best = float(values.max())
    floor = best - DEPTH * (best - float(np.median(values)))
    low = float(values[values >= floor].min())
    sem = (tuned.best.sem or 0.0) if error else 0.0
    room = max(best - low, sem, 1e-3 * (abs(best) or 1.0))
    return max(min(low - 0.12 * room, best - sem), 0.0), max(best + 0.12 * room, best + sem)


def _inside(low: float, high: float, about: int = 4) -> list[float]:
    ticks = [v for v in svg.ticks_between(low, high, about) if low - 1e-12 <= v <= high + 1e-12]
    return ticks if len(ticks) > 1 else [low, high]


def _spans_decades(values: Sequence[Any]) -> bool:
    """Whether a setting belongs on a log scale; shares between 0 and 1 do not."""
    if not all(map(is_number, values)) or min(values) <= 0:
        return False
    return bool(max(values) >= 10 * min(values) and (max(values) > 1 or max(values) <= 0.1))


def _explained(pairs: Sequence[tuple[Any, float | None]]) -> float | None:
    """Share of variance that a parabola (a mean per choice) explains, minus chance; None for too few values."""
    settings = [setting for setting, _ in pairs]
    values = np.array([value for _, value in pairs], dtype=np.float64)
    if all(map(is_number, settings)):
        x = np.array(settings, dtype=np.float64)
        x = np.log(x) if _spans_decades(settings) else x
        x = (x - x.mean()) / (x.std() or 1.0)
        columns = [np.ones_like(x), x, x**2][: len(set(settings))]
    else:
        words = np.array(list(map(str, settings)))
        columns = [(words == choice).astype(np.float64) for choice in sorted(set(words))]
    n, k = len(values), len(columns)
    total = float(np.sum((values - values.mean()) ** 2))
    if n < k + 3 or total <= 0:
        return None
    design = np.stack(columns, axis=1)
    residual = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return max(0.0, 1 - float(residual @ residual) / (n - k) / (total / (n - 1)))


def _settings_text(trial: Trial) -> str:
    from offdiag.tuning.trials import number_text

    return ", ".join(f"{name} {number_text(value)}" for name, value in trial.settings.items())
