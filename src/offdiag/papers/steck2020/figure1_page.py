"""Figure 1 of [Steck20] as files: a page with its panels and a JSON document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag import wording
from offdiag.diagnostics import RankPoint
from offdiag.papers.steck2020.figure1 import DLAE, EDLAE, GROUP, SIDES, ZERO, Figure1, middle
from offdiag.plots import Figure, ranks
from offdiag.report import writer
from offdiag.report.page import html

COLOURS = {EDLAE: 3, ZERO: 1, DLAE: 2}  # EDLAE and DLAE as in the report of `offdiag demo`


def drawings(figure: Figure1) -> dict[str, Figure]:
    """The panels, by file name."""
    cosines = ranks.cosines(figure.cosines)
    return {
        "figure1-accuracy": ranks.accuracy(figure.curve, figure.full_rank.result, colours=COLOURS),
        "figure1-edlae": cosines[EDLAE],
        "figure1-zero-diagonal": cosines[ZERO],
        "figure1-dlae": cosines[DLAE],
        "figure1-diagonal": ranks.diagonals({name: figure.diagonals[name] for name in (EDLAE, DLAE)}, colours=COLOURS),
    }


def as_json(figure: Figure1) -> dict[str, Any]:
    """Every number of the figure as JSON; distributions as quantiles and histograms."""
    train = figure.train
    sides = {
        f"{name} {side}": values
        for name, pair in figure.cosines.items()
        for side, values in zip(SIDES, pair, strict=True)
    }
    return {
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
        "settings": figure.full_rank.settings,
        "metric": figure.metric,
        "full_rank": {name: getattr(figure.full_rank, name) for name in ("mean", "sem", "n_bytes", "seconds")},
        "accuracy": [point.to_dict() for point in figure.curve.points],
        "rank": figure.rank,
        "group": GROUP,
        "median_cosines": {name: _spread(values, -1.0, 1.0) for name, values in sides.items()},
        "median_cosines_as_fitted": {
            name: dict(zip(SIDES, pair, strict=True)) for name, pair in figure.cosines_as_fitted.items()
        },
        "diagonal": {
            name: _spread(values, float(np.min(values)), float(np.max(values)))
            for name, values in figure.diagonals.items()
        },
        "claims": [claim.as_row() for claim in figure.claims],
        "seconds": figure.seconds,
    }


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


def write(figure: Figure1, folder: Path) -> list[str]:
    """The page and the numbers; an older file stays intact until the new one is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    writer.replace_text(folder / "figure1.html", page(figure))
    writer.replace_text(folder / "figure1.json", json.dumps(wording.plain(as_json(figure)), indent=2) + "\n")
    return [str(folder / name) for name in ("figure1.html", "figure1.json")]


def page(figure: Figure1) -> str:
    """One self-contained HTML page: no script, no external resource."""
    train = figure.train
    return html(
        "offdiag.papers",
        "figure1.html",
        figure=figure,
        seconds=figure.seconds,
        panels=_panels(figure),
        claims=[claim.as_row() for claim in figure.claims],
        head=HEAD,
        rows=rows(figure),
        facts=[
            ("data", figure.source),
            ("learned from", f"{train.n_users:,} users, {train.n_items:,} items, {train.nnz:,} interactions"),
            ("measured on", f"{figure.n_test:,} users held out of training (seed {figure.seed})"),
            ("settings of the full-rank model", settings_text(figure)),
            ("similar items", f"the {GROUP} largest values in each column of the full-rank EDLAE model"),
            (
                "embeddings",
                "those with UᵀU = VᵀV. Many pairs U, V make the same model, with other cosines; this choice is made "
                "alike for all models.",
            ),
        ],
    )


def settings_text(figure: Figure1) -> str:
    return ", ".join(f"{name} {writer.setting_text(value)}" for name, value in figure.full_rank.settings.items())


def _panels(figure: Figure1) -> list[tuple[str, str, Figure]]:
    """Title, caption and drawing."""
    drawn = drawings(figure)
    return [
        (
            "Accuracy against rank",
            f"{figure.metric} of {figure.n_test:,} new users, ± one standard error. Differences between models at one "
            "rank are surer than these bars suggest: the same users were asked, see the claims below.",
            drawn["figure1-accuracy"],
        ),
        (f"EDLAE, rank {figure.rank:,}", _cosine_caption(figure, EDLAE), drawn["figure1-edlae"]),
        (f"Zero diagonal, rank {figure.rank:,}", _cosine_caption(figure, ZERO), drawn["figure1-zero-diagonal"]),
        (f"DLAE, rank {figure.rank:,}", _cosine_caption(figure, DLAE), drawn["figure1-dlae"]),
        (
            "What predicts itself",
            f"The diagonal of UVᵀ at rank {figure.rank:,}. EDLAE does not count it while it learns: it is what the "
            "other entries make of it. DLAE is rewarded for a large one. In the zero-diagonal model it is 0.",
            drawn["figure1-diagonal"],
        ),
    ]


HEAD = ("model", "rank", "metric", "standard error", "dropout", "l2", "MB", "seconds", "objective")


def rows(figure: Figure1) -> list[list[str]]:
    def row(p: RankPoint, rank: str, objective: str) -> list[str]:
        chosen = [writer.setting_text(p.settings[name]) for name in ("dropout", "l2")]
        costs = [f"{p.n_bytes / 1e6:.1f}", f"{p.seconds:.1f}"]
        return [p.model, rank, f"{p.mean:.4f}", f"{p.sem:.4f}", *chosen, *costs, objective]

    points = [row(p, f"{p.rank:,}", f"{p.objective:.6g}") for p in figure.curve.points]
    return [*points, row(figure.full_rank, "full", "")]


def _cosine_caption(figure: Figure1, name: str) -> str:
    encoder, decoder = (middle(values) for values in figure.cosines[name])
    return (
        f"For each item, the {GROUP} items most similar to it: the median cosine between their embeddings. Half of "
        f"all items are below {encoder:.2f} in the encoder and {decoder:.2f} in the decoder."
    )
