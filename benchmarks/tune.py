"""od.tune against irspack's tuner, and on a published split: time and accuracy on test users, in one run.

Strong generalisation on MovieLens-1M: both tuners get 40 trials on the same validation users; the settings each finds
are then fitted on the same training users and measured once on the same test users. The tuners run alternately in
fresh processes. On the UltraGCN split, validation is taken from train. Writes results/tune.json.

    python benchmarks/tune.py [FOLDER WITH DATA SETS] [irspack] [ultragcn] [ties]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from choosing import data_folder
from defaults import splits
from measure import machine
from run import say
from scipy import sparse

import offdiag as od
from offdiag.tuning.trials import chosen, top

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "tune.json"
TRIALS = 40
REPEATS = 2
METRIC = "ndcg@100"


def tune_offdiag(folder: Path, seed: int) -> dict[str, Any]:
    split = splits(folder)["ml-1m"]()
    od.tune(od.EDLAE, od.split.strong(od.synthetic.interactions(300, 60, 5000)), trials=6)  # compile first
    start = time.perf_counter()
    found = od.tune(od.EDLAE, split, metric=METRIC, trials=TRIALS, seed=seed)
    return {"seconds": time.perf_counter() - start, "settings": found.settings, "validation": found.value}


def tune_irspack(folder: Path, seed: int) -> dict[str, Any]:
    from irspack import EDLAERecommender, EvaluatorWithColdUser

    split = splits(folder)["ml-1m"]()
    X, held_out = sparse.csr_matrix(split.train.matrix), split.validation
    assert held_out is not None
    evaluator = EvaluatorWithColdUser(
        sparse.csr_matrix(held_out.histories), sparse.csr_matrix(held_out.targets), cutoff=100, target_metric="ndcg"
    )
    EDLAERecommender(X[:50, :40], reg=300.0, dropout_p=0.33).learn()
    start = time.perf_counter()
    best, _ = EDLAERecommender.tune(X, evaluator, n_trials=TRIALS, tuning_random_seed=seed)
    seconds = time.perf_counter() - start
    settings = {"dropout": best["dropout_p"], "l2": best["reg"], "user_power": 0.0}
    return {"seconds": seconds, "settings": settings, "validation": None}


def compare(folder: Path) -> dict[str, Any]:
    """Both tuners, alternately; each model is measured on the test users by the same function."""
    split = splits(folder)["ml-1m"]()
    runs: dict[str, list[dict[str, Any]]] = {"offdiag": [], "irspack": []}
    results: dict[str, list[od.Result]] = {"offdiag": [], "irspack": []}
    for seed in range(REPEATS):
        for name in runs:
            command = [sys.executable, __file__, str(folder), f"--run={name}", str(seed)]
            out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            found = json.loads(out.splitlines()[-1])
            result = od.evaluate(od.EDLAE(**found["settings"]).fit(split.train), split.test, [METRIC, "recall@20"])
            runs[name].append(found | {"test": result.to_dict()})
            results[name].append(result)
            say(f"  {name}, seed {seed}: {found['seconds']:.1f} s, test {METRIC} {result.mean[METRIC]:.4f}")
    medians = {name: statistics.median(run["seconds"] for run in found) for name, found in runs.items()}
    ratio = medians["offdiag"] / medians["irspack"]
    tests = [ours.compare(theirs).to_dict() for ours, theirs in zip(*results.values(), strict=True)]
    say(f"  → time ratio {ratio:.3f}; paired differences {[test['difference'][METRIC] for test in tests]}")
    return {"trials": TRIALS, "seconds": medians, "ratio": ratio, "runs": runs, "ours_minus_theirs": tests}


def ultragcn(folder: Path) -> dict[str, Any]:
    """Tuned on a part of train, fitted on all of it, measured once on the published test part."""
    parts = [od.read(folder / "ml-1m-ultragcn" / f"{part}.txt", format="adjacency") for part in ("train", "test")]
    split = od.split.given(*parts)
    found = od.tune(od.EDLAE, od.split.carve(split), metric="ndcg@20", trials=TRIALS)
    result = od.evaluate(found.model.fit(split.train), split.test, ["recall_all@20", "ndcg@20"])
    say(f"  {found.settings} in {found.seconds:.0f} s\n{result}")
    return {"settings": found.settings, "seconds": found.seconds, "test": result.to_dict(), "trials": TRIALS}


def ties(folder: Path) -> dict[str, Any]:
    """Few validation users: the trial with the largest value against the one its left-out error picks among ties."""
    found = []
    for seed in range(8):
        inter = od.prepare.binarize(od.datasets.load("ml-100k", folder / "ml-100k"), at_least=4)
        split = od.split.strong(inter, held_out=0.1, seed=seed)
        trials = od.tune(od.EDLAE, split, metric=METRIC, trials=TRIALS, fixed={"propensity_power": 0.0}).trials
        fits = [od.EDLAE(**trial.settings).fit(split.train) for trial in (top(trials), chosen(trials), trials[0])]
        found.append([od.evaluate(fit, split.test, [METRIC]).mean[METRIC] for fit in fits])
        say(f"  seed {seed}: largest {found[-1][0]:.4f}, picked {found[-1][1]:.4f}, automatic {found[-1][2]:.4f}")
    table = np.array(found)
    gain = table[:, 1] - table[:, 0]
    return {
        "splits": len(table),
        "mean": dict(zip(("largest", "picked", "automatic"), table.mean(axis=0).tolist(), strict=True)),
        "gain": {"mean": float(gain.mean()), "sem": float(gain.std(ddof=1) / len(gain) ** 0.5)},
    }


def main() -> None:
    words = sys.argv[1:]
    folder = data_folder(words)
    if words and words[0].startswith("--run="):
        task = {"offdiag": tune_offdiag, "irspack": tune_irspack}[words[0].removeprefix("--run=")]
        sys.stdout.write(json.dumps(task(folder, int(words[1]))) + "\n")
        return
    tasks = {"irspack": compare, "ultragcn": ultragcn, "ties": ties}
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in words or tasks:
        say(f"{name}:")
        results |= {name: tasks[name](folder), "machine": machine()}
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
