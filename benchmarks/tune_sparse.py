"""How many settings of sparse columns ``od.tune`` tries in a time, with shared work and without, in one run.

Gowalla, 40,981 items, validated on valid.txt: the automatic settings and a batch of proposals. Then each of these
trials is fitted and measured by itself, which is what it costs without sharing, and must have the same weights and
value. Writes results/tune_sparse.json.

    python benchmarks/tune_sparse.py [FOLDER WITH DATA SETS] [trials=7]
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from choosing import data_folder
from measure import machine
from run import say

import offdiag as od
from offdiag.models.shared_fits import SharedFits

RESULTS = Path(__file__).parent / "results" / "tune_sparse.json"
METRIC = "ndcg@20"


class Timer:
    """Seconds, and seconds of all cores."""

    def __init__(self) -> None:
        self._begin, self._processor = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        return {"seconds": time.perf_counter() - self._begin, "processor": time.process_time() - self._processor}


def weights(model: Any) -> list[Any]:
    return list(model.weights_.arrays().values())


def fit_alone(split: Any, trials: list[Any]) -> list[dict[str, Any]]:
    """What each of these trials costs by itself, and whether it is the same; a rejected one has no value."""
    found, shared = [], SharedFits(split.train)
    for trial in trials:
        timer = Timer()
        model = od.SparseEDLAE(**trial.settings).fit(split.train)
        value = od.evaluate(model, split.validation, METRIC).mean[METRIC]
        cost = timer.read()
        (together,) = shared.fit([od.SparseEDLAE(**trial.settings)])
        same = all(np.array_equal(*pair) for pair in zip(weights(model), weights(together), strict=True))
        found.append(cost | {"trial": trial.number, "same_value": trial.value in (None, value), "same_weights": same})
        say(f"  trial {trial.number} alone: {cost['seconds']:.1f} s; {value:.5f}, same weights: {same}")
    return found


def main() -> None:
    words = sys.argv[1:]
    folder = data_folder(words)
    asked = {name: int(value) for name, value in (word.split("=") for word in words)}
    split = od.datasets.published("gowalla", folder / "gowalla-lightgcn", validation=True)
    little = od.split.strong(od.synthetic.interactions(300, 60, 5000), held_out=0.2)
    od.tune(od.SparseEDLAE, little, trials=9)  # compile first
    od.SparseEDLAE(neighbours=10).fit(little.train)
    at_start, timer = machine(), Timer()
    tuned = od.tune(od.SparseEDLAE, split, METRIC, asked.get("trials", 7))
    cost = timer.read()
    say(f"{tuned}")
    complete = [trial for trial in tuned.trials if trial.state == "complete"]
    alone = fit_alone(split, tuned.trials)
    each = {name: float(np.mean([one[name] for one in alone])) for name in ("seconds", "processor")}
    n = len(tuned.trials)
    found = {
        "metric": METRIC, "items": split.train.n_items, "interactions": int(split.train.matrix.nnz),
        "shared": cost | {"trials": n, "complete": len(complete), "each": {k: v / n for k, v in cost.items()}},
        "alone": {"trials": len(alone), "each": each, "runs": alone},
        "best": tuned.best.settings, "value": tuned.value, "automatic": tuned.trials[0].value,
        "machine": at_start,
    }  # fmt: skip
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
