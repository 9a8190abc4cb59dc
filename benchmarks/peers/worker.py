"""One fit of one model in a fresh process of its own environment: ``python -P worker.py JOB.json``.

The job names the adapter, the model, its settings and three files: the arrays to read, and the lists and facts to
write. Needs NumPy, SciPy and the package, not offdiag.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

sys.path.append(str(Path(__file__).parent.parent))

from measure import measured, moment, others, processor_seconds

from peers.adapter import Fitted, Model

K = 100
MANY, ONES, WARM_ONES = 10_000, 50, 5  # users of the timed batch; single users, after a few to warm up
MOST_MEMORY = 0.8  # of the machine's
LONG = 3.0  # seconds for a tenth of the batch, after which ten times that is reported
REPEATS, SHORT = 7, 3.0  # fits that are timed, as long as they take less than so many seconds together
WARM_UP = (300, 200)  # users and items of the small fit that compiles and starts threads


def matrix(parts: Any, name: str) -> Any:
    pieces = tuple(parts[f"{name}.{piece}"] for piece in ("data", "indices", "indptr"))
    return sparse.csr_matrix(pieces, shape=tuple(parts[f"{name}.shape"]))


def warm_up(model: Model, X: Any, settings: dict[str, Any]) -> None:
    """A small fit of popular items. Some packages cannot fit so little: then the timed fit is their first."""
    popular = np.sort(np.argsort(-np.bincount(X.indices, minlength=X.shape[1]), kind="stable")[: WARM_UP[1]])
    few = X[: WARM_UP[0]][:, popular]
    few = few[np.diff(few.indptr) > 1]
    less = {name: 1 for name in ("epochs", "iterations", "train_epochs", "max_iter") if name in settings}
    try:
        model.fit(few, settings | less).recommend(few[:5], np.arange(5), 5)
    except Exception as error:  # of any package, for any reason
        sys.stderr.write(f"no warm-up: {error}\n")


def timings(fitted: Fitted, X: Any) -> dict[str, float]:
    """Seconds of 100 items for 10,000 users, and of single users (median); users of the fitted matrix, repeated."""

    def seconds(n: int) -> float:
        start = time.perf_counter()
        for low in range(0, n, X.shape[0]):  # no user twice in a call: some packages answer once
            rows = np.arange(min(X.shape[0], n - low))
            fitted.recommend(X[rows], rows, K)
        return time.perf_counter() - start

    tenth = seconds(MANY // 10)
    out = {"many_seconds": 10 * tenth if tenth > LONG else seconds(MANY)}
    each = []
    for n in range(min(ONES + WARM_ONES, X.shape[0])):
        start = time.perf_counter()
        fitted.recommend(X[[n]], np.array([n]), K)
        each.append(time.perf_counter() - start)
    return out | {"one_seconds": float(np.median(each[WARM_ONES:]))}


def trials(model: Model, job: dict[str, Any], X: Any, histories: Any, users: Any) -> None:
    """Lists of each settings in turn, in files of their own, until the processor time is used up."""
    warm_up(model, X, job["trials"][0])  # compiling is no part of the budget
    used = 0.0
    for n, settings in enumerate(job["trials"]):
        before = processor_seconds()
        out: dict[str, Any] = {}
        try:
            fitted = model.fit(X, settings)
            used += processor_seconds() - before
            out = {"items": fitted.recommend(histories, users, K), "chosen": np.array(json.dumps(fitted.chosen))}
        except Exception as error:  # of any package, for any reason
            out = {"error": np.array(f"{type(error).__name__}: {error}".splitlines()[0][:200])}
        np.savez(f"{job['out']}.{n}.npz", **out, used=used)
        if used > job["budget"]:
            break


def timed(model: Model, job: dict[str, Any], X: Any, histories: Any, users: Any) -> None:
    """One fit, measured, and everything that is measured on the fitted model. A short fit is timed several times."""
    settings = job["trials"][0]
    warm_up(model, X, settings)
    start = moment()
    before = processor_seconds()
    fitted, facts = measured(lambda: model.fit(X, settings))
    fits = [(facts["seconds"], processor_seconds() - before)]
    while len(fits) < REPEATS and sum(seconds for seconds, _ in fits) < SHORT:
        before, begin = processor_seconds(), time.perf_counter()
        model.fit(X, settings)
        fits.append((time.perf_counter() - begin, processor_seconds() - before))
    facts["seconds"], facts["processor_seconds"] = (float(np.median(column)) for column in zip(*fits, strict=True))
    facts["fits"] = len(fits)
    out = {"items": fitted.recommend(histories, users, K)}
    facts |= timings(fitted, X) | {"others": others(start)}
    facts |= {"bytes": sum(part.nbytes for part in fitted.arrays), "chosen": fitted.chosen}
    if fitted.weights is not None and model.solves is not None:
        out["weights"] = np.asarray(fitted.weights())
    np.savez(job["out"], **out, facts=np.array(json.dumps(facts)))


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    limit, memory = int(job["limit"]), int(MOST_MEMORY * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))  # a fit that is too large fails and hurts nobody else
    model: Model = importlib.import_module(f"peers.{job['adapter']}").MODELS[job["model"]]
    with np.load(job["arrays"]) as parts:
        X, histories = matrix(parts, "train"), matrix(parts, "histories")
    first = X.shape[0]
    if not model.new_users:
        X = sparse.vstack([X, histories], format="csr")
    users = np.arange(first, first + histories.shape[0])
    (timed if job["timed"] else trials)(model, job, X, histories, users)
    sys.stdout.flush()
    os._exit(0)  # some packages leave threads or servers running


if __name__ == "__main__":
    main()
