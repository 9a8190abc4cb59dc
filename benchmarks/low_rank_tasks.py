"""Measured tasks of the low-rank family, run by ``workers.py``: ours, the published ADMM, and matrix-free at scale."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from measure import measured
from numpy.typing import NDArray
from scipy import sparse

import offdiag as od
from offdiag.solvers.products import DataProduct

SETTINGS: dict[str, Any] = {"dropout": 0.33, "l2": 300.0}


def matrix(path: str) -> sparse.csr_array:
    with np.load(path) as arrays:
        return sparse.csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=tuple(arrays["shape"]))


def low_rank_offdiag(data: str, rank: str, iterations: str, **_: str) -> dict[str, float]:
    X = matrix(data)
    od.LowRankEDLAE(rank=5, **SETTINGS, user_power=0.0).fit(X[:500, :300])
    model = od.LowRankEDLAE(rank=int(rank), iterations=int(iterations), **SETTINGS, user_power=0.0)
    _, cost = measured(lambda: model.fit(X))
    return cost | {"objective": eq10(X, model.weights_.U, model.weights_.V), "reported": model.objective_}


def low_rank_admm(data: str, rank: str, diagonal: str, omega: str, **_: str) -> dict[str, float]:
    """The recipe of the supplement in NumPy, five iterations; ``omega`` is the best of a search at 5,000 items."""
    from peers import admm

    X = matrix(data)
    words = {**SETTINGS, "omega": float(omega), "iterations": 5, "track": False, "diagonal": diagonal}
    admm.minimise(admm.gram(X[:500, :300]), 5, **words)
    found, cost = measured(lambda: admm.minimise(admm.gram(X), int(rank), **words))
    return cost | {"objective": eq10(X, found.U, found.V)}


def eq10(X: sparse.csr_array, U: NDArray[np.floating], V: NDArray[np.floating]) -> float:
    """‖X − X·off(UVᵀ)‖² + ‖Λ^½·off(UVᵀ)‖² from its definition, by blocks of users; neither program's own formula."""
    p, l2 = SETTINGS["dropout"], SETTINGS["l2"]
    beta = np.einsum("ij,ij->i", U, V)
    g = np.bincount(X.indices, weights=X.data.astype(np.float64) ** 2, minlength=X.shape[1])
    total = 0.0
    for first in range(0, X.shape[0], 4096):
        rows = X[first : first + 4096]
        residual = (rows @ U) @ V.T
        dense = rows.toarray()
        residual -= dense * beta
        residual -= dense
        total += float(np.einsum("ij,ij->i", residual, residual).sum(dtype=np.float64))
    rows_of_b = np.einsum("ij,ij->i", U @ (V.T @ V), U).astype(np.float64) - beta.astype(np.float64) ** 2
    return total + float((p / (1 - p) * g + l2) @ rows_of_b)


def matrix_free(data: str, rank: str, iterations: str) -> dict[str, float]:
    """A whole fit that never forms an m×m matrix."""
    X = matrix(data)
    od.LowRankEDLAE(rank=5, **SETTINGS, user_power=0.0, products="data").fit(X[:500, :300])
    model = od.LowRankEDLAE(rank=int(rank), iterations=int(iterations), **SETTINGS, user_power=0.0, products="data")
    _, cost = measured(lambda: model.fit(X))
    held = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    peak = cost["extra_peak_bytes"] + held
    return cost | {"peak_bytes": peak, "objective": model.objective_, "iterations": len(model.objectives_) - 1}


def matrix_free_product(data: str, rank: str) -> dict[str, float]:
    """One product of such a fit against the minimum time to move its bytes.

    Without reuse each interaction moves a row of ``rank`` numbers and an index, once for X V and once for Xᵀ; the
    bandwidth is that of a plain copy by the same threads. A second limit is the rate at which such rows can be read at
    random places: each core waits for memory there, while a copy is fetched ahead of time.
    """
    X = matrix(data)
    k = int(rank)
    product = DataProduct(X, 0.0, np.float32, rank=k)
    V = np.random.default_rng(0).standard_normal((X.shape[1], k), dtype=np.float32)
    product(V)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        product(V)
        times.append(time.perf_counter() - start)
    del product
    speed, rows = bandwidth(), random_row_bandwidth(V)
    del V
    moved = 2 * X.nnz * (k * 4 + 4) + 4 * k * (X.shape[0] + X.shape[1])
    least = 2 * X.nnz * 4 + 4 * k * 2 * X.shape[1]
    seconds = sorted(times)[1]
    return {
        "seconds": seconds,
        "bytes_moved": moved,
        "bandwidth": speed,
        "share_of_bandwidth": moved / speed / seconds,
        "random_row_bandwidth": rows,
        "share_of_random_row_bandwidth": moved / rows / seconds,
        "compulsory_bytes": least,
    }


def bandwidth() -> float:
    """Bytes per second of a copy by all threads, reads and writes counted; the best of five."""
    from offdiag._kernels import parallel

    source, target = np.ones(1 << 28, dtype=np.float32), np.empty(1 << 28, dtype=np.float32)
    parts = [(slice(a, b),) for a, b in parallel.ranges(len(source), parallel.n_threads())]

    def copy(part: slice) -> None:
        target[part] = source[part]

    best = np.inf
    for _ in range(5):
        start = time.perf_counter()
        parallel.run_parallel(copy, parts)
        best = min(best, time.perf_counter() - start)
    return 2 * source.nbytes / best


def random_row_bandwidth(V: NDArray[np.float32]) -> float:
    """Bytes per second of reading whole rows of V at random places by all threads; the best of three."""
    from offdiag._kernels import embeddings, parallel

    n, eight = 1 << 20, 8  # each sum takes eight rows, so that writing it hardly counts
    columns = np.random.default_rng(1).integers(0, len(V), n * eight).astype(np.uint32)
    ptr, ones = np.arange(0, n * eight + 1, eight), np.ones(n * eight, dtype=np.float32)
    places, out = np.zeros(n, dtype=np.uint32), np.zeros((1, V.shape[1]), dtype=np.float32)
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        tasks = [(places, ptr, columns, ones, V, out.copy(), a, b) for a, b in parallel.ranges(n, parallel.n_threads())]
        parallel.run_parallel(embeddings.gather_rows, tasks)
        best = min(best, time.perf_counter() - start)
    return float(n * eight * V.shape[1] * 4 / best)
