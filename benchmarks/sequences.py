"""Models that know order, EASE and popularity on the same splits: what comes next, all items ranked.

Nothing is chosen on test users. "tuned" rows try settings around the defaults on validation users, each row the same
number (--trials), the others use the defaults of each model. All learn from train alone, as in the published protocol
(SASRec needs the validation users for early stopping), except the rows "… and validation", which show what the newest
events add.
Rows that results/sequences.json already holds are skipped, so that a stopped run continues; --again repeats them. Two
runs at once write two files of --results, and --merge brings their rows together.

    python benchmarks/sequences.py FOLDER [--sets seq-toys seq-lastfm] [--models NextItem MarkovChain] [--again]
    python benchmarks/sequences.py FOLDER --models SASRec --seconds 7200 --results nets.json
    python benchmarks/sequences.py FOLDER --merge nets.json

FOLDER holds seq-toys, seq-lastfm, yoochoose-sessions, movietweetings-100k and ml-1m. SASRec takes long on seq-toys and
ml-1m; its checkpoint is in --checkpoints, so it continues, too.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sequence_sets
from measure import machine, measured
from numpy.typing import NDArray
from run import say
from sequence_sets import SETS, Task
from sequence_trials import Search, Trials, plus, times

import offdiag as od
from offdiag.evaluation import Result, paired_t_test
from offdiag.files import checkpoints

RESULTS = Path(__file__).parent / "results" / "sequences.json"
METRICS = ["hit@5", "ndcg@5", "hit@10", "ndcg@10", "hit@20", "mrr@20"]
CHOSEN_BY = "ndcg@10"  # on validation users; also decides which row is first
PUBLISHED = {"seq-toys": {"SASRec": {"hit@5": 0.0463, "ndcg@5": 0.0306}, "S3-Rec": {"hit@5": 0.0443, "ndcg@5": 0.0294}}}
LARGE, NEIGHBOURS = 5_000, 300  # catalogues of more items are tuned with sparse columns
DIGITS = "-123456789abcdefghijk"  # rank of the target, - if it is below 20


class OutOfTimeError(Exception):
    """Raised between two epochs."""


def timed(call: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Like ``measured``, with the processor time of all threads, which other programs hardly change."""
    start = time.process_time()
    result, cost = measured(call)
    return result, cost | {"processor": time.process_time() - start}


class Recent:
    """A fitted model that reads histories with another decay than its own."""

    knows_order = True

    def __init__(self, model: Any, decay: float) -> None:
        self.model, self.decay = model, decay
        self.item_ids_ = model.item_ids_

    @property
    def settings_(self) -> dict[str, Any]:
        return {**self.model.settings_, "history_decay": self.decay}

    def recommend(self, histories: Any, *, k: int, exclude_seen: bool) -> Any:
        return self.model.recommend(histories, k, exclude_seen=exclude_seen, history_decay=self.decay)


ORDER = {
    "mix": plus(-0.1, 0.1), "l2": times(0.5, 2.0), "dropout": plus(-0.2, 0.2), "decay": plus(-0.1, 0.1, low=0.1),
}  # fmt: skip
MODELS: dict[str, Any] = {
    "Popularity": od.Popularity,
    "EASE": od.EASE,
    "EASE, recent first, tuned": Search(od.EASE, {"l2": times(0.5, 2.0)}, decays=True),
    "MarkovChain": od.MarkovChain,
    "MarkovChain, tuned": Search(od.MarkovChain, {"smoothing": times(0.5, 2.0)}),
    "SessionKNN": od.SessionKNN,
    "SessionKNN, tuned": Search(od.SessionKNN, {"neighbours": times(0.5, 2.0), "sample": times(0.5, 2.0)}),
    "NextItem": od.NextItem,
    f"NextItem, {NEIGHBOURS} neighbours": od.NextItem,
    "NextItem, tuned": Search(od.NextItem, ORDER, decays=True),
    "NextItem, tuned, on train and validation": "NextItem, tuned",
    "SASRec": od.SASRec,
    "SASRec, dropout 0.2": od.SASRec,
    "SASRec, patience 100": od.SASRec,
    "SASRec, full loss": od.SASRec,
}
ONLY = {  # rows for some sets
    "SASRec, dropout 0.2": ("ml-1m",),  # as in the paper, which drops 0.5 elsewhere
    "SASRec, patience 100": ("movietweetings-100k",),  # there popularity, learned first, is not beaten within 20 epochs
}


