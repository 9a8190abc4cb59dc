"""Sparse columns: a published split of 40,981 items, the dense model on it, the solver's rate, a large catalogue.

Settings are found by ``od.tune`` on validation data only; the test part is measured once per task. Times and memory of
models that are compared come from fresh processes of one run. Writes results/sparse.json.

    python benchmarks/sparse.py [FOLDER WITH DATA SETS] [gowalla] [later] [dense] [rate] [large] [tenth]
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from choosing import SHARED
from defaults import splits
from measure import machine, measured
from run import say

import offdiag as od
from offdiag.gramian.user_weights import weights_of
from offdiag.solvers import gram_rows, popularity_order, support

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "sparse.json"
PUBLISHED = ["recall_all@20", "ndcg@20"]
TRIALS = 30
LARGE = (2_000_000, 300_000, 60_000_000)  # users, items, interactions
TENTH = ("ml-1m", "citeulike-a, items ≥ 10 users", "lastfm, items ≥ 5 users", "retail baskets, items ≥ 10")
LENGTHS = (256, 384, 512)
LATER: dict[str, Any] = {  # the search space on the end of lists: around a setting found there manually
    "trials": 8,
    "fixed": {"neighbours": 500, "rank": 512, "user_power": 0.5, "propensity_power": 0.0},
    "space": {"dropout": (0.6, 0.85), "l2": (40.0, 160.0, "log"), "weight_power": (1.0, 1.3), "smooth": (0.1, 0.5)},
    "start": [{"dropout": 0.8, "l2": 60.0, "weight_power": 1.2, "smooth": 0.2}],
}
MOST_NEIGHBOURS = 2000  # before pruning: the time of a column grows with their square


def gowalla(folder: Path) -> dict[str, Any]:
    """Tuned on valid.txt, fitted on train and valid together, measured once on test; also with automatic settings."""
    place = folder / "gowalla-lightgcn"
    tuned = od.tune(
        od.SparseEDLAE, od.datasets.published("gowalla", place, validation=True), metric="ndcg@20", trials=TRIALS
    )
    say(f"{tuned}")
    found = {
        "tuned": alone(folder, "fit", tuned.settings),
        "automatic": alone(folder, "fit", {}),
    }
    return found | {"trials": TRIALS, "tuning_seconds": tuned.seconds, "validation": tuned.value}


def later(folder: Path) -> dict[str, Any]:
    """The same, but tuned on the end of each user's list in train.txt, the order in which its publisher gives it.

    The items to predict come after those in the training data; valid.txt was drawn at random.
    """
    tuned = od.tune(
        od.SparseEDLAE, _end_of_lists(folder / "gowalla-lightgcn"), metric="ndcg@20", trials=LATER["trials"],
        fixed=LATER["fixed"], space=LATER["space"], start=LATER["start"],
    )  # fmt: skip
    say(f"{tuned}")
    settings = {name: value for name, value in tuned.settings.items() if value is not None}
    return alone(folder, "fit", settings) | {"tuning_seconds": tuned.seconds, "validation": tuned.value, **LATER}


def _end_of_lists(place: Path) -> Any:
    """For training: train.txt without the last fifth of each list, and valid.txt; for validation: that fifth."""
    shown, hidden = [], []
    for line in (place / "train.txt").read_text().splitlines():
        user, *items = map(int, line.split())
        cut = len(items) - len(items) // 5
        shown += [(user, item) for item in items[:cut]]
        hidden += [(user, item) for item in items[cut:]]
    for line in (place / "valid.txt").read_text().splitlines():
        user, *items = map(int, line.split())
        shown += [(user, item) for item in items]
    parts = [od.read(pl.DataFrame(rows, schema=["user", "item"], orient="row")) for rows in (shown, hidden)]
    return od.split.given(parts[0], parts[1], parts[1])


def fit(folder: Path, settings: dict[str, Any], model: str = "SparseEDLAE") -> dict[str, Any]:
    split = od.datasets.published("gowalla", folder / "gowalla-lightgcn")
    getattr(od, model)(**{"neighbours": 5} if model == "SparseEDLAE" else {}).fit(split.train.matrix[:500])  # compile
    fitted, cost = measured(lambda: getattr(od, model)(**settings).fit(split.train))
    result = od.evaluate(fitted, split.test, PUBLISHED)
    np.save(HERE / "results" / f".{model}.npy", np.stack([result.per_user[name] for name in PUBLISHED]))
    return {"settings": fitted.settings_, **cost, "weights_bytes": fitted.weights_.nbytes, "test": result.to_dict()}


def dense(folder: Path) -> dict[str, Any]:
    """The sparse fit of ``later`` against the full-rank fit with the same settings, one after the other."""
    settings = json.loads(RESULTS.read_text())["later"]["settings"]
    shared = {name: settings[name] for name in ("dropout", "l2", "user_power")}
    kept = {name: value for name, value in settings.items() if value is not None}
    ours, whole = alone(folder, "fit", kept), alone(folder, "fit", shared, model="EDLAE")
    per_user = [np.load(HERE / "results" / f".{name}.npy") for name in ("SparseEDLAE", "EDLAE")]
    gain = per_user[0] - per_user[1]
    for name in ("SparseEDLAE", "EDLAE"):
        (HERE / "results" / f".{name}.npy").unlink()
    gains = {
        name: {"difference": float(np.nanmean(row)), "sem": float(np.nanstd(row) / np.isfinite(row).sum() ** 0.5)}
        for name, row in zip(PUBLISHED, gain, strict=True)
    }
    ratios = {what: ours[what] / whole[what] for what in ("seconds", "extra_peak_bytes", "weights_bytes")}
    say(f"  → ratios {ratios}, sparse − dense {gains}")
    return {"sparse": ours, "dense": whole, "ratio": ratios, "sparse_minus_dense": gains}


def rate(folder: Path) -> dict[str, Any]:
    """Columns per second at |S|³/3 flops each, compared with the matrix product of this machine; on Gowalla's items."""
    split = od.datasets.published("gowalla", folder / "gowalla-lightgcn")
    X, m = split.train.matrix, split.train.n_items
    weight = weights_of(np.diff(X.indptr), 0.5)
    data = popularity_order.by_popularity(
        X, weight, popularity_order.popularity_rank(np.bincount(X.indices, minlength=m))
    )
    H = popularity_order.diagonal(data) * 3 + 60.0
    out = {}
    for length in LENGTHS:
        supports = support.choose(data, H, length, np.float32)
        full = np.flatnonzero(np.diff(supports.ptr) == length)
        plan = gram_rows.plan(supports, 4, 1 << 30)
        items = np.concatenate(plan.blocks)
        items = items[np.isin(items, full)][: 4096 * 256 // length].astype(np.int32)
        shelf = gram_rows.Shelf(data, supports.below, plan.n_head, np.float32)
        shelf.hold(supports, items)
        rates: dict[str, Any] = {}
        for name, steps in (("conjugate gradients", support.STEPS), ("cholesky", 0.0)):
            values = supports.values.copy()
            seconds, product = [], []
            for _ in range(3):
                supports.values[:] = values
                product.append(_sgemm())
                begin = time.perf_counter()
                support.solve_block(shelf.arrays(), H, supports, items, np.zeros(m), steps)
                seconds.append(time.perf_counter() - begin)
            supports.values[:] = values
            flops = len(items) * length**3 / 3 / min(seconds)
            rates[name] = {
                "flops": flops,
                "of_sgemm": flops / max(product),
                "items_per_second": len(items) / min(seconds),
            }
            say(f"  {length} neighbours, {name}: {flops / 1e9:.1f} GFLOP/s, {rates[name]['of_sgemm']:.2f} of sgemm")
        out[str(length)] = rates | {"sgemm": max(product)}
    return out


def _sgemm(n: int = 3000) -> float:
    A = np.ones((n, n), dtype=np.float32)
    A @ A
    begin = time.perf_counter()
    A @ A
    return 2 * n**3 / (time.perf_counter() - begin)


def large(folder: Path) -> dict[str, Any]:
    """300,000 items, 2 million users, 60 million interactions, 100 neighbours."""
    n, m, nnz = LARGE
    od.SparseEDLAE(neighbours=5).fit(od.synthetic.interactions(300, 60, 5000))  # compile
    inter = od.synthetic.interactions(n, m, nnz)
    model, cost = measured(
        lambda: od.SparseEDLAE(neighbours=100, dropout=0.5, l2=50.0, user_power=0.5).fit(inter.matrix)
    )
    peak = int(next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line))
    say(f"  {m / cost['seconds']:.0f} items/s, peak {peak / 1e6:.2f} GB in all")
    return {
        "users": n, "items": m, "interactions": int(inter.matrix.nnz), "neighbours": 100, **cost,
        "peak_bytes": peak * 1024, "items_per_second": m / cost["seconds"], "weights_bytes": model.weights_.nbytes,
    }  # fmt: skip


