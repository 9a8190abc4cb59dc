"""Top-10 lists of a million users to a file, against the bare scoring call that returns only columns and scores.

Both alternate on the same histories and must give the same lists. The memory is the resident peak above the model and the
histories. Synthetic data with 20 interactions per user. Writes results/batch_output.json.

    python benchmarks/batch_output.py                  # 1,000,000 users × 20,000 items
    python benchmarks/batch_output.py 100000 5000      # another size; written too, with its size
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from measure import machine, measured
from run import say

import offdiag as od
from offdiag import ranking

RESULTS = Path(__file__).parent / "results" / "batch_output.json"
USERS, ITEMS, PER_USER, K = 1_000_000, 20_000, 20, 10
REPEATS = 2
GOAL_RATIO, GOAL_BYTES = 1.3, 1_000_000_000


def main(n_users: int, n_items: int) -> dict[str, Any]:
    inter = od.synthetic.interactions(n_users, n_items, PER_USER * n_users, names=False, seed=0)
    model = od.EASE(l2=100.0, user_power=0.0).fit(inter)
    say(f"{model!r}")
    some = inter.select_users(slice(0, 2_000))  # compiles the loops
    runs: dict[str, list[dict[str, float]]] = {"bare": [], "parquet": [], "csv": [], "jsonl": [], "reasons": []}
    with tempfile.TemporaryDirectory() as folder:
        model.recommend_to(Path(folder, "warm.parquet"), some, reasons=True)
        for _ in range(REPEATS):
            (columns, scores), cost = measured(lambda: ranking.top_k(model.weights_, inter.matrix, K))
            runs["bare"].append(cost)
            _, cost = measured(lambda: model.recommend_to(Path(folder, "top.parquet"), inter, K))
            runs["parquet"].append(cost)
        same = _holds(Path(folder, "top.parquet"), columns, scores, model.item_ids_)
        for name in ("csv", "jsonl"):
            _, cost = measured(lambda name=name: model.recommend_to(Path(folder, f"top.{name}"), inter, K))
            runs[name].append(cost)
        _, cost = measured(lambda: model.recommend_to(Path(folder, "why.parquet"), inter, K, reasons=True))
        runs["reasons"].append(cost)
        sizes = {path.name: path.stat().st_size for path in Path(folder).iterdir()}
    seconds = {name: min(one["seconds"] for one in costs) for name, costs in runs.items()}
    ratios = {name: value / seconds["bare"] for name, value in seconds.items()}
    peak = max(one["extra_peak_bytes"] for one in runs["parquet"])
    return {
        "machine": machine(), "users": n_users, "items": n_items, "interactions": inter.nnz, "k": K,
        "runs": runs, "seconds": seconds, "ratios": ratios, "extra_peak_bytes": peak, "file_bytes": sizes,
        "same_lists": same, "goals": {"ratio": GOAL_RATIO, "bytes": GOAL_BYTES},
        "reached": {"ratio": ratios["parquet"] <= GOAL_RATIO, "bytes": peak < GOAL_BYTES},
    }  # fmt: skip


def _holds(path: Path, columns: Any, scores: Any, item_ids: Any) -> bool:
    """Whether the file has exactly these lists."""
    table, real = pl.read_parquet(path, columns=["item", "score"]), columns >= 0
    items = np.array_equal(table["item"].to_numpy(), item_ids[columns[real]])
    return items and np.array_equal(table["score"].to_numpy(), scores[real])


if __name__ == "__main__":
    sizes = [int(word) for word in sys.argv[1:3]]
    found = main(*sizes) if sizes else main(USERS, ITEMS)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    for name, ratio in found["ratios"].items():
        say(f"{name}: {found['seconds'][name]:.1f} s, {ratio:.2f} × the bare scoring call")
    say(
        f"memory above model and histories: {found['extra_peak_bytes'] / 1e6:.0f} MB; same lists: {found['same_lists']}"
    )
