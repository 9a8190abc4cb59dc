"""Our models and those of other packages on the same users, with the same budget: ``make bench-peers``.

Each package has its own virtual environment. A model gets a number of trials, or as many as begin within its minutes of
processor time, on validation users: first the settings of the package, then the same quasi-random points for all. They
run in one process with one thread, because two threads wait for each other where other programs run. The best settings
are fitted again in a fresh process with two threads, and measured on the test users once, by our evaluator. Rows that
are done are kept, so that a stopped run continues. Writes results/peers.json, docs/comparison.md and its figures.

    python benchmarks/bench_peers.py [FOLDER WITH DATA SETS] [--work FOLDER] [--sets 'NAME; …'] [--peers 'NAME; …']
                                     [--trials 8] [--minutes 3]
    python benchmarks/bench_peers.py --time-again   # on a quiet machine: times and memory of the rows that are there

Rows that were measured while other programs ran are marked, and --time-again repeats only what is timed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import peers_page
from choosing import SHARED
from defaults import splits, strong
from measure import machine
from peers import environments, verdicts
from peers.adapter import Model, Settings
from peers.registry import ADAPTER_OF
from run import say
from scipy import sparse
from scipy.stats import qmc

import offdiag as od
from offdiag.data.split import HeldOut, Split

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "peers.json"
METRICS = ("recall@20", "recall@50", "ndcg@100")
METRIC = "ndcg@100"
QUIET = 0.1  # cores that other programs may use while a row is timed
SETS = ("ml-1m", "lastfm, items ≥ 5 users")
LIBRARIES = ("OMP", "OPENBLAS", "MKL", "NUMBA", "RAYON", "LK", "NUMEXPR")
STOPPED_AFTER = 3  # times the budget of processor time, in the middle of a trial
IMPORTS = 60  # seconds that a process may take besides


class NotMeasuredError(Exception):
    """A process ended without a result; the message is its last line."""


class Lists:
    """Lists that exist already, in the form that `od.evaluate` asks."""

    def __init__(self, items: Any) -> None:
        self.items = items

    def recommend(self, histories: Any, k: int, exclude_seen: bool = True) -> Any:
        self.indices = self.items[:, :k]
        return self


def proposals(model: Model, trials: int) -> Iterator[Settings]:
    """The package's own settings, then points of a Halton sequence, the same for every model with the same space."""
    yield model.usual | model.fixed
    points = qmc.Halton(d=max(len(model.space), 1), scramble=False).random(trials)[1:]  # the first is a corner
    for point in points:
        yield {name: range_.at(x) for (name, range_), x in zip(model.space.items(), point, strict=True)} | model.fixed


def write(path: Path, train: Any, histories: Any) -> Path:
    parts: dict[str, Any] = {}
    for name, matrix in (("train", train), ("histories", histories)):
        parts |= {f"{name}.{piece}": getattr(matrix, piece) for piece in ("data", "indices", "indptr")}
        parts[f"{name}.shape"] = np.array(matrix.shape)
    np.savez(path, **parts)
    return path


def run(name: str, python: str, job: dict[str, Any], threads: int) -> str:
    """One process to its end; the last line of its errors."""
    path = Path(job["out"]).with_suffix(".json")
    adapter = ADAPTER_OF[name].__name__.rpartition(".")[2]
    path.write_text(json.dumps({"adapter": adapter, "model": name} | job))
    command = [python, "-P", str(HERE / "peers" / "worker.py"), str(path)]
    limits = {f"{library}_NUM_THREADS": str(threads) for library in LIBRARIES} | {"POLARS_MAX_THREADS": str(threads)}
    variables = os.environ | limits
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, cwd=path.parent)
    last = without_folders((done.stderr.strip().splitlines() or ["ended without a message"])[-1])[:200]
    stopped = done.returncode in (-signal.SIGKILL, -signal.SIGXCPU)
    return f"stopped after {job['limit']:.0f} s of processor time" if stopped else last


