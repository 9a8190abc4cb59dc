"""Does dropping hidden units as well help a low-rank model? ``od.LowRankDLAE(hidden_dropout=…)`` on real data.

For each hidden_dropout, dropout and l2 are chosen on validation users from one grid; the test users are measured once
for each. The gains are paired with the model without hidden dropout. Writes results/hidden_dropout.json and the table
of docs/models.md.

    python benchmarks/hidden_dropout.py [FOLDER WITH DATA SETS] [NAME …]
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import documents
import numpy as np
from choosing import METRIC, best_of_grid, score, standard_error
from defaults import studies
from run import say

import offdiag as od
from offdiag.data.split import Split

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "hidden_dropout.json"
DATA = ("lastfm, items ≥ 5 users", "ml-1m")
RANK = 100
HIDDEN = (0.0, 0.01, 0.05, 0.2)


def study(split: Split) -> dict[str, Any]:
    assert split.validation is not None
    l2 = od.LowRankDLAE(rank=RANK).fit(split.train).settings_["l2"]
    rows: dict[str, Any] = {}
    per_user: dict[str, Any] = {}
    for hidden in HIDDEN:
        make = partial(od.LowRankDLAE, rank=RANK, hidden_dropout=hidden)
        (model, validation), name = best_of_grid(make, l2, split), f"{hidden:g}"
        per_user[name] = score(model, split.test)
        gain = per_user[name] - per_user["0"]
        rows[name] = {
            "dropout": model.settings_["dropout"], "l2": model.settings_["l2"], "validation": validation,
            "components": int(np.count_nonzero(model.decoder_.any(axis=0))),
            "mean": float(per_user[name].mean()), "sem": standard_error(per_user[name]),
            "gain": float(gain.mean()), "gain_sem": standard_error(gain),
        }  # fmt: skip
        say(f"  hidden_dropout {name}: {rows[name]}")
    return {
        "users": split.train.n_users, "items": split.train.n_items, "test_users": len(per_user["0"]), "models": rows,
    }  # fmt: skip


if __name__ == "__main__":
    studies(RESULTS, DATA, study, metric=METRIC, rank=RANK)
    documents.renew("hidden-dropout")
