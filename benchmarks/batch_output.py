"""Top-10 lists of a million users to a file, against the bare scoring call that returns only columns and scores.

Both alternate on the same histories and must give the same lists. The memory is the resident peak above the model and
the histories. Text ids with titles, CSV, JSON lines and reasons are measured on a tenth of the users. Synthetic data
with 20 interactions per user. Writes results/batch_output.json and its table in docs/performance.md.

    python benchmarks/batch_output.py 1000000 20000    # the case of the goal, also without any size
    python benchmarks/batch_output.py 100000 8000      # another size; written too, with its size
"""

from __future__ import annotations

import copy
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import documents
import numpy as np
import polars as pl
from measure import machine, measured
from run import say

import offdiag as od
from offdiag import memory, ranking, wording

RESULTS = Path(__file__).parent / "results" / "batch_output.json"
USERS, ITEMS, PER_USER, K = 1_000_000, 20_000, 20, 10
REPEATS = 3
GOAL_RATIO, GOAL_BYTES = 1.3, 1_000_000_000

Runs = dict[str, list[dict[str, float]]]


def memory_needed(n_users: int, n_items: int) -> dict[str, int]:
    """Bytes of what is in memory at the same time."""
    return {
        "the model": 4 * n_items * (n_items + 1) // 2,
        "the histories, while they are made": 60 * PER_USER * n_users,
        "the lists of the bare call": 2 * 12 * K * n_users,
        "writing, at most": GOAL_BYTES,
    }


def main(n_users: int, n_items: int) -> dict[str, Any]:
    parts = memory_needed(n_users, n_items)
    listed = ", ".join(f"{what} {wording.size(n)}" for what, n in parts.items())
    there = memory.available()
    supply = "unknown" if there is None else wording.size(there)
    say(f"memory needed: {wording.size(sum(parts.values()))} ({listed}); available: {supply}")
    memory.require(sum(parts.values()), "this run", "give fewer users or items")
    inter = od.synthetic.interactions(n_users, n_items, PER_USER * n_users, names=False, seed=0)
    model = od.EASE(l2=100.0, user_power=0.0).fit(inter)
    say(f"{model!r}")
    few = inter.select_users(slice(0, max(n_users // 10, 1)))
    texts, titles = _with_text_ids(model)
    text_rows = od.Interactions(few.matrix, np.array([f"user-{u}" for u in range(len(few.user_ids))]), texts.item_ids_)
    with tempfile.TemporaryDirectory() as folder:
        top, csv, jsonl = (Path(folder, f"top.{ending}") for ending in ("parquet", "csv", "jsonl"))
        text, why = Path(folder, "text.parquet"), Path(folder, "why.parquet")
        some = inter.select_users(slice(0, 2_000))
        model.recommend_to(top, some, reasons=True)  # compiles the loops
        whole = alternate({
            "bare": lambda: ranking.top_k(model.weights_, inter.matrix, K),
            "parquet": lambda: model.recommend_to(top, inter, K),
        })  # fmt: skip
        same = _holds(top, *ranking.top_k(model.weights_, inter.matrix, K), model.item_ids_)
        tenth = alternate({
            "bare": lambda: ranking.top_k(model.weights_, few.matrix, K),
            "parquet, text ids and titles": lambda: texts.recommend_to(text, text_rows, K, titles=titles),
            "csv": lambda: model.recommend_to(csv, few, K),
            "jsonl": lambda: model.recommend_to(jsonl, few, K),
            "parquet with reasons": lambda: model.recommend_to(why, few, K, reasons=True),
        })  # fmt: skip
        sizes = {path.name: path.stat().st_size for path in Path(folder).iterdir()}
    rows = [*_rows(whole, n_users), *_rows(tenth, len(few.user_ids))]
    goal = next(row for row in rows if row["what"] == "parquet")
    return {
        "machine": machine(), "users": n_users, "items": n_items, "interactions": inter.nnz, "k": K,
        "runs": {"all users": whole, "a tenth": tenth}, "rows": rows, "file_bytes": sizes, "same_lists": same,
        "process_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "goals": {"ratio": GOAL_RATIO, "bytes": GOAL_BYTES},
        "reached": {"ratio": goal["ratio"] <= GOAL_RATIO, "bytes": goal["extra_peak_bytes"] < GOAL_BYTES},
    }  # fmt: skip


def alternate(calls: dict[str, Callable[[], object]]) -> Runs:
    """The costs of some calls, made in turn."""
    runs: Runs = {name: [] for name in calls}
    for _ in range(REPEATS):
        for name, call in calls.items():
            begin = time.process_time()
            cost = measured(call)[1]
            runs[name].append(cost | {"cpu_seconds": time.process_time() - begin})
            say(f"{name}: {cost['seconds']:.1f} s, {runs[name][-1]['cpu_seconds']:.1f} s of processor time")
    return runs


def _rows(runs: Runs, n_users: int) -> list[dict[str, Any]]:
    """The best time of each call, and its ratio to the bare one; processor time hardly depends on other programs."""
    best = {name: {key: min(one[key] for one in costs) for key in costs[0]} for name, costs in runs.items()}
    return [
        {
            "what": name, "users": n_users, "seconds": one["seconds"],
            "ratio": one["seconds"] / best["bare"]["seconds"],
            "cpu_ratio": one["cpu_seconds"] / best["bare"]["cpu_seconds"],
            "extra_peak_bytes": max(cost["extra_peak_bytes"] for cost in runs[name]),
        }
        for name, one in best.items()
    ]  # fmt: skip


def _with_text_ids(model: od.EASE) -> tuple[od.EASE, dict[str, str]]:
    """The same model with text as ids, and a title for each item."""
    named = copy.copy(model)
    named.item_ids_ = np.array([f"item-{i:06}" for i in range(len(model.item_ids_))])
    return named, {item: f"The title of {item}" for item in named.item_ids_.tolist()}


def _holds(path: Path, columns: Any, scores: Any, item_ids: Any) -> bool:
    """Whether the file has exactly these lists."""
    table, real = pl.read_parquet(path, columns=["item", "score"]), columns >= 0
    items = np.array_equal(table["item"].to_numpy(), item_ids[columns[real]])
    return items and np.array_equal(table["score"].to_numpy(), scores[real])


if __name__ == "__main__":
    sizes = [int(word) for word in sys.argv[1:3]]
    found = main(*sizes) if sizes else main(USERS, ITEMS)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    documents.renew("batch-output")
    for row in found["rows"]:
        say(
            f"{row['what']}, {row['users']:,} users: {row['seconds']:.1f} s, {row['ratio']:.2f} × the bare call "
            f"({row['cpu_ratio']:.2f} × its processor time), {row['extra_peak_bytes'] / 1e6:.0f} MB"
        )
    say(f"same lists: {found['same_lists']}; goals reached: {found['reached']}")