def chosen(name: str, python: str, split: Split, folder: Path, words: argparse.Namespace) -> dict[str, Any]:
    """The best settings on the validation users, and what finding them took."""
    assert split.validation is not None
    budget, out = 60 * words.minutes, folder / f"{slug(name)}-trials"
    for old in folder.glob(f"{out.name}.*.npz"):
        old.unlink()
    tried = list(proposals(ADAPTER_OF[name].MODELS[name], words.trials))
    arrays = write(folder / "validation.npz", split.train.matrix, split.validation.histories)
    job = {"trials": tried, "arrays": str(arrays), "out": str(out), "budget": budget, "timed": False}
    job["limit"] = IMPORTS + STOPPED_AFTER * budget
    # One thread: on a machine that does other things as well, two wait for each other.
    last = run(name, python, job, 1)
    values, failures, used = [], [], 0.0
    for n in range(len(tried)):
        path = folder / f"{out.name}.{n}.npz"
        if not path.exists():
            break
        with np.load(path) as found:
            used = float(found["used"])
            if "error" in found:
                failures.append(without_folders(str(found["error"])))
            else:
                tried[n] = tried[n] | json.loads(str(found["chosen"]))  # finding settings is no part of a fit with them
                values.append((measure(found["items"], split.validation).mean[METRIC], n))
        path.unlink()
    if not values:
        raise NotMeasuredError(failures[-1] if failures else last)
    value, n = max(values, key=lambda pair: pair[0])
    facts: dict[str, Any] = {"validation": value, "trials": len(values), "tune_seconds": used, "default_won": n == 0}
    if failures:
        facts["failed_trials"] = {"number": len(failures), "last": failures[-1]}
    return {"settings": tried[n]} | facts


def slug(name: str) -> str:
    return name.replace(" ", "-").replace(",", "")


def measure(items: Any, part: HeldOut) -> od.Result:
    """Our metrics of these lists, one per user of the part; users without targets are left out."""
    wanted = np.diff(part.targets.indptr) > 0
    return od.evaluate(Lists(items[wanted]), part, METRICS, batch=len(items))


def without_folders(message: str) -> str:
    """An error of another program, without the paths of this machine."""
    return re.sub(r"(/[^\s/:'\"]+)+/", "", message)


def row(name: str, python: str, split: Split, folder: Path, words: argparse.Namespace) -> dict[str, Any]:
    """Choose settings on validation users, then fit once more and measure on test users."""
    model: Model = ADAPTER_OF[name].MODELS[name]
    choice = chosen(name, python, split, folder, words)
    out = once_more(name, python, choice["settings"], split, folder, words)
    with np.load(out) as found:
        items, facts, weights = found["items"], json.loads(str(found["facts"])), found.get("weights")
    settings = choice["settings"] | facts.pop("chosen")
    result = measure(items, split.test)
    known = {"package": model.package, "label": model.label, "new_users": model.new_users, "note": model.note}
    row: dict[str, Any] = known | choice | facts | {"settings": settings} | quiet(facts)
    row |= {"mean": result.mean, "sem": result.sem}
    if weights is not None and model.solves:
        l2, dropout = model.solves
        X = split.train.matrix if model.new_users else sparse.vstack([split.train.matrix, split.test.histories])
        row["check"] = verdicts.checked(X, weights, settings[l2], settings[dropout] if dropout else 0.0)
        np.savez(out, items=items)  # without the weights, which are large
    say(f"  {name}: {result.mean[METRIC]:.4f}, fit {facts['seconds']:.1f} s, {facts['extra_peak_bytes'] / 1e6:.0f} MB")
    return row


def once_more(
    name: str, python: str, settings: Settings, split: Split, folder: Path, words: argparse.Namespace
) -> Path:
    """A timed fit with these settings in a fresh process, and the file of its lists and facts."""
    arrays, out = write(folder / "test.npz", split.train.matrix, split.test.histories), folder / f"{slug(name)}.npz"
    out.unlink(missing_ok=True)
    limit = 2 * STOPPED_AFTER * 60 * words.minutes + 600  # ranking for 10,000 users may take longer than the fit
    job = {"trials": [settings], "arrays": str(arrays), "out": str(out), "limit": limit, "timed": True}
    last = run(name, python, job, 2)
    if not out.exists():
        raise NotMeasuredError(last)
    return out


def quiet(facts: dict[str, Any]) -> dict[str, bool]:
    return {"alone": facts["others"] <= QUIET}


