"""The cost of compression: nDCG of a dense EDLAE and of its compressed versions on unseen users.

Strong generalisation, as in defaults.py; automatic settings. Ways to choose the remaining weights (power of popularity,
per column or by one threshold) are compared on the validation users, sizes and storages on the test users.
Writes results/compression.json and the tables of docs/compression.md, which are generated from that file only.

    python benchmarks/compression.py [FOLDER WITH DATA SETS] [NAME …]
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import documents
import numpy as np
from choosing import data_folder
from defaults import METRIC, splits
from measure import machine
from run import say

import offdiag as od
from offdiag.solvers import pruning

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "compression.json"
NAMES = ("ml-1m", "citeulike-a, items ≥ 10 users", "lastfm, items ≥ 5 users", "retail baskets, items ≥ 10")
STORAGES = ("int8", "float16", "float32")
SHARES = (5, 10, 20, 40)  # of the bytes of the packed weights
POWERS = (0.0, 0.25, 0.5)


def per_column(model: Any, storage: str, share: int) -> dict[str, Any]:
    """As many weights in each column as fit into a share of the bytes, if the index steps are short."""
    m = len(model.item_ids_)
    return {"keep": max(1, (model.weights_.nbytes // share - 8 * m) // (m * (1 + np.dtype(storage).itemsize)))}


def by_threshold(model: Any, share: int) -> dict[str, Any]:
    return {"max_bytes": model.weights_.nbytes // share}


def measured(model: Any, whole: od.Result, held_out: Any, storage: str, wish: dict[str, Any]) -> dict[str, Any]:
    start = time.perf_counter()
    small = od.compress(model, storage=storage, **wish)  # type: ignore[arg-type]
    seconds = time.perf_counter() - start
    result = od.evaluate(small, held_out, [METRIC])
    test = result.compare(whole)
    return {
        "storage": storage, **wish, "bytes": small.weights_.nbytes, "entries": small.compressed_["entries"],
        "seconds": seconds, "ndcg": result.mean[METRIC], "difference": test.difference[METRIC], "sem": test.sem[METRIC],
    }  # fmt: skip


def choices(model: Any, held_out: Any) -> Iterator[dict[str, Any]]:
    """Which entries should stay, at a tenth of the bytes; measured on validation users."""
    whole = od.evaluate(model, held_out, [METRIC])
    used = pruning.POWER
    for power in POWERS:
        pruning.POWER = power
        for how, wish in (("each column", per_column(model, "int8", 10)), ("one threshold", by_threshold(model, 10))):
            found = measured(model, whole, held_out, "int8", wish)
            yield {"power": power, "how": how, "whole": whole.mean[METRIC], **found}
    pruning.POWER = used


def sizes(model: Any, whole: od.Result, held_out: Any) -> Iterator[dict[str, Any]]:
    for storage in STORAGES:
        yield {"share": 10, **measured(model, whole, held_out, storage, by_threshold(model, 10))}
    yield {"share": 10, **measured(model, whole, held_out, "int8", per_column(model, "int8", 10))}
    for share in SHARES:
        if share != 10:
            yield {"share": share, **measured(model, whole, held_out, "int8", by_threshold(model, share))}


def study(folder: Path, name: str) -> dict[str, Any]:
    split = splits(folder)[name]()
    model = od.EDLAE().fit(split.train)
    whole = od.evaluate(model, split.test, [METRIC])
    out: dict[str, Any] = {
        "users": split.train.n_users, "items": split.train.n_items, "test_users": whole.n_users,
        "settings": model.settings_, "bytes": model.weights_.nbytes,
        "ndcg": whole.mean[METRIC], "sem": whole.sem[METRIC],
    }  # fmt: skip
    for key, rows in (("sizes", sizes(model, whole, split.test)), ("choices", choices(model, split.validation))):
        out[key] = []
        for row in rows:
            out[key].append(row)
            say(f"  {key}: {row} → {100 * row['difference'] / out['ndcg']:+.2f} %")
    return out


def main() -> None:
    words = sys.argv[1:]
    folder = data_folder(words)
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"data": {}}
    for name in NAMES:
        if words and name not in words:
            continue
        say(f"{name}:")
        found = results["data"] | {name: study(folder, name)}
        results = {"metric": METRIC, "machine": machine(), "data": {n: found[n] for n in NAMES if n in found}}
        RESULTS.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")
    documents.renew("compression-sizes", "compression-choices")


if __name__ == "__main__":
    main()
