"""Does dropping hidden units as well help a low-rank model? ``od.LowRankDLAE(hidden_dropout=…)`` on real data.

For each hidden_dropout, dropout and l2 are chosen on validation users from one grid; the test users are measured once
for each. The gains are paired with the model without hidden dropout. Writes results/hidden_dropout.json and the table
of docs/models.md.

    python benchmarks/hidden_dropout.py [FOLDER WITH DATA SETS] [NAME …]
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import documents
import numpy as np
from defaults import studies
from run import say

import offdiag as od
from offdiag.data.split import Split

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "hidden_dropout.json"
DATA = ("lastfm, items ≥ 5 users", "ml-1m")
METRIC = "ndcg@100"
RANK = 100
HIDDEN = (0.0, 0.01, 0.05, 0.2)
DROPOUTS = (0.3, 0.5, 0.7)
L2_STEPS = (0.03, 0.125, 0.5, 2.0)  # times the l2 that "auto" would choose


def study(split: Split) -> dict[str, Any]:
    assert split.validation is not None
    l2 = od.LowRankDLAE(rank=RANK).fit(split.train).settings_["l2"]
    rows: dict[str, Any] = {}
    per_user: dict[str, Any] = {}
    for hidden in HIDDEN:
        tried = [
            od.LowRankDLAE(rank=RANK, dropout=p, l2=l2 * step, hidden_dropout=hidden).fit(split.train)
            for p in DROPOUTS
            for step in L2_STEPS
        ]
        found = [float(score(model, split.validation).mean()) for model in tried]
        model, name = tried[int(np.argmax(found))], f"{hidden:g}"
        per_user[name] = score(model, split.test)
        gain = per_user[name] - per_user["0"]
        rows[name] = {
            "dropout": model.settings_["dropout"], "l2": model.settings_["l2"], "validation": max(found),
            "components": int(np.count_nonzero(model.decoder_.any(axis=0))),
            "mean": float(per_user[name].mean()), "sem": _sem(per_user[name]),
            "gain": float(gain.mean()), "gain_sem": _sem(gain),
        }  # fmt: skip
        say(f"  hidden_dropout {name}: {rows[name]}")
    return {
        "users": split.train.n_users, "items": split.train.n_items, "test_users": len(per_user["0"]), "models": rows,
    }  # fmt: skip


def score(model: Any, users: Any) -> Any:
    return od.evaluate(model, users, [METRIC]).per_user[METRIC]


def _sem(values: Any) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


if __name__ == "__main__":
    studies(RESULTS, DATA, study, metric=METRIC, rank=RANK)
    documents.renew("hidden-dropout")