def timed_again(name: str, python: str, row: dict[str, Any], split: Split, folder: Path, words: Any) -> dict[str, Any]:
    """The row with new times and memory; its settings and its accuracy are those of before."""
    known = ADAPTER_OF[name].MODELS[name]
    settings = {key: value for key, value in row["settings"].items() if key in known.space or key in known.fixed}
    with np.load(once_more(name, python, settings, split, folder, words)) as found:
        facts: dict[str, Any] = json.loads(str(found["facts"]))
    facts.pop("chosen")
    say(f"  {name}: fit {facts['seconds']:.1f} s, {facts['extra_peak_bytes'] / 1e6:.0f} MB, load {facts['others']:.1f}")
    return row | facts | quiet(facts)


def differences(rows: dict[str, Any], split: Split, folder: Path) -> None:
    """Adds paired differences: of every row to ours that was best on validation users, of ours to the best peer."""
    found = {name: row for name, row in rows.items() if "mean" in row and (folder / f"{slug(name)}.npz").exists()}
    results = {name: measure(np.load(folder / f"{slug(name)}.npz")["items"], split.test) for name in found}
    ours = {name: row for name, row in found.items() if row["package"] == "offdiag"}
    if not ours:
        return
    reference = max(ours, key=lambda name: ours[name]["validation"])
    for name, row in found.items():
        row["is_reference"] = name == reference
        if name != reference:
            test = results[name].compare(results[reference])
            row |= {"difference": test.difference[METRIC], "difference_sem": test.sem[METRIC]}
    theirs = found.keys() - ours.keys()
    if theirs:
        best = max(theirs, key=lambda name: found[name]["mean"][METRIC])
        for name, row in ours.items():
            test = results[name].compare(results[best])
            row["minus_best_peer"] = {"peer": best, "difference": test.difference[METRIC], "sem": test.sem[METRIC]}


def sets(folder: Path) -> dict[str, Callable[[], Split]]:
    """The data sets by name; the last is too large for most exact models."""

    def gowalla() -> Split:
        parts = [folder / "gowalla-lightgcn" / f"{part}.txt" for part in ("train", "valid", "test")]
        return strong(od.read(parts, format="adjacency"))

    return splits(folder) | {"gowalla": gowalla}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=SHARED)
    parser.add_argument(
        "--work", type=lambda text: Path(text).resolve(), default=HERE.parent / ".peers", help="environments and lists"
    )
    parser.add_argument("--sets", type=lambda text: text.split("; "), default=list(SETS), help="separated by '; '")
    parser.add_argument("--peers", type=lambda text: text.split("; "), default=list(ADAPTER_OF))
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=3.0, help="of processor time per model and set")
    parser.add_argument("--again", action="store_true", help="run rows that are there already")
    parser.add_argument("--time-again", action="store_true", help="repeat the times of rows that are there, only")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def main() -> None:
    words = parse()
    results: dict[str, Any] = json.loads(words.out.read_text()) if words.out.exists() else {"data": {}}
    results["metric"] = METRIC
    results.setdefault("environments", {})
    for data in words.sets:
        say(f"{data}:")
        split, folder = sets(words.folder)[data](), words.work / slug(data)
        folder.mkdir(parents=True, exist_ok=True)
        part = results["data"].setdefault(data, {"rows": {}})
        budget = {"trials": words.trials, "minutes": words.minutes}
        part |= {
            "budget": part["budget"] if words.time_again else budget,
            "users": split.train.n_users, "items": split.train.n_items, "interactions": split.train.nnz,
            "test_users": int(np.count_nonzero(np.diff(split.test.targets.indptr))),
        }  # fmt: skip
        for name in words.peers:
            there = part["rows"].get(name, {})
            if ("mean" not in there) if words.time_again else (there and not words.again):
                continue
            package = ADAPTER_OF[name].MODELS[name].package
            python, results["environments"][package] = environments.python(package, words.work)
            try:
                if python is None:
                    raise NotMeasuredError(f"could not be installed: {results['environments'][package]['reason']}")
                if words.time_again:
                    part["rows"][name] = timed_again(name, python, there, split, folder, words)
                else:
                    part["rows"][name] = row(name, python, split, folder, words)
            except NotMeasuredError as failure:
                say(f"  {name}: {failure}")
                part["rows"][name] = there or {"package": package, "failed": str(failure)}
            if not words.time_again:
                differences(part["rows"], split, folder)
            results["machine"] = machine()
            words.out.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")
    if words.out == RESULTS:
        peers_page.renew()


if __name__ == "__main__":
    main()
