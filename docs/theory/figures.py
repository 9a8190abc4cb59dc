"""Generates docs/theory/landscape.html, shrinkage.html and learning.html: figures to explore, one file each.

Numbers come from the library and are embedded as JSON; the templates draw them with plain SVG and a little script.
Run from the root of the tree: python -m docs.theory.figures
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import offdiag as od
from offdiag.lab import dynamics, landscape
from offdiag.report.page import html

THEORY = Path(__file__).parent
Array = NDArray[np.float64]
Content = dict[str, Any]  # what a template draws, as JSON

LAMBDAS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
REACH, CELLS = 1.5, 75  # half width of the maps, and cells along a side
BANDS = (0.002, 0.01, 0.03, 0.08, 0.18, 0.35, 0.65, 1.2, 2.4)  # above the lowest loss; between them one shade each
STARTS = ((1.35, 0.2), (0.15, 1.3), (-1.3, 0.5), (-0.4, -1.35), (0.5, -1.2), (0.1, 0.06))
STEPS = 900  # of gradient descent from each start


def learning() -> Content:
    """Learning curves of five directions: plain, with noise and with weight decay."""
    t, eigenvalues, noise, decay, start = np.linspace(0, 12, 121), (3.0, 1.5, 0.8, 0.4, 0.15), 0.5, 0.35, 0.05
    nets = {
        "plain": (
            "Without noise every direction is learnt completely in the end, the strong ones first: each curve is an S.",
            lambda lam: dynamics.dae(t, start, start, lam, 0.0, 1.0),
            lambda lam: dynamics.dae_fixed_point(lam, 0.0),
        ),
        f"noise ε = {noise:g}": (
            "Noise lowers where a curve ends, the weak directions most, but hardly changes how fast it rises. Dashed: "
            "the plain net.",
            lambda lam: dynamics.dae(t, start, start, lam, noise, 1.0),
            lambda lam: dynamics.dae_fixed_point(lam, noise),
        ),
        f"decay Nγ = {decay:g}": (
            "Weight decay lowers the ends and also slows the rise; a direction with λ ≤ Nγ is never learnt. Dashed: "
            "the plain net.",
            lambda lam: dynamics.wdae(t, start**2, lam, decay, 1.0),
            lambda lam: dynamics.wdae_fixed_point(lam, decay),
        ),
    }
    views = [
        {
            "name": name,
            "text": text,
            "lines": [
                {"name": f"λ = {lam:g}", "values": _rounded(curve(lam)), "note": f"ends at {end(lam):.3f}"}
                for lam in eigenvalues
            ],
        }
        for name, (text, curve, end) in nets.items()
    ]
    return {
        "label": "The share learnt of five directions over time",
        "x": {"name": "time, t/τ", "short": "t/τ", "values": _rounded(t), "ticks": [0, 2, 4, 6, 8, 10, 12]},
        "y": {"name": "share learnt, w(t)", "ticks": [0, 0.25, 0.5, 0.75, 1]},
        "views": views,
        "plays": "cursor",
        "ghosts": True,
        "from": 30,
    }


def shrinkage() -> Content:
    """What six shrinkages keep of the singular values of one spectrum, at three strengths."""
    sigma = 40 * np.exp(-np.arange(60) / 24)
    spectral = od.spectral
    strengths: dict[str, tuple[od.spectral.Shrink, ...]] = {
        "weak": (
            spectral.Hard(),
            spectral.Ridge(l2=20.0),
            spectral.WeightDecay(l2=20.0),
            spectral.Dropout(drop=0.2),
            spectral.DropBlock(drop=0.2, block=30),
            spectral.EarlyStop(time=150.0),
        ),
        "medium": (
            spectral.Hard(),
            spectral.Ridge(l2=80.0),
            spectral.WeightDecay(l2=80.0),
            spectral.Dropout(drop=0.5),
            spectral.DropBlock(drop=0.5, block=30),
            spectral.EarlyStop(time=50.0),
        ),
        "strong": (
            spectral.Hard(),
            spectral.Ridge(l2=320.0),
            spectral.WeightDecay(l2=320.0),
            spectral.Dropout(drop=0.8),
            spectral.DropBlock(drop=0.8, block=30),
            spectral.EarlyStop(time=15.0),
        ),
    }
    text = (
        "A component of size σ is multiplied by f(σ). Hard keeps all of it. Ridge shrinks the small ones smoothly; "
        "WeightDecay and Dropout cut them off; DropBlock takes one share from all the large ones and cuts off the "
        "small; EarlyStop has not learnt the small ones yet."
    )
    ascending = slice(None, None, -1)
    views = [
        {
            "name": name,
            "text": text,
            "lines": [
                {
                    "name": type(shrink).__name__,
                    "values": _rounded(shrink(sigma)[ascending]),
                    "note": ", ".join(f"{f.name} {getattr(shrink, f.name):g}" for f in _given(shrink)),
                }
                for shrink in shrinks
            ],
        }
        for name, shrinks in strengths.items()
    ]
    return {
        "label": "The share that six shrinkages keep of each singular value",
        "x": {
            "name": "singular value σ",
            "short": "σ",
            "values": _rounded(sigma[ascending]),
            "ticks": [5, 10, 15, 20, 25, 30, 35, 40],
        },
        "y": {"name": "share kept, f(σ)", "ticks": [0, 0.25, 0.5, 0.75, 1]},
        "views": views,
        "first": 1,
        "plays": "views",
        "ghosts": False,
        "from": 38,
    }


def loss_surface() -> Content:
    """The loss of one unit with two weights, and of two units with tied weights, as λ grows; M is the number 1."""
    return {
        "reach": REACH,
        "cells": CELLS,
        "lambdas": list(LAMBDAS),
        "views": [
            {"name": "one unit: weights u and v", "axes": ["u", "v"], "frames": [_one_unit(lam) for lam in LAMBDAS]},
            {
                "name": "two units, tied: w₁ and w₂",
                "axes": ["w₁", "w₂"],
                "frames": [_two_units(lam) for lam in LAMBDAS],
            },
        ],
    }


def _one_unit(lam: float) -> Content:
    """(1 − uv)² + λu²v²: the minima are the curve uv = 1/(1 + λ)."""
    drop = lam / (1 + lam)
    M = [[1.0]]
    centres = _centres()
    products, place = np.unique(np.round(np.outer(centres, centres), 12), return_inverse=True)
    values = np.array([landscape.value(M, [[uv]], drop, [[1.0]]) for uv in products])  # of the product only
    surface = values[place].reshape(CELLS, CELLS)
    points = landscape.critical_points(M, width=1, drop=drop, tied=False)
    best = points[0]
    product = float(best.U[0, 0] * best.V[0, 0])
    x = np.geomspace(product / REACH, REACH, 41)
    marks = [(s * best.U[0, 0], s * best.V[0, 0], "minimum", best.value) for s in (1, -1)]
    marks += [(0.0, 0.0, "saddle", points[-1].value)]

    def slope(u: float, v: float) -> tuple[float, float]:
        by_u, by_v = landscape.gradient(M, [[u]], drop, [[v]])
        return float(by_u[0, 0]), float(by_v[0, 0])

    text = (
        f"Without dropout the loss is lowest, 0, all along the curve u·v = {product:g}."
        if lam == 0
        else f"The unit is dropped with probability {drop:.2f}. The valley moves to u·v = 1/(1 + λ) = {product:.3f}, "
        f"and its floor rises to {best.value:.3f}. One unit can only shrink; how long u and v are each is still open."
    )
    return _frame(surface, marks, [np.column_stack([s * x, s * product / x]) for s in (1, -1)], slope, best.value, text)


def _two_units(lam: float) -> Content:
    """(1 − w₁² − w₂²)² + λ(w₁⁴ + w₂⁴): a circle of minima without dropout, four points with it."""
    drop = lam / (1 + lam)
    found = landscape.contours(1.0, drop, reach=REACH * (1 - 1 / CELLS), points=CELLS)
    lowest = landscape.value([[1.0]], found.minima[:1], drop)
    marks = [
        (*point, kind, landscape.value([[1.0]], [point], drop))
        for kind, places in (("minimum", found.minima), ("saddle", found.saddles), ("maximum", found.maxima))
        for point in places.tolist()
        if lam or kind != "minimum"
    ]
    circle = [np.vstack([found.minima, found.minima[:1]])] if lam == 0 else []

    def slope(a: float, b: float) -> tuple[float, float]:
        down = landscape.gradient([[1.0]], [[a, b]], drop)
        return float(down[0, 0]), float(down[0, 1])

    if lam == 0:
        text = "Without dropout a whole circle is lowest: any division of the work between the two units is as good."
    else:
        alone = landscape.value([[1.0]], found.saddles[:1], drop)
        text = (
            f"Each unit is dropped with probability {drop:.2f}. Of the circle, four points remain: |w₁| = |w₂| = "
            f"{abs(found.minima[0, 0]):.3f}, loss {lowest:.3f}. Both units carry the same. One unit alone is a "
            f"saddle, loss {alone:.3f}."
        )
    return _frame(found.values, marks, circle, slope, lowest, text)


def _frame(
    surface: Array,
    marks: list[tuple[float, float, str, float]],
    valleys: list[Array],
    slope: Callable[[float, float], tuple[float, float]],
    lowest: float,
    text: str,
) -> Content:
    """One map: a digit per cell, row by row from below; critical points; curves of minima; ways of descent."""
    bands = np.searchsorted(BANDS, surface - lowest)
    return {
        "rows": ["".join(map(str, row)) for row in bands.tolist()],
        "marks": [
            {"at": _rounded([x, y]), "kind": kind, "text": f"{kind} at ({x:.3f}, {y:.3f}): loss {value:.3f}"}
            for x, y, kind, value in marks
        ],
        "valleys": [_rounded(valley) for valley in valleys],
        "ways": [_rounded(_descent(slope, start)) for start in STARTS],
        "text": text,
    }


def _descent(slope: Callable[[float, float], tuple[float, float]], start: tuple[float, float]) -> Array:
    """(points, 2): gradient descent in small steps, most points where it is fast."""
    way = [start]
    for _ in range(STEPS):
        u, v = way[-1]
        by_u, by_v = slope(u, v)
        way.append((u - 0.01 * by_u, v - 0.01 * by_v))
    return np.array(way)[np.unique(np.rint(STEPS * np.linspace(0, 1, 28) ** 3).astype(int))]


def _centres() -> Array:
    """Of the cells along one side of a map."""
    return np.linspace(-1, 1, CELLS) * REACH * (1 - 1 / CELLS)


def _given(shrink: od.spectral.Shrink) -> list[Any]:
    """The settings that stand in the legend."""
    return [field for field in fields(shrink) if field.name in ("drop", "block", "time") or _penalised(shrink, field)]


def _penalised(shrink: od.spectral.Shrink, field: Any) -> bool:
    return field.name == "l2" and not isinstance(shrink, od.spectral.EarlyStop)


def _rounded(values: Any) -> Any:
    """As lists with four decimals: enough for a figure, and the same on every machine."""
    return (np.round(np.asarray(values, dtype=np.float64), 4) + 0.0).tolist()


PAGES: dict[str, Callable[[], Content]] = {
    "landscape": loss_surface,
    "learning": learning,
    "shrinkage": shrinkage,
}


def page(name: str) -> str:
    """The whole file."""
    return html(THEORY / "templates", f"{name}.html", data=PAGES[name]())


def main() -> None:
    for name in PAGES:
        (THEORY / f"{name}.html").write_text(page(name), encoding="utf-8")


if __name__ == "__main__":
    main()
