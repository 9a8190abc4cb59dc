"""The data sets of benchmarks/sequences.py: how each is read, and what is held out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

import offdiag as od

LATER = 0.2  # share of the training sessions, the latest, that are for validation


class Data(NamedTuple):
    """A split to choose settings on, and what is learned from when they are chosen."""

    split: od.split.Split
    learned: od.Interactions
    watched: od.split.HeldOut | None  # for early stopping; None: some users of ``learned`` are set aside


class Task(NamedTuple):
    """How a set is read, and whether seen items may be recommended again."""

    read: Callable[[Path], Data]
    folder: str
    exclude_seen: bool = True


def last_out(log: od.Interactions) -> Data:
    split = od.split.last_out(log)
    return Data(split, split.train, split.validation)


def lines(folder: Path) -> Data:
    return last_out(od.read(folder / "sequences.txt", format="adjacency", keep="events"))


def tweets(folder: Path) -> Data:
    return last_out(tweet_log(folder))


def tweet_log(folder: Path) -> od.Interactions:
    names = ["user", "item", "rating", "time"]
    rows = [line.split("::") for line in (folder / "ratings.dat").read_text().splitlines()]
    table = pl.DataFrame(rows, schema=names, orient="row").with_columns(pl.col("time").cast(pl.Int64))
    return od.read(table, user="user", item="item", time="time", keep="events")


def films(folder: Path) -> Data:
    rows = pl.read_parquet(folder / "sequences_by_time.parquet").with_row_index("user")
    return last_out(od.read(rows.explode("item_ids"), user="user", item="item_ids", keep="events"))


def clicks(folder: Path) -> Data:
    """Learn from the earlier sessions; of each later one, the last click is to be predicted.

    For validation, the latest fifth of the earlier sessions is predicted from the others in the same way; with the
    settings found there, all earlier sessions are learned from.
    """
    parts = [
        pl.read_csv(folder / name, separator="\t").with_columns(user=pl.lit(part) + pl.col("SessionId").cast(pl.String))
        for part, name in (("train ", "train_full.txt"), ("test ", "test.txt"))
    ]
    log = od.read(pl.concat(parts), user="user", item="ItemId", time="Time", keep="events")
    assert log.events is not None
    assert log.events.times is not None
    ends = log.events.times[log.events.indptr[1:] - 1]
    test = np.array([str(user).startswith("test ") for user in log.user_ids.tolist()])
    validation = ~test & (ends > np.quantile(ends[~test], 1 - LATER))
    sessions = [od.split.last_out(log.select_users(part), validation=False).test for part in (validation, test)]
    split = od.split.Split(log.select_users(~(test | validation)), *sessions)
    return Data(split, log.select_users(~test), None)


SETS = {
    "seq-toys": Task(lines, "seq-toys"),
    "seq-lastfm": Task(lines, "seq-lastfm"),
    "movietweetings-100k": Task(tweets, "movietweetings-100k"),
    "ml-1m": Task(films, "ml-1m"),
    "yoochoose-sessions": Task(clicks, "yoochoose-sessions"),
    "yoochoose-sessions, with repeats": Task(clicks, "yoochoose-sessions", exclude_seen=False),
}


def facts(data: Data) -> dict[str, Any]:
    """The size of a set, for its table."""
    log, test = data.learned, data.split.test
    assert log.events is not None
    return {
        "users": log.n_users, "items": log.n_items, "events": log.events.n_events,
        "seen_targets": int(test.histories.multiply(test.targets).nnz),
    }  # fmt: skip
