"""What features of items add to EDLAE on real data: nDCG with and without them, on the same held-out users.

Each data set is divided by users. l2 of the model without features is tuned on the validation users, and so is the
weight of the features at that l2; both are then measured once on the test users, and so are the automatic settings.
Writes results/features.json and renews docs/features.md.

    python benchmarks/features.py FOLDER [NAME …]  # with ml-1m, anime, movietweetings-100k and seq-toys in it
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import documents
import numpy as np
from run import say

import offdiag as od

RESULTS = Path(__file__).parent / "results" / "features.json"
METRICS = ["ndcg@100", "recall@20"]
METRIC = METRICS[0]
L2 = (0.5, 1.0, 2.0)  # times the automatic one
WEIGHTS = (0.03, 0.1, 0.3, 1.0, 3.0)
Data = tuple[od.Interactions, od.Features]


def ml_1m(folder: Path) -> Data:
    X = od.read(folder / "ml-1m" / "ratings.parquet", user="userID", item="movieID")
    return X, od.read_features(
        folder / "ml-1m" / "movies_extrainfos.dat", item=0, separator="::", header=False,
        categories=[5, 6, 8], numbers=[2], text=[9],
    )  # fmt: skip


def anime(folder: Path) -> Data:
    X = od.read(folder / "anime" / "anime_history.dat", user="User_ID", item="Anime_ID")
    table = folder / "anime" / "anime_info.dat"
    return X, od.read_features(table, item="anime_ids", categories=["genre", "type"], text=["name"])


def movietweetings(folder: Path) -> Data:
    place = folder / "movietweetings-100k"
    X = od.prepare.min_counts(od.read(place / "ratings.dat", user=0, item=1), users=5)
    return X, od.read_features(place / "movies.dat", item=0, categories=[2], text=[1])


def toys(folder: Path) -> Data:
    rows = [line.split() for line in (folder / "seq-toys" / "sequences.txt").read_text().splitlines()]
    pairs = [(user, item) for user, *items in rows for item in items]
    X = od.read({"user": [user for user, _ in pairs], "item": [item for _, item in pairs]})
    known = json.loads((folder / "seq-toys" / "item_attributes.json").read_text())
    return X, od.read_features({"item": list(known), "attribute": list(known.values())}, categories=["attribute"])


SETS: dict[str, tuple[Callable[[Path], Data], str]] = {
    "ml-1m": (ml_1m, "genres, directors, actors, year, plot"),
    "anime": (anime, "genres, type, words of the name"),
    "movietweetings": (movietweetings, "genres, words of the title"),
    "toys": (toys, "attributes"),
}


def measure(name: str, folder: Path) -> dict[str, Any]:
    make, kinds = SETS[name]
    X, features = make(folder)
    split = od.split.strong(X, held_out=0.1, seed=0)
    train, G = split.train, od.gram(split.train, 0.5, dtype=np.float32)

    def fitted(**settings: float) -> Any:
        model = od.EDLAE(**settings)  # type: ignore[arg-type]
        return model.fit_gram(
            G, item_ids=train.item_ids, item_features=features if "feature_weight" in settings else None
        )

    def value(**settings: float) -> float:
        assert split.validation is not None
        found = od.evaluate(fitted(**settings), split.validation, METRIC).mean[METRIC]
        say(f"{name} {settings} {found:.4f}")
        return found

    begin = time.perf_counter()
    automatic = od.EDLAE().fit(train, item_features=features)
    auto_l2, chosen = automatic.settings_["l2"], automatic.settings_["feature_weight"]
    say(f"{name} automatic {automatic.settings_} in {time.perf_counter() - begin:.0f} s")
    by_l2 = {share: value(l2=share * auto_l2) for share in L2}
    l2 = auto_l2 * max(by_l2, key=by_l2.__getitem__)
    by_weight = {0.0: max(by_l2.values())} | {weight: value(l2=l2, feature_weight=weight) for weight in WEIGHTS}
    weight = max(by_weight, key=by_weight.__getitem__)
    plain = od.evaluate(fitted(l2=auto_l2), split.test, METRICS)
    untuned = od.evaluate(automatic, split.test, METRICS)
    tuned = [od.evaluate(fitted(l2=l2, feature_weight=w), split.test, METRICS) for w in (0.0, weight)]
    return {
        "features": kinds, "users": X.n_users, "items": X.n_items, "interactions": X.nnz,
        "n_features": features.matrix.shape[1], "test_users": plain.n_users,
        "automatic": {"l2": auto_l2, "feature_weight": chosen} | compared(untuned, plain),
        "tuned": {"l2": l2, "feature_weight": weight} | compared(tuned[1], tuned[0]),
        "validation": {"l2": in_text(by_l2), "feature_weight": in_text(by_weight)},
    }  # fmt: skip


def in_text(values: dict[float, float]) -> dict[str, float]:
    return {f"{key:g}": value for key, value in values.items()}


def compared(with_features: od.Result, without: od.Result) -> dict[str, Any]:
    """Means, and the paired difference with its standard error."""
    test = with_features.compare(without)
    return {
        metric: {
            "without": without.mean[metric], "with": with_features.mean[metric], "sem": with_features.sem[metric],
            "difference": test.difference[metric], "difference_sem": test.sem[metric],
        }
        for metric in METRICS
    }  # fmt: skip


def main(folder: str, *names: str) -> None:
    for name in names or SETS:
        found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"data": {}}
        found["data"][name] = measure(name, Path(folder))
        found["data"] = {known: found["data"][known] for known in SETS if known in found["data"]}
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
        say(f"{name}: {json.dumps(found['data'][name]['tuned'])}")
    documents.renew("features")


if __name__ == "__main__":
    main(*sys.argv[1:])
