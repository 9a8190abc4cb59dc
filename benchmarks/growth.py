"""How time and memory grow with items, users and interactions; writes results/growth.json and docs/growth.md's parts.

Each quantity grows by two decades while the others stay: more items for the same interactions, more users with
histories of the same length, longer histories of the same users. Every point is a process of its own, on one core;
its time is processor time, the least of up to three runs, its memory the peak above the start of the call. Exponents
are fitted to the last decade: those measured, those of the leading term of the derived cost (docs/growth.md) on the
same data, and those of all its terms, whose constants are fitted to the points of all three quantities.

    python benchmarks/growth.py [dense sparse …]    # about five minutes of one core
    python benchmarks/growth.py again               # only the exponents, the figure and the table
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import documents
import growth_figure
import numpy as np
from measure import machine, measured, moment, others, processor_seconds
from run import say
from scipy import sparse
from scipy.optimize import nnls

import offdiag as od
from offdiag.living import past
from offdiag.solvers import woodbury
from offdiag.tuning.trial_runner import SMALL_ITEMS

RESULTS = Path(__file__).parent / "results" / "growth.json"
SMALL = 4e6  # bytes; fewer are pages of the allocator and of libraries, not arrays of this size
DECADE = (1.0, 3.16, 10.0, 31.6, 100.0)  # two of them
RUNS, ENOUGH = 3, 1.0  # repeats, and the processor seconds after which two are enough
NEIGHBOURS, RANK, CHANGED, TRIALS = 100, 32, 30, 3
FULL: dict[str, Any] = {"dropout": 0.5, "l2": 50.0, "user_power": 0.0}
ORDER: dict[str, Any] = {"mix": 0.5, "decay": 0.8, "history_decay": 0.8}


@dataclass(frozen=True)
class Data:
    """Users with about ``length`` items each, from a catalogue of ``m``."""

    inter: Any
    X: sparse.csr_array
    length: int

    @property
    def counts(self) -> dict[str, float]:
        """What the derived costs are made of."""
        n_u = np.diff(self.X.indptr).astype(np.float64)
        n, m = self.X.shape
        return {"n": n, "m": m, "N": float(self.X.nnz), "P": float((n_u**2).sum()), "s": float(self.length)}


Call = Callable[[], Any]


def dense(data: Data) -> Iterator[Call]:
    while True:
        yield lambda: od.EDLAE(**FULL).fit(data.X)


def sparse_columns(data: Data) -> Iterator[Call]:
    while True:
        yield lambda: od.SparseEDLAE(**FULL, neighbours=NEIGHBOURS).fit(data.X)


def low_rank(data: Data) -> Iterator[Call]:
    while True:
        yield lambda: od.LowRankEDLAE(**FULL, rank=RANK, products="data").fit(data.X)


def next_item(data: Data) -> Iterator[Call]:
    while True:
        yield lambda: od.NextItem(**FULL, **ORDER).fit(data.inter)


def lists(data: Data) -> Iterator[Call]:
    model = od.EDLAE(**FULL).fit(data.X)
    model.weights_.prepare_lists()
    while True:
        yield lambda: model.recommend(data.X, k=10)


def changeable(data: Data) -> Any:
    """A fitted model whose Gram is there, as it is after a first change."""
    model = od.EDLAE(**FULL).fit(data.X)
    past.gram_of(model)
    return model


def update(data: Data) -> Iterator[Call]:
    model, rng = changeable(data), np.random.default_rng(1)
    m, length = data.X.shape[1], data.length
    while True:
        items = np.sort(rng.choice(m, length, replace=False))
        row = sparse.csr_array((np.ones(length, np.float32), items, [0, length]), shape=(1, m))
        yield partial(model.update, row)


def forget(data: Data) -> Iterator[Call]:
    model = changeable(data)
    for user in np.argsort(np.abs(np.diff(data.X.indptr) - data.length), kind="stable"):
        yield partial(model.forget, data.X[[int(user)]])


def tuning(data: Data) -> Iterator[Call]:
    split = od.split.strong(data.inter, held_out=0.1)
    while True:
        yield lambda: od.tune(od.EDLAE, split, metric="ndcg@20", trials=TRIALS, fixed={"user_power": 0.0})


Terms = tuple[str, ...]
TERMS: dict[str, Callable[[dict[str, float]], float]] = {  # as written on the page, and their values
    "1": lambda c: 1.0,
    "n": lambda c: c["n"],
    "N": lambda c: c["N"],
    "Σn_u²": lambda c: c["P"],
    "tN": lambda c: c["t"] * c["N"],
    "tm": lambda c: c["t"] * c["m"],
    "m": lambda c: c["m"],
    "ms": lambda c: c["m"] * c["s"],
    "m²": lambda c: c["m"] ** 2,
    "m³": lambda c: c["m"] ** 3,
    "m_s³": lambda c: (SMALL_ITEMS if c["m"] >= 1.5 * SMALL_ITEMS else c["m"]) ** 3,
    "Nm": lambda c: c["N"] * c["m"],
    "min(m²s + 2ms² + 200s³, m³)": lambda c: min(woodbury.flops(int(c["m"]), int(c["s"])), c["m"] ** 3),
}
CHANGE = "min(m²s + 2ms² + 200s³, m³)"
Axis = tuple[int, int, int, str, str]  # users, items, length of a history at the smallest point; leading terms


@dataclass(frozen=True)
class Task:
    """What is measured, on which data, and the terms of its derived cost; ``items`` … are multiplied by 1 … 100."""

    title: str
    calls: Callable[[Data], Iterator[Call]]
    seconds: Terms
    bytes: Terms
    items: Axis
    users: Axis
    interactions: Axis


TASKS = {
    "dense": Task(
        "fit, dense: EDLAE", dense, ("1", "N", "Σn_u²", "m²", "m³"), ("1", "m²"),
        (4_000, 100, 10, "m³", "m²"), (600, 600, 50, "Σn_u²", "1"), (15_000, 600, 2, "Σn_u²", "1"),
    ),
    "sparse": Task(
        f"fit, sparse: SparseEDLAE, {NEIGHBOURS} neighbours", sparse_columns, ("1", "N", "Σn_u²", "m"), ("1", "m", "N"),
        (15_000, 300, 20, "m", "m"), (500, 600, 30, "Σn_u²", "N"), (5_000, 600, 2, "Σn_u²", "N"),
    ),
    "low-rank": Task(
        f"fit, low rank: LowRankEDLAE, rank {RANK}", low_rank, ("1", "n", "m", "N", "tN", "tm"), ("1", "n", "N", "m"),
        (4_000, 200, 20, "tm", "m"), (400, 1_000, 20, "tN", "N"), (4_000, 1_000, 2, "tN", "N"),
    ),
    "next-item": Task(
        "fit, next item: NextItem", next_item, ("1", "N", "Σn_u²", "m²", "m³"), ("1", "N", "m²"),
        (3_000, 60, 10, "m³", "m²"), (400, 600, 30, "Σn_u²", "N"), (8_000, 600, 2, "Σn_u²", "N"),
    ),
    "lists": Task(
        "top 10", lists, ("1", "n", "m²", "Nm"), ("1", "n", "N", "m", "m²"),
        (6_000, 100, 20, "Nm", "m"), (200, 2_000, 20, "Nm", "n"), (1_500, 2_000, 3, "Nm", "1"),
    ),
    "update": Task(
        f"update: EDLAE, one user of {CHANGED} items", update, ("1", "m²", CHANGE), ("1", "ms", "m²"),
        (4_000, 100, CHANGED, "m²", "m²"), (400, 1_000, CHANGED, "1", "1"), (2_000, 2_000, 3, CHANGE, "ms"),
    ),
    "forget": Task(
        f"forget: EDLAE, one user of {CHANGED} items", forget, ("1", "m²", CHANGE), ("1", "ms", "m²"),
        (4_000, 100, CHANGED, "m²", "m²"), (400, 1_000, CHANGED, "1", "1"), (2_000, 2_000, 3, CHANGE, "ms"),
    ),
    "tuning": Task(
        f"tuning: EDLAE, {TRIALS} trials", tuning,
        ("1", "n", "N", "Σn_u²", "m²", "Nm", "m_s³", "m³"), ("1", "n", "N", "m²"),
        (3_000, 60, 10, "m³", "m²"), (600, 300, 30, "N", "N"), (6_000, 600, 2, "Σn_u²", "N"),
    ),
}  # fmt: skip
GROWS = {"items": "m", "users": "n", "interactions": "N"}
AXES = tuple(GROWS)


def made(task: Task, axis: str, factor: float) -> Data:
    n, m, length, *_ = getattr(task, axis)
    if axis == "items":
        m = round(m * factor)
    elif axis == "users":
        n = round(n * factor)
    else:
        length = round(length * factor)
    return drawn(n, m, length)


def drawn(n: int, m: int, length: int) -> Data:
    inter = od.synthetic.interactions(n, m, n * length, times=True, names=False, seed=0)
    return Data(inter, inter.matrix, length)


def measure(task: Task, axis: str, factor: float) -> dict[str, float]:
    """Processor seconds, the least of a few runs; peak bytes of the first."""
    data = made(task, axis, factor)
    best, peak, iterations = float("inf"), 0.0, 1
    for run, call in enumerate(task.calls(data)):
        (seconds, iterations), cost = measured(partial(processor_time, call))
        best, peak = min(best, seconds), max(peak, cost["extra_peak_bytes"] if run == 0 else 0)
        if run + 1 == RUNS or (run and best > ENOUGH):
            break
    return {"seconds": best, "bytes": peak, "t": iterations, **data.counts}


def processor_time(call: Call) -> tuple[float, int]:
    """Of one call; and the iterations of a fit that reports them."""
    before = processor_seconds()
    objectives = getattr(call(), "objectives_", [0.0])
    return processor_seconds() - before, len(objectives)


def apart(work: Callable[[], Any]) -> Any:
    """The result of the work in a process of its own, which begins with this one's compiled code."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, json.dumps(work()).encode())
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    if os.waitpid(child, 0)[1]:
        raise SystemExit("a measurement failed")
    return json.loads(text)


