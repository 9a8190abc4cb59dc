"""od.auto against the best tuned row that is known, on the splits of table 1 (new users) and of docs/order.md (next).

The rival is the tuned row with the best result *on the test users* in results/table1-*.json or results/sequences.json,
which is more than it could know; it is fitted again with its settings on the same training data, so that the
difference is paired. For known users of three more sets, and the new users of Gowalla in the split of DAN, no such rows
are known: there the rivals are tuned here, each family with as many seconds as the race, and again the best on the test
users is taken. Writes results/auto.json. With "processor", budgets are in processor seconds of all cores
together, for a machine that does other work meanwhile. Two published splits of known users are run as a new user would:
the command gets the training lists and nothing else, and its model is measured once on the test lists.

    python benchmarks/auto.py [FOLDER WITH DATA SETS] [seconds=120] [processor] [NAME …]
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, cast

import defaults
import documents
import numpy as np
import sequence_sets
from choosing import count_processor_time, data_folder
from measure import machine
from run import say
from scipy import sparse
from table1 import FOLDERS

import offdiag as od
from offdiag import model_list
from offdiag.autopilot.holding_out import hold_out
from offdiag.autopilot.sight import look
from offdiag.papers.steck2020 import sources

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "auto.json"
SECONDS = 600.0
TABLE1 = {f"{name}, new users": name for name in ("ml-100k", "lastfm", "ml-1m")}
NEXT = {f"{name}, next choice": name for name in ("seq-lastfm", "movietweetings-100k", "seq-toys", "ml-1m")}
PUBLISHED = {  # the lists, and the best figures that others have published on them: Recall@20, NDCG@20
    "gowalla, LightGCN split": ("gowalla-lightgcn", ("train.txt", "valid.txt"), "ChebyCF", (0.1941, 0.1616)),
    "ml-1m, UltraGCN split": ("ml-1m-ultragcn", ("train.txt",), "UltraGCN", (0.2787, 0.2642)),
}
PUBLISHED_METRICS = ["recall_all@20", "ndcg@20"]
KNOWN = {"citeulike-a, known users": "citeulike-a", "steam, known users": "steam", "anime, known users": "anime"}
STRONG = "gowalla, DAN split"
TUNED = ("EDLAE", "DLAE", "ItemKNN")  # the rivals there; beyond DENSE_ITEMS items SparseEDLAE instead of the first two
DENSE_ITEMS = 20_000
ALL = [*TABLE1, *NEXT, *PUBLISHED, *KNOWN, STRONG]


def published(folder: Path, name: str, seconds: float) -> dict[str, Any]:
    """One race on the training lists; the chosen and the automatic model, fitted on all of them, on the test lists."""
    place, parts, rival, figures = PUBLISHED[name]
    train = od.read([folder / place / part for part in parts], format="adjacency")
    before, begin = machine(), time.perf_counter()
    found = od.auto(train, serve="known", metric="ndcg@20", seconds=seconds, progress=Told())
    spent = time.perf_counter() - begin
    say(found.report)
    test = od.split.given(train, od.read(folder / place / "test.txt", format="adjacency")).test
    ours = od.evaluate(found.model, test, PUBLISHED_METRICS)
    say(f"  on the test lists: {ours.mean}")
    usual = found.test["automatic"].mean
    return {
        "users": train.n_users, "items": train.n_items, "interactions": train.nnz, "budget": seconds,
        "seconds": spent, "load": [before["load_before"], machine()["load_before"]], "sights": list(found.sights),
        "chosen": found.chosen.family, "again": found.repeat, "test": ours.to_dict(), "automatic": usual,
        "rival": rival, "published": dict(zip(PUBLISHED_METRICS, figures, strict=True)), "rows": found.to_dicts(),
        "notes": list(found.notes),
    }  # fmt: skip


def table1(folder: Path, name: str) -> tuple[Any, str, str, dict[str, Any], str]:
    """The split, whom it serves, the metric, and the rival: its settings and its name."""
    split = sources.load(sources.Source(name, folder / FOLDERS[name]), 0).split
    (data,) = json.loads((HERE / "results" / f"table1-{name}.json").read_text())["data"]
    rows = [row for row in data["rows"] if row["kind"] == "tuned"]
    best = max(rows, key=lambda row: row["mean"]["ndcg@100"])
    return split, "new", "ndcg@100", best["settings"] | {"model": best["model"]}, best["label"]


def following(folder: Path, name: str) -> tuple[Any, str, str, dict[str, Any], str]:
    """The same for the last choices of ordered data; rows that learned from validation, too, are left out."""
    task = sequence_sets.SETS[name]
    split = task.read(folder / task.folder).split
    rows = json.loads((HERE / "results" / "sequences.json").read_text())["sets"][name]["rows"]
    rows = {label: row for label, row in rows.items() if "train and validation" not in label and "decay" not in row}
    label = max(rows, key=lambda one: rows[one]["mean"]["ndcg@10"])
    return split, "next", "ndcg@10", rows[label]["settings"] | {"model": label.partition(",")[0]}, label


def known(folder: Path, name: str, seconds: float) -> tuple[Any, str, str, dict[str, Any], str]:
    """The same for known users, held out as the command does, or for the new users of a published split."""
    if name == STRONG:
        split, serve = strong_split(folder / "gowalla-strong"), "new"
    else:
        sets = {
            "citeulike-a": lambda: od.datasets.load("citeulike-a", folder / "citeulike-a"),
            "steam": lambda: defaults.read_steam(folder),
            "anime": lambda: od.read(folder / "anime" / "anime_history.dat", user="User_ID", item="Anime_ID"),
        }
        inter = od.prepare.binarize(sets[KNOWN[name]]())
        split, serve = hold_out(inter, look(inter), "known", 0).split, "known"
    rows: dict[str, tuple[float, dict[str, Any]]] = {}
    for model in TUNED if split.train.n_items <= DENSE_ITEMS else ("SparseEDLAE", "ItemKNN"):
        tuned = od.tune(model_list.model_class(model), split, "ndcg@20", 60, seconds=seconds)
        fitted = cast(Any, tuned.model).fit(split.train)
        value = od.evaluate(fitted, split.test, ["ndcg@20"]).mean["ndcg@20"]
        rows[f"{model}, {len(tuned.trials)} trials"] = value, fitted.settings_ | {"model": model}
        say(f"  {model}, {len(tuned.trials)} trials: {value:.5f}")
    label = max(rows, key=lambda one: rows[one][0])
    return split, serve, "ndcg@20", rows[label][1], label


def strong_split(place: Path) -> od.split.Split:
    """New users as published: histories and targets of each part in files of their own."""
    names = ("train", "valid_in", "valid", "test_in", "test")
    train, *parts = (od.read(place / f"{name}.txt", format="adjacency") for name in names)
    held = [as_held_out(train.item_ids, *pair) for pair in (parts[:2], parts[2:])]
    return od.split.Split(train, *held)


def as_held_out(ids: Any, shown: od.Interactions, hidden: od.Interactions) -> od.split.HeldOut:
    """Users with both, over the columns of train."""
    one = od.split.given(shown, hidden).test
    theirs: Any = one.item_ids
    place = {item: at for at, item in enumerate(ids.tolist())}
    there = [at for at, item in enumerate(theirs.tolist()) if item in place]
    to = [place[theirs[at]] for at in there]
    move = sparse.csr_array((np.ones(len(to), dtype=np.float32), (there, to)), (len(theirs), len(ids)))
    histories, targets = (sparse.csr_array(matrix @ move) for matrix in (one.histories, one.targets))
    return od.split.HeldOut(histories, targets, one.user_ids, ids)


def study(folder: Path, name: str, seconds: float) -> dict[str, Any]:
    """One race, and the paired difference to the rival."""
    if name in TABLE1 or name in NEXT:
        load = table1 if name in TABLE1 else following
        split, serve, metric, rival, label = load(folder, (TABLE1 | NEXT)[name])
    else:
        split, serve, metric, rival, label = known(folder, name, seconds)
    before, begin, work = machine(), time.perf_counter(), time.process_time()
    found = od.auto(split.train, split=split, serve=cast(Any, serve), metric=metric, seconds=seconds, progress=Told())
    spent = time.perf_counter() - begin
    work = time.process_time() - work
    say(found.report)
    cls = model_list.model_class(rival.pop("model"))
    fitted = cls()._with(rival).fit(split.train)
    theirs = od.evaluate(fitted, split.test, [metric])
    gap = found.test["chosen"].compare(theirs)
    return {
        "serve": serve, "metric": metric, "users": split.train.n_users, "items": split.train.n_items,
        "interactions": split.train.nnz, "test_users": theirs.n_users, "budget": seconds, "seconds": spent,
        "processor_seconds": work, "load": [before["load_before"], machine()["load_before"]],
        "chosen": found.chosen.family, "again": found.repeat, "stopped": found.stopped,
        "auto": found.test["chosen"].to_dict(), "automatic": found.test["automatic"].to_dict(),
        "rival": theirs.to_dict() | {"label": label}, "minus_rival": gap.to_dict(),
        "minus_automatic": found.gain.to_dict(), "rows": found.to_dicts(), "notes": list(found.notes),
    }  # fmt: skip


class Told:
    """A line for each new stage."""

    def __init__(self) -> None:
        self._last, self._begin = "", time.perf_counter()

    def __call__(self, stage: str, fraction: float) -> None:
        if stage != self._last:
            say(f"  {time.perf_counter() - self._begin:5.0f} s: {stage}")
            self._last = stage


def main(words: list[str]) -> None:
    folder = data_folder(words)
    seconds = next((float(word.partition("=")[2]) for word in words if word.startswith("seconds=")), SECONDS)
    shared = "processor" in words
    if shared:
        count_processor_time()
    names = [word for word in words if not word.startswith("seconds=") and word != "processor"] or ALL
    if unknown := sorted(set(names) - {*ALL}):
        raise SystemExit(f"expected some of {', '.join(ALL)}, received {unknown[0]!r}")
    for name in names:
        say(f"{name}:")
        run, part = (published, "published") if name in PUBLISHED else (study, "data")
        one = run(folder, name, seconds) | {"unit": "processor seconds" if shared else "seconds"}
        results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"data": {}}
        results.setdefault(part, {})[name] = one
        results["machine"] = machine()
        RESULTS.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")
        documents.renew("auto", "auto-published")


if __name__ == "__main__":
    main(sys.argv[1:])
