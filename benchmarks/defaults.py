"""Do the defaults hold? nDCG of ``od.EDLAE()`` against the best of a grid search, on every available real data set.

Strong generalisation: a tenth of the users is held out, 80 % of their history is folded in, the rest is predicted; for
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

import documents
import numpy as np
from choosing import data_folder
from measure import machine
from run import say

import offdiag as od
from offdiag.data.split import Split

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "defaults.json"
METRIC = "ndcg@100"
L2_STEPS = (0.25, 0.5, 2.0, 4.0)
DROPOUTS = (0.0, 0.25, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)
Data = tuple[Any, Any]  # train, held out


def strong(inter: od.Interactions, items: int = 1) -> Split:
    inter = od.prepare.min_counts(od.prepare.binarize(inter), items=items)
    return od.split.strong(inter, held_out=0.1, seed=0)


def read_steam(folder: Path) -> od.Interactions:
    import polars as pl

    with zipfile.ZipFile(folder / "steam" / "steam.zip") as archive, archive.open("steam/game_purchase.dat") as file:
        return od.read(pl.read_csv(file.read(), separator="\t"), user="User_ID", item="Game_ID")


def splits(folder: Path) -> dict[str, Callable[[], Split]]:
    """Each data set as 0/1 interactions, split by users; the name includes any filtering."""

    def movielens(name: str, at_least: float | None = None) -> Split:
        return strong(od.prepare.binarize(od.datasets.load(name, folder / name), at_least=at_least))

    lastfm = folder / "lastfm-hetrec2011" / "user_artists.dat"
    return {
        "ml-100k": lambda: movielens("ml-100k"),
        "ml-100k, ratings ≥ 4": lambda: movielens("ml-100k", 4),
        "ml-latest-small, ratings ≥ 4": lambda: movielens("ml-latest-small", 4),
        "ml-1m": lambda: movielens("ml-1m"),
        "lastfm, items ≥ 5 users": lambda: strong(od.read(lastfm, user=0, item=1), 5),
        "steam": lambda: strong(read_steam(folder)),
        "citeulike-a, items ≥ 10 users": lambda: strong(od.datasets.load("citeulike-a", folder / "citeulike-a"), 10),
        "retail baskets, items ≥ 10": lambda: strong(
            od.read(folder / "fimi-retail" / "retail.dat", format="baskets"), 10
        ),
    }


def loaders(folder: Path) -> dict[str, Callable[[], Data]]:
    """Training and held-out data of each data set; for two of them as published."""

    def pair(load: Callable[[], Split]) -> Callable[[], Data]:
        def both() -> Data:
            split = load()
            return split.train, split.test

        return both

    def ultragcn() -> Split:
        parts = [od.read(folder / "ml-1m-ultragcn" / f"{part}.txt", format="adjacency") for part in ("train", "test")]
        return od.split.given(*parts)

    def gowalla(most: int) -> Split:
        here = folder / "gowalla-lightgcn"
        train = od.read([here / "train.txt", here / "valid.txt"], format="adjacency")
        popular = np.argsort(-np.bincount(train.matrix.indices, minlength=train.n_items), kind="stable")[:most]
        train = train.select_items(positions=np.sort(popular))
        test = od.read(here / "test.txt", format="adjacency")
        return od.split.given(train, test.select_items(np.isin(test.item_ids, train.item_ids)))

    given = {
        "ml-1m, UltraGCN split": ultragcn,
        "gowalla, LightGCN split, 8,000 items": lambda: gowalla(8_000),
    }
    return {name: pair(load) for name, load in (splits(folder) | given).items()}


def studies(results_file: Path, names: tuple[str, ...], study: Callable[[Split], Any], **facts: Any) -> None:
    """Study each data set named on the command line, or these; the file keeps the results of earlier runs."""
    words = sys.argv[1:]
    folder = data_folder(words)
    results: dict[str, Any] = json.loads(results_file.read_text()) if results_file.exists() else {"data": {}}
    results |= facts | {"machine": machine()}
    for name in words or names:
        say(f"{name}:")
        results["data"][name] = study(splits(folder)[name]())
        results_file.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")


def study(train: Any, test: Any, known: dict[str, Any] | None) -> dict[str, Any]:
    """The defaults, then two rounds of search, one setting at a time, from the best known so far (earlier runs too)."""
    tried: dict[tuple[float, float, float], dict[str, Any]] = {}

    def score(model: Any) -> dict[str, Any]:
        result = od.evaluate(model, test, metrics=[METRIC, "ndcg@20"])
        return {
            "settings": model.settings_, "ndcg": result.mean[METRIC], "sem": result.sem[METRIC],
            "ndcg@20": result.mean["ndcg@20"],
        }  # fmt: skip

    def attempt(dropout: float, l2: float, power: float) -> dict[str, Any]:
        key = (dropout, round(l2, 6), power)
        if key not in tried:
            tried[key] = score(od.EDLAE(dropout=dropout, l2=l2, user_power=power).fit(train))
        return tried[key]

    auto = score(od.EDLAE().fit(train))
    best = max(auto, known or auto, key=lambda f: float(f["ndcg"]))
    for _ in range(2):
        for name, steps in (("l2", L2_STEPS), ("dropout", DROPOUTS), ("user_power", POWERS), ("l2", L2_STEPS)):
            s = best["settings"]
            for step in steps:
                new = {**s, name: s["l2"] * step if name == "l2" else step}
                found = attempt(new["dropout"], new["l2"], new["user_power"])
                best = max(best, found, key=lambda f: float(f["ndcg"]))
        say(f"  best {best['ndcg']:.4f} at {best['settings']}, auto {auto['ndcg']:.4f}, {len(tried)} fits")
    return {
        "users": train.n_users, "items": train.n_items, "interactions": train.nnz,
        "test_users": int((np.diff(test.targets.indptr) > 0).sum()), "searched": len(tried),
        "auto": auto, "best": best, "popularity": score(od.Popularity().fit(train)),
        "ease": score(od.EASE().fit(train)), "dlae": score(od.DLAE().fit(train)),
    }  # fmt: skip


def main() -> None:
    words = sys.argv[1:]
    folder = data_folder(words)
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"data": {}}
    for name, load in loaders(folder).items():
        if words and name not in words:
            continue
        say(f"{name}:")
        results["data"][name] = study(*load(), results["data"].get(name, {}).get("best"))
        RESULTS.parent.mkdir(exist_ok=True)
        text = json.dumps(results | {"metric": METRIC, "machine": machine()}, indent=2, ensure_ascii=False)
        RESULTS.write_text(text + "\n")
    ratios = [r["auto"]["ndcg"] / r["best"]["ndcg"] for r in results["data"].values()]
    say(f"worst ratio to the best of the search: {np.min(ratios):.4f}")
    documents.renew("defaults")


if __name__ == "__main__":
    main()
