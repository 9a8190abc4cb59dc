"""The cost of changing a model after the fit: exact update and forget against a new fit, in the same run.

A synthetic catalogue of 10,000 items; the forgotten user has 70 of them. Then 300 changes in a row, half of them users
added, half users removed, and the distance of the weights from a fit on the remaining users. Then changes of more and
more items at once, sparse columns (also of 40,000 items) and low rank. Writes results/living.json.

    python benchmarks/living.py [--small] [--only batches | others] [--only-one]
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measure import machine
from run import say
from scipy import sparse

import offdiag as od
from offdiag.files import container, keys, sealed
from offdiag.living import certificate, past, state

RESULTS = Path(__file__).parent / "results" / "living.json"
TYPICAL = 70
FULL: dict[str, Any] = {"dropout": 0.5, "l2": 50.0}
ONCE = 5  # single forgets that are timed; the median is reported


def catalogue(n_users: int, n_items: int) -> sparse.csr_array:
    """Users with about 75 items each; one in three is typical, with exactly 70."""
    inter = od.synthetic.interactions(n_users, n_items, 75 * n_users, names=False, seed=0)
    X = sparse.csr_array(inter.matrix)
    lengths = np.diff(X.indptr)
    long = np.flatnonzero(lengths >= TYPICAL)
    keep = np.ones(X.nnz, dtype=bool)
    for u in long[:: max(1, len(long) // (n_users // 3))]:
        keep[X.indptr[u] + TYPICAL : X.indptr[u + 1]] = False
    counts = np.add.reduceat(keep, X.indptr[:-1]) * (lengths > 0)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return sparse.csr_array((X.data[keep], X.indices[keep], indptr), shape=X.shape)


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    result, seconds, _ = timed_both(call)
    return result, seconds


def timed_both(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """Seconds of the clock, and of all cores: the second tells more where other programs run."""
    start, busy = time.perf_counter(), time.process_time()
    result = call()
    return result, time.perf_counter() - start, time.process_time() - busy


def typical(X: sparse.csr_array) -> list[int]:
    return [int(u) for u in np.flatnonzero(np.diff(X.indptr) == TYPICAL)]


def without(X: sparse.csr_array, users: Any) -> sparse.csr_array:
    return sparse.csr_array(X[np.setdiff1d(np.arange(X.shape[0]), users)])


def one_user(X: sparse.csr_array, make: Callable[[], Any]) -> dict[str, Any]:
    """The first forget also computes the Gram; the median is over the later ones."""
    model, fit_seconds = timed(lambda: make().fit(X))
    users = typical(X)[: ONCE + 1]
    times = [timed_both(lambda u=u: model.forget(X[[u]]))[1:] for u in users]  # type: ignore[misc]
    seconds, busy = ([pair[n] for pair in times] for n in (0, 1))
    rest = without(X, users)
    fresh, refit_seconds, refit_busy = timed_both(lambda: make().fit(rest))
    change = model.last_change
    found = {
        "processor_seconds": float(np.median(busy[1:])),
        "refit_processor_seconds": refit_busy,
        "processor_ratio": float(np.median(busy[1:])) / refit_busy,
        "objective_gap": model._objective_gap(vars(model), fresh, model.gram_),
        "fit_seconds": fit_seconds,
        "first_seconds": seconds[0],
        "forget_seconds": float(np.median(seconds[1:])),
        "refit_seconds": refit_seconds,
        "ratio": float(np.median(seconds[1:])) / refit_seconds,
        "method": change.method,
        "residual": change.residual,
        "estimated_error": change.weight_error,
        "largest_difference": certificate.difference(model.weights_, fresh.weights_),
        "gram_identical": identical(model, rest),
    }
    return found | sealing(model, found)


def sealing(model: Any, found: dict[str, Any]) -> dict[str, Any]:
    """What encryption adds to a forget from file to file: reading the living state before, writing it after."""
    with tempfile.TemporaryDirectory() as folder:
        path, known = Path(folder) / "state", keys.keys_of(os.urandom(32))
        key = known.new()

        def seal() -> None:
            with open(path, "wb") as file:
                sealed.write(file, key, *state.contents(model, key, ""))

        def plain() -> None:
            """The same bytes as in the first file format: with checksums, unencrypted."""
            with open(path.with_name("plain"), "wb") as file:
                container.write(file, *state.contents(model, key, ""), None)

        calls = (seal, lambda: sealed.read(path, known, "it"), plain)
        seconds = [[timed(call)[1] for call in calls] for _ in range(ONCE)]
        size = path.stat().st_size
    seal_seconds, unseal_seconds, plain_seconds = (float(np.median(column)) for column in zip(*seconds, strict=True))
    whole = found["forget_seconds"] + seal_seconds + unseal_seconds
    return {
        "bytes": size,
        "seal_seconds": seal_seconds,
        "unseal_seconds": unseal_seconds,
        "plain_seconds": plain_seconds,
        "sealed_ratio": whole / found["refit_seconds"],
    }


def identical(model: Any, X: sparse.csr_array) -> bool:
    """Whether the Gram is that of the data, bit for bit."""
    G = model.gram_
    count = model._count_gram(X, G.user_power, None)
    return all(np.array_equal(a, b) for a, b in zip(G.arrays().values(), count.arrays().values(), strict=True))


def many(X: sparse.csr_array, make: Callable[[], Any], changes: int) -> dict[str, Any]:
    """Users are added and removed in random order; either half of the users can occur."""
    rng = np.random.default_rng(0)
    n = X.shape[0]
    inside = np.arange(n) < n // 2
    model = make().fit(sparse.csr_array(X[inside]))
    past.gram_of(model)  # computed now, so that every change costs the same
    methods: dict[str, int] = {}
    start = time.perf_counter()
    for step in range(changes):
        u = int(rng.choice(np.flatnonzero(inside if step % 2 else ~inside)))
        if inside[u]:
            model.forget(X[[u]])
        else:
            model.update(X[[u]])
        inside[u] = not inside[u]
        methods[model.last_change.method] = methods.get(model.last_change.method, 0) + 1
    seconds = time.perf_counter() - start
    rest = sparse.csr_array(X[inside])
    fresh, refit_seconds = timed(lambda: make().fit(rest))
    return {
        "changes": changes,
        "seconds": seconds,
        "refit_seconds": refit_seconds,
        "methods": methods,
        "drift": certificate.difference(model.weights_, fresh.weights_),
        "gram_identical": identical(model, rest),
    }


def batches(X: sparse.csr_array, make: Callable[[], Any], sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """More users at once, so more items: the point where a new fit becomes cheaper."""
    rows = []
    for size in sizes:
        model = make().fit(X)
        past.gram_of(model)
        users = np.arange(size)
        _, seconds = timed(lambda model=model, users=users: model.forget(X[users]))  # type: ignore[misc]
        _, refit_seconds = timed(lambda users=users: make().fit(without(X, users)))  # type: ignore[misc]
        items = len(np.unique(X[users].indices))
        method = model.last_change.method
        rows.append(
            {"users": size, "items": items, "seconds": seconds, "refit_seconds": refit_seconds, "method": method}
        )
        say(f"  {size} users, {items} items: {seconds:.2f} s ({method}), refit {refit_seconds:.2f} s")
    return rows


def sparse_models() -> dict[str, Callable[[], Any]]:
    return {
        "SparseEDLAE, 100 neighbours": lambda: od.SparseEDLAE(**FULL, neighbours=100, user_power=0.0),
        "SparseEDLAE, 100 neighbours, user_power 0.5": lambda: od.SparseEDLAE(**FULL, neighbours=100, user_power=0.5),
    }


def main(small: bool, only: str | None) -> None:
    n_users, n_items = (3_000, 1_000) if small else (20_000, 10_000)
    X = catalogue(n_users, n_items)
    outcome: dict[str, Any] = {"machine": machine(), "users": n_users, "items": n_items, "interactions": int(X.nnz)}
    full: dict[str, Callable[[], Any]] = {
        "EDLAE, float32": lambda: od.EDLAE(**FULL, user_power=0.0),
        "EDLAE, float32, user_power 0.5": lambda: od.EDLAE(**FULL, user_power=0.5),
        "EDLAE, float64": lambda: od.EDLAE(**FULL, user_power=0.0, dtype="float64"),
        "EDLAE, float64, user_power 0.5": lambda: od.EDLAE(**FULL, user_power=0.5, dtype="float64"),
    }
    others: dict[str, Callable[[], Any]] = {
        **sparse_models(),
        "LowRankEDLAE, rank 100": lambda: od.LowRankEDLAE(**FULL, rank=100, user_power=0.0),
        "LowRankDLAE, rank 100": lambda: od.LowRankDLAE(**FULL, rank=100, user_power=0.0),
    }
    full["EDLAE, float32"]().fit(X[:500]).forget(X[:1])  # compiled before the clock runs
    if only is not None:
        outcome = json.loads(RESULTS.read_text(encoding="utf-8"))
    if only is None:
        measure(X, full | others, outcome)
    if only == "others":
        measure(X, others, outcome)
    if only in (None, "others"):
        more = X if small else catalogue(80_000, 40_000)
        measure(more, {f"{name}, 40,000 items": make for name, make in sparse_models().items()}, outcome)
    if "--only-one" in sys.argv:
        return
    if only in (None, "others"):
        in_a_row(X, sparse_models() if only else full | sparse_models(), outcome)
    if only in (None, "batches"):
        outcome["batches"] = batches(X, full["EDLAE, float32"], (1, 10) if small else (1, 10, 30, 100))
    if not small:
        RESULTS.write_text(json.dumps(outcome, indent=1) + "\n", encoding="utf-8")


def measure(X: sparse.csr_array, models: dict[str, Callable[[], Any]], outcome: dict[str, Any]) -> None:
    for name, make in models.items():
        found = one_user(X, make)
        outcome.setdefault("one user", {})[name] = found
        gap = (
            ""
            if found["objective_gap"] is None
            else f", objective above that of the refit {found['objective_gap']:.1e}"
        )
        say(
            f"{name}: forget {found['forget_seconds']:.3f} s, refit {found['refit_seconds']:.2f} s, ratio "
            f"{found['ratio']:.3f}, of processor time {found['processor_ratio']:.3f} ({found['method']}), largest "
            f"difference {found['largest_difference']:.1e}{gap}; with its living state decrypted and encrypted "
            f"({found['unseal_seconds']:.3f} + {found['seal_seconds']:.3f} s): ratio {found['sealed_ratio']:.3f}; "
            f"written in the clear with checksums {found['plain_seconds']:.3f} s"
        )


def in_a_row(X: sparse.csr_array, models: dict[str, Callable[[], Any]], outcome: dict[str, Any]) -> None:
    for name, make in models.items():
        found = many(X, make, 300)
        outcome.setdefault("many", {})[name] = found
        say(
            f"{name}: 300 changes in {found['seconds']:.0f} s ({found['methods']}), drift {found['drift']:.1e}, "
            f"Gram identical: {found['gram_identical']}"
        )


if __name__ == "__main__":
    chosen = [name for name in ("batches", "others") if name in sys.argv[1:]]
    main("--small" in sys.argv[1:], chosen[0] if chosen else None)
