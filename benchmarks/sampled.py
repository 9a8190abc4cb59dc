"""Denoising by sampled masks against its closed form on real data: rows 3 and 4 of Table 1 of [Steck20], at rank 200.

How far above the minimum training ends by number of epochs, what it costs, and how well both models rank. Needs torch
(the extra ``neural``) and the ml-1m-ultragcn split. Writes results/sampled.json and the table of
docs/theory/denoising.md.

    python benchmarks/sampled.py [FOLDER WITH DATA SETS] [EPOCHS …]
"""

from __future__ import annotations

import copy
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import documents
from choosing import SHARED
from measure import machine
from run import say

import offdiag as od
from offdiag.lab import sampled
from offdiag.weights import LowRank

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "sampled.json"
SETTINGS: dict[str, Any] = {"dropout": 0.33, "l2": 300.0, "user_power": 0.0}
TRAINING: dict[str, Any] = {"batch_users": 100, "learning_rate": 0.15}
RANK = 200
METRICS = ["recall_all@20", "ndcg@20"]


def timed(call: Callable[..., Any], *args: Any, **words: Any) -> tuple[Any, dict[str, float]]:
    """The result, with wall-clock seconds and CPU seconds of all cores: the latter do not depend on the load."""
    clock, cores = time.perf_counter(), time.process_time()
    result = call(*args, **words)
    return result, {"seconds": time.perf_counter() - clock, "cpu_seconds": time.process_time() - cores}


def main(folder: Path, epochs: list[int]) -> None:
    parts = [od.read(folder / "ml-1m-ultragcn" / f"{part}.txt", format="adjacency") for part in ("train", "test")]
    split = od.split.given(*parts)
    report: dict[str, Any] = {"machine": machine(), "rank": RANK, "settings": SETTINGS, "training": TRAINING}
    closed, cost = timed(od.LowRankDLAE(rank=RANK, **SETTINGS).fit, split.train)
    accuracy = od.evaluate(closed, split.test, metrics=METRICS).mean
    report["closed_form"] = {"objective": closed.objective_, **cost, **accuracy}
    say(f"closed form: J = {closed.objective_:.1f}, {cost['seconds']:.1f} s, {accuracy}")
    G = od.gram(split.train, dtype="float64")
    report["sampled"] = []
    for n in epochs:
        found, cost = timed(sampled.train, split.train, RANK, epochs=n, **TRAINING, **SETTINGS)
        model = copy.copy(closed)
        model.weights_ = LowRank(found.U, found.V)
        accuracy = od.evaluate(model, split.test, metrics=METRICS).mean
        excess = found.objective(G) / closed.objective_ - 1
        report["sampled"].append({"epochs": n, "excess": excess, **cost, **accuracy})
        say(f"{n} epochs: {excess:+.3%} above the minimum, {cost['seconds']:.0f} s, {accuracy}")
    RESULTS.write_text(json.dumps(report, indent=2) + "\n")
    documents.renew("sampled")


if __name__ == "__main__":
    words = sys.argv[1:]
    main(Path(words[0]) if words else SHARED, [int(n) for n in words[1:]] or [10, 30, 100])
