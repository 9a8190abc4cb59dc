"""Accuracy, size and fit time by rank on three real data sets, with default settings: the table of docs/ranks.md.

Strong generalisation: a tenth of the users is held out, 80 % of their history is folded in, the rest is predicted.
Every model chooses its settings from the training data; the test users are measured once per model. Writes
results/ranks.json, docs/ranks.md and docs/ranks.svg.

    python benchmarks/ranks.py [FOLDER WITH DATA SETS]
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import documents
import numpy as np
from choosing import SHARED
from defaults import loaders
from measure import machine
from run import say

import offdiag as od
from offdiag import diagnostics

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "ranks.json"
DATA = ("ml-1m", "steam", "citeulike-a, items ≥ 10 users")
RANKS = (10, 20, 50, 100, 200, 500)
MODELS = {"LowRankEDLAE": od.LowRankEDLAE(), "LowRankDLAE": od.LowRankDLAE()}
METRIC = "ndcg@100"


def study(train: Any, test: Any) -> dict[str, Any]:
    """Both models at every rank, and the two full-rank models."""
    ranks = [rank for rank in RANKS if rank < train.n_items]
    curve = diagnostics.accuracy_by_rank(train, test, ranks, MODELS, METRIC)
    out: dict[str, Any] = {
        "users": train.n_users, "items": train.n_items, "interactions": train.nnz,
        "test_users": int((np.diff(test.targets.indptr) > 0).sum()), "points": [p.to_dict() for p in curve.points],
    }  # fmt: skip
    for name, model in (("EDLAE", od.EDLAE()), ("DLAE", od.DLAE())):
        start = time.perf_counter()
        model.fit(train)
        seconds = time.perf_counter() - start
        result = od.evaluate(model, test, metrics=[METRIC])
        out[name] = {
            "mean": result.mean[METRIC], "sem": result.sem[METRIC], "n_bytes": model.weights_.nbytes,
            "seconds": seconds, "settings": model.settings_,
        }  # fmt: skip
    return out


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else SHARED
    if not folder.is_dir():
        raise SystemExit(f"no data sets at {folder}: pass the folder that holds them")
    od.LowRankEDLAE(rank=3).fit(np.eye(40, dtype=np.float32) + np.eye(40, k=1, dtype=np.float32))  # compiles
    results: dict[str, Any] = {"metric": METRIC, "machine": machine(), "data": {}}
    for name in DATA:
        say(f"{name}:")
        results["data"][name] = study(*loaders(folder)[name]())
        RESULTS.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")
    documents.renew("ranks")


if __name__ == "__main__":
    main()
