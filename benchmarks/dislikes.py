"""Do dislikes help, and do features of users? ``od.EDLAE(dislike_weight=…)`` on rated data; age, sex and job on ml-1m.

Users are divided into training, validation and test; of held-out users a fifth of the ratings is hidden, and the hidden
likes are the targets. Everything else that they rated is never recommended, by any model. The settings of each model
are chosen on the validation users: from a grid of nine without dislikes, then near the best of these with dislikes.
The test users are measured once, and differences are paired. Writes results/dislikes.json and the tables of
docs/dislikes.md.

    python benchmarks/dislikes.py [FOLDER WITH DATA SETS] [NAME …]
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import documents
import numpy as np
import polars as pl
from choosing import data_folder, standard_error
from run import say
from scipy import sparse

import offdiag as od
from offdiag import metrics
from offdiag.gramian.packed import gram
from offdiag.models.auto import from_data
from offdiag.models.fields import number
from offdiag.solvers import grouped
from offdiag.weights import Grouped

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "dislikes.json"
DROPOUTS = (0.3, 0.5, 0.7)
TIMES_L2 = (0.3, 1.0, 3.0)  # the automatic one
WEIGHTS = (0.5, 1.0, 2.0)  # of dislikes
FEATURE_WEIGHTS = (1.0, 3.0, 10.0)
LENGTHS = (0, 1, 2, 5, 10, 20)  # of the histories of new users with features
HIDDEN = 0.2
METRICS = (20, 100)
Rows = sparse.csr_array
Doubles = np.ndarray


@dataclass(frozen=True)
class Rated:
    """Ratings from 1 of users × items; a like is ``like`` or more, a clear dislike less than ``clear``."""

    matrix: Rows
    like: int
    clear: int

    def part(self, kept: Callable[[Doubles], Doubles], users: Doubles) -> Rows:
        some = sparse.csr_array(self.matrix[users])
        return ones(some, kept(some.data))


def ones(matrix: Rows, kept: Doubles) -> Rows:
    """1 for the stored entries in the mask."""
    ends = np.concatenate([[0], np.cumsum(kept)])[matrix.indptr]
    return sparse.csr_array((np.ones(ends[-1], np.float32), matrix.indices[kept], ends), shape=matrix.shape)


def read(folder: Path, name: str) -> tuple[Rated, Doubles]:
    """The ratings of items with ``least`` likes or more by users with five or more, and the ids of these users."""
    like, clear = {"ml-1m": (4, 3)}.get(name, (7, 6))
    least = 5 if name == "movietweetings" else 20
    if name == "ml-1m":
        frame = pl.read_parquet(folder / "ml-1m" / "ratings_values.parquet").rename({"rating": "value"})
        frame = frame.select(pl.col("userID").alias("user"), pl.col("movieID").alias("item"), "value")
    elif name == "anime":
        frame = pl.read_csv(
            folder / "anime" / "anime_ratings.dat", separator="\t", new_columns=["user", "item", "value"]
        )
    else:
        lines = (folder / "movietweetings-100k" / "ratings.dat").read_text().split()
        cells = [line.split("::")[:3] for line in lines]
        frame = pl.DataFrame(cells, schema=["user", "item", "value"], orient="row").cast(pl.Int64)
        frame = frame.with_columns(pl.col("value").clip(lower_bound=1))  # a rating of 0 would be no rating
    rated = od.read(frame, value="value", duplicates="once")
    liked = od.prepare.min_counts(
        rated.select_entries(rated.matrix.data >= like), users=5, items=least, until_stable=True
    )
    rated = rated.select_users(ids=liked.user_ids.tolist()).select_items(ids=liked.item_ids.tolist())
    return Rated(rated.matrix, like, clear), rated.user_ids


@dataclass(frozen=True)
class HeldOut:
    """Held-out users: ratings that are known, and likes that are hidden."""

    known: Rated
    targets: Rows

    def score(self, scores: Doubles, k: int) -> Doubles:
        scores = np.array(scores)
        scores[
            np.repeat(np.arange(len(scores)), np.diff(self.known.matrix.indptr)), self.known.matrix.indices
        ] = -np.inf
        best = np.argsort(-scores, axis=1, kind="stable")[:, : max(METRICS)]
        hits = metrics.find_hits(best.astype(np.int64), self.targets)
        return metrics.ndcg(hits, np.diff(self.targets.indptr).astype(np.int64), k)


def hide(data: Rated, users: Doubles, rng: np.random.Generator) -> tuple[HeldOut, Doubles]:
    """A fifth of the ratings is hidden; users without a hidden like are left out."""
    some = sparse.csr_array(data.matrix[users])
    hidden = rng.random(some.nnz) < HIDDEN
    targets = ones(some, hidden & (some.data >= data.like))
    known = sparse.csr_array(some.multiply(ones(some, ~hidden)))
    kept = np.flatnonzero(np.diff(targets.indptr))
    known, targets = sparse.csr_array(known[kept]), sparse.csr_array(targets[kept])
    known.sort_indices()
    return HeldOut(Rated(known, data.like, data.clear), targets), users[kept]


def split(data: Rated, held_out: int) -> tuple[Doubles, HeldOut, HeldOut, Doubles, Doubles]:
    rng = np.random.default_rng(0)
    order = rng.permutation(data.matrix.shape[0])
    validation, at = hide(data, np.sort(order[:held_out]), rng)
    test, where = hide(data, np.sort(order[held_out : 2 * held_out]), rng)
    return np.sort(order[2 * held_out :]), validation, test, at, where


def interactions(likes: Rows, dislikes: Rows | None = None) -> od.Interactions:
    return od.Interactions(likes, np.arange(likes.shape[0]), np.arange(likes.shape[1]), dislikes=dislikes)


class Arm:
    """One way to learn from ratings: what goes in for training and for a history."""

    def __init__(self, name: str, likes: Callable[[Rated], Rows], dislikes: Callable[[Rated], Rows] | None) -> None:
        self.name, self.likes, self.dislikes = name, likes, dislikes

    def data(self, rated: Rated) -> od.Interactions:
        return interactions(self.likes(rated), None if self.dislikes is None else self.dislikes(rated))

    def choose(self, train: Rated, validation: HeldOut, likes: dict[str, Any] | None) -> tuple[dict[str, Any], float]:
        """The best on the validation users: of a grid, or near the best settings for ``likes`` alone."""
        X, history = self.data(train), self.data(validation.known)
        if self.dislikes is None or likes is None:
            l2 = automatic_l2(X.matrix)
            grid = [{"dropout": p, "l2": t * l2} for p, t in itertools.product(DROPOUTS, TIMES_L2)]
            return best(grid, X, history, validation)
        first, value = best([likes | {"dislike_weight": w} for w in WEIGHTS], X, history, validation)
        near = [first | {"l2": t * first["l2"]} for t in TIMES_L2 if t != 1]
        other, more = best(near, X, history, validation)
        return (other, more) if more > value else (first, value)


def automatic_l2(X: Rows) -> float:
    used = od.EDLAE()
    from_data(X, used)
    return number(used.l2)


def predict(settings: dict[str, Any], X: od.Interactions, history: od.Interactions) -> Doubles:
    return od.EDLAE(**settings).fit(X).predict(history)


def best(
    grid: Iterable[dict[str, Any]], X: od.Interactions, history: od.Interactions, validation: HeldOut
) -> tuple[dict[str, Any], float]:
    values = []
    for settings in grid:
        values.append((float(validation.score(predict(settings, X, history), METRICS[0]).mean()), settings))
        say(f"    {settings} {values[-1][0]:.4f}")
    value, settings = max(values, key=lambda pair: pair[0])
    return settings, value


def liked(rated: Rated) -> Rows:
    return ones(rated.matrix, rated.matrix.data >= rated.like)


ARMS = (
    Arm("likes only", liked, None),
    Arm("all ratings as ones", lambda rated: ones(rated.matrix, rated.matrix.data > 0), None),
    Arm("ratings as values", lambda rated: rated.matrix.astype(np.float32), None),
    Arm("likes and dislikes", liked, lambda rated: ones(rated.matrix, rated.matrix.data < rated.like)),
    Arm("likes and clear dislikes", liked, lambda rated: ones(rated.matrix, rated.matrix.data < rated.clear)),
)


def study(data: Rated) -> dict[str, Any]:
    users, validation, test, _, _ = split(data, min(1_000, data.matrix.shape[0] // 6))
    train = Rated(sparse.csr_array(data.matrix[users]), data.like, data.clear)
    models: dict[str, Any] = {}
    per_user: dict[str, dict[int, Doubles]] = {}
    for arm in ARMS:
        say(f"  {arm.name}")
        settings, value = arm.choose(train, validation, models.get("likes only", {}).get("settings"))
        scores = predict(settings, arm.data(train), arm.data(test.known))
        per_user[arm.name] = {k: test.score(scores, k) for k in METRICS}
        models[arm.name] = {"settings": settings, "validation": value}
        for k in METRICS:
            gain = per_user[arm.name][k] - per_user["likes only"][k]
            models[arm.name][f"ndcg@{k}"] = {
                "mean": float(per_user[arm.name][k].mean()), "sem": standard_error(per_user[arm.name][k]),
                "gain": float(gain.mean()), "gain_sem": standard_error(gain),
            }  # fmt: skip
        say(f"  {arm.name}: {models[arm.name]}")
    return {
        "users": len(users), "items": data.matrix.shape[1], "test_users": test.targets.shape[0],
        "likes": int((data.matrix.data >= data.like).sum()), "dislikes": int((data.matrix.data < data.like).sum()),
        "like": data.like, "clear": data.clear, "models": models,
    }  # fmt: skip


def one_hot(folder: Path, ids: Doubles) -> Rows:
    """Sex, age and job of the users of ml-1m, each value a column."""
    rows = [line.split("::")[1:4] for line in (folder / "ml-1m" / "users.dat").read_text("latin-1").split()]
    found = pl.DataFrame(rows, schema=["sex", "age", "job"], orient="row")[(ids - 1).tolist()]
    return sparse.csr_array(found.to_dummies().to_numpy().astype(np.float32))


def with_features(X: Rows, F: Rows, settings: dict[str, Any]) -> tuple[Doubles, Doubles]:
    """Weights of items and of features on items: features are inputs that are never predicted."""
    m, weight = X.shape[1], settings["weight"]
    G = gram(sparse.hstack([X, weight * F], format="csr"), 0.5, dtype="float32")
    number = np.arange(G.n_items)
    found = grouped.solve(
        G.values, G.n_items, number, dropout=settings["dropout"], l2=settings["l2"] / G.scale, targets=m
    )
    B = np.empty((G.n_items, m), np.float32)
    W = Grouped(found.C, np.ones(G.n_items, np.float32), number, found.blocks)
    W.tile(number, number, 0, m, B, 0, G.n_items)
    return B[:m], weight * B[m:]


def shorten(X: Rows, n: int) -> Rows:
    """At most n items of each history, at random."""
    rng = np.random.default_rng(n)
    order = np.concatenate([rng.permutation(size) for size in np.diff(X.indptr)])
    return ones(X, order < n)


def new_users(data: Rated, ids: Doubles, folder: Path) -> dict[str, Any]:
    """Users with short histories, with and without features; settings are chosen on the mean over the lengths."""
    users, validation, test, at, where = split(data, 1_000)
    X, F = ones(sparse.csr_array(data.matrix[users]), data.matrix[users].data >= data.like), one_hot(folder, ids)
    l2 = automatic_l2(X)
    popular = np.asarray(X.sum(axis=0)).ravel() / X.sum()

    def measure(part: HeldOut, rows: Doubles, settings: dict[str, Any]) -> dict[int, Doubles]:
        B, N = with_features(X, sparse.csr_array(F[users]), settings)
        found = {}
        for n in LENGTHS:
            history = shorten(liked(part.known), n)
            scores = history @ B + (F[rows] @ N if settings["weight"] else 0)
            if not settings["weight"]:
                scores[np.diff(history.indptr) == 0] = popular
            found[n] = part.score(scores, METRICS[0])
        return found

    chosen: dict[str, Any] = {}
    for name, weights in (("without", (0.0,)), ("with", FEATURE_WEIGHTS)):
        tried = []
        for p, w in itertools.product((0.5, 0.8, 0.95), weights):
            settings = {"dropout": p, "l2": l2, "weight": w}
            value = float(np.mean([one.mean() for one in measure(validation, at, settings).values()]))
            tried.append((value, settings))
            say(f"    features {name}: {settings} {value:.4f}")
        chosen[name] = max(tried, key=lambda pair: pair[0])[1]
    plain, featured = (measure(test, where, chosen[name]) for name in ("without", "with"))
    rows = [
        {
            "length": n, "without": float(plain[n].mean()), "with": float(featured[n].mean()),
            "gain": float((featured[n] - plain[n]).mean()), "gain_sem": standard_error(featured[n] - plain[n]),
        }
        for n in LENGTHS
    ]  # fmt: skip
    return {"settings": chosen, "rows": rows, "test_users": test.targets.shape[0], "metric": f"ndcg@{METRICS[0]}"}


if __name__ == "__main__":
    words = sys.argv[1:]
    place = data_folder(words)
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"data": {}}
    for name in words or ("ml-1m", "anime", "movietweetings"):
        say(name)
        rated, ids = read(place, name)
        found["data"][name] = study(rated)
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
        if name == "ml-1m":
            found["new users"] = new_users(rated, ids, place)
            RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    documents.renew("dislikes", "user-features")
