"""Generates docs/comparison.md and its figures from results/peers.json: ``python benchmarks/peers_page.py``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import peers_figures
from peers.registry import ADAPTER_OF
from results_page import machine, settings

from offdiag.measured import decide
from offdiag.plots import Figure
from offdiag.report.page import markdown
from offdiag.wording import size

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "peers.json"
DOCS = HERE.parent / "docs"
GOOD_AT = {
    "irspack": "exact linear models, SLIM and a fast iALS, all of which serve new users; a tuner of its own",
    "implicit": "matrix factorisation and neighbours, compiled, also on GPUs; ranking with filters; few dependencies",
    "lenskit": "research: pipelines, repeatable experiments, a careful data model; lists for histories it has not seen",
    "rectools": "tables in and out, many models behind one interface, transformers for order, rich metrics",
    "cornac": "recommendation with texts, images and graphs; a very wide choice of published models",
    "recpack": "evaluation scenarios (by time, by user, by session) and a pipeline around them",
    "recbole": "the largest collection of neural recommenders, with one trainer for all, meant for GPUs",
    "sansa": "approximate EASE for catalogues of millions of items in little memory",
}
TITLES = {
    "ml-1m": "MovieLens 1M",
    "lastfm, items ≥ 5 users": "Last.fm, artists with 5 listeners or more",
    "gowalla": "Gowalla",
}
ROUNDING = 1e-3  # a larger residual is not rounding in float32


def page(found: dict[str, Any]) -> str:
    """The whole page as text."""
    return markdown(
        HERE / "templates",
        "comparison.md",
        found=found,
        good_at=GOOD_AT,
        measured=measured,
        failures=failures(found),
        checks=checks(found),
        verdict=verdict,
        as_accurate=as_accurate,
        seconds=seconds,
        fit_seconds=fit_seconds,
        size=size,
        settings=settings,
        machine=machine,
        versions=versions,
        notes=notes(found),
        pictured=pictured(found),
        rounding=ROUNDING,
    )


def measured(part: dict[str, Any], metric: str) -> list[tuple[str, dict[str, Any]]]:
    """The rows with a result, the most accurate first."""
    rows = [(name, row) for name, row in part["rows"].items() if "mean" in row]
    return sorted(rows, key=lambda pair: -pair[1]["mean"][metric])


def failures(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Model, data set and reason of what could not be run, or has not been so far."""
    rows = []
    for data, part in found["data"].items():
        rows += [(name, data, row["failed"]) for name, row in part["rows"].items() if "failed" in row]
        rows += [(name, data, "not run yet") for name in ADAPTER_OF if name not in part["rows"]]
    return sorted(rows)


def checks(found: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(n, d, row) for d, part in found["data"].items() for n, row in part["rows"].items() if "check" in row]


def notes(found: dict[str, Any]) -> list[tuple[str, str]]:
    """What has to be known about single models."""
    rows = [
        (name, row["note"]) for part in found["data"].values() for name, row in part["rows"].items() if row.get("note")
    ]
    return sorted(set(rows))


def verdict(check: dict[str, float]) -> str:
    if check["residual"] <= ROUNDING:
        return "the optimum, up to rounding"
    if check.get("residual_transposed", 1.0) <= ROUNDING:
        return "ranks with the transpose of the optimum"
    return "not the optimum"


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """For the three rows of the README: our model that was best on validation users, and the best peers.

    The most accurate peer is taken by its result on the test users, which favours it. Time and memory are those of the
    same exact model, EASE, whose weights were verified: of all exact peers the fastest, and the one with least memory.
    """
    data, metric = pictured(found), found["metric"]
    assert data is not None
    rows = measured(found["data"][data], metric)
    exact = {name: row for name, row in rows if row.get("check", {"residual": 1.0})["residual"] <= ROUNDING}
    peers = {name: row for name, row in exact.items() if row["package"] != "offdiag" and name.endswith(" EASE")}
    return {
        "title": TITLES.get(data, data),
        "ours": next(pair for pair in rows if pair[1].get("is_reference")),
        "best": next(pair for pair in rows if pair[1]["package"] != "offdiag"),
        "mine": exact["offdiag EASE"],
        "fastest": min(peers.items(), key=lambda pair: fit_seconds(pair[1])),
        "leanest": min(peers.items(), key=lambda pair: float(pair[1]["extra_peak_bytes"])),
        "quiet": all(row["alone"] for row in [exact["offdiag EASE"], *peers.values()]),
    }


def as_accurate(part: dict[str, Any], metric: str) -> dict[str, Any] | None:
    """The best peer, and of our models that are not worse than it the one that is fitted fastest."""
    rows = dict(measured(part, metric))
    gaps = {name: row["minus_best_peer"] for name, row in rows.items() if "minus_best_peer" in row}
    ours = [name for name, gap in gaps.items() if decide(gap["difference"], gap["sem"]) != "worse"]
    if not ours:
        return None
    name = min(ours, key=lambda name: fit_seconds(rows[name]))
    peer = gaps[name]["peer"]
    times = fit_seconds(rows[name]), fit_seconds(rows[peer])
    memory = rows[name]["extra_peak_bytes"], rows[peer]["extra_peak_bytes"]
    return {"name": name, "peer": peer, "gap": gaps[name], "seconds": times, "memory": memory}


def fit_seconds(row: dict[str, Any]) -> float:
    """Time on the clock if nothing else ran, else processor time of all threads."""
    return float(row["seconds"] if row["alone"] else row["processor_seconds"])


def seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else f"{1000 * value:.0f} ms" if value >= 0.01 else f"{1000 * value:.1f} ms"


def versions(environment: dict[str, Any]) -> str:
    if "reason" in environment:
        return f"could not be installed: {environment['reason']}"
    return ", ".join(f"{name} {version}" for name, version in environment["versions"].items())


def pictured(found: dict[str, Any]) -> str | None:
    """The data set of the figures: the largest with results."""
    parts = {name: part for name, part in found["data"].items() if measured(part, found["metric"])}
    return max(parts, key=lambda name: parts[name]["interactions"], default=None)


def figures(found: dict[str, Any]) -> dict[str, Figure]:
    """Files in docs, and what is drawn in them."""
    data = pictured(found)
    if data is None:
        return {}
    metric = found["metric"]
    rows = dict(measured(found["data"][data], metric))
    time = peers_figures.scatter(rows, fit_seconds, "seconds of the fit", metric)
    memory = peers_figures.scatter(rows, lambda row: row["extra_peak_bytes"] / 1e6, "MB of extra peak memory", metric)
    return {"comparison-time.svg": time, "comparison-memory.svg": memory}


def results() -> dict[str, Any]:
    """What was measured so far."""
    if not RESULTS.exists():
        return {"data": {}, "environments": {}, "metric": "ndcg@100"}
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def renew() -> None:
    found = results()
    (DOCS / "comparison.md").write_text(page(found), encoding="utf-8")
    for name, figure in figures(found).items():
        figure.save(DOCS / name)


if __name__ == "__main__":
    renew()
