"""Full-rank EDLAE end to end at the size of ML-20M: split, fit, evaluate 10,000 users; and the dense recipe.

The recipe of published code scores X.toarray() @ B in batches of users and partitions the scores again for each
metric. Ours ranks tile by tile, once for all metrics. Both run alternately on the same users and must agree user by
user. Synthetic data of 136,677 × 20,108 with 10 million interactions. Writes results/evaluation.json.

    python benchmarks/evaluation.py            # about three minutes on 2 cores, 5 GB
    python benchmarks/evaluation.py 20         # everything 20 times smaller; nothing is written
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from measure import machine, measured
from numpy.typing import NDArray
from run import say

import offdiag as od

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "evaluation.json"
USERS, ITEMS, INTERACTIONS, HELD_OUT = 136_677, 20_108, 10_000_000, 10_000
SETTINGS: dict[str, Any] = {"dropout": 0.33, "l2": 300.0, "user_power": 0.0}
METRICS = ("recall@20", "recall@50", "ndcg@100")
BATCH = 1_000  # users whose dense rows and scores are held at a time
REPEATS = 3
GOAL = 0.1

Floats = NDArray[np.float64]


def dense(histories: Any, targets: Any, B: NDArray[np.float32]) -> dict[str, Floats]:
    """The metrics of each user, by the usual recipe."""
    values: dict[str, list[Floats]] = {name: [] for name in METRICS}
    for low in range(0, histories.shape[0], BATCH):
        seen, wanted = histories[low : low + BATCH].toarray(), targets[low : low + BATCH].toarray() > 0
        scores = seen @ B
        scores[seen > 0] = -np.inf
        for k in (20, 50):
            values[f"recall@{k}"].append(_recall(scores, wanted, k))
        values["ndcg@100"].append(_ndcg(scores, wanted, 100))
    return {name: np.concatenate(parts) for name, parts in values.items()}


def _recall(scores: Any, wanted: Any, k: int) -> Any:
    top = np.argpartition(-scores, k, axis=1)[:, :k]
    hits = np.take_along_axis(wanted, top, axis=1).sum(axis=1)
    return hits / np.minimum(k, wanted.sum(axis=1))


def _ndcg(scores: Any, wanted: Any, k: int) -> Any:
    top = np.argpartition(-scores, k, axis=1)[:, :k]
    order = np.argsort(-np.take_along_axis(scores, top, axis=1), axis=1, kind="stable")
    hits = np.take_along_axis(wanted, np.take_along_axis(top, order, axis=1), axis=1)
    discount = 1 / np.log2(np.arange(2, k + 2))
    ideal = np.concatenate([[0.0], np.cumsum(discount)])
    return (hits * discount).sum(axis=1) / ideal[np.minimum(k, wanted.sum(axis=1))]


def main(smaller: int) -> None:
    report: dict[str, Any] = {"machine": machine(), "settings": SETTINGS, "batch_users": BATCH, "goal": GOAL}
    # Reducing users and items by the same factor would leave histories too long for the items; keep the density.
    users, items = USERS // smaller, int(ITEMS / smaller**0.5)
    nnz = int(INTERACTIONS / smaller**1.5)
    inter = od.synthetic.interactions(users, items, nnz, names=False, seed=0)
    report["data"] = {"users": users, "items": items, "interactions": nnz, "held_out": HELD_OUT // smaller}
    start = time.perf_counter()
    split = od.split.strong(inter, held_out=HELD_OUT // smaller, seed=0)
    report["split_seconds"] = time.perf_counter() - start
    model, report["fit"] = measured(lambda: od.EDLAE(**SETTINGS).fit(split.train))
    say(f"split {report['split_seconds']:.2f} s, fit {report['fit']['seconds']:.1f} s")
    keep = np.diff(split.test.targets.indptr) > 0  # the recipe divides by the number of targets
    histories, targets = split.test.histories[keep], split.test.targets[keep]
    assert split.validation is not None
    od.evaluate(model, split.validation, METRICS)  # compiles, if this is the first run here
    B = model.weights_.toarray()
    ours, theirs = [], []
    for _ in range(REPEATS):
        found, cost = measured(lambda: od.evaluate(model, split.test, METRICS))
        ours.append(cost)
        expected, cost = measured(lambda: dense(histories, targets, B))
        theirs.append(cost)
        say(f"  ours {ours[-1]['seconds']:.2f} s, dense recipe {theirs[-1]['seconds']:.2f} s")
        for name in METRICS:  # equal scores may be ranked differently, on few users
            differ = float(np.mean(np.abs(found.per_user[name] - expected[name]) > 1e-6))
            assert differ < 0.01, f"{name} differs for {100 * differ:.1f} % of the users"
    for name, runs in (("ours", ours), ("dense", theirs)):
        report[name] = {key: statistics.median(run[key] for run in runs) for key in ("seconds", "extra_peak_bytes")}
    report["ratio"] = report["ours"]["seconds"] / report["dense"]["seconds"]
    report["users_evaluated"] = int(keep.sum())
    report["mean"], report["sem"] = found.mean, found.sem
    say(f"ratio {report['ratio']:.3f}, goal {GOAL}")
    if smaller == 1:
        RESULTS.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