class Epochs:
    """Seconds and processor seconds of every epoch, in a file next to the checkpoint, so that a run can be resumed."""

    def __init__(self, checkpoint: Path) -> None:
        self.path = checkpoint.with_suffix(".times.json")
        done = checkpoints.read(checkpoint)[0]["epoch"] if checkpoint.exists() else 0
        known = json.loads(self.path.read_text()) if self.path.exists() else []
        self.each: list[tuple[float, float]] = known[:done]  # epochs after the last checkpoint are run again
        self.whole = len(self.each) == done
        self.begun = self.last = time.perf_counter(), time.process_time()

    def add(self) -> None:
        now = time.perf_counter(), time.process_time()
        self.each.append((now[0] - self.last[0], now[1] - self.last[1]))
        self.last = now
        self.path.write_text(json.dumps(self.each))

    def elapsed(self) -> float:
        return time.perf_counter() - self.begun[0]

    def cost(self, epochs: int, best: int) -> dict[str, float]:
        seconds, processor = zip(*self.each[:epochs], strict=True)
        return {"seconds": sum(seconds), "processor": sum(processor), "processor_to_best": sum(processor[:best])}


class Bench:
    """One data set: its rows are measured here."""

    def __init__(self, name: str, given: argparse.Namespace, rows: dict[str, Any]) -> None:
        self.name, self.rows = name, rows
        self.checkpoints, self.trials, self.seconds = given.checkpoints, given.trials, given.seconds
        self.task: Task = SETS[name]
        self.data = self.task.read(given.folder / self.task.folder)
        self.split = self.data.split
        self.about = machine()

    def row(self, name: str) -> dict[str, Any]:
        what = MODELS[name]
        if isinstance(what, str):
            return self.refit(what)
        if isinstance(what, Search):
            return self.tuned(what)
        model = what(**self.given(name, what))
        if model.stops_early:
            return self.trained(name, model)
        fitted, cost = timed(lambda: model.fit(self.data.learned))
        if what is od.NextItem:  # without the search for its settings
            cost["processor_given"] = timed(lambda: what(**fitted.settings_).fit(self.data.learned))[1]["processor"]
        return self.document(fitted, cost, {})

    def trained(self, name: str, model: Any) -> dict[str, Any]:
        """A net, until early stopping or --seconds end its training."""
        kept = self.checkpoints / f"{self.name}-{name}.ckpt".replace(", ", "-").replace(" ", "-")
        words = {"validation": self.data.watched, "checkpoint": kept}
        times = Epochs(kept)
        whole = times.whole  # or else the times are not those of the whole training

        def watch(stage: str, done: float) -> None:
            times.add()
            if times.elapsed() > self.seconds and done < 1:
                raise OutOfTimeError

        stopped = {}
        try:
            fitted, cost = timed(lambda: model.fit(self.data.learned, progress=watch, **words))
        except OutOfTimeError:
            model.epochs, stopped = checkpoints.read(kept)[0]["epoch"], {"stopped": True}
            fitted, cost = timed(lambda: model.fit(self.data.learned, **words))  # the best of the epochs so far
        cost |= times.cost(fitted.epochs_, fitted.best_epoch_) if whole else {"resumed": True}
        return self.document(fitted, cost, {"epochs": fitted.epochs_, "best_epoch": fitted.best_epoch_, **stopped})

    def given(self, name: str, cls: type) -> dict[str, Any]:
        """Settings that the task or the row asks for."""
        asked: dict[str, Any] = {"loss": "full"} if "full loss" in name else {}
        asked |= {"neighbours": NEIGHBOURS} if "neighbours" in name else {}
        asked |= {"dropout": 0.2} if "dropout 0.2" in name else {}
        asked |= {"patience": 100} if "patience 100" in name else {}
        return asked | ({"repeats": True} if cls is od.NextItem and not self.task.exclude_seen else {})

    def tuned(self, what: Search) -> dict[str, Any]:
        start, begin = time.perf_counter(), time.process_time()
        fixed = self.given("", what.cls)
        large = self.split.train.n_items > LARGE
        if what.cls is od.NextItem and large:
            fixed["neighbours"] = NEIGHBOURS
        first = what.cls(**fixed).fit(self.split.train).settings_
        trials = Trials(self.trials, first.get("history_decay", 0.7) if what.decays else None)

        def fit(settings: dict[str, Any]) -> Any:
            if what.cls is od.EASE and large:  # the same on fewer columns
                same = {"dropout": 0.0, "user_power": first["user_power"], "neighbours": NEIGHBOURS}
                sparse = od.SparseEDLAE(**settings, **same)
                return sparse.fit(self.split.train)
            whole = {"history_decay": 1.0} if what.cls is od.NextItem else {}  # chosen apart; nothing is left to choose
            return what.cls(**settings, **fixed, **whole).fit(self.split.train)

        def measure(fitted: Any, decay: float | None) -> NDArray[np.float64]:
            model = fitted if decay is None else Recent(fitted, decay)
            return self.measure(model, self.split.validation, [CHOSEN_BY]).per_user[CHOSEN_BY]

        best, decay, value = trials.search(
            {name: first[name] for name in what.steps}, what.steps, fit, measure,
            lambda *found: say(f"  {self.name}: {found}"),
        )  # fmt: skip
        spent = {"seconds": time.perf_counter() - start, "processor": time.process_time() - begin}
        gained = dict(zip(("gain", "gain_sem"), trials.gain, strict=True))  # of the best trial, chosen or not
        own = {} if decay is None or what.cls is not od.NextItem else {"history_decay": decay}
        model, cost = timed(lambda: what.cls(**best, **fixed, **own).fit(self.data.learned))
        fitted = model if decay is None or own else Recent(model, decay)
        return self.document(
            fitted, cost, {"validation": {"trials": len(trials.found), **spent, CHOSEN_BY: value} | gained}
        )

    def refit(self, tuned: str) -> dict[str, Any]:
        """The settings of another row, learned from all that the histories of test hold."""
        settings = self.rows[tuned]["settings"]
        fitted, cost = timed(lambda: od.NextItem(**settings).fit(self.split.test.ordered))
        return self.document(fitted, cost, {})

    def measure(self, model: Any, part: Any, metrics: list[str]) -> Result:
        return od.evaluate(model, part, metrics, exclude_seen=self.task.exclude_seen)

    def document(self, fitted: Any, cost: dict[str, float], extra: dict[str, Any]) -> dict[str, Any]:
        result = self.measure(fitted, self.split.test, METRICS)
        ranks = "".join(DIGITS[round(1 / r) if r else 0] for r in result.per_user["mrr@20"].tolist())
        return {
            "settings": fitted.settings_, **extra, "fit": cost, **result.to_dict(), "machine": self.about,
            "ranks": ranks,
        }  # fmt: skip


