"""Top-10 lists of a million users to a file, against the bare scoring call that returns only columns and scores.

Both alternate on the same histories and must give the same lists. The memory is the resident peak above the model and
the histories. CSV, JSON lines and reasons are measured on a tenth of the users. Synthetic data with 20 interactions per
user. Writes results/batch_output.json.

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
    few = inter.select_users(slice(0, max(n_users // 10, 1)))
    whole: dict[str, list[dict[str, float]]] = {"bare": [], "parquet": []}
    tenth: dict[str, list[dict[str, float]]] = {"bare": [], "csv": [], "jsonl": [], "parquet with reasons": []}
    with tempfile.TemporaryDirectory() as folder:
        why = Path(folder, "why.parquet")
        model.recommend_to(Path(folder, "warm.parquet"), some, reasons=True)
        for _ in range(REPEATS):
            (columns, scores), cost = measured(lambda: ranking.top_k(model.weights_, inter.matrix, K))
            whole["bare"].append(cost)
            whole["parquet"].append(measured(lambda: model.recommend_to(Path(folder, "top.parquet"), inter, K))[1])
            say(str(whole))
        same = _holds(Path(folder, "top.parquet"), columns, scores, model.item_ids_)
        for _ in range(REPEATS):
            tenth["bare"].append(measured(lambda: ranking.top_k(model.weights_, few.matrix, K))[1])
            tenth["csv"].append(measured(lambda: model.recommend_to(Path(folder, "top.csv"), few, K))[1])
            tenth["jsonl"].append(measured(lambda: model.recommend_to(Path(folder, "top.jsonl"), few, K))[1])
            tenth["parquet with reasons"].append(measured(lambda: model.recommend_to(why, few, K, reasons=True))[1])
        sizes = {path.name: path.stat().st_size for path in Path(folder).iterdir()}
    seconds = _best(whole) | {name: value for name, value in _best(tenth).items() if name != "bare"}
    ratios = {name: value / _best(whole)["bare"] for name, value in _best(whole).items()}
    ratios |= {name: value / _best(tenth)["bare"] for name, value in _best(tenth).items() if name != "bare"}
    peak = max(one["extra_peak_bytes"] for one in whole["parquet"])
    return {
        "machine": machine(), "users": n_users, "items": n_items, "interactions": inter.nnz, "k": K,
        "runs": {"all users": whole, "a tenth": tenth},
        "seconds": seconds, "ratios": ratios, "extra_peak_bytes": peak, "file_bytes": sizes,
        "same_lists": same, "goals": {"ratio": GOAL_RATIO, "bytes": GOAL_BYTES},
        "reached": {"ratio": ratios["parquet"] <= GOAL_RATIO, "bytes": peak < GOAL_BYTES},
    }  # fmt: skip


def _best(runs: dict[str, list[dict[str, float]]]) -> dict[str, float]:
    return {name: min(one["seconds"] for one in costs) for name, costs in runs.items()}


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
    peak = found["extra_peak_bytes"] / 1e6
    say(f"memory above model and histories: {peak:.0f} MB; same lists: {found['same_lists']}")
