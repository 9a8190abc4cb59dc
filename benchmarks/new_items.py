"""New items without a fit: accuracy among hidden items, mixed lists, time to add them. Writes results/new_items.json.

A tenth of the items is hidden from train for validation and another tenth for test (``od.split.cold_items``). Content
kNN and the popularity of features are tuned on the validation items; ``add_items`` chooses on items of train.

    python benchmarks/new_items.py cold FOLDER ml-1m|anime|seq-toys
    python benchmarks/new_items.py mixed FOLDER ml-1m|anime|seq-toys
    python benchmarks/new_items.py files LOG PRODUCTS   # your own: tables that od.read and od.read_features understand
    python benchmarks/new_items.py speed [--items 20000] [--new 1000]
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
from measure import machine, measured
from run import say
from scipy import sparse

import offdiag as od
from offdiag.gramian import layout
from offdiag.weights import Packed

RESULTS = Path(__file__).parent / "results" / "new_items.json"
METRICS = ("recall@20", "ndcg@20")
LARGE = 8_000  # items from which the model is sparse
SIZES = (5, 10, 20, 50, 100, 200)  # of neighbourhoods, tried on validation


def movielens(folder: Path) -> tuple[od.Interactions, od.Features]:
    """ML-1M with genres, year, people and plots."""
    inter = od.read(pl.read_parquet(folder / "ml-1m/ratings.parquet"), user="userID", item="movieID")
    films: dict[int, dict[str, Any]] = {}
    for line in (folder / "ml-1m/movies.dat").read_text(encoding="latin-1").splitlines():
        film, title, genres = line.split("::")
        films[int(film)] = {"item": int(film), "genres": genres, "year": float(title.rstrip()[-5:-1])}
    for line in (folder / "ml-1m/movies_extrainfos.dat").read_text(encoding="latin-1").splitlines():
        cells = line.split("::")
        if len(cells) >= 10 and int(cells[0]) in films:
            people = [cell for cell in (cells[6], cells[8]) if cell != "N/A"]
            films[int(cells[0])] |= {"people": "|".join(people).replace(", ", "|") or None, "plot": cells[9]}
    table = pl.DataFrame(list(films.values()), infer_schema_length=None)
    return inter, od.read_features(table, categories=["genres", "people"], numbers=["year"], text=["plot"])


def anime(folder: Path) -> tuple[od.Interactions, od.Features]:
    """Anime with genres alone."""
    log = pl.read_csv(folder / "anime/anime_history.dat", separator="\t")
    table = pl.read_csv(folder / "anime/anime_info.dat", separator="\t", quote_char=None, infer_schema_length=0)
    table = table.select(pl.col("anime_ids").cast(pl.Int64).alias("item"), "genre")
    inter = od.read(log, user="User_ID", item="Anime_ID")
    return inter, od.read_features(table, categories=["genre"], tag_separator=",")


def anime_names(folder: Path) -> tuple[od.Interactions, od.Features]:
    """Anime with genres, kind and words of the name."""
    log = pl.read_csv(folder / "anime/anime_history.dat", separator="\t")
    table = pl.read_csv(folder / "anime/anime_info.dat", separator="\t", quote_char=None, infer_schema_length=0)
    table = table.select(pl.col("anime_ids").cast(pl.Int64).alias("item"), "genre", "type", "name")
    inter = od.read(log, user="User_ID", item="Anime_ID")
    return inter, od.read_features(table, categories=["genre", "type"], text=["name"])


def toys(folder: Path) -> tuple[od.Interactions, od.Features]:
    """Amazon Toys with attributes."""
    rows = [line.split() for line in (folder / "seq-toys/sequences.txt").read_text().splitlines()]
    pairs = {"user": [int(row[0]) for row in rows for _ in row[1:]], "item": [int(x) for row in rows for x in row[1:]]}
    known = json.loads((folder / "seq-toys/item_attributes.json").read_text())
    table = {"item": [int(item) for item in known], "attributes": [[str(x) for x in tags] for tags in known.values()]}
    return od.read(pl.DataFrame(pairs)), od.read_features(pl.DataFrame(table), categories=["attributes"])


DATA: dict[str, Callable[[Path], tuple[od.Interactions, od.Features]]] = {
    "ml-1m": movielens, "anime": anime, "anime with names": anime_names, "seq-toys": toys,
}  # fmt: skip


class Content:
    """A baseline as a model: scores of hidden items, X @ columns or the same for all."""

    def __init__(self, item_ids: Any, columns: Any, personal: bool) -> None:
        self.item_ids_, self.columns, self.personal = item_ids, columns, personal

    def recommend(self, histories: Any, *, k: int, exclude_seen: bool, allow: Any) -> Any:
        """Lists of the allowed items."""
        places = np.flatnonzero(np.isin(self.item_ids_, allow))
        m = len(self.item_ids_) - self.columns.shape[1]  # known items
        scores = (histories[:, :m] @ self.columns[:, places - m]) if self.personal else self.columns[:, places - m]
        scores = np.broadcast_to(np.asarray(scores), (histories.shape[0], len(places)))
        return SimpleNamespace(indices=places[np.argsort(-scores, axis=1, kind="stable")[:, :k]])


def nearest(similar: Any, n: int, mean: bool) -> Any:
    """The n largest cosines of each column, as they are or divided by their sum."""
    n = min(n, len(similar))
    kept = np.where(similar >= -np.partition(-similar, n - 1, axis=0)[n - 1], similar, 0.0)
    return kept / np.maximum(kept.sum(axis=0), 1e-9) if mean else kept


def baselines(split: Any, features: od.Features) -> dict[str, tuple[str, Content]]:
    """Content kNN and the popularity of features, as tuned on the validation items."""
    ids = split.test.item_ids
    F, f = features.rows(split.train.item_ids), features.rows(split.hidden_items)
    similar = (F @ f.T).toarray()
    popularity = np.asarray(split.train.matrix.sum(axis=0)).ravel()
    tried: dict[str, list[tuple[str, Content]]] = {"content kNN": [], "popularity of features": []}
    for n in SIZES:
        for mean in (False, True):
            columns = nearest(similar, n, mean)
            tried["content kNN"].append((f"{n} nearest{', mean' * mean}", Content(ids, columns, True)))
        popular = popularity @ nearest(similar, n, True)
        tried["popularity of features"].append((f"{n} nearest", Content(ids, popular[None], False)))
    tags = sparse.csr_array((np.ones(F.nnz), F.indices, F.indptr), shape=F.shape)
    own = popularity @ tags / np.maximum(tags.sum(axis=0), 1)
    by_tag = np.asarray(f @ own).ravel() / np.maximum(np.asarray(f.sum(axis=1)).ravel(), 1e-9)
    tried["popularity of features"].append(("mean of its features", Content(ids, by_tag[None], False)))
    found = {}
    for name, models in tried.items():
        scores = [measure(model, split.validation, split.validation_items).mean for _, model in models]
        found[name] = models[int(np.argmax([sum(score.values()) for score in scores]))]
    return found


def measure(model: Any, part: Any, items: Any) -> od.Result:
    """Accuracy among these items."""
    return od.evaluate(model, part, METRICS, among=items)


def cold(name: str, inter: od.Interactions, features: od.Features, gaps: bool = False) -> dict[str, Any]:
    """Accuracy among the test items; ``gaps``: some items may have no features."""
    split = od.split.cold_items(inter, share=0.1, seed=0, features=features if gaps else None)
    learner: Any = od.EDLAE() if split.train.n_items <= LARGE else od.SparseEDLAE()
    model, fit = measured(lambda: learner.fit(split.train))
    _, added = measured(lambda: model.add_items(features.select([*split.train.item_ids, *split.hidden_items])))
    rivals = baselines(split, features)
    ours = measure(model, split.test, split.test_items)
    theirs = {rival: measure(one, split.test, split.test_items) for rival, (_, one) in rivals.items()}
    found: dict[str, Any] = {
        "model": type(model).__name__, "users": ours.n_users, "items": split.train.n_items,
        "new": len(split.test_items), "features": repr(features),
        "targets": int(split.test.targets.nnz), "fit_seconds": fit["seconds"], "add_seconds": added["seconds"],
        "settings": {rival: setting for rival, (setting, _) in rivals.items()},
        "mean": {"add_items": ours.mean} | {rival: result.mean for rival, result in theirs.items()},
        "sem": {"add_items": ours.sem} | {rival: result.sem for rival, result in theirs.items()},
    }  # fmt: skip
    best = {metric: max(theirs, key=lambda rival: theirs[rival].mean[metric]) for metric in METRICS}
    found["ratio"] = {metric: ours.mean[metric] / theirs[best[metric]].mean[metric] for metric in METRICS}
    found["paired"] = {metric: ours.compare(theirs[best[metric]]).to_dict() for metric in METRICS}
    say(f"{name}: {found['mean']} ratio {found['ratio']}")
    return found


def mixed(name: str, inter: od.Interactions, features: od.Features) -> dict[str, Any]:
    """Lists of known and new items together: what the known ones lose, and how often new ones are shown."""
    split = od.split.cold_items(inter, share=0.1, held_out=0.2, seed=0)
    plain = od.EDLAE().fit(split.train)
    known, all_items = split.train.item_ids, np.concatenate([split.train.item_ids, split.test_items])
    both = features.select([*known, *split.hidden_items])
    warm, new = split.test.only(known), split.test.only(split.test_items)
    deserved = new.targets.nnz / split.test.targets.nnz
    found: dict[str, Any] = {"deserved": deserved, "new": len(split.test_items), "boost": {}}
    rows = np.flatnonzero(np.diff(split.test.targets.indptr))
    for boost in (1.0, 1.5, 2.0):
        model = copy.copy(plain)
        model.add_items(both, boost=boost)
        lists = model.recommend(split.test.histories[rows], k=100, allow=all_items).indices
        entry: dict[str, Any] = {}
        for k in (20, 100):
            metric = f"ndcg@{k}"
            alone = od.evaluate(model, warm, [metric], among=known)
            with_new = od.evaluate(_Among(model, all_items), warm, [metric])
            beside = [metric, f"coverage@{k}", f"novelty@{k}"]
            every = od.evaluate(_Among(model, all_items), split.test.only(all_items), beside)
            without = od.evaluate(_Among(model, known), split.test.only(all_items), [metric])
            short = od.evaluate(model, warm, [f"recall_all@{k}"], among=known).mean[f"recall_all@{k}"]
            room = max(1, round(k * (1 - deserved / 2)))
            entry[str(k)] = {
                "exposure": float((lists[:, :k] >= len(known)).mean()) / deserved,
                "known": with_new.mean[metric] / alone.mean[metric] - 1,
                "all": every.mean[metric] / without.mean[metric] - 1,
                "coverage": every.mean[f"coverage@{k}"], "novelty": every.mean[f"novelty@{k}"],
                # Half of what is deserved, at the end of every list; a rule that picks lists could cost less.
                "least": _shortened(model, warm, known, k, room) / alone.mean[metric] - 1, "recall": short,
            }  # fmt: skip
        found["boost"][str(boost)] = entry
        say(f"{name} boost {boost}: {entry}")
    found["places"] = {}
    model = copy.copy(plain)
    model.add_items(both)
    for k in (20, 100):
        half = max(1, round(k * deserved / 2))
        found["places"][str(k)] = entry = placed(model, split, warm, half, k, len(known), deserved)
        say(f"{name} {half} places of {k}: {entry}")
    return found


def placed(model: Any, split: Any, warm: Any, places: int, k: int, known: int, deserved: float) -> dict[str, Any]:
    """The same with places that every list has for new items."""
    metric = f"ndcg@{k}"
    every, plain = _Among(model, model.item_ids_, places), _Among(model, model.item_ids_[:known])
    rows = np.flatnonzero(np.diff(split.test.targets.indptr))
    lists = every.recommend(split.test.histories[rows], k=k, exclude_seen=True).indices
    parts = {"known": warm, "all": split.test.only(model.item_ids_)}
    values = {
        name: [od.evaluate(one, part, [metric]).mean[metric] for one in (every, plain)] for name, part in parts.items()
    }
    changes = {name: ours / without - 1 for name, (ours, without) in values.items()}
    return {"places": places, "exposure": float((lists >= known).mean()) / deserved, **changes}


class _Among:
    """A model whose lists hold only some items; targets are not restricted."""

    def __init__(self, model: Any, items: Any, new_places: int = 0) -> None:
        self.model, self.items, self.item_ids_, self.new_places = model, items, model.item_ids_, new_places
        self.popularity_ = model.popularity_

    def recommend(self, histories: Any, *, k: int, exclude_seen: bool) -> Any:
        """Lists of these items."""
        return self.model.recommend(
            histories, k=k, exclude_seen=exclude_seen, allow=self.items, new_places=self.new_places
        )


def _shortened(model: Any, held_out: Any, items: Any, k: int, room: int) -> float:
    """nDCG@k of lists of which only the first places are used."""

    class Short(_Among):
        def recommend(self, histories: Any, *, k: int, exclude_seen: bool) -> Any:
            lists = super().recommend(histories, k=k, exclude_seen=exclude_seen).indices.copy()
            lists[:, room:] = -1
            return SimpleNamespace(indices=lists)

    return float(od.evaluate(Short(model, items), held_out, [f"ndcg@{k}"]).mean[f"ndcg@{k}"])


def speed(items: int, new: int) -> dict[str, Any]:
    """The time to add new items to a full-rank model, with 20 tags of 50,000 each; the weights are random."""
    rng = np.random.default_rng(0)
    tags = rng.zipf(1.3, size=(items + new, 20)) % 50_000
    table = {"item": list(range(items + new)), "tags": [[str(tag) for tag in row] for row in tags.tolist()]}
    features = od.read_features(pl.DataFrame(table), categories=["tags"])
    model = od.EASE(l2=1.0).fit(np.eye(3))
    C = rng.standard_normal(layout.size(items), dtype=np.float32)
    model.weights_ = Packed(C, rng.random(items, dtype=np.float32), np.zeros(items, dtype=np.float32))
    model.item_ids_, model.popularity_ = np.arange(items), rng.zipf(1.5, items).astype(np.float64) % 10_000
    copy.copy(model).add_items(features.select(range(items + 1)))  # compiled here
    runs = []
    for _ in range(3):
        grown = copy.copy(model)
        runs.append(measured(partial(grown.add_items, features))[1])
    X = sparse.csr_array((rng.random((20, items)) < 0.002).astype(np.float32))
    wide = sparse.csr_array((X.data, X.indices, X.indptr), shape=(20, items + new))
    same = grown.predict(wide)[:, :items].tobytes() == model.predict(X).tobytes()
    best = min(runs, key=lambda run: run["seconds"])
    found = {"items": items, "new": new, "add": best, "features": repr(features), "same_scores": same}
    say(f"{found}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["cold", "mixed", "files", "speed"])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("data", nargs="?", help=f"one of {', '.join(DATA)}; of files, a table of products")
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--new", type=int, default=1_000)
    words = parser.parse_args()
    if words.what == "files":  # figures of other people's data are printed only
        cold(str(words.folder), od.read(words.folder), od.read_features(words.data), gaps=True)
        return
    if words.what == "speed":
        found = speed(words.items, words.new)
    else:
        found = (cold if words.what == "cold" else mixed)(words.data, *DATA[words.data](words.folder))
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"cold": {}, "mixed": {}}
    if words.what == "speed":
        results["speed"] = found
    else:
        results[words.what][words.data] = found
    results["machine"] = machine()
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