def ndcg_of(ranks: str, k: int = 10) -> NDArray[np.float64]:
    """nDCG@k of each user, who has one target, from its rank."""
    place = np.array([DIGITS.index(digit) for digit in ranks])
    return np.where((place > 0) & (place <= k), 1 / np.log2(np.maximum(place, 1) + 1), 0.0)


def compare(rows: dict[str, Any]) -> None:
    """Each row minus the best one, paired over the users; rows that learned from validation are not compared."""
    compared = {name: ndcg_of(row["ranks"]) for name, row in rows.items() if not isinstance(MODELS[name], str)}
    if not compared:
        return
    first = max(compared, key=lambda name: float(compared[name].mean()))
    for name, values in compared.items():
        difference, sem, _, _ = paired_t_test(values - compared[first])
        rows[name]["minus first"] = {"first": first, CHOSEN_BY: difference, "sem": sem}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    asked.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    asked.add_argument("--trials", type=int, default=16, help="fits of a tuned row, besides the last")
    asked.add_argument("--checkpoints", type=Path, default=Path())
    asked.add_argument("--seconds", type=float, default=np.inf, help="most for the training of a net")
    asked.add_argument("--results", type=Path, default=RESULTS)
    asked.add_argument("--merge", type=Path, help="take the rows of --models and --sets from another file of results")
    asked.add_argument("--again", action="store_true")
    given = asked.parse_args()
    start: dict[str, Any] = {"published": PUBLISHED, "sets": {}}
    whole = json.loads(given.results.read_text()) if given.results.exists() else start
    other = json.loads(given.merge.read_text())["sets"] if given.merge else {}
    for data in given.sets:
        about = whole["sets"].get(data, {"rows": {}})
        if given.merge:
            wanted = [name for name in given.models if name in other.get(data, {}).get("rows", {})]
        else:
            wanted = [name for name in given.models if given.again or name not in about["rows"]]
            wanted = [name for name in wanted if data in ONLY.get(name, SETS)]
        if not wanted:
            continue
        whole["sets"][data] = about
        bench = None if given.merge else Bench(data, given, about["rows"])
        for name in wanted:
            if bench is None:
                row, about["data"] = other[data]["rows"][name], other[data]["data"]
            elif isinstance(MODELS[name], str) and bench.data.watched is None:
                continue  # its rows learn from all earlier sessions as it is
            else:
                row, about["data"] = bench.row(name), sequence_sets.facts(bench.data)
            about["rows"][name] = row
            compare(about["rows"])
            rows = {key: about["rows"][key] for key in MODELS if key in about["rows"]}
            about["rows"].clear()
            about["rows"].update(rows)
            whole["sets"] = {key: whole["sets"][key] for key in SETS if key in whole["sets"]}
            given.results.write_text(json.dumps(whole, indent=1) + "\n")  # after every row: a kill loses one
            say(f"{data:<20} {name:<30} {row['mean']}")


if __name__ == "__main__":
    main()