def exponent(xs: list[float], ys: list[float]) -> float:
    """Slope of log y against log x over the last decade."""
    return float(np.polyfit(np.log(xs[-3:]), np.log(ys[-3:]), 1)[0])


def compared(task: Task, points: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Exponents as measured, of the leading term, and of all terms, whose constants are fitted to every point."""
    found: dict[str, Any] = {"title": task.title}
    every = [p for axis in AXES for p in points[axis]]
    for axis in AXES:
        found[axis] = {"points": points[axis], "x": [p[GROWS[axis]] for p in points[axis]]}
    for what, floor in (("seconds", 0.0), ("bytes", SMALL)):
        names: Terms = getattr(task, what)
        A = np.array([[TERMS[name](p) for name in names] for p in every])
        y = np.array([p[what] for p in every])
        weight = 1 / (y + floor)  # errors are relative
        size = np.abs(A).max(axis=0)
        constants = nnls(A / size * weight[:, None], y * weight)[0] / size
        found[f"{what}_constants"] = dict(zip(names, constants.tolist(), strict=True))
        error = np.abs(A @ constants - y) / (y + floor)
        found[f"{what}_error"] = {"median": float(np.median(error)), "largest": float(error.max())}
        for axis in AXES:
            part = points[axis]
            formula = np.array([[TERMS[name](p) for name in names] for p in part]) @ constants
            leading = getattr(task, axis)[3 if what == "seconds" else 4]
            xs, ys = found[axis]["x"], [max(p[what], floor) for p in part]
            found[axis][what] = {
                "y": ys, "formula_y": np.maximum(formula, floor).tolist(), "term": leading,
                "leading": exponent(xs, [TERMS[leading](p) for p in part]), "measured": exponent(xs, ys),
                "derived": exponent(xs, np.maximum(formula, floor).tolist()), "small": ys[-1] <= 2 * floor,
            }  # fmt: skip
    return found


def measure_task(task: Task) -> dict[str, Any]:
    points = {axis: [apart(partial(measure, task, axis, factor)) for factor in DECADE] for axis in AXES}
    found = compared(task, points)
    for axis in AXES:
        time, memory = found[axis]["seconds"], found[axis]["bytes"]
        say(
            f"  {axis}: time {time['measured']:.2f} (derived {time['derived']:.2f}, leading {time['leading']:.2f}), "
            f"memory {memory['measured']:.2f} (derived {memory['derived']:.2f}, leading {memory['leading']:.2f})"
        )
    return found


def warm_up() -> None:
    """Every task once, so that no point compiles; and no freed memory is kept, which would hide in the next peak."""
    ctypes.CDLL(None).mallopt(-3, 1 << 16)  # M_MMAP_THRESHOLD: arrays are returned to the system when they are freed
    for task in TASKS.values():
        for n_items, length in ((120, 5), (120, 40), (2_100, 20)):  # a byte copy ranks from 2,048 items
            data = drawn(300, n_items, length)
            for _ in zip(range(2), (call() for call in task.calls(data)), strict=False):
                pass


def main() -> None:
    chosen = [name for name in sys.argv[1:] if name != "again"] or list(TASKS)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    since = moment()
    found = json.loads(RESULTS.read_text(encoding="utf-8")) if sys.argv[1:] else {"tasks": {}}
    if "again" in sys.argv[1:]:
        for name, task in TASKS.items():
            found["tasks"][name] = compared(task, {axis: found["tasks"][name][axis]["points"] for axis in AXES})
    else:
        found["machine"] = machine()
        warm_up()
        for name in chosen:
            say(TASKS[name].title)
            found["tasks"][name] = measure_task(TASKS[name])
        found["busy_cores_of_others"] = others(since)
    RESULTS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    growth_figure.draw(found)
    documents.renew("growth")


if __name__ == "__main__":
    main()
