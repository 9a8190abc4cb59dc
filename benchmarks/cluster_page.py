"""Generates docs/cluster-arithmetic.md from results/cluster.json: ``python benchmarks/cluster_page.py``."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offdiag.report.page import markdown
from offdiag.wording import size as readable

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "cluster.json"
PAGE = HERE.parent / "docs" / "cluster-arithmetic.md"
MACHINES, CORES, MEMORY, NETWORK = 64, 16, 256e9, 1.25e9  # of the cluster in the estimate; bytes per second
PER_USER, NEIGHBOURS, TILE = 50, 200, 4096
IDLE = 0.3e9  # bytes of an idle worker with its libraries loaded
HELD = 2.5  # blocks in a worker, with those in transit
SAMPLED = 128  # rows from which sizes are estimated


@dataclass(frozen=True)
class Size:
    """The sizes that the cost depends on."""

    users: float
    items: float
    entries: float
    pairs: float
    neighbours: float
    tile: float
    workers: float
    cores: float = 1.0
    gram: float = 0.0  # entries of the Gram up to the diagonal
    pieces: float = 0.0  # entries of the Grams of all workers
    overlap: float = 1.0  # bytes that blocks take, as a share of those of all sub-Grams

    @property
    def stored(self) -> float:
        return min(8 * self.gram, 2 * self.items**2)

    @property
    def block(self) -> float:
        """Bytes of the rows of a block: as many as fit, because more rows have less to move."""
        free = 0.8 * MEMORY - IDLE - (self.stored + 16 * self.entries) / self.workers
        return min(max(0.125 * self.stored / self.workers, 2**24, free / HELD), 2**32)

    @property
    def copied(self) -> float:
        return self.stored if self.stored <= HELD * self.block else self.block / 2

    @property
    def held(self) -> float:
        return min(self.stored, HELD * self.block)

    @property
    def taken(self) -> float:
        return 0.0 if self.copied == self.stored else self.overlap * 4 * self.items * self.neighbours**2

    @property
    def triangle(self) -> float:
        return 2 * self.items * (self.items + self.tile)

    @property
    def packed(self) -> float:
        return 2 * self.items * (self.items + 1)

    @property
    def others(self) -> float:
        return self.workers - 1

    @property
    def passing(self) -> float:
        return min(32 * self.tile * self.items, self.triangle) if self.workers > 1 else 0.0

    @property
    def supports(self) -> float:
        return 8 * self.items * self.neighbours


@dataclass(frozen=True)
class Stage:
    """Amount of work and its unit, bytes moved, bytes per worker; whether the workers share the work."""

    unit: str
    work: Callable[[Size], float]
    moved: Callable[[Size], float]
    memory: Callable[[Size], float]
    shared: bool = True
    shape: str = "dense"
    one_core: bool = False

    def seconds(self, s: Size, rate: float) -> float:
        return self.work(s) / rate / (1 if self.one_core else s.cores * (s.workers if self.shared else 1))


STAGES = {
    "reading": Stage(
        "rows",
        lambda s: s.entries,
        lambda s: 12 * s.entries * s.others / s.workers,
        lambda s: 64 * s.entries / s.workers,
    ),
    "Gram": Stage(
        "pairs", lambda s: s.pairs, lambda s: s.packed * s.workers, lambda s: 2 * s.packed + 12 * s.entries / s.workers
    ),
    "tiles of the Gram": Stage(
        "pairs",
        lambda s: s.pairs,
        lambda s: 12 * s.entries * s.others,
        lambda s: s.triangle / s.workers + 24 * s.entries,
    ),
    "inverse": Stage(
        "flops",
        lambda s: s.items**3,
        lambda s: 3 * s.triangle * s.others,
        lambda s: 2 * s.triangle / s.workers + s.passing,
    ),
    "ordering": Stage(
        "interactions",
        lambda s: s.entries,
        lambda s: 36 * s.items * s.workers,
        lambda s: 16 * s.entries / s.workers + 64 * s.items,
        shape="sparse",
    ),
    "sizes": Stage(
        "items",
        lambda s: s.items,
        lambda s: SAMPLED * s.pieces / s.items * 12 * s.others / s.workers,
        lambda s: 16 * s.entries / s.workers + 64 * s.items,
        shared=False,
        shape="sparse",
    ),
    "counting": Stage(
        "pairs",
        lambda s: 2 * s.pairs,
        lambda s: 12 * s.pieces * s.others / s.workers + s.supports,
        lambda s: (16 * s.entries + 1.12 * s.stored) / s.workers + 64 * s.items,
        shape="sparse",
    ),
    "popular items": Stage(
        "bytes",
        lambda s: s.copied,
        lambda s: s.copied * s.others,
        lambda s: s.stored / s.workers + s.held,
        shared=False,
        shape="sparse",
    ),
    "columns": Stage(
        "items × neighbours²",
        lambda s: s.items * s.neighbours**2,
        lambda s: s.taken * s.others / s.workers + s.supports / 2,
        lambda s: s.stored / s.workers + s.held,
        shape="sparse",
    ),
    "here": Stage(
        "weights",
        lambda s: s.items * s.neighbours,
        lambda s: 0.0,
        lambda s: 0.0,
        shared=False,
        shape="sparse",
        one_core=True,
    ),
}


def page(results: dict[str, Any] | None) -> str:
    """The whole page as text."""
    words: dict[str, Any] = {"results": results}
    if results is not None:
        rate = rates(results)
        words |= {
            "constants": [
                [name, stage.unit, f"{work:.3g}", f"{took:.2f}", f"{rate[name]:.3g} / s"]
                for name, stage in STAGES.items()
                for work, took in [done(results, "small", name)]
            ],
            "checked": checked(results, rate),
            "overlap": results["overlap"],
            "growth": growth(results),
            "limited": results.get("limited"),
            "speedups": ", ".join(f"{name} {ratio:.2f}×" for name, ratio in results["speedup"].items()),
            "busy": ", ".join(f"{name} {ratio:.2f}×" for name, ratio in results.get("busy_speedup", {}).items()),
            "scenarios": scenarios(results, rate),
            "machines": MACHINES,
            "cores": CORES,
            "memory": MEMORY,
            "network": NETWORK,
            "per_user": PER_USER,
            "neighbours": NEIGHBOURS,
            "tile": TILE,
        }
    return markdown(HERE / "templates", "cluster.md", readable=readable, **words)


def size_of(results: dict[str, Any], size: str, stage: str, workers: int) -> Size:
    shape = results["shapes"][size][STAGES[stage].shape]
    return Size(
        shape["users"], shape["items"], shape["entries"], shape["pairs"], shape.get("neighbours", 0),
        shape.get("tile", 0), workers, gram=shape.get("gram", 0), pieces=shape.get("pieces", {}).get(str(workers), 0),
        overlap=results["overlap"],
    )  # fmt: skip


def done(results: dict[str, Any], size: str, stage: str) -> tuple[float, float]:
    """Amount of work and seconds of one worker."""
    return STAGES[stage].work(size_of(results, size, stage, 1)), results["runs"][size]["1"][stage]["seconds"]


def rates(results: dict[str, Any]) -> dict[str, float]:
    """Work per second of one core, from the small shape on one worker."""
    return {stage: work / took for stage in STAGES for work, took in [done(results, "small", stage)]}


def checked(results: dict[str, Any], rate: dict[str, float]) -> list[list[str]]:
    rows = []
    for name, stage in STAGES.items():
        for workers in (1, 2):
            s, run = size_of(results, "large", name, workers), results["runs"]["large"][str(workers)][name]
            rows.append([
                name, str(workers), f"{stage.seconds(s, rate[name]):.2f}", f"{run['seconds']:.2f}",
                *(("–",) * 4 if stage.one_core else (
                    readable(IDLE + stage.memory(s)), readable(run["peak_bytes"]),
                    readable(stage.moved(s)), readable(run["moved_bytes"]),
                )),
            ])  # fmt: skip
    return rows


def scenarios(results: dict[str, Any], rate: dict[str, float]) -> list[list[str]]:
    shape = results["shapes"]["large"]["sparse"]
    skew = 2 * shape["pairs"] / (shape["entries"] ** 2 / shape["users"])  # of user activity: 1 if it is uniform
    sparse = ("reading", "ordering", "sizes", "counting", "popular items", "columns", "here")
    rows = []
    for users in (10e6, 100e6, 1e9):
        for items in (1e6, 10e6):
            entries = PER_USER * users
            pairs = skew * entries * PER_USER / 2
            # At most: no two pairs alike, up to every pair of items
            gram, pieces = min(pairs, items**2 / 2), min(2 * pairs, MACHINES * items**2)
            s = Size(users, items, entries, pairs, NEIGHBOURS, TILE, MACHINES, CORES, gram, pieces, results["overlap"])
            rows.append(scenario("sparse", s, rate, sparse))
            if items <= 1e6 and users <= 100e6:
                rows.append(scenario("dense, strongest kept", s, rate, ("reading", "tiles of the Gram", "inverse")))
    return rows


def growth(results: dict[str, Any]) -> list[list[str]]:
    """Bytes moved and memory of a worker in sparse fits that grow in users, items and workers."""
    rows = []
    for run in results.get("growth", []):
        share = 16 * run["entries"] / run["workers"] + run["stored"] / run["workers"]
        moved, expected = (sum(stage[what] for stage in run["stages"]) for what in ("moved_bytes", "expected_bytes"))
        peak = max(stage["peak_bytes"] for stage in run["stages"])
        rows.append([
            f"{run['users']:,}", f"{run['items']:,}", str(run["workers"]), readable(expected), readable(moved),
            f"{moved / expected:.2f}", readable(share), readable(peak), f"{peak / (IDLE + 1.5 * share):.2f}",
        ])  # fmt: skip
    return rows


def scenario(name: str, s: Size, rate: dict[str, float], stages: tuple[str, ...]) -> list[str]:
    busy = sum(STAGES[stage].seconds(s, rate[stage]) for stage in stages)
    network = sum(STAGES[stage].moved(s) for stage in stages) / s.workers / NETWORK
    memory = IDLE + max(STAGES[stage].memory(s) for stage in stages)
    most = 0.8 * MEMORY
    return [
        f"{s.users / 1e6:g} M", f"{s.items / 1e6:g} M", name, duration(busy), duration(network), readable(memory),
        readable(2 * s.supports), "yes" if memory <= most else f"no, more than {readable(most)}",
    ]  # fmt: skip


def duration(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.2g} {unit}" if seconds < 100 * length else f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds:.0f} s"


def measured() -> dict[str, Any] | None:
    found: dict[str, Any] | None = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else None
    return found


def renew() -> None:
    PAGE.write_text(page(measured()), encoding="utf-8")


if __name__ == "__main__":
    renew()
