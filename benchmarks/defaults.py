"""Do the defaults hold? nDCG of ``od.EDLAE()`` against the best of a grid search, on every real data set there is.

Strong generalisation: a tenth of the users is the test, 80 % of their history is folded in, the rest is predicted; for
the two sets with a published split, that split. The search runs *on the same test users*, so "best" is an optimistic
bound for any tuning. Writes results/defaults.json.

    python benchmarks/defaults.py [FOLDER WITH DATA SETS] [NAME …]
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measure import machine
from readme import renew
from run import say

import offdiag as od

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "defaults.json"
SHARED = HERE.parent.parent / "shared" / "data"
METRIC = "ndcg@100"
DROPOUTS = (0.0, 0.25, 0.5, 0.75, 0.9)
L2_PER_ACTIVITY = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # times the mean history length
POWERS = (0.0, 0.5, 1.0)


def loaders(folder: Path) -> dict[str, Callable[[], od.Interactions]]:
    """Each data set as 0/1 interactions, with nothing filtered but ratings below 4 where that is said."""

    def steam() -> od.Interactions:
        import polars as pl

        with zipfile.ZipFile(folder / "steam" / "steam.zip") as archive, archive.open("steam/game_purchase.dat") as f:
            return od.read(pl.read_csv(f.read(), separator="\t"), user="User_ID", item="Game_ID")

    return {
        "ml-100k": lambda: od.read(folder / "ml-100k" / "u.data", user=0, item=1),
        "ml-100k ≥ 4": lambda: od.prepare.binarize(
            od.read(folder / "ml-100k" / "u.data", user=0, item=1, value=2), at_least=4
        ),
        "ml-latest-small ≥ 4": lambda: od.prepare.binarize(
            od.datasets.load("ml-latest-small", folder / "ml-latest-small"), at_least=4
        ),
        "ml-1m": lambda: od.prepare.binarize(od.datasets.load("ml-1m", folder / "ml-1m")),
        "ml-1m-ultragcn": lambda: od.read(folder / "ml-1m-ultragcn" / "train.txt", format="adjacency"),
        "lastfm": lambda: od.prepare.binarize(
            od.read(folder / "lastfm-hetrec2011" / "user_artists.dat", user=0, item=1)
        ),
        "steam": steam,
        "citeulike-a": lambda: od.datasets.load("citeulike-a", folder / "citeulike-a"),
        "retail baskets": lambda: od.read(folder / "fimi-retail" / "retail.dat", format="baskets"),
    }


def study(inter: od.Interactions) -> dict[str, Any]:
    split = od.split.strong(od.prepare.binarize(inter), held_out=0.1, seed=0)
    train, test = split.train, split.test
    activity = train.nnz / train.n_users

    def score(model: Any) -> dict[str, Any]:
        result = od.evaluate(model, test, metrics=[METRIC])
        return {"settings": model.settings_, "ndcg": result.mean[METRIC], "sem": result.sem[METRIC]}

    auto = score(od.EDLAE().fit(train))
    best: dict[str, Any] = {"ndcg": -1.0}
    for power in POWERS:
        G = od.gram(train, power)
        for dropout in DROPOUTS:
            curve = []
            for factor in L2_PER_ACTIVITY:
                model = od.EDLAE(dropout=dropout, l2=factor * activity, user_power=power).fit_gram(
                    G, item_ids=train.item_ids
                )
                curve.append(score(model))
            top = max(curve, key=lambda found: float(found["ndcg"]))
            best = max(best, top, key=lambda found: float(found["ndcg"]))
        say(f"  user_power {power}: best so far {best['ndcg']:.4f}, auto {auto['ndcg']:.4f}")
    return {
        "users": train.n_users, "items": train.n_items, "interactions": train.nnz, "test_users": len(test.user_ids),
        "auto": auto, "best": best, "popularity": score(od.Popularity().fit(train)),
    }  # fmt: skip


def main() -> None:
    words = sys.argv[1:]
    folder = Path(words.pop(0)) if words and Path(words[0]).is_dir() else SHARED
    if not folder.is_dir():
        raise SystemExit(f"no data sets at {folder}: pass the folder that holds them")
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"data": {}}
    for name, load in loaders(folder).items():
        if words and name not in words:
            continue
        say(f"{name}:")
        results["data"][name] = study(load())
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results | {"metric": METRIC, "machine": machine()}, indent=2) + "\n")
    ratios = [r["auto"]["ndcg"] / r["best"]["ndcg"] for r in results["data"].values()]
    say(f"worst ratio to the best of the search: {np.min(ratios):.4f}")
    renew()


if __name__ == "__main__":
    main()
