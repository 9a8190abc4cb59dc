"""Speed of the lab's closed forms against the algorithms of the papers, and Spectral at a million users and items.

Writes results/theory.json and the table of docs/theory/README.md. The last one needs 16 GB and a few minutes.

    python benchmarks/theory.py [prox] [equaliser] [svd] [spectral]
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import documents
import numpy as np
from measure import machine, measured
from run import say
from scipy import sparse

import offdiag as od

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "theory.json"


def fastest(call: Callable[[], Any], repeats: int) -> tuple[Any, float]:
    """The result and the shortest time of several calls."""
    least, result = np.inf, None
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        least = min(least, time.perf_counter() - start)
    return result, float(least)


def prox() -> dict[str, Any]:
    """The k-support prox: a million values, and 2,000 values against the paper's search over pairs."""
    block = od.lab.dropblock
    rng = np.random.default_rng(0)
    million, few = np.abs(rng.standard_normal(1_000_000)), np.abs(rng.standard_normal(2_000))
    times = {order: fastest(lambda order=order: block.prox(million, order, 0.3), 3)[1] for order in (1, 100, 10_000)}  # type: ignore[misc]
    # order 1,000, so that the search has d²/2 pairs to try
    ours, quick = fastest(lambda: block.prox(few, 1_000, 0.3), 20)
    theirs, slow = fastest(lambda: block.prox_by_search(few, 1_000, 0.3), 3)
    say(f"prox: {max(times.values()):.3f} s for 1,000,000; {slow / quick:,.0f} times the search at 2,000")
    return {
        "million_seconds": max(times.values()), "few_seconds": quick, "search_seconds": slow, "ratio": slow / quick,
        "difference": float(np.abs(ours - theirs).max()),
    }  # fmt: skip


def equaliser() -> dict[str, Any]:
    """Givens rotations against Algorithm 2 of the paper at r = 200."""
    equalizer = od.lab.equalizer
    U = np.random.default_rng(0).standard_normal((400, 200)) * np.geomspace(10, 0.1, 200)
    Q, quick = fastest(lambda: equalizer.equalize(U), 10)
    _, slow = fastest(lambda: equalizer.eqz(U), 1)
    norms = np.sum((U @ Q) ** 2, axis=0)
    spread = float(np.ptp(norms) / norms.mean())
    say(f"equaliser: {1e3 * quick:.1f} ms, {slow / quick:,.0f} times Algorithm 2; spread {spread:.1e}")
    return {"seconds": quick, "algorithm_2_seconds": slow, "ratio": slow / quick, "spread": spread}


def planted(n: int, m: int, nnz: int) -> sparse.csr_array:
    """0/1 interactions with groups of unequal size and power-law popularity."""
    rng = np.random.default_rng(0)
    per_user, groups = nnz // n, 256
    columns = np.empty((n, per_user), dtype=np.int32)
    for low in range(0, n, 50_000):
        rows = slice(low, min(low + 50_000, n))
        size = (rows.stop - rows.start, per_user)
        popular = (m * rng.random(size) ** 3).astype(np.int32)  # item i with probability about i^(-2/3)
        own = rng.random(size) < 0.5  # half of a user's items come from the user's group
        group = (groups * rng.random((size[0], 1)) ** 2).astype(np.int32)
        columns[rows] = np.where(own, popular // groups * groups + group, popular) % m
    columns.sort(axis=1)
    ends = np.arange(0, n * per_user + 1, per_user)
    X = sparse.csr_array((np.ones(n * per_user, dtype=np.float32), columns.ravel(), ends), shape=(n, m))
    X.sum_duplicates()
    X.data[:] = 1
    return X


def svd(n: int = 136_677, m: int = 20_108, nnz: int = 10_000_000, rank: int = 200) -> dict[str, Any]:
    """The decomposition against scikit-learn's randomised one: time, and the share of squares each captures."""
    from sklearn.utils.extmath import randomized_svd

    X = planted(n, m, nnz)
    plain: dict[str, Any] = {"item_power": 0.0, "user_power": 0.0, "shrink": "hard"}
    od.Spectral(rank=3, **plain).fit(X[:200, :200] + sparse.eye_array(200, dtype=np.float32))  # compiles
    model, ours = measured(lambda: od.Spectral(rank=rank, **plain).fit(X))
    other, theirs = measured(lambda: randomized_svd(sparse.csr_matrix(X), rank, random_state=0)[1])
    found = {
        "users": n, "items": m, "interactions": int(X.nnz), "rank": rank, "offdiag": ours, "scikit_learn": theirs,
        "captured": float(np.sum(model.singular_values_**2) / X.nnz),
        "captured_by_scikit_learn": float(np.sum(other.astype(np.float64) ** 2) / X.nnz),
        "ratio": ours["seconds"] / theirs["seconds"],
        "memory_ratio": ours["extra_peak_bytes"] / theirs["extra_peak_bytes"],
    }  # fmt: skip
    say(
        f"svd: {ours['seconds']:.1f} s, {found['captured']:.5f} of the squares; scikit-learn "
        f"{theirs['seconds']:.1f} s, {found['captured_by_scikit_learn']:.5f}; memory {found['memory_ratio']:.2f} of it"
    )
    return found


def spectral(n: int = 1_000_000, m: int = 1_000_000, nnz: int = 50_000_000, rank: int = 128) -> dict[str, Any]:
    """A decomposition of a million users and items, and all shrinkages from it."""
    X = planted(n, m, nnz)
    say(f"spectral: {X.shape[0]:,} users × {X.shape[1]:,} items, {X.nnz:,} interactions, rank {rank}")
    od.Spectral(rank=3).fit(X[:200, :200] + sparse.eye_array(200, dtype=np.float32))  # compiles
    last = [0.0]

    def report(stage: str, share: float) -> None:
        if time.perf_counter() - last[0] > 20:
            last[0] = time.perf_counter()
            say(f"  {stage} {100 * share:.0f} %")

    model, cost = measured(lambda: od.Spectral(rank=rank).fit(X, progress=report))
    start = time.perf_counter()
    shrinks = ("hard", "ridge", "weight-decay", "dropout", "dropblock", "early-stop")
    others = [model.with_shrink(shrink) for shrink in shrinks]
    each = (time.perf_counter() - start) / len(others)
    total = cost["extra_peak_bytes"] + X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    say(f"  {cost['seconds']:.0f} s, {total / 1e9:.1f} GB with the data; another shrinkage {1e3 * each:.2f} ms")
    return cost | {
        "users": n, "items": m, "interactions": int(X.nnz), "rank": rank, "stopped": model.stopped_,
        "bytes_with_data": total, "seconds_of_another_shrinkage": each,
        "share_of_squares": float(np.sum(model.singular_values_**2) / model.total_),
    }  # fmt: skip


def main() -> None:
    tasks = {"prox": prox, "equaliser": equaliser, "svd": svd, "spectral": spectral}
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in sys.argv[1:] or tasks:
        results[name] = tasks[name]()
        results["machine"] = machine()
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    documents.renew("theory")


if __name__ == "__main__":
    main()
