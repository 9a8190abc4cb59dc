"""A blend on the split of LightGCN: sharp, smooth and near parts, chosen on training data, measured once on test.

The end of each user's list in train.txt (``later``) and valid.txt, a random part (``random``), are two ways to hold out
training data. For each: the settings of the sharp part that ``benchmarks/sparse.py`` found by the same validation, one
decomposition for all smooth parts, two near parts; their best blend is fitted on train and valid together and measured
on test.txt. ``automatic`` is ``od.Blend()`` as it is. Writes results/gowalla.json.

    python benchmarks/gowalla.py [FOLDER WITH DATA SETS] [later] [random] [automatic]
"""

from __future__ import annotations

import copy
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import documents
import numpy as np
from choosing import data_folder
from measure import machine, measured
from run import say
from sparse import RESULTS as SEARCHES
from sparse import _end_of_lists as end_of_lists

import offdiag as od
from offdiag.models import blend_shares
from offdiag.models.blended_parts import blended
from offdiag.solvers.products import item_scale

RESULTS = Path(__file__).parent / "results" / "gowalla.json"
METRICS = ["recall_all@20", "ndcg@20"]
USERS = 5_000  # of the validation part, for the choice of parts and shares
OUTER = (0.4, 0.5)
HALVED = 100  # the component that the soft filter halves
BALANCES = (0.7, 1.0)
SEARCHED = {"later": ("later",), "random": ("gowalla", "tuned")}  # where sparse.json holds the settings
PUBLISHED = {  # Recall@20, NDCG@20 on this split
    "LightGCN": (0.1820, 0.1547), "UltraGCN": (0.1862, 0.1580), "SimpleX": (0.1872, 0.1557), "PGSP": (0.1917, 0.1606),
    "BSPM-EM": (0.1920, 0.1597), "ChebyCF": (0.1941, 0.1616),
}  # fmt: skip
OF_SHARP = ("neighbours", "dropout", "l2", "user_power", "item_power", "propensity_power", "weight_power")


def sharp(validation: str) -> Any:
    """The sharp part with the settings of the search on this validation part."""
    found = json.loads(SEARCHES.read_text())
    for name in SEARCHED[validation]:
        found = found[name]
    return od.SparseEDLAE(**{name: found["settings"][name] for name in OF_SHARP})


def smooth_parts(train: Any) -> dict[str, Any]:
    """Smooth parts by name, from one decomposition: hard and soft filters, each with several outer powers."""
    filters: Any = od.Spectral(rank=512, shrink="hard", item_power=1.0, user_power=1.0).fit(train)
    soft = f"ridge:l2={float(filters.singular_values_[HALVED - 1] ** 2):.6g}"
    g = filters.weights_.scale.astype(np.float64) ** -2  # the diagonal of the Gram, in a unit that cancels
    made = {}
    for name, shrink in (("hard", "hard"), ("soft", soft)):
        for outer in OUTER:
            model: Any = copy.copy(filters.with_shrink(shrink))
            scale = item_scale(g, 2 * outer).astype(model.dtype)
            model.outer_power, model.weights_ = outer, replace(model.weights_, scale=scale)
            model.settings_ = model.settings_ | {"outer_power": outer}
            made[f"{name}, outer_power {outer:g}"] = model
    return made


def near_parts(train: Any) -> dict[str, Any]:
    """First-order propagation, pruned to the nearest neighbours."""
    return {f"balance {b:g}": od.ItemKNN(neighbours=500, balance=b).fit(train) for b in BALANCES}


def choose(folder: Path, validation: str) -> dict[str, Any]:
    """The parts and shares with the best ndcg@20 on validation users."""
    place = folder / "gowalla-lightgcn"
    begin = time.perf_counter()
    split = end_of_lists(place) if validation == "later" else od.datasets.published("gowalla", place, validation=True)
    held: Any = split.validation
    users = np.random.default_rng(0).choice(len(held.targets.indptr) - 1, USERS, replace=False)
    first, smooths, nears = sharp(validation).fit(split.train), smooth_parts(split.train), near_parts(split.train)
    parts = [first, *smooths.values(), *nears.values()]
    every = blend_shares.candidates(
        blended(parts, np.ones(len(parts)))[0], held.histories[np.sort(users)], held.targets[np.sort(users)]
    )
    say(f"  candidates after {time.perf_counter() - begin:.0f} s")
    alone = [blend_shares.accuracy(every, row) for row in np.eye(len(parts))]
    names = ["sharp", *smooths, *nears]
    tried = []
    for s in range(1, 1 + len(smooths)):
        for n in range(1 + len(smooths), len(parts)):
            some = [0, s, n]
            few = replace(every, scores=every.scores[some])
            shares = blend_shares.best_shares(few)
            tried.append((blend_shares.accuracy(few, shares), names[s], names[n], shares.tolist()))
            say(f"  {tried[-1]}")
    value, smooth, near, shares = max(tried)
    return {
        "alone": dict(zip(names, alone, strict=True)), "tried": tried, "validation": value, "smooth": smooth,
        "near": near, "shares": shares, "sharp": first.settings_, "seconds": time.perf_counter() - begin,
    }  # fmt: skip


def study(folder: Path, validation: str, choice: dict[str, Any]) -> dict[str, Any]:
    """The chosen blend and its parts, fitted on train and valid together, on the test users."""
    split = od.datasets.published("gowalla", folder / "gowalla-lightgcn")
    begin = time.perf_counter()
    models = {"sharp": sharp(validation).fit(split.train)}
    models["smooth"] = smooth_parts(split.train)[choice["smooth"]]
    models["near"] = near_parts(split.train)[choice["near"]]
    used = [name for name, share in zip(models, choice["shares"], strict=True) if share]
    blend = od.Blend.of([models[name] for name in used], [share for share in choice["shares"] if share])
    seconds = time.perf_counter() - begin
    results = {name: od.evaluate(model, split.test, METRICS) for name, model in (models | {"blend": blend}).items()}
    for name, result in results.items():
        say(f"  {name}: {result.mean}")
    return {
        "choice": choice, "parts": used, "test": {name: result.to_dict() for name, result in results.items()},
        "blend_minus_sharp": results["blend"].compare(results["sharp"]).to_dict(),
        "seconds": seconds, "weights_bytes": blend.weights_.nbytes,
    }  # fmt: skip


def automatic(folder: Path) -> dict[str, Any]:
    """``od.Blend()`` without any setting, in one go."""
    split = od.datasets.published("gowalla", folder / "gowalla-lightgcn")
    model, cost = measured(lambda: od.Blend().fit(split.train))
    result = od.evaluate(model, split.test, METRICS)
    say(f"  {model.settings_}: {result.mean}")
    return {"settings": model.settings_, **cost, "weights_bytes": model.weights_.nbytes, "test": result.to_dict()}


def main() -> None:
    words = sys.argv[1:]
    folder = data_folder(words)
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in words or ("later", "random", "automatic"):
        say(f"{name}:")
        found = automatic(folder) if name == "automatic" else study(folder, name, choose(folder, name))
        results |= {name: found, "published": PUBLISHED, "machine": machine()}
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    documents.renew("gowalla")


if __name__ == "__main__":
    main()
