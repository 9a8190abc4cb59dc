"""All speed and memory comparisons: prints ratios, writes results/speed.json, updates the table of docs/performance.md.

Our program and the peer run alternately in fresh processes of the same session; the median of the repeats counts.

    python benchmarks/run.py                 # everything of ordinary size, about ten minutes
    python benchmarks/run.py fit topk-dense  # some of it
    python benchmarks/run.py ml-20m msd      # whole fits at the size of the published data sets, reported once
    python benchmarks/run.py low-rank-ml-20m matrix-free matrix-free-product  # low rank, minutes each
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import documents
import numpy as np
from measure import machine

import offdiag as od

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "speed.json"
SHAPES = {  # users, items, interactions
    "fit": (60_000, 10_000, 3_400_000),
    "ml-20m": (136_677, 20_108, 10_000_000),
    "msd": (571_355, 41_140, 34_000_000),
    "low-rank": (30_000, 5_000, 1_500_000),
    "matrix-free": (1_000_000, 1_000_000, 50_000_000),
}


LONG = {"msd", "low-rank-ml-20m", "matrix-free", "matrix-free-product"}  # only when named


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


def run(task: str, **words: Any) -> dict[str, float]:
    command = [sys.executable, str(HERE / "workers.py"), task, *(f"{k}={v}" for k, v in words.items())]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, float] = json.loads(out.splitlines()[-1])
    say(
        f"  {task}: {found['seconds']:.2f} s"
        + (f", {found['extra_peak_bytes'] / 1e6:.0f} MB extra" if "extra_peak_bytes" in found else "")
    )
    return found


def versus(ours: str, peer: str, repeats: int, **words: Any) -> dict[str, Any]:
    """Both tasks alternately; medians and ratios. Their results must agree."""
    pairs = [(run(ours, **words), run(peer, **words)) for _ in range(repeats)]
    for a, b in pairs:
        if not np.isclose(a["check"], b["check"], rtol=1e-3):
            raise RuntimeError(f"{ours} and {peer} computed different things: {a['check']} and {b['check']}")
    out: dict[str, Any] = {"ours": ours, "peer": peer, "repeats": repeats, **words}
    for key in ("seconds", "extra_peak_bytes"):
        mine, theirs = (statistics.median(p[n][key] for p in pairs) for n in (0, 1))
        out[key] = {"ours": mine, "peer": theirs, "ratio": mine / theirs}
    say(f"  → time ratio {out['seconds']['ratio']:.3f}, memory ratio {out['extra_peak_bytes']['ratio']:.3f}")
    return out


def lower(repeats: int, **words: Any) -> dict[str, Any]:
    """Our low-rank fit against the published ADMM, which must end at a higher objective; medians and ratios."""
    pairs = [(run("low_rank_offdiag", **words), run("low_rank_admm", **words)) for _ in range(repeats)]
    for a, b in pairs:
        if not a["objective"] < b["objective"]:
            raise RuntimeError(f"our objective {a['objective']:.8g} is not below the other's {b['objective']:.8g}")
    out: dict[str, Any] = {"repeats": repeats, **words}
    for key in ("seconds", "extra_peak_bytes", "objective"):
        mine, theirs = (statistics.median(p[n][key] for p in pairs) for n in (0, 1))
        out[key] = {"ours": mine, "peer": theirs, "ratio": mine / theirs}
    say(f"  → time ratio {out['seconds']['ratio']:.3f}, memory ratio {out['extra_peak_bytes']['ratio']:.3f}")
    return out


def data(folder: Path, shape: str) -> Path:
    """Synthetic interactions of the named shape as an uncompressed npz."""
    path = folder / f"{shape}.npz"
    if not path.exists():
        users, items, nnz = SHAPES[shape]
        say(f"generating {users:,} users × {items:,} items × {nnz:,} interactions")
        X = od.synthetic.interactions(users, items, nnz, seed=0, names=False).matrix
        np.savez(path, data=X.data, indices=X.indices, indptr=X.indptr, shape=np.array(X.shape))
    return path


def csv(folder: Path, rows: int) -> Path:
    """A table of user, item, value with integer ids, and a small one to warm up on."""
    path = folder / "table.csv"
    if not path.exists():
        import polars as pl

        X = od.synthetic.interactions(rows // 70, 20_000, rows, seed=1, names=False).matrix.tocoo()
        order = np.random.default_rng(0).permutation(X.nnz)
        values = np.random.default_rng(1).integers(1, 6, X.nnz).astype(np.float64)
        table = pl.DataFrame({"user": X.row[order], "item": X.col[order], "value": values})
        table.write_csv(path)
        table.head(1000).write_csv(path.with_suffix(".small.csv"))
    return path


def benchmarks(folder: Path) -> dict[str, Any]:
    """Name → what it measures; nothing runs until called."""
    topk = ("topk_offdiag", "topk_irspack")
    ranking: dict[str, Any] = {"users": 10_000, "k": 100}
    small: dict[str, Any] = {"rank": 200, "iterations": 2, "omega": 1000}
    large: dict[str, Any] = {"rank": 1000, "iterations": 3, "omega": 1000}
    return {
        "fit": lambda: versus("fit_offdiag", "fit_irspack", 3, data=data(folder, "fit")),
        "inverse": lambda: run("inverse", m=10_000),
        "gram": lambda: versus("gram_offdiag", "gram_scipy", 3, data=data(folder, "ml-20m")),
        "topk-dense": lambda: versus(*topk, 1, data=data(folder, "ml-20m"), storage="dense", **ranking),
        "topk-packed": lambda: versus(*topk, 1, data=data(folder, "ml-20m"), storage="packed", **ranking),
        "read": lambda: versus("read_offdiag", "read_polars", 3, csv=csv(folder, 10_000_000)),
        "low-rank": lambda: lower(3, data=data(folder, "low-rank"), diagonal="product", **small),
        "low-rank-rows": lambda: lower(3, data=data(folder, "low-rank"), diagonal="rows", **small),
        "low-rank-ml-20m": lambda: lower(1, data=data(folder, "ml-20m"), diagonal="product", **large),
        "matrix-free": lambda: run("matrix_free", data=data(folder, "matrix-free"), rank=128, iterations=5),
        "matrix-free-product": lambda: run("matrix_free_product", data=data(folder, "matrix-free"), rank=128),
        "ml-20m": lambda: run("fit_offdiag", data=data(folder, "ml-20m")),
        "msd": lambda: run("fit_offdiag", data=data(folder, "msd")),
    }


def main() -> None:
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        available = benchmarks(Path(folder))
        for name in sys.argv[1:] or [n for n in available if n not in LONG]:
            if name not in available:
                raise SystemExit(f"no benchmark {name!r}; there are {', '.join(available)}")
            say(f"{name}:")
            found = available[name]()
            found = {k: v for k, v in found.items() if k not in ("data", "csv")}
            results[name] = found | {"shape": SHAPES.get(name), "machine": machine(), "offdiag": od.__version__}
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    documents.renew("speed", "why")


if __name__ == "__main__":
    main()