def tenth(folder: Path) -> dict[str, Any]:
    """nDCG@100 of the dense model and of three models a tenth of its size, all with its automatic settings."""
    out = {}
    for name in TENTH:
        split = splits(folder)[name]()
        whole = od.EDLAE().fit(split.train)
        budget, m = whole.weights_.nbytes // 10, split.train.n_items
        same = {key: whole.settings_[key] for key in ("dropout", "l2", "user_power")}
        k = min(m - 1, 2 * budget // m, MOST_NEIGHBOURS)
        pruned = od.SparseEDLAE(**same, neighbours=k, max_bytes=4 * budget).fit(split.train)
        models = {
            "SparseEDLAE": od.SparseEDLAE(**same, neighbours=budget // (8 * m)).fit(split.train),
            "SparseEDLAE(max_bytes=…), compressed": od.compress(pruned, storage="int8", max_bytes=budget),
            "EDLAE, compressed": od.compress(whole, storage="int8", max_bytes=budget),
        }
        reference = od.evaluate(whole, split.test, ["ndcg@100"])
        found = {}
        for label, model in models.items():
            result = od.evaluate(model, split.test, ["ndcg@100"])
            found[label] = {
                "test": result.to_dict(), "minus_dense": result.compare(reference).to_dict(),
                "share": result.mean["ndcg@100"] / reference.mean["ndcg@100"], "bytes": model.weights_.nbytes,
            }  # fmt: skip
            size = model.weights_.nbytes / whole.weights_.nbytes
            say(f"  {name}, {label}: {found[label]['share']:.4f} of the dense nDCG@100 at {size:.3f} of its size")
        out[name] = {
            "dense": reference.to_dict(),
            "dense_bytes": whole.weights_.nbytes,
            "settings": same,
            "small": found,
        }
    return out


def alone(folder: Path, task: str, settings: dict[str, Any], **words: Any) -> dict[str, Any]:
    """A task in a separate process."""
    command = [sys.executable, __file__, str(folder), f"--run={task}", json.dumps([settings, words])]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    test = found["test"]["mean"]
    say(f"  {words} {found['settings']}: {found['seconds']:.1f} s, {found['extra_peak_bytes'] / 1e6:.0f} MB, {test}")
    return found


def main() -> None:
    words = sys.argv[1:]
    folder = Path(words.pop(0)) if words and Path(words[0]).is_dir() else SHARED
    if words and words[0].startswith("--run="):
        settings, more = json.loads(words[1])
        sys.stdout.write(json.dumps(fit(folder, settings, **more)) + "\n")
        return
    if not folder.is_dir():
        raise SystemExit(f"no data sets at {folder}: pass the folder that holds them")
    tasks = {"gowalla": gowalla, "later": later, "dense": dense, "rate": rate, "large": large, "tenth": tenth}
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in words or tasks:
        say(f"{name}:")
        results |= {name: tasks[name](folder), "machine": machine()}
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
