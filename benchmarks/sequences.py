"""Models that know order, EASE and popularity on the same splits: what comes next, all items ranked.

Settings are the defaults of each model; nothing is chosen on test users. Rows that results/sequences.json already holds
are skipped, so that a stopped run continues; with --again they are measured again.

    python benchmarks/sequences.py FOLDER [--sets seq-toys seq-lastfm] [--models NextItem MarkovChain] [--again]

FOLDER holds seq-toys, seq-lastfm, yoochoose-sessions, movietweetings-100k and ml-1m. SASRec takes long on seq-toys and
ml-1m; its checkpoint is in --checkpoints, so it continues, too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
from measure import machine, measured
from run import say

import offdiag as od

RESULTS = Path(__file__).parent / "results" / "sequences.json"
METRICS = ["hit@5", "ndcg@5", "hit@10", "ndcg@10", "hit@20", "mrr@20"]
PUBLISHED = {"seq-toys": {"SASRec": {"hit@5": 0.0463, "ndcg@5": 0.0306}, "S3-Rec": {"hit@5": 0.0443, "ndcg@5": 0.0294}}}
MODELS: dict[str, Callable[[], Any]] = {
    "Popularity": od.Popularity,
    "EASE": od.EASE,
    "MarkovChain": od.MarkovChain,
    "SessionKNN": od.SessionKNN,
    "NextItem": od.NextItem,
    "SASRec": od.SASRec,
}


def lines(folder: Path) -> od.split.Split:
    return od.split.last_out(od.read(folder / "sequences.txt", format="adjacency", keep="events"))


def tweets(folder: Path) -> od.split.Split:
    names = ["user", "item", "rating", "time"]
    rows = [line.split("::") for line in (folder / "ratings.dat").read_text().splitlines()]
    table = pl.DataFrame(rows, schema=names, orient="row").with_columns(pl.col("time").cast(pl.Int64))
    return od.split.last_out(od.read(table, user="user", item="item", time="time", keep="events"))


def films(folder: Path) -> od.split.Split:
    rows = pl.read_parquet(folder / "sequences_by_time.parquet").with_row_index("user")
    return od.split.last_out(od.read(rows.explode("item_ids"), user="user", item="item_ids", keep="events"))


def clicks(folder: Path) -> od.split.Split:
    """Learn from the earlier sessions; of each later one, the last click is to be predicted."""
    parts = [
        pl.read_csv(folder / name, separator="\t").with_columns(user=pl.lit(part) + pl.col("SessionId").cast(pl.String))
        for part, name in (("train ", "train_full.txt"), ("test ", "test.txt"))
    ]
    log = od.read(pl.concat(parts), user="user", item="ItemId", time="Time", keep="events")
    later = [str(user).startswith("test ") for user in log.user_ids.tolist()]
    earlier = [not one for one in later]
    test = od.split.last_out(log.select_users(later), validation=False).test
    return od.split.Split(log.select_users(earlier), None, test)


SETS: dict[str, Callable[[Path], od.split.Split]] = {
    "seq-toys": lines,
    "seq-lastfm": lines,
    "yoochoose-sessions": clicks,
    "movietweetings-100k": tweets,
    "ml-1m": films,
}


def row(name: str, split: od.split.Split, checkpoint: Path) -> dict[str, Any]:
    model, words = MODELS[name](), {}
    if model.stops_early:
        words = {"validation": split.validation, "checkpoint": checkpoint}
    fitted, cost = measured(lambda: model.fit(split.train, **words))
    result = od.evaluate(fitted, split.test, METRICS)
    return {"settings": fitted.settings_, "fit": cost, **result.to_dict(), "machine": machine()}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    asked.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    asked.add_argument("--checkpoints", type=Path, default=Path())
    asked.add_argument("--again", action="store_true")
    given = asked.parse_args()
    whole = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"published": PUBLISHED, "sets": {}}
    for data in given.sets:
        rows = whole["sets"].setdefault(data, {})
        wanted = [name for name in given.models if given.again or name not in rows]
        if not wanted:
            continue
        split = SETS[data](given.folder / data)
        for name in wanted:
            rows[name] = row(name, split, given.checkpoints / f"{data}-{name}.ckpt")
            RESULTS.write_text(json.dumps(whole, indent=1) + "\n")  # after every row: a kill loses one
            say(f"{data:<20} {name:<12} {rows[name]['mean']}")


if __name__ == "__main__":
    main()
