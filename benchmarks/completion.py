"""Dropout in matrix completion on real data: what a bound promises next to what is measured, and weights for ranking.

Completion: entries are drawn, with replacement, from the ratings of ml-100k (minus their mean), which are so the whole
population, and the error on new entries is exact. For each number of entries, the expected penalty of dropout is
fitted, and the bound by the weighted trace norm (``lab.completion``) is computed.
Ranking: ``od.Spectral`` with the same dropout, and items weighted by popularity^−item_power; −1 are the weights of the
weighted trace norm. The strength of dropout is chosen on validation users. Writes results/completion.json and the
tables of docs/theory/completion.md.

    python benchmarks/completion.py [FOLDER WITH DATA SETS]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import documents
import numpy as np
from choosing import METRIC, SHARED, score, standard_error
from defaults import splits
from measure import machine
from run import say

import offdiag as od
from offdiag.data.split import Split
from offdiag.lab import completion

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "completion.json"
ENTRIES = (5_000, 20_000, 80_000, 320_000)
DROPS = (0.5, 0.9)
WIDTH = 10
ITERATIONS = 20
POWERS = (-1.0, -0.5, 0.0, 0.5, 1.0)
RANKING = ("lastfm, items ≥ 5 users", "ml-100k")


def gaps(folder: Path) -> list[dict[str, float]]:
    ratings = od.datasets.load("ml-100k", folder / "ml-100k").matrix.tocoo()
    rows, columns = ratings.coords
    y = ratings.data.astype(np.float64) - float(ratings.data.mean())
    low, high = float(y.min()), float(y.max())
    # half the true chances, half equal ones: known before the entries are drawn, and never tiny
    p, q = (
        (np.bincount(at, minlength=n) / len(y) + 1 / n) / 2
        for at, n in zip((rows, columns), ratings.shape, strict=True)
    )
    rng, found = np.random.default_rng(0), []
    for n in ENTRIES:
        drawn = rng.integers(0, len(y), n)
        i, j = rows[drawn], columns[drawn]
        unit = completion.complexity(i, j, p, q, draws=5)
        for drop in DROPS:
            fit = completion.fit(i, j, y[drawn], ratings.shape, WIDTH, drop, chances=(p, q), iterations=ITERATIONS)
            training, new = (
                float(np.mean((y[at] - np.clip(fit.predict(rows[at], columns[at]), low, high)) ** 2))
                for at in (drawn, np.arange(len(y)))
            )
            norm = completion.weighted_trace_norm(fit.U, fit.V, p, q)
            upper = completion.bound(training, norm, unit, n, low=low, high=high)
            row = {"n": n, "drop": drop, "training": training, "new": new, "norm": norm, "unit": unit}
            found.append(row | {"complexity": upper.complexity, "confidence": upper.confidence, "bound": upper.value})
            say(f"  {found[-1]}")
    return found


def variance(folder: Path) -> float:
    """The error of predicting the mean rating."""
    return float(np.var(od.datasets.load("ml-100k", folder / "ml-100k").matrix.data))


def ranking(split: Split) -> dict[str, Any]:
    assert split.validation is not None
    rows: dict[str, Any] = {}
    per_user: dict[str, Any] = {}
    for power in POWERS:
        base = od.Spectral(rank=100, shrink=od.spectral.Dropout(drop=0.5), item_power=power).fit(split.train)
        tried = {drop: base.with_shrink(od.spectral.Dropout(drop=drop)) for drop in (0.01, 0.1, 0.3, 0.5, 0.8)}
        best = max(tried, key=lambda drop: score(tried[drop], split.validation).mean())
        per_user[f"{power:g}"] = score(tried[best], split.test)
        rows[f"{power:g}"] = {"drop": best}
    for name, values in per_user.items():
        gain = values - per_user["0"]
        rows[name] |= {
            "mean": float(values.mean()), "sem": standard_error(values),
            "gain": float(gain.mean()), "gain_sem": standard_error(gain),
        }  # fmt: skip
        say(f"  item_power {name}: {rows[name]}")
    return rows


def main(folder: Path) -> None:
    report: dict[str, Any] = {"machine": machine(), "width": WIDTH, "metric": METRIC}
    report |= {"variance": variance(folder), "gaps": gaps(folder)}
    report["ranking"] = {name: ranking(splits(folder)[name]()) for name in RANKING}
    RESULTS.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    documents.renew("completion-gaps", "completion-ranking")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SHARED)
