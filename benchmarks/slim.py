"""SLIM and item-kNN on ml-1m compared with irspack: time at the same distance from the optimum, and accuracy.

irspack minimises ½‖X − XB‖² + U·α(1 − ρ)/2·‖B‖² + U·α·ρ·Σ|B| over U users (alpha = α, l1_ratio = ρ), so ours is the
same with l1 = U·α·ρ, l2 = U·α·(1 − ρ), user_power = 0. It stops when no weight moves by more than its ``tol``; one
function, independent of both programs, measures where that is: the objective, and a duality gap. Ours then runs at the
loosest tolerance that ends no farther from the optimum by either measure. Fresh processes, alternately; medians count.
Writes results/slim.json.

    python benchmarks/slim.py [FOLDER WITH DATA SETS]        # time, a few minutes
    python benchmarks/slim.py knn [FOLDER WITH DATA SETS]    # accuracy of nearest neighbours at the same settings
"""

from __future__ import annotations

import copy
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from choosing import SHARED
from defaults import METRIC, splits
from measure import machine, measured
from numpy.typing import NDArray
from run import say
from scipy import sparse

import offdiag as od
from offdiag.data.split import Split
from offdiag.weights import Sparse

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "slim.json"
SETTINGS = ((0.05, 0.01), (0.06, 0.005), (0.01, 0.1))  # alpha, l1_ratio: irspack's, more accurate, sparser
TOLERANCES = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6, 3e-7, 1e-7, 1e-8)
REPEATS = 3
NEIGHBOURS = 100


def penalties(users: int, alpha: float, ratio: float) -> tuple[float, float]:
    """Our l1 and l2."""
    return users * alpha * ratio, users * alpha * (1 - ratio)


def certified(G: NDArray[np.float64], B: Any, l1: float, l2: float) -> tuple[float, float]:
    """(objective, duality gap) of all columns of a B ≥ 0 together, in float64, by dense algebra.

    With residual R = X − XB and Z = XᵀR off the diagonal, R itself is a dual point: l2 in the penalty makes the
    conjugate finite everywhere, so the gap is Σ l1·B + l2/2·B² + max(Z − l1, 0)²/(2·l2) − Z·B.
    """
    B = np.asarray(B.toarray(), dtype=np.float64)
    np.fill_diagonal(B, 0)
    assert (B >= 0).all()
    Z = G - G @ B
    fit = float(np.trace(G)) - float((B * G).sum()) - float((B * Z).sum())
    np.fill_diagonal(Z, 0)
    penalty = l1 * float(B.sum()) + 0.5 * l2 * float((B * B).sum())
    gap = penalty + float((np.maximum(Z - l1, 0) ** 2).sum()) / (2 * l2) - float((Z * B).sum())
    return 0.5 * fit + penalty, gap


def task(program: str, folder: str, out: str, alpha: str, ratio: str, tolerance: str) -> dict[str, float]:
    """One measured fit in this process, after a small one that compiles; B is written to the file ``out``."""
    X = splits(Path(folder))["ml-1m"]().train.matrix
    l1, l2 = penalties(X.shape[0], float(alpha), float(ratio))
    if program == "ours":
        model = od.SLIM(l1=l1, l2=l2, user_power=0.0, tolerance=float(tolerance))
        copy.copy(model).fit(X[:50, :40])
        fitted, cost = measured(lambda: model.fit(X))
        B = fitted.weights_.tocsr()
    else:
        from irspack import SLIMRecommender

        data = sparse.csr_matrix(X, dtype=np.float64)
        SLIMRecommender(data[:50, :40], n_threads=2).learn()
        peer = SLIMRecommender(data, alpha=float(alpha), l1_ratio=float(ratio), n_threads=2)
        fitted, cost = measured(lambda: peer.learn())
        B = sparse.csr_array(fitted.W)
    sparse.save_npz(out, B)
    return cost | {"weights": B.nnz}


