"""The numbers of Figure 1 of [Steck20] as JSON, and as rows of a table."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag import wording
from offdiag.diagnostics import RankPoint
from offdiag.papers.claims import Claim
from offdiag.papers.steck2020.figure1 import EDLAE, GROUP, SIDES, Figure1, middle
from offdiag.report import writer

HEAD = ("model", "rank", "metric", "standard error", "dropout", "l2", "MB", "seconds", "objective")


def as_json(figure: Figure1, claims: list[Claim]) -> dict[str, Any]:
    """Every number of the figure as JSON; distributions as quantiles and histograms."""
    train = figure.train
    found = {
        "paper": "steck2020",
        "figure": "figure1",
        "data": {
            "source": figure.source,
            "users": train.n_users,
            "items": train.n_items,
            "interactions": train.nnz,
            "test_users": figure.n_test,
            "held_out": figure.held_out,
        },
        "seed": figure.seed,
        "tuned": figure.tuned,
        "settings": figure.full_rank[EDLAE].settings,
        "metric": figure.metric,
        "full_rank": {name: _without_objective(point) for name, point in figure.full_rank.items()},
        "accuracy": [point.to_dict() for point in figure.curve.points],
        "rank": figure.rank,
        "group": GROUP,
        "median_cosines": {
            gauge: {
                f"{name} {side}": _spread(values, -1.0, 1.0)
                for name, pair in models.items()
                for side, values in zip(SIDES, pair, strict=True)
            }
            for gauge, models in figure.cosines.items()
        },
        "diagonal": {
            name: _spread(values, float(np.min(values)), float(np.max(values)))
            for name, values in figure.diagonals.items()
        },
        "claims": [asdict(claim) for claim in claims],
        "seconds": figure.seconds,
    }
    plain: dict[str, Any] = wording.plain(found)
    return plain


def _without_objective(point: RankPoint) -> dict[str, Any]:
    return {name: value for name, value in point.to_dict().items() if name != "objective"}


def _spread(values: NDArray[Any], low: float, high: float) -> dict[str, Any]:
    finite = values[np.isfinite(values)].astype(np.float64)
    shares = (0.05, 0.25, 0.5, 0.75, 0.95)
    counts, edges = np.histogram(np.clip(finite, low, high), bins=40, range=(low, high))
    return {
        "mean": float(finite.mean()) if finite.size else None,
        "quantiles": dict(zip(map(str, shares), np.quantile(finite, shares).tolist(), strict=True))
        if finite.size
        else {},
        "counts": counts.tolist(),
        "edges": edges.tolist(),
    }


def settings_text(figure: Figure1) -> str:
    settings = figure.full_rank[EDLAE].settings
    return ", ".join(f"{name} {writer.setting_text(value)}" for name, value in settings.items())


def rows(figure: Figure1) -> list[list[str]]:
    """One line per model and rank, the full-rank models last; the columns are those of ``HEAD``."""

    def row(p: RankPoint, rank: str, objective: str) -> list[str]:
        chosen = [writer.setting_text(p.settings.get(name, 0.0)) for name in ("dropout", "l2")]
        costs = [f"{p.n_bytes / 1e6:.1f}", f"{p.seconds:.1f}"]
        return [p.model, rank, f"{p.mean:.4f}", f"{p.sem:.4f}", *chosen, *costs, objective]

    points = [row(p, f"{p.rank:,}", f"{p.objective:.6g}") for p in figure.curve.points]
    return points + [row(p, "full", "") for p in figure.full_rank.values()]


def cosine_rows(figure: Figure1) -> list[list[str]]:
    """Model, gauge, median cosine in the encoder and in the decoder, median of the diagonal."""
    return [
        [name, gauge, *(f"{middle(values):.3f}" for values in pair), f"{middle(figure.diagonals[name]):.3f}"]
        for gauge, models in figure.cosines.items()
        for name, pair in models.items()
    ]
