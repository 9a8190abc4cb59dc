"""NextItem against EDLAE in one run: counting against the plain Gram, time and memory of a fit, accuracy on real data.

Ratios are taken within the run, so that a slow hour of the machine changes both sides; the load before the run is
recorded. Writes results/next_item.json, from which docs/performance.md has a table.

    python benchmarks/next_item.py counting [--events 10000000] [--items 20000]
    python benchmarks/next_item.py fit [--items 20000]
    python benchmarks/next_item.py sparse [--items 100000] [--events 20000000] [--block-bytes 6000000000]
    python benchmarks/next_item.py large [--items 300000] [--events 60000000]  # NextItem alone
    python benchmarks/next_item.py toys FOLDER WITH seq-toys
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measure import machine, measured
from run import say

import offdiag as od
from offdiag.data.sequences import sequences_of
from offdiag.gramian.order import Ageing, count_order

RESULTS = Path(__file__).parent / "results" / "next_item.json"
TARGETS = {"counting": 3.0, "fit": 3.2, "numbers / m²": 1.6, "sparse": 3.0, "peak_bytes": 16 * 10**9}
SETTINGS: dict[str, Any] = {"l2": 100.0, "dropout": 0.3, "user_power": 0.0}


def data(users: int, items: int, events: int) -> od.Interactions:
    return od.synthetic.interactions(users, items, events, times=True, names=False, seed=0)


def timed(call: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Like ``measured``, with the processor time, in loops and in the system, and the peak with the data."""
    begin = os.times()
    result, cost = measured(call)
    end = os.times()
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))
    return result, cost | {"user": end.user - begin.user, "system": end.system - begin.system, "peak_bytes": peak}


def ratios(ours: dict[str, float], base: dict[str, float]) -> dict[str, float]:
    """By the clock, and by the processor time without that of the system.

    On a busy machine the second is the one to trust; the system may take seconds to hand out a gigabyte.
    """
    return {what: ours[what] / base[what] for what in ("seconds", "user")}


def best(calls: dict[str, Callable[[], Any]], rounds: int = 3) -> dict[str, dict[str, float]]:
    """The shortest of some alternating runs of each call."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            runs[name].append(timed(call)[1])
    return {name: {what: min(run[what] for run in found) for what in found[0]} for name, found in runs.items()}


def minutes() -> Callable[[str, float], None]:
    """Progress as a line a minute, for runs that take many."""
    began = reported = time.perf_counter()

    def report(stage: str, share: float) -> None:
        nonlocal reported
        if time.perf_counter() - reported >= 60:
            reported = time.perf_counter()
            say(f"  {reported - began:,.0f} s, processor {time.process_time():,.0f} s: {stage} {share:.0%}")

    return report


def counting(items: int, events: int) -> dict[str, Any]:
    """A and K, and the Gram of the same users with 0/1 and with weighted users."""
    X = data(events // 50, items, events)
    sequences = sequences_of(X)
    assert sequences is not None
    small = X.select_users(slice(0, 100))
    some = sequences_of(small)
    assert some is not None
    od.gram(small), od.gram(small, 0.5), count_order(some, items, Ageing(0.8))  # compiled here
    found = best(
        {
            "gram": lambda: od.gram(X),
            "weighted gram": lambda: od.gram(X, 0.5, dtype=np.float32),
            "order": lambda: count_order(sequences, items, Ageing(0.8)),
            "no decay": lambda: count_order(sequences, items, Ageing(1.0)),
        }
    )
    compared = {name: ratios(found["order"], found[name]) for name in ("gram", "weighted gram")}
    return {"items": items, "events": events, **found, "ratio": compared}


def fit(items: int) -> dict[str, Any]:
    """The whole fit, with settings given, so that neither side chooses any."""
    X = data(20_000, items, 1_000_000)
    order: dict[str, Any] = {"mix": 0.3, "decay": 0.8, "history_decay": 0.75}
    small = X.select_users(slice(0, 1000)).select_items(positions=np.arange(200))
    od.EDLAE(**SETTINGS).fit(small), od.NextItem(**SETTINGS, **order).fit(small)
    found = best(
        {
            "EDLAE": lambda: od.EDLAE(**SETTINGS).fit(X),
            "NextItem": lambda: od.NextItem(**SETTINGS, **order).fit(X),
            "with repeats": lambda: od.NextItem(**SETTINGS, **order, repeats=True).fit(X),
        },
        rounds=1,
    )
    numbers = found["NextItem"]["extra_peak_bytes"] / 4 / items**2
    return {"items": items, **found, "ratio": ratios(found["NextItem"], found["EDLAE"]), "numbers / m²": numbers}


def sparse(items: int, events: int, block_bytes: int, *, alone: bool = False) -> dict[str, Any]:
    """Sparse columns of a large catalogue, by place, and those of SparseEDLAE; the peak includes the data."""
    X = data(events // 50, items, events)
    given: dict[str, Any] = {**SETTINGS, "neighbours": 100, "block_bytes": block_bytes}
    order: dict[str, Any] = {"mix": 0.3, "decay": 0.8, "history_decay": 0.75}
    models: dict[str, Any] = {"SparseEDLAE": od.SparseEDLAE(**given), "NextItem": od.NextItem(**given, **order)}
    if alone:
        del models["SparseEDLAE"]
    small = X.select_users(slice(0, 100))
    for model in models.values():
        model.fit(small)  # compiled here
    found = best({name: partial(model.fit, X, progress=minutes()) for name, model in models.items()}, rounds=1)
    compared = {} if alone else {"ratio": ratios(found["NextItem"], found["SparseEDLAE"])}
    return {"items": items, "events": events, "block_bytes": block_bytes, **found, **compared}


def toys(folder: Path) -> dict[str, Any]:
    """Last item out, all items ranked, settings chosen from the training data."""
    events = od.read(folder / "seq-toys" / "sequences.txt", format="adjacency", keep="events")
    split = od.split.last_out(events)
    model, cost = measured(lambda: od.NextItem().fit(split.train))
    metrics = ["hit@5", "ndcg@5", "hit@10", "ndcg@10", "mrr@10"]
    assert split.validation is not None
    parts = {"validation": split.validation, "test": split.test}
    results = {name: od.evaluate(model, part, metrics).to_dict() for name, part in parts.items()}
    return {"settings": model.settings_, "fit": cost, **results}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("what", choices=("counting", "fit", "sparse", "large", "toys"))
    asked.add_argument("folder", nargs="?", type=Path)
    asked.add_argument("--items", type=int)
    asked.add_argument("--events", type=int)
    asked.add_argument("--block-bytes", type=int, default=6 * 10**9)
    given = asked.parse_args()
    if given.what == "toys" and given.folder is None:
        asked.error("toys needs the folder with seq-toys")
    about = machine()
    usual = {"sparse": (100_000, 20_000_000), "large": (300_000, 60_000_000)}.get(given.what, (20_000, 10_000_000))
    items, events = given.items or usual[0], given.events or usual[1]
    found = {
        "counting": lambda: counting(items, events),
        "fit": lambda: fit(items),
        "sparse": lambda: sparse(items, events, given.block_bytes),
        "large": lambda: sparse(items, events, given.block_bytes, alone=True),
        "toys": lambda: toys(given.folder),
    }[given.what]()
    whole = (json.loads(RESULTS.read_text()) if RESULTS.exists() else {}) | {"targets": TARGETS}
    whole[given.what] = found | {"machine": about}
    RESULTS.write_text(json.dumps(whole, indent=1) + "\n")
    for name, value in found.items():
        say(f"{name}: {value}")


if __name__ == "__main__":
    main()
