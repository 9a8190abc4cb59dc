"""Two Dask workers against one, on the same two cores: seconds, memory of a worker and bytes moved, stage by stage.

Each worker is a process with one thread on its own core. Every repeat starts both clusters, alternately, and runs
all stages on two shapes: the small one gives the constants of docs/cluster-arithmetic.md, the large one checks them.
The sparse fit must equal the fit in this process byte for byte. Writes results/cluster.json and updates that page.

    python benchmarks/cluster.py               # about seven minutes on 2 cores
    python benchmarks/cluster.py 10            # everything 10 times smaller, once; nothing is written
    python benchmarks/cluster.py limited       # 180 M interactions, and workers that could not hold them
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import cluster_page
import numpy as np
from measure import machine
from run import say

import offdiag as od
from offdiag.cluster import Report, session
from offdiag.gramian.sparse import sparse_gram
from offdiag.solvers import gram_rows, gram_supports

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "cluster.json"
SHAPES: dict[str, dict[str, dict[str, int]]] = {
    "small": {
        "dense": {"users": 20_000, "items": 5_000, "entries": 1_000_000, "tile": 1_024},
        "sparse": {"users": 20_000, "items": 10_000, "entries": 1_000_000, "neighbours": 200},
    },
    "large": {
        "dense": {"users": 60_000, "items": 10_000, "entries": 3_000_000, "tile": 2_048},
        "sparse": {"users": 60_000, "items": 15_000, "entries": 3_000_000, "neighbours": 300},
    },
}
FILES = 8
REPEATS = 1
KEEP = 50
GOAL = 1.7
SETTINGS: dict[str, Any] = {"dropout": 0.5, "l2": 100.0, "user_power": 0.5}
SPARSE = {  # names here and in the reports
    "ordering": "ordering items",
    "sizes": "estimating sizes",
    "counting": "counting pairs",
    "popular items": "copying popular items",
    "columns": "solving columns",
}
ESTIMATED = ("counting", "popular items", "columns")  # stages whose traffic is expected beforehand
SPARE = 64 << 20  # bytes above the goal for the memory of a worker that the limit of a growing fit leaves
GROWTH: dict[str, int] = {"users": 20_000, "items": 6_000, "entries": 1_000_000, "neighbours": 100}
LARGER: dict[str, int] = {"users": 60_000, "items": 24_000, "entries": 3_000_000, "neighbours": 100}
WORKERS = (2, 4, 8, 16)
LIMITED: dict[str, int] = {"users": 3_000_000, "items": 4_000, "entries": 180_000_000, "neighbours": 50}
LIMITED_FILES = 64

Cost = dict[str, float]


def smaller(shape: dict[str, int], factor: int) -> dict[str, int]:
    return {
        name: max(value // factor, 20) if name != "entries" else max(value // factor, 2_000)
        for name, value in shape.items()
    }


def written(folder: Path, shape: dict[str, int], files: int = FILES) -> int:
    """Write partitions of synthetic interactions that share their users; return the pairs Σ n_u²/2 to be counted."""
    import polars as pl

    inter = od.synthetic.interactions(shape["users"], shape["items"], shape["entries"], names=False, seed=0)
    X = inter.matrix.tocoo()
    order = np.random.default_rng(0).permutation(X.nnz)
    table = pl.DataFrame({"user": inter.user_ids[X.row[order]], "item": inter.item_ids[X.col[order]]})
    for part in range(files):
        lo, hi = len(table) * part // files, len(table) * (part + 1) // files
        table[lo:hi].write_parquet(folder / f"part-{part}.parquet")
    return int((np.diff(inter.matrix.indptr).astype(np.int64) ** 2).sum() // 2)


def gram_sizes(folder: Path) -> dict[str, Any]:
    """Entries of the Gram up to the diagonal, and of the Grams of the users of each worker."""
    X = od.read(sorted(folder.glob("*.parquet"))).matrix
    parts = {workers: np.linspace(0, X.shape[0], workers + 1).astype(int) for workers in (1, 2)}
    pieces = {
        str(workers): sum(len(sparse_gram(X[lo:hi]).values) for lo, hi in pairwise(edges.tolist()))
        for workers, edges in parts.items()
    }
    return {"gram": pieces["1"] // 2, "pieces": pieces}


def grown() -> list[dict[str, Any]]:
    """Sparse fits with more users, items and workers: traffic expected and moved, and memory.

    The limit of a worker is close to the goal, so that blocks are as small as they are where memory is short.
    """
    shapes = [GROWTH, GROWTH | {"users": 2 * GROWTH["users"], "entries": 2 * GROWTH["entries"]}]
    shapes += [GROWTH | {"items": 2 * GROWTH["items"]}, LARGER]
    runs = []
    for shape in shapes:
        inter = od.synthetic.interactions(shape["users"], shape["items"], shape["entries"], names=False, seed=0)
        below = gram_supports.RankedGram.of(sparse_gram(inter.matrix, SETTINGS["user_power"])).below()
        stored = int(gram_rows.bytes_of_rows(below, 4).sum())
        for workers in WORKERS if shape is GROWTH else (2, 4, 8) if shape is LARGER else (4,):
            share = (16 * inter.nnz + stored) / workers
            limit = int((cluster_page.IDLE + 1.5 * share + SPARE) / session.USABLE)
            with od.cluster.connect(f"local:{workers}", memory_limit=limit, timeout=120) as client:
                reports: list[Report] = []
                parts = od.cluster.read(inter, client=client)
                model = od.SparseEDLAE(**SETTINGS, neighbours=shape["neighbours"])
                od.cluster.fit_sparse(model, parts, client=client, reports=reports)
                found = {name: cost(reports, stage) for name, stage in SPARSE.items()}
                expected = {report.stage: report.expected_bytes for report in reports}
            stages = [found[name] | {"expected_bytes": expected[SPARSE[name]]} for name in ESTIMATED]
            about: dict[str, Any] = {
                "entries": inter.nnz,
                "workers": workers,
                "stored": stored,
                "stages": stages,
                "limit": limit,
            }
            runs.append(shape | about)
            say(f"{shape}, {workers} workers: {', '.join(map(str, reports))}")
    return runs


def overlap(growing: list[dict[str, Any]]) -> float:
    """Bytes that blocks take where rows are not all copied, as a share of those of all sub-Grams: the largest."""
    shares = []
    for run in growing:
        (columns,) = (stage for name, stage in zip(ESTIMATED, run["stages"], strict=True) if name == "columns")
        taken = columns["moved_bytes"] - 4 * run["items"] * run["neighbours"]
        of_all = 4 * run["items"] * run["neighbours"] ** 2 * (run["workers"] - 1) / run["workers"]
        shares.append(float(max(taken, 0) / of_all))
    return max(shares)


def limited() -> dict[str, Any]:
    """Eight workers, each limited to a third of what all interactions take; the same bytes as in this process."""
    workers = 8
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        written(folder, LIMITED, LIMITED_FILES)
        inter = od.read(sorted(folder.glob("*.parquet")))
        settings = SETTINGS | {"neighbours": LIMITED["neighbours"]}
        here: Any = od.SparseEDLAE(**settings).fit(inter)
        entries, users = inter.nnz, inter.n_users
        del inter
        limit = 16 * entries // 3
        with od.cluster.connect(f"local:{workers}", memory_limit=limit, timeout=120) as client:
            reports: list[Report] = []
            start = time.perf_counter()
            parts = od.cluster.read(folder, client=client, reports=reports)
            model: Any = od.cluster.fit_sparse(od.SparseEDLAE(**settings), parts, client=client, reports=reports)
            seconds = time.perf_counter() - start
    if not np.array_equal(model.weights_.data, here.weights_.data):
        raise SystemExit("the sparse fit of limited workers differs from the one in this process")
    peak = max(max(report.peak_bytes.values()) for report in reports)
    found = {"workers": workers, "entries": entries, "users": users, "items": LIMITED["items"], "limit_bytes": limit}
    say(f"limited: {seconds:.0f} s, at most {peak / 1e6:.0f} MB of {limit / 1e6:.0f} MB on a worker")
    return found | {"peak_bytes": peak, "seconds": seconds, "interactions_bytes": 16 * entries}


def together(*costs: Cost) -> Cost:
    return {
        "seconds": sum(one["seconds"] for one in costs),
        "peak_bytes": max(one["peak_bytes"] for one in costs),
        "moved_bytes": sum(one["moved_bytes"] for one in costs),
        "busy_seconds": sum(one["busy_seconds"] for one in costs),
    }


def cost(reports: list[Report], stage: str) -> Cost:
    (report,) = (report for report in reports if report.stage == stage)
    peak = float(max(report.peak_bytes.values()))
    busy = max(report.busy_seconds.values())  # of the worker that had most to do
    moved = float(report.moved_bytes)
    return {"seconds": report.seconds, "peak_bytes": peak, "moved_bytes": moved, "busy_seconds": busy}


def stages(client: Any, folders: dict[str, Path], shape: dict[str, dict[str, int]]) -> tuple[dict[str, Cost], Any]:
    """The cost of each stage on this cluster, and the sparse model."""
    found: dict[str, Cost] = {}
    reports: list[Report] = []
    parts = od.cluster.read(folders["dense"], client=client, reports=reports)
    found["reading"] = cost(reports, "reading")
    reports = []
    od.cluster.gram(parts, client=client, reports=reports)
    found["Gram"] = cost(reports, "counting pairs")
    reports = []
    model = od.EDLAE(**SETTINGS)
    od.cluster.fit_full_rank(model, parts, keep=KEEP, tile=shape["dense"]["tile"], client=client, reports=reports)
    found["tiles of the Gram"] = cost(reports, "counting pairs")
    found["inverse"] = cost(reports, "inverting")
    del parts
    parts = od.cluster.read(folders["sparse"], client=client)
    reports = []
    start = time.perf_counter()
    sparse = od.cluster.fit_sparse(
        od.SparseEDLAE(**SETTINGS, neighbours=shape["sparse"]["neighbours"]),
        parts,
        client=client,
        reports=reports,
    )
    seconds = time.perf_counter() - start
    for name, stage in SPARSE.items():
        found[name] = cost(reports, stage)
    busy = sum(found[name]["seconds"] for name in SPARSE)
    found["here"] = {"seconds": seconds - busy, "peak_bytes": 0.0, "moved_bytes": 0.0, "busy_seconds": 0.0}
    found["sparse fit"] = together(*(found[name] for name in SPARSE)) | {"seconds": seconds}
    return found, sparse


def warm(client: Any, folder: Path) -> None:
    """Load libraries and compiled loops, which happens on first use in every worker."""
    inter = od.synthetic.interactions(300, 200, 3_000, seed=0)
    for _ in range(2):
        od.cluster.read(folder, client=client)
        od.cluster.gram(inter, client=client)
        od.cluster.fit_full_rank(od.EDLAE(**SETTINGS), inter, tile=50, client=client)
        od.cluster.fit_sparse(od.SparseEDLAE(**SETTINGS, neighbours=20), inter, client=client)


def medians(costs: list[dict[str, Cost]]) -> dict[str, Cost]:
    return {
        stage: {what: statistics.median(one[stage][what] for one in costs) for what in costs[0][stage]}
        for stage in costs[0]
    }


def one_machine(folder: Path, shape: dict[str, int]) -> tuple[Any, float]:
    """The sparse fit in this process, on all its cores."""
    inter = od.read(sorted(folder.glob("*.parquet")))
    start = time.perf_counter()
    model = od.SparseEDLAE(**SETTINGS, neighbours=shape["neighbours"]).fit(inter)
    return model, time.perf_counter() - start


def main(factor: int) -> None:
    shapes = {size: {kind: smaller(shape, factor) for kind, shape in kinds.items()} for size, kinds in SHAPES.items()}
    costs: dict[tuple[str, int], list[dict[str, Cost]]] = {}
    result: dict[str, Any] = {"machine": machine(), "shapes": shapes, "runs": {}}
    with tempfile.TemporaryDirectory() as temporary:
        folders = {size: {kind: Path(temporary) / size / kind for kind in kinds} for size, kinds in shapes.items()}
        for size, kinds in shapes.items():
            for kind, shape in kinds.items():
                folders[size][kind].mkdir(parents=True)
                shape["pairs"] = written(folders[size][kind], shape)
                if kind == "sparse":
                    shape |= gram_sizes(folders[size][kind])
        here, seconds = one_machine(folders["large"]["sparse"], shapes["large"]["sparse"])
        result["one_machine_seconds"] = seconds
        say(f"the large sparse fit in one process: {seconds:.2f} s")
        for repeat in range(REPEATS if factor == 1 else 1):
            for workers in (1, 2) if repeat % 2 == 0 else (2, 1):
                with od.cluster.connect(f"local:{workers}") as client:
                    warm(client, folders["small"]["dense"])
                    for size in shapes:
                        found, model = stages(client, folders[size], shapes[size])
                        costs.setdefault((size, workers), []).append(found)
                        say(
                            f"{size}, {workers} worker(s): "
                            + ", ".join(f"{n} {c['seconds']:.2f} s" for n, c in found.items())
                        )
                if not np.array_equal(model.weights_.data, here.weights_.data):
                    raise SystemExit("the sparse fit on the cluster differs from the one in this process")
    for (size, workers), several in costs.items():
        result["runs"].setdefault(size, {})[str(workers)] = medians(several)
    one, two = result["runs"]["large"]["1"], result["runs"]["large"]["2"]
    result["speedup"] = {stage: one[stage]["seconds"] / two[stage]["seconds"] for stage in one}
    result["busy_speedup"] = {
        stage: one[stage]["busy_seconds"] / two[stage]["busy_seconds"] for stage in one if stage != "here"
    }
    say(f"in processor time of the busier worker: {result['busy_speedup']}")
    for stage, ratio in result["speedup"].items():
        say(
            f"{stage}: 2 workers are {ratio:.2f} times as fast as 1"
            + (f" (goal {GOAL})" if stage in ("counting", "columns") else "")
        )
    if factor == 1:
        result["growth"] = grown()
        result["overlap"] = overlap(result["growth"])
        before = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
        result["limited"] = before.get("limited")
        RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        cluster_page.renew()
    else:
        say(cluster_page.page(result | {"overlap": 0.0}))


if __name__ == "__main__":
    if sys.argv[1:] == ["limited"]:
        result = json.loads(RESULTS.read_text(encoding="utf-8")) | {"limited": limited()}
        RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        cluster_page.renew()
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
