"""How far is ``od.Spectral`` with DropBlock from the optimum of the noisy net? The gap to the convex bound, on ML-100K.

Where the bound is attained the gap is 0; elsewhere the net is polished by L-BFGS, so the gap is an upper estimate.
Takes some minutes. Writes results/dropblock_gap.json and the table of docs/theory/structured.md.

    python benchmarks/dropblock_gap.py [FOLDER WITH DATA SETS]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import documents
import numpy as np
from choosing import SHARED
from run import say

import offdiag as od
from offdiag.lab import dropblock

RESULTS = Path(__file__).parent / "results" / "dropblock_gap.json"
WIDTH, BLOCK = 60, 5
POWERS = ((0.0, 0.0), (0.5, 0.0), (0.0, 0.5))  # of users and of items
DROPS = (0.1, 0.3, 0.5)


def study(X: Any, drop: float, user_power: float, item_power: float) -> dict[str, Any]:
    shrink = od.spectral.DropBlock(drop=drop, block=BLOCK)
    model = od.Spectral(rank=WIDTH, shrink=shrink, user_power=user_power, item_power=item_power).fit(X)
    kept = dropblock.spectral_optimum(model.singular_values_, WIDTH, BLOCK, drop)
    found = {
        "drop": drop, "user_power": user_power, "item_power": item_power, "of_whole_loss": model.gap_,
        "of_kept_loss": (kept.value - kept.bound) / kept.value,
        "kept_energy": float(np.sum(model.singular_values_**2)) / model.total_,
    }  # fmt: skip
    say(f"  {found}")
    return found


def main(folder: Path) -> None:
    X = od.read(folder / "ml-100k" / "u.data", user=0, item=1, value=None)
    rows = [study(X, 0.5, *powers) for powers in POWERS] + [study(X, drop, 0.0, 0.0) for drop in DROPS[:-1]]
    said = {"data": "ML-100K", "users": X.n_users, "items": X.n_items, "width": WIDTH, "block": BLOCK, "rows": rows}
    RESULTS.write_text(json.dumps(said, indent=1) + "\n")
    documents.renew("dropblock-gap")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SHARED)
