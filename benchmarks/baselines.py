"""Is every baseline fair? Our models against reference implementations, on the same users, at the same settings.

MovieLens-1M, strong generalisation: trained on the train users, with early stopping on the validation users where
it applies, measured once on the test users. SLIM and WMF are compared with irspack's, WMF also with implicit's (which
has a different loss, so it gets its own best of 24 trials on validation), the nets with RecBole's, whose layers and
losses are trained with the same optimiser, batches and early stopping. Writes results/baselines.json.

    python benchmarks/baselines.py [FOLDER WITH DATA SETS] [--peer-python PYTHON WITH recbole AND torch] [NAME …]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from choosing import data_folder
from defaults import splits
from measure import machine
from numpy.typing import NDArray
from run import say
from scipy import sparse

import offdiag as od
from offdiag import metrics, ranking
from offdiag.data.split import HeldOut, Split

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "baselines.json"
METRIC = "ndcg@100"
SLIM = {"alpha": 0.02, "l1_ratio": 0.01}  # irspack's parameters; slim.py explains the mapping
IMPLICIT = {"rank": 128, "l2": 22.0, "alpha": 2.08, "iterations": 16}
NETS: dict[str, dict[str, Any]] = {
    "MultVAE": {},
    "MultDAE": {},
    "CDAE": {"positive_weight": 1.0},
}  # beyond the defaults; RecBole gives ones and zeros the same weight
NAMES = ("SLIM", "WMF", "WMF, implicit", "MultVAE", "MultDAE", "CDAE")


def make(name: str, users: int) -> tuple[Any, dict[str, Any]]:
    """Our model, and the settings for its reference."""
    if name == "SLIM":
        l1, l2 = users * SLIM["alpha"] * SLIM["l1_ratio"], users * SLIM["alpha"] * (1 - SLIM["l1_ratio"])
        return od.SLIM(l1=l1, l2=l2, user_power=0.0), SLIM
    if name == "WMF, implicit":
        return od.WMF(), IMPLICIT
    model: Any = od.WMF() if name == "WMF" else getattr(od, name)(**NETS[name])
    return model, model.get_params()


def per_user(items: NDArray[np.int64], targets: sparse.csr_array) -> NDArray[np.float64]:
    """nDCG@100 of every test user: the same function for both implementations."""
    wanted = targets.toarray() > 0
    hits = np.take_along_axis(wanted, np.maximum(items, 0), 1) & (items >= 0)
    return metrics.ndcg(hits, wanted.sum(1), 100)


def compared(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> dict[str, Any]:
    """Means with standard errors, and the ratio of the means with its paired standard error (delta method)."""
    known = ~np.isnan(ours)
    a, b = ours[known], theirs[known]
    root = np.sqrt(len(a))
    ratio = a.mean() / b.mean()
    return {
        "users": len(a), "ours": {METRIC: a.mean(), "sem": a.std(ddof=1) / root},
        "reference": {METRIC: b.mean(), "sem": b.std(ddof=1) / root},
        "ratio": ratio, "ratio_sem": (a - ratio * b).std(ddof=1) / root / b.mean(),
    }  # fmt: skip


def parts(split: Split) -> dict[str, NDArray[Any]]:
    assert split.validation is not None
    held: tuple[tuple[str, HeldOut], ...] = (("validation", split.validation), ("test", split.test))
    named = {"train": split.train.matrix}
    named |= {f"{name}_histories": part.histories for name, part in held}
    named |= {f"{name}_targets": part.targets for name, part in held}
    out: dict[str, NDArray[Any]] = {}
    for name, matrix in named.items():
        out |= {f"{name}.{piece}": getattr(matrix, piece) for piece in ("data", "indices", "indptr")}
        out[f"{name}.shape"] = np.array(matrix.shape)
    return out


def reference(
    name: str, settings: dict[str, Any], split: Split, python: str
) -> tuple[NDArray[np.int64], dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        np.savez(here / "data.npz", **parts(split))  # type: ignore[arg-type]
        (here / "settings.json").write_text(json.dumps(settings))
        words = [python, str(HERE / "baselines_peers.py"), name, "data.npz", "settings.json", "out.npz"]
        done = subprocess.run(words, cwd=here, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"the reference of {name} failed: {done.stderr.strip().splitlines()[-1:]}")
        with np.load(here / "out.npz") as found:
            return found["items"], json.loads(str(found["facts"]))


def study(name: str, split: Split, peer_python: str) -> dict[str, Any]:
    model, settings = make(name, split.train.n_users)
    start = time.perf_counter()
    model.fit(split.train, **({"validation": split.validation} if name in NETS else {}))
    seconds = time.perf_counter() - start
    if name == "WMF":
        settings = model.settings_
    items, _ = ranking.top_k(model.weights_, split.test.histories, 100)
    found, facts = reference(name, settings, split, peer_python if name in NETS else sys.executable)
    result = compared(per_user(items, split.test.targets), per_user(found, split.test.targets))
    result["ours"] |= {"seconds": seconds, "settings": model.settings_}
    result["reference"] |= facts | ({"settings": settings} if settings != model.settings_ else {})
    for learned in ("epochs_", "best_epoch_"):
        if hasattr(model, learned):
            result["ours"][learned.rstrip("_")] = getattr(model, learned)
    say(
        f"  {name}: {result['ours'][METRIC]:.4f} ± {result['ours']['sem']:.4f}, {facts['name']} "
        f"{result['reference'][METRIC]:.4f}, ratio {result['ratio']:.4f} ± {result['ratio_sem']:.4f}"
    )
    return result


def main() -> None:
    words = sys.argv[1:]
    peer_python = sys.executable
    if "--peer-python" in words:
        at = words.index("--peer-python")
        peer_python = words[at + 1]
        del words[at : at + 2]
    folder = data_folder(words)
    split = splits(folder)["ml-1m"]()
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"models": {}}
    results |= {"data": "ml-1m", "metric": METRIC, "machine": machine()}
    for name in words or NAMES:
        results["models"][name] = study(name, split, peer_python)
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")
    say(f"worst ratio to a reference: {min(found['ratio'] for found in results['models'].values()):.4f}")


if __name__ == "__main__":
    main()
