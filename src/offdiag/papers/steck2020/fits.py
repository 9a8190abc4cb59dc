"""One line of the table: choose settings on the validation users, fit, measure on the test users, keep the record."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from offdiag import tuning
from offdiag.errors import BudgetTooShortError, InterruptedFitWarning, OffdiagError
from offdiag.models.recommender import Recommender
from offdiag.papers.steck2020.grid import complete_fit
from offdiag.papers.steck2020.measure import measured
from offdiag.papers.steck2020.row_store import RowStore, fingerprint
from offdiag.papers.steck2020.rows import BY_KEY, EXTRAS, Row, first_settings, published_settings
from offdiag.papers.steck2020.sources import Data
from offdiag.progress import Progress

METRICS = ("recall@20", "recall@50", "ndcg@100")
JUDGE = "ndcg@100"  # the metric for choosing settings and comparing lines
PUBLISHED, TUNED, AUTOMATIC, SAMPLED = "published settings", "tuned", "automatic settings", "settings of row 3"
EPOCHS = 100  # of sampled training, fewer when there is less time
LEAST_EPOCHS = 20
TRAINING = 4.0  # times the seconds for tuning another row
STAND_IN_EPOCHS = 1  # enough for time and memory
LITTLE_DROPOUT = 0.33  # where emphasis matters most
_TRAINING: dict[str, Any] = {"batch_users": 100, "learning_rate": 0.15}


@dataclass(frozen=True)
class Plan:
    """The budget of the run, the same for every row."""

    trials: int
    seconds: float | None
    seed: int

    def checked(self, rows: list[Row]) -> Plan:
        if self.trials < 0:
            raise OffdiagError(f"expected 0 trials or more, received {self.trials}; 0 takes automatic settings")
        if self.seconds is not None and not self.seconds > 0:
            raise OffdiagError(f"expected a positive time for each row, received {self.seconds:g}; give seconds")
        if self.trials and any(row.tunable for row in rows) and find_spec("optuna") is None:
            raise OffdiagError(
                "tuning needs optuna, which is not installed; "
                f"pip install 'offdiag[{EXTRAS['optuna']}]', or take automatic settings with 0 trials"
            )
        return self

    def kind(self, row: Row) -> str:
        return TUNED if self.trials and row.tunable else AUTOMATIC


@dataclass(frozen=True, eq=False)
class Job:
    """A data set and what to do with it."""

    data: Data
    digest: str  # of the split
    rank: int
    plan: Plan
    store: RowStore


def record(job: Job, row: Row, kind: str, earlier: list[dict[str, Any]], progress: Progress | None) -> dict[str, Any]:
    """The line of ``row`` with that kind of settings: from disk if present, else computed and stored."""
    facts: dict[str, Any] = {"row": row.key, "kind": kind, "model": row.model, "fixed": _fixed(job, row)}
    if kind == TUNED:
        facts |= {"trials": job.plan.trials, "seconds": job.plan.seconds, "first": _first(job, row)}
        facts |= {"searched": tuning.bounds_of(row.model)}  # different bounds mean a different search
    elif kind == SAMPLED:
        facts |= {"settings": _row_3(earlier), "seconds": _training_seconds(job), "epochs": _most_epochs(job)}
    elif kind == PUBLISHED:
        facts |= {"settings": published_settings(row, job.data.name)}
    mark = fingerprint(data=job.digest, seed=job.plan.seed, metrics=METRICS, **facts)
    name = f"{job.data.name}-{row.key}-{kind.replace(' ', '-')}"
    found = job.store.find(name, mark)
    if found is None:
        if kind == SAMPLED:
            found = _sampled(job, facts["settings"], progress)
        elif kind == TUNED:
            found = _tuned(job, row, str(job.store.path(name, mark, "study.jsonl")), progress)
        else:
            found = _measured(job, _model(row, facts["fixed"] | facts.get("settings", {})), progress)
        found |= {"row": row.key, "label": row.label, "group": row.group, "number": row.number, "model": row.model}
        found = {"kind": kind} | found | {"emphasis": row.emphasis}
        job.store.keep(name, mark, found)
    return found


def by_rank(job: Job, records: list[dict[str, Any]], progress: Progress | None) -> list[dict[str, Any]]:
    """Rows 3 and 5 at smaller ranks. Both choose, on the validation users, among the same few settings."""
    at = {r["row"]: r["settings"] for r in records if r["kind"] in (TUNED, AUTOMATIC)}
    if job.data.stand_in or "dlae" not in at or "edlae" not in at:
        return []
    few = [{name: at[key][name] for name in ("dropout", "l2", "user_power")} for key in ("dlae", "edlae")]
    few.append(few[0] | {"dropout": LITTLE_DROPOUT})
    found: list[dict[str, Any]] = []
    for rank in sorted({max(1, job.rank // part) for part in (8, 4, 2)} - {job.rank}):
        for key in ("dlae", "edlae"):
            if progress is not None:
                progress(f"rank {rank:,}", len(found) / 6)
            facts = _fixed(job, BY_KEY[key]) | {"rank": rank}
            mark = fingerprint(data=job.digest, row=key, metrics=METRICS, fixed=facts, few=few)
            name = f"{job.data.name}-{key}-rank-{rank}"
            line = job.store.find(name, mark)
            if line is None:
                lines = [_measured(job, _model(BY_KEY[key], facts | settings), None) for settings in few]
                line = max(lines, key=lambda r: float(r["validation"])) | {"row": key, "rank": rank}
                job.store.keep(name, mark, line)
            found.append(line)
    return found


def _fixed(job: Job, row: Row) -> dict[str, Any]:
    """The settings that are not tuned: those that define the row, the rank of the table, and the seed."""
    rank = {"rank": job.rank} if row.group == "rank" else {}
    seed = {"seed": job.plan.seed} if "seed" in _model(row, {}).get_params() else {}
    return row.fixed | rank | seed


def _first(job: Job, row: Row) -> dict[str, Any] | None:
    settings, fixed = first_settings(row, job.data.name), _fixed(job, row)
    return None if settings is None else {name: value for name, value in settings.items() if name not in fixed}


def _model(row: Row, settings: dict[str, Any]) -> Recommender:
    import offdiag as od

    model: Recommender = getattr(od, row.model)(**settings)
    return model


def _tuned(job: Job, row: Row, study: str, progress: Progress | None) -> dict[str, Any]:
    import offdiag as od

    first = _first(job, row)
    job.store.folder.mkdir(parents=True, exist_ok=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InterruptedFitWarning)
            tuned = od.tune(
                getattr(od, row.model), job.data.split, JUDGE, job.plan.trials, seconds=job.plan.seconds,
                fixed=_fixed(job, row), start=() if first is None else (first,), study=study, seed=job.plan.seed,
                progress=progress,
            )  # fmt: skip
    except BudgetTooShortError:  # one fit with automatic settings is more than the budget, and all that the row gets
        found = _measured(job, _model(row, _fixed(job, row)), progress)
        return found | {"kind": AUTOMATIC, "tune_seconds": job.plan.seconds, "tune_stopped": "seconds"}
    if tuned.stopped == "interrupted":  # its study is on disk: the next run resumes it
        raise KeyboardInterrupt
    found = _measured(job, _model(row, tuned.settings), progress)
    return found | {
        "trials": len(tuned.trials),
        "tune_seconds": tuned.seconds,
        "tune_stopped": tuned.stopped,
        "tuning": tuned.to_dict(),
    }


def _measured(job: Job, model: Recommender, progress: Progress | None) -> dict[str, Any]:
    """Fit on the training users and measure, once, on the test users."""
    return _line(job, *measured(lambda: _fit(model, job.data, progress)))


def _fit(model: Recommender, data: Data, progress: Progress | None) -> Recommender:
    words: dict[str, Any] = {"progress": progress}
    if model.stops_early:
        words["validation"] = data.split.validation
    return complete_fit(model, data.split.train, **words)


def _line(job: Job, model: Recommender, seconds: float, peak: int | None) -> dict[str, Any]:
    import offdiag as od

    result = od.evaluate(model, job.data.split.test, METRICS)
    assert job.data.split.validation is not None  # ``sources`` always creates one
    chosen_by = od.evaluate(model, job.data.split.validation, [JUDGE])
    return {
        "settings": {name: _json_value(value) for name, value in model.settings_.items()},
        "mean": result.mean,
        "sem": {name: value if np.isfinite(value) else None for name, value in result.sem.items()},
        "n_users": result.n_users,
        "n_without_targets": result.n_without_targets,
        "per_user": {name: values.tolist() for name, values in result.per_user.items()},
        "validation": chosen_by.mean[JUDGE],
        "fit_seconds": seconds,
        "evaluate_seconds": result.seconds,
        "extra_peak_bytes": peak,
        "n_bytes": int(model.weights_.nbytes),
        "trials": 0,
        "tune_seconds": 0.0,
    }


def _json_value(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _row_3(earlier: list[dict[str, Any]]) -> dict[str, Any]:
    found = next((r for r in earlier if r["row"] == "dlae" and r["kind"] != PUBLISHED), None)
    if found is None:
        raise OffdiagError("expected row 3 before row 4, which takes its settings, received none; compute dlae first")
    return {name: found["settings"][name] for name in ("dropout", "l2", "user_power")}


def _training_seconds(job: Job) -> float | None:
    """For row 4, which is trained once and not tuned."""
    return None if job.plan.seconds is None else TRAINING * job.plan.seconds


def _most_epochs(job: Job) -> int:
    return STAND_IN_EPOCHS if job.data.stand_in else EPOCHS


def _sampled(job: Job, settings: dict[str, Any], progress: Progress | None) -> dict[str, Any]:
    """Row 4: no closed form, only masks and steps, at the settings of row 3."""
    import offdiag as od
    from offdiag.lab import sampled
    from offdiag.weights import LowRank

    import_module("torch")  # its memory does not count as memory of the training
    train = job.data.split.train
    words: dict[str, Any] = {**settings, **_TRAINING, "seed": job.plan.seed}
    epochs = _most_epochs(job)
    seconds_there = _training_seconds(job)
    if seconds_there is not None and not job.data.stand_in:
        few = train.matrix[: 3 * _TRAINING["batch_users"]]
        for _ in range(2):  # the first is slower than the rest
            start = time.perf_counter()
            sampled.train(few, job.rank, epochs=1, **words)
        epoch = (time.perf_counter() - start) * train.n_users / few.shape[0]
        epochs = int(min(EPOCHS, max(LEAST_EPOCHS, seconds_there / epoch)))
    found, seconds, peak = measured(lambda: sampled.train(train, job.rank, epochs=epochs, progress=progress, **words))
    model = od.LowRankDLAE(rank=job.rank, **settings)
    model.weights_ = LowRank(found.U, found.V)
    model.item_ids_ = train.item_ids
    model.popularity_ = np.asarray(train.matrix.sum(axis=0), dtype=np.float64).ravel()
    model.n_users_ = train.n_users
    model.settings_ = {"rank": job.rank, **settings, "epochs": epochs}
    return _line(job, model, seconds, peak)
