"""One measured task per fresh process: ``python workers.py TASK key=value …`` prints one line of JSON.

A task warms up on a small piece first (compilation, thread pools), then is measured once.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from low_rank_tasks import low_rank_admm, low_rank_offdiag, matrix, matrix_free, matrix_free_product
from measure import measured
from scipy import sparse

import offdiag as od
from offdiag.gramian import layout
from offdiag.solvers import lapack

SETTINGS: dict[str, Any] = {"dropout": 0.33, "l2": 300.0}


def fit_offdiag(data: str, **_: str) -> dict[str, float]:
    X = matrix(data)
    od.EDLAE(**SETTINGS, user_power=0.0).fit(X[:50, :40])
    model, cost = measured(lambda: od.EDLAE(**SETTINGS, user_power=0.0).fit(X))
    return cost | _checksum(model.weights_.column(np.arange(50), 7))


def fit_irspack(data: str, **_: str) -> dict[str, float]:
    from irspack import EDLAERecommender

    X = sparse.csr_matrix(matrix(data))
    EDLAERecommender(X[:50, :40], reg=300.0, dropout_p=0.33).learn()
    model, cost = measured(lambda: EDLAERecommender(X, reg=300.0, dropout_p=0.33).learn())
    return cost | _checksum(np.asarray(model.W)[:50, 7])


def _checksum(values: Any) -> dict[str, float]:
    """Checksums, to verify that both programs computed the same thing."""
    return {"check": float(np.abs(values).sum())}


def gram_offdiag(data: str, **_: str) -> dict[str, float]:
    X = matrix(data)
    od.gram(X[:50, :40])
    G, cost = measured(lambda: od.gram(X))
    return cost | {"check": float(G.values.sum(dtype=np.float64)) * 2 - float(G.diagonal().sum(dtype=np.float64))}


def gram_scipy(data: str, **_: str) -> dict[str, float]:
    X = matrix(data)
    G, cost = measured(lambda: (X.T @ X).todense())
    return cost | {"check": float(G.sum(dtype=np.float64))}


def inverse(m: str, **_: str) -> dict[str, float]:
    """Packed inverse and sgemm of the same size in one process; both in useful flops."""
    from scipy.linalg import blas

    n = int(m)
    rng = np.random.default_rng(0)
    A = np.asfortranarray(rng.standard_normal((n, n), dtype=np.float32))
    blas.sgemm(1.0, A[:500, :500], A[:500, :500])
    start = time.perf_counter()
    P = blas.sgemm(1.0, A, A, trans_b=True)
    sgemm = time.perf_counter() - start
    P[np.diag_indices(n)] += n
    del A
    values = np.asarray(layout.pack(np.ascontiguousarray(P)))
    del P
    start = time.perf_counter()
    if lapack.pftrf(values, n) or lapack.pftri(values, n):
        raise RuntimeError("the matrix was not positive definite")
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "flop_rate": n**3 / seconds, "sgemm_flop_rate": 2 * n**3 / sgemm}


def _ranking_model(data: str, **more: Any) -> tuple[sparse.csr_array, od.EDLAE]:
    X = matrix(data)
    return X, od.EDLAE(**SETTINGS, user_power=0.0, **more).fit(X)


def topk_offdiag(data: str, users: str, k: str, storage: str) -> dict[str, float]:
    X, model = _ranking_model(data, storage=storage)
    histories = X[: int(users)]
    _, copying = measured(model.weights_.prepare_lists)  # made once: its memory counts, its time is given apart
    model.recommend(histories[:300], k=int(k))
    found, cost = _median_of_three(lambda: model.recommend(histories, k=int(k)))
    cost["extra_peak_bytes"] += copying["extra_peak_bytes"]
    return cost | {"check": float(np.sort(found.indices, axis=1).sum()), "copy_seconds": copying["seconds"]}


def _median_of_three(call: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """For tasks of about a second, whose first run includes allocating fresh memory."""
    runs = [measured(call) for _ in range(3)]
    return sorted(runs, key=lambda run: run[1]["seconds"])[1]


def topk_irspack(data: str, users: str, k: str, **_: str) -> dict[str, float]:
    """irspack's scoring call and NumPy's argpartition, with the weights of the same model, 1,000 users at a time."""
    from irspack import EDLAERecommender

    X, model = _ranking_model(data)
    peer = EDLAERecommender(sparse.csr_matrix(X))
    peer._W = model.weights_.toarray()
    del model
    histories = sparse.csr_matrix(X[: int(users)])

    def run() -> Any:
        best = []
        for start in range(0, histories.shape[0], 1000):
            scores = peer.get_score_cold_user_remove_seen(histories[start : start + 1000])
            part = np.argpartition(scores, -int(k), axis=1)[:, -int(k) :]
            order = np.argsort(-np.take_along_axis(scores, part, 1), axis=1)
            best.append(np.take_along_axis(part, order, 1))
        return np.vstack(best)

    found, cost = _median_of_three(run)
    return cost | {"check": float(np.sort(found, axis=1).sum())}


def read_offdiag(csv: str, **_: str) -> dict[str, float]:
    small = Path(csv).with_suffix(".small.csv")
    od.read(small, value="value")
    inter, cost = measured(lambda: od.read(csv, value="value"))
    return cost | {"check": float(inter.matrix.sum(dtype=np.float64))}


def read_polars(csv: str, **_: str) -> dict[str, float]:
    import polars as pl

    pl.read_csv(Path(csv).with_suffix(".small.csv"))
    frame, cost = measured(lambda: pl.read_csv(csv))
    return cost | {"check": float(frame["value"].sum())}


def main() -> None:
    functions: list[Any] = [fit_offdiag, fit_irspack, gram_offdiag, gram_scipy, inverse, topk_offdiag, topk_irspack]
    functions += [read_offdiag, read_polars, low_rank_offdiag, low_rank_admm, matrix_free, matrix_free_product]
    tasks: dict[str, Callable[..., dict[str, float]]] = {f.__name__: f for f in functions}
    name, *words = sys.argv[1:]
    sys.stdout.write(json.dumps(tasks[name](**dict(word.split("=", 1) for word in words))) + "\n")


if __name__ == "__main__":
    main()
