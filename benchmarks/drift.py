"""Are the rows of a table in order of time? What ``od.auto`` sees in real tables; and near parts by whose neighbours.

For each table the ratio and the correlation of ``offdiag.autopilot.drift``, next to what is known about the order of
its rows. Then first-order propagation on the end of the lists of Gowalla (``sparse._end_of_lists``), with the nearest
neighbours of each recommended or of each chosen item. Writes results/drift.json.

    python benchmarks/drift.py [FOLDER WITH DATA SETS] [tables] [near]
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import documents
import numpy as np
import polars as pl
from choosing import data_folder
from measure import machine
from run import say
from sparse import _end_of_lists as end_of_lists

import offdiag as od
from offdiag.autopilot.drift import drift_of

RESULTS = Path(__file__).parent / "results" / "drift.json"
USERS = 4_000  # of the validation part of Gowalla
NEAR: tuple[tuple[Literal["recommended", "chosen"], int], ...] = (
    ("recommended", 500),
    ("chosen", 100),
    ("chosen", 200),
    ("chosen", 500),
    ("chosen", 2_000),
)


def tables(folder: Path) -> Iterator[tuple[str, str, Any]]:
    """Name, what is known about the order of the rows, and the table without its times."""
    gowalla = folder / "gowalla-lightgcn"
    parts = [gowalla / "train.txt", gowalla / "valid.txt"]

    def lists(*names: str) -> Any:
        return od.read(folder.joinpath(*names), format="adjacency")

    yield "gowalla, train.txt", "in order of time", od.read(parts[0], format="adjacency")
    yield "gowalla, then valid.txt", "in order of time, then at random", od.read(parts, format="adjacency")
    published = [*parts, gowalla / "test.txt"]
    yield (
        "gowalla, then valid.txt and test.txt",
        "as published: is the test random?",
        od.read(published, format="adjacency"),
    )
    yield "seq-toys", "in order of time", lists("seq-toys", "sequences.txt")
    yield "seq-lastfm", "in order of time", lists("seq-lastfm", "sequences.txt")
    films = od.datasets.load("ml-100k", folder / "ml-100k")
    yield "ml-100k, by time", "in order of time", films
    yield "ml-100k, as in u.data", "at random", replace(films, times=None)
    yield "ml-1m, UltraGCN split", "by item", lists("ml-1m-ultragcn", "train.txt")
    yield "gowalla, strong split", "by item", lists("gowalla-strong", "train.txt")
    yield "lastfm", "by item", od.read(folder / "lastfm-hetrec2011" / "user_artists.dat", user=0, item=1)
    yield "citeulike-a", "by item", od.datasets.load("citeulike-a", folder / "citeulike-a")
    yield "retail baskets", "by item", od.read(folder / "fimi-retail" / "retail.dat", format="baskets")
    with (
        zipfile.ZipFile(folder / "steam" / "steam.zip") as archive,
        archive.open("steam/game_purchase.dat") as file,
    ):
        games = pl.read_csv(file.read(), separator="\t")
    yield "steam", "unknown", od.read(games, user="User_ID", item="Game_ID")


def near(folder: Path) -> list[dict[str, Any]]:
    """How well propagation ranks by itself, by the neighbours that are kept."""
    split = end_of_lists(folder / "gowalla-lightgcn")
    held: Any = split.validation
    able = np.flatnonzero(np.diff(held.targets.indptr))
    some = np.sort(np.random.default_rng(0).choice(able, USERS, replace=False))
    users = od.split.HeldOut(held.histories[some], held.targets[some], held.user_ids[some], held.item_ids)
    found = []
    for whose, k in NEAR:
        model = od.ItemKNN(neighbours=k, balance=1.0, neighbours_of=whose).fit(split.train)
        result = od.evaluate(model, users, "ndcg@20")
        found.append({"of": whose, "neighbours": k, "bytes": model.weights_.nbytes, **result.to_dict()})
        say(f"  {k} neighbours of each {whose} item: {result.mean}")
    return found


def seen(folder: Path) -> list[dict[str, Any]]:
    """What the autopilot sees in each table."""
    rows = []
    for name, order, inter in tables(folder):
        drift = drift_of(inter)
        facts = {"ratio": drift.ratio, "error": drift.error, "fixed": drift.fixed, "in_time": drift.in_time}
        rows.append({"name": name, "order": order} | facts)
        say(f"  {rows[-1]}")
    return rows


def main() -> None:
    words = sys.argv[1:]
    folder = data_folder(words)
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name, part in (("tables", seen), ("near", near)):
        if not words or name in words:
            found |= {name: part(folder), "users": USERS, "machine": machine()}
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    documents.renew("drift", "near", "auto-published")


if __name__ == "__main__":
    main()
