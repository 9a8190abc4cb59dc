"""od.auto against the best tuned row that is known, on the splits of table 1 (new users) and of docs/order.md (next).

The rival is the tuned row with the best result *on the test users* in results/table1-*.json or results/sequences.json,
which is more than it could know; it is fitted again with its settings on the same training data, so that the
difference is paired. Writes results/auto.json. With "processor", budgets are in processor seconds of all cores
together, for a machine that does other work meanwhile.

    python benchmarks/auto.py [FOLDER WITH DATA SETS] [seconds=120] [processor] [NAME …]
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import documents
import numpy as np
import sequence_sets
from choosing import data_folder
from measure import machine
from run import say
from table1 import FOLDERS

import offdiag as od
from offdiag import model_list
from offdiag.autopilot import clock, race, searching
from offdiag.papers.steck2020 import sources
from offdiag.tuning import search

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "auto.json"
SECONDS = 600.0
TABLE1 = {f"{name}, new users": name for name in ("ml-100k", "lastfm", "ml-1m")}
NEXT = {f"{name}, next choice": name for name in ("seq-lastfm", "movietweetings-100k", "seq-toys", "ml-1m")}


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


def study(folder: Path, name: str, seconds: float) -> dict[str, Any]:
    """One race, and the paired difference to the rival."""
    load = table1 if name in TABLE1 else following
    split, serve, metric, rival, label = load(folder, (TABLE1 | NEXT)[name])
    before, begin, work = machine(), time.perf_counter(), time.process_time()
    found = od.auto(split.train, split=split, serve=cast(Any, serve), metric=metric, seconds=seconds, progress=Told())
    spent = time.perf_counter() - begin
    work = time.process_time() - work
    say(found.report)
    cls = model_list.model_class(rival.pop("model"))
    known = cls()._with(rival).fit(split.train)
    theirs = od.evaluate(known, split.test, [metric])
    gap = found.test["chosen"].compare(theirs)
    return {
        "serve": serve, "metric": metric, "users": split.train.n_users, "items": split.train.n_items,
        "interactions": split.train.nnz, "test_users": theirs.n_users, "budget": seconds, "seconds": spent,
        "processor_seconds": work, "load": [before["load_before"], machine()["load_before"]],
        "chosen": found.chosen.family, "again": found.repeat, "stopped": found.stopped,
        "auto": found.test["chosen"].to_dict(), "automatic": found.test["automatic"].to_dict(),
        "rival": theirs.to_dict() | {"label": label}, "minus_rival": gap.to_dict(),
        "minus_automatic": found.gain.to_dict(), "rows": found.to_dicts(), "notes": list(found.notes),
        "verdict": verdict(gap.difference[metric], gap.sem[metric]),
    }  # fmt: skip


def count_processor_time() -> None:
    """Races and searches look at the processor time of this process instead of a clock."""
    timer = SimpleNamespace(perf_counter=time.process_time)
    for module in (clock, race, searching, search):
        vars(module)["time"] = timer


def verdict(difference: float, sem: float) -> str:
    """More than two standard errors decide."""
    if not np.isfinite(sem) or abs(difference) <= 2 * sem:
        return "as good"
    return "better" if difference > 0 else "worse"


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
    names = [word for word in words if not word.startswith("seconds=") and word != "processor"] or [*TABLE1, *NEXT]
    if unknown := sorted(set(names) - {*TABLE1, *NEXT}):
        raise SystemExit(f"expected some of {', '.join([*TABLE1, *NEXT])}, received {unknown[0]!r}")
    for name in names:
        say(f"{name}:")
        one = study(folder, name, seconds) | {"unit": "processor seconds" if shared else "seconds"}
        results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"data": {}}
        results["data"][name] = one
        results["machine"] = machine()
        RESULTS.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")
        documents.renew("auto")


if __name__ == "__main__":
    main(sys.argv[1:])
