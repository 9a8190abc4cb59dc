"""A full-rank fit beyond 65,535 items, against the matrix product of the same machine; writes results/largest.json.

The inverse is counted as m³ flops. Rates are per processor second, so that other programs on the machine matter little,
and by the clock; the product is measured before and after the fit. The inverse is checked against the data.

    python benchmarks/largest.py [--items 70000] [--users 200000] [--out results/largest.json]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from measure import machine, measured, moment, others, processor_seconds
from numpy.typing import NDArray
from run import say
from scipy import sparse

import offdiag as od
from offdiag._kernels import packed_rows
from offdiag.solvers import blas

HERE = Path(__file__).parent
SETTINGS: dict[str, Any] = {"dropout": 0.33, "l2": 300.0, "user_power": 0.0}
PER_USER = 20
SIDE, REPEATS = 6_144, 3  # of the matrix product


def product_rate() -> dict[str, float]:
    """Flops of sgemm per processor second and per second: the median of a few."""
    A = np.random.default_rng(0).standard_normal((SIDE, SIDE), dtype=np.float32)
    B, out = A.copy(), np.empty_like(A)
    blas.product(A[:256].copy(), B)  # starts the threads
    runs = []
    for _ in range(REPEATS):
        start, used = time.perf_counter(), processor_seconds()
        blas.product(A, B, add_to=out)
        runs.append((processor_seconds() - used, time.perf_counter() - start))
    cpu, clock = np.median(runs, axis=0)
    return {"per_cpu_second": 2 * SIDE**3 / cpu, "per_second": 2 * SIDE**3 / clock}


def residual(X: sparse.csr_array, C: NDArray[np.float32], penalty: NDArray[np.float64]) -> float:
    """The largest ‖H C z − z‖/‖z‖ of three vectors of random signs; H is applied through the data."""
    m = X.shape[1]
    z = np.random.default_rng(1).choice(np.array([-1.0, 1.0]), (3, m))
    y = packed_rows.products(C, m, z)
    back = (X.T @ (X @ y.T)).T + penalty * y
    return float(np.linalg.norm(back - z, axis=1).max() / m**0.5)


def run(n_users: int, n_items: int) -> dict[str, Any]:
    X = od.synthetic.interactions(n_users, n_items, n_users * PER_USER, seed=0).matrix.astype(np.float32)
    od.EDLAE(**SETTINGS).fit(X[:200, :300])  # compile
    stages: dict[str, tuple[float, float]] = {}

    def notice(stage: str, _: float) -> None:
        stages.setdefault(stage, (processor_seconds(), time.perf_counter()))

    before, since = product_rate(), moment()
    say(f"sgemm: {before['per_cpu_second'] / 1e9:.0f} Gflop per processor second")
    model, cost = measured(lambda: od.EDLAE(**SETTINGS).fit(X, progress=notice))
    end = processor_seconds(), time.perf_counter()
    load, after = others(since), product_rate()
    (cpu, clock), (cpu_start, clock_start) = end, stages["inverting"]
    counting = stages["counting pairs"]
    g = np.bincount(X.indices, weights=X.data.astype(np.float64) ** 2, minlength=n_items)
    p = SETTINGS["dropout"]
    found = {
        "users": n_users, "items": n_items, "interactions": int(X.nnz), "settings": SETTINGS, **cost,
        "counting_cpu_seconds": cpu_start - counting[0], "inverse_cpu_seconds": cpu - cpu_start,
        "inverse_seconds": clock - clock_start, "busy_cores_of_others": load,
        "weights_bytes": model.weights_.nbytes, "sgemm": [before, after],
        "residual": residual(X, model.weights_.C, p / (1 - p) * g + SETTINGS["l2"]),
    }  # fmt: skip
    found |= {
        f"share_of_sgemm_{name}": n_items**3 / seconds / np.mean([rate[name] for rate in (before, after)])
        for name, seconds in (("per_cpu_second", cpu - cpu_start), ("per_second", clock - clock_start))
    }
    lists, asked = measured(lambda: model.recommend(X[:100], k=20))
    return found | {"lists_seconds": asked["seconds"], "lists_check": int(lists.indices.sum())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--users", type=int, default=200_000)
    parser.add_argument("--items", type=int, default=70_000)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "largest.json")
    words = parser.parse_args()
    report = {"machine": machine(), "run": run(words.users, words.items)}
    words.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    say(json.dumps(report["run"]))


if __name__ == "__main__":
    main()