def run(program: str, folder: Path, out: Path, alpha: float, ratio: float, tolerance: float = 0.0) -> dict[str, Any]:
    words = [program, folder, out, alpha, ratio, tolerance]
    ran = subprocess.run([sys.executable, __file__, "--task", *map(str, words)], check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found | {"B": sparse.load_npz(out)}


def ndcg(split: Split, B: Any) -> dict[str, float]:
    assert split.validation is not None
    model: Any = copy.copy(od.Popularity().fit(split.train))
    model.weights_ = Sparse.of(sparse.csr_array(B).astype(np.float32))
    found = od.evaluate(model, split.validation, metrics=[METRIC])
    return {METRIC: found.mean[METRIC], "sem": found.sem[METRIC]}


def compare(split: Split, folder: Path, alpha: float, ratio: float, scratch: Path) -> dict[str, Any]:
    l1, l2 = penalties(split.train.n_users, alpha, ratio)
    G = od.gram(split.train, dtype="float64").toarray().astype(np.float64)
    exact = od.SLIM(l1=l1, l2=l2, user_power=0.0, tolerance=1e-9, dtype="float64").fit(split.train)
    least = exact.objective_ - exact.total_gap_  # no B is below this

    def place(B: Any) -> dict[str, float]:
        """How far above the minimum, as a share of it: truly (up to 1e-9), and as certified from B alone."""
        value, gap = certified(G, B, l1, l2)
        return {"excess": value / least - 1, "certified": gap / value}

    out = scratch / "B.npz"
    theirs = [run("irspack", folder, out, alpha, ratio)]
    goal = place(theirs[0]["B"])
    for tolerance in TOLERANCES:
        reached = place(run("ours", folder, out, alpha, ratio, tolerance)["B"])
        if reached["excess"] <= goal["excess"] and reached["certified"] <= goal["certified"]:
            break
    say(f"  irspack ends at {goal}; ours with tolerance {tolerance:g} at {reached}")
    ours = []
    for repeat in range(REPEATS):
        ours.append(run("ours", folder, out, alpha, ratio, tolerance))
        if repeat:
            theirs.append(run("irspack", folder, out, alpha, ratio))
    report: dict[str, Any] = {"alpha": alpha, "l1_ratio": ratio, "l1": l1, "l2": l2, "tolerance": tolerance}
    for name, runs, where in (("ours", ours, reached), ("irspack", theirs, goal)):
        medians = {key: statistics.median(r[key] for r in runs) for key in ("seconds", "extra_peak_bytes", "weights")}
        report[name] = medians | where | ndcg(split, runs[-1]["B"])
    report["time_ratio"] = report["ours"]["seconds"] / report["irspack"]["seconds"]
    accuracy = ", ".join(f"{report[name][METRIC]:.4f}" for name in ("ours", "irspack"))
    say(f"  → time ratio {report['time_ratio']:.3f}; {METRIC} {accuracy}")
    return report


def neighbours(split: Split) -> list[dict[str, Any]]:
    """Accuracy at the same settings; irspack keeps the nearest of each row, ours of each column."""
    from irspack import AsymmetricCosineKNNRecommender, CosineKNNRecommender

    data = sparse.csr_matrix(split.train.matrix, dtype=np.float64)
    given: dict[str, Any] = {"top_k": NEIGHBOURS, "n_threads": 2}

    def cosine(**more: Any) -> Any:
        return CosineKNNRecommender(data, normalize=True, **given, **more)

    def mine(**more: Any) -> od.ItemKNN:
        return od.ItemKNN(neighbours=NEIGHBOURS, **more)

    flat = {"balance": 0.5, "user_power": 0.0}
    rows: dict[str, tuple[Any, od.ItemKNN]] = {
        "cosine": (cosine(), mine(**flat)),
        "cosine, shrinkage 20": (cosine(shrinkage=20.0), mine(**flat, shrink=20.0)),
        "TF-IDF, cosine": (cosine(feature_weighting="TF_IDF"), mine(**flat)),  # a weight per item cancels in a cosine
        "BM25, cosine": (cosine(feature_weighting="BM_25"), mine(balance=0.5)),  # ours: users weighted by 1/n_u
        "asymmetric cosine, α = 0.7": (AsymmetricCosineKNNRecommender(data, alpha=0.7, **given), mine(user_power=0.0)),
        "BM25, asymmetric cosine": (
            AsymmetricCosineKNNRecommender(data, alpha=0.7, feature_weighting="BM_25", **given), mine(),
        ),
    }  # fmt: skip
    report = []
    for name, (peer, model) in rows.items():
        ours, theirs = ndcg(split, model.fit(split.train).weights_.toarray()), ndcg(split, peer.learn().W)
        report.append({"settings": name, "ours": ours, "irspack": theirs, "ratio": ours[METRIC] / theirs[METRIC]})
        say(f"  {name}: {ours[METRIC]:.4f}, irspack {theirs[METRIC]:.4f} ± {theirs['sem']:.4f}")
    return report


def main() -> None:
    words = sys.argv[1:]
    if words[:1] == ["--task"]:
        sys.stdout.write(json.dumps(task(*words[1:])) + "\n")
        return
    knn = words[:1] == ["knn"]
    folder = Path(words[knn]) if len(words) > knn else SHARED
    if not folder.is_dir():
        raise SystemExit(f"no data sets at {folder}: pass the folder that holds them")
    split = splits(folder)["ml-1m"]()
    report: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    report |= {"data": "ml-1m, strong generalisation; nDCG on the validation users", "machine": machine()}
    if knn:
        report["neighbours"] = neighbours(split)
        write(report)
        return
    report["slim"] = []
    with tempfile.TemporaryDirectory() as scratch:
        for alpha, ratio in SETTINGS:
            say(f"alpha={alpha:g}, l1_ratio={ratio:g}:")
            report["slim"].append(compare(split, folder, alpha, ratio, Path(scratch)))
            write(report)


def write(report: dict[str, Any]) -> None:
    RESULTS.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
