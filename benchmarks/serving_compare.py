"""The service before and after a change, measured alternately in one run: requests per second and latencies, as ratios.

    git worktree add ../before BRANCH
    python benchmarks/serving_compare.py ../before/src [--rounds 5] [--seconds 10] [--kinds dense,sparse]

For each kind of weights and number of connections: before, after, before, after, … with wrk as in serving.py. Writes
results/serving_compare.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

from measure import machine
from serving import made, serving, wrk

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "serving_compare.json"


def measure(tree: Path, path: Path, m: int, seconds: int, connections: int) -> dict[str, float]:
    os.environ["PYTHONPATH"] = str(tree.resolve())
    with serving(path) as (port, pid):
        wrk(port, m, 2, connections, seed=9)
        before = cpu_seconds(pid)
        found = wrk(port, m, seconds, connections)
        return found | {"cpu_ms": 1000 * (cpu_seconds(pid) - before) / found["requests"]}


def cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process: the cost of a request even when other programs share the cores."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def compare(trees: dict[str, Path], path: Path, m: int, words: argparse.Namespace, connections: int) -> dict[str, Any]:
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
    for _ in range(words.rounds):
        for name, tree in trees.items():
            runs[name].append(measure(tree, path, m, words.seconds, connections))
    report: dict[str, Any] = {"kind": path.stem, "connections": connections}
    for figure in ("per_second", "p50_ms", "p99_ms", "cpu_ms"):
        for name in trees:
            report[f"{figure}_{name}"] = round(statistics.median(run[figure] for run in runs[name]), 2)
        pairs = zip(runs["before"], runs["after"], strict=True)
        ratios = sorted(after[figure] / before[figure] for before, after in pairs)
        report[f"{figure}_ratio"] = round(statistics.median(ratios), 3)
        report[f"{figure}_ratios"] = [round(ratio, 3) for ratio in ratios]
    print(json.dumps(report), flush=True)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("before", type=Path, help="the source folder of the code before, for example ../before/src")
    parser.add_argument("--after", type=Path, default=HERE.parent / "src")
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--connections", default="1,8,64,256")
    parser.add_argument("--kinds", default="dense,sparse")
    words = parser.parse_args()
    trees = {"before": words.before, "after": words.after}
    with tempfile.TemporaryDirectory() as folder:
        runs = [
            compare(trees, made(kind, words.items, Path(folder)), words.items, words, int(connections))
            for kind in words.kinds.split(",")
            for connections in words.connections.split(",")
        ]
    RESULTS.write_text(json.dumps({"machine": machine(), "runs": runs}, indent=2) + "\n")


if __name__ == "__main__":
    main()
