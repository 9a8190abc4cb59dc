"""Table 1 of [Steck20] on any data: settings by validation, one measurement on test, finished rows stored on disk."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from offdiag.errors import OffdiagError
from offdiag.papers.claims import Claim
from offdiag.papers.steck2020 import fits, sources, table1_claims
from offdiag.papers.steck2020.fits import Job, Plan
from offdiag.papers.steck2020.row_store import RowStore, digest
from offdiag.papers.steck2020.rows import BY_KEY, Row, chosen, missing, published_figures, published_settings
from offdiag.progress import Progress

TRIALS = 20
LADDER = 36.0  # the cost of the smaller ranks, in the unit of ``Row.cost``


@dataclass(frozen=True, eq=False)
class Part:
    """The table of one data set: a record per line (see ``fits``), lines that were left out, and the claims."""

    data: sources.Data
    rank: int
    records: list[dict[str, Any]]
    left_out: dict[str, str]  # row → why
    claims: list[Claim]
    by_rank: list[dict[str, Any]]
    seconds: float


@dataclass(frozen=True, eq=False)
class Table1:
    """The whole table."""

    parts: list[Part]
    plan: Plan
    seconds: float


def run(
    given: Sequence[sources.Source],
    *,
    folder: Path,
    rank: int | None = None,
    trials: int = TRIALS,
    seconds: float | None = None,
    rows: Sequence[str] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Table1:
    """Load each data set, tune and measure each row. ``trials=0`` uses the automatic settings instead of tuning.

    ``seconds`` bounds the tuning of a row. Finished rows are stored in ``folder``/rows: after Ctrl-C, or with more
    rows, the same call resumes from there.
    """
    start = time.perf_counter()
    some = chosen(rows)
    plan = Plan(trials=trials, seconds=seconds, seed=seed).checked(some)
    parts = [
        _part(source, some, rank, plan, RowStore(folder / "rows"), _share(progress, n, len(given)))
        for n, source in enumerate(given)
    ]
    return Table1(parts, plan, time.perf_counter() - start)


def _share(progress: Progress | None, n: int, of: int) -> Progress | None:
    if progress is None:
        return None
    return lambda stage, fraction: progress(stage, (n + fraction) / of)


def _part(
    source: sources.Source, some: list[Row], rank: int | None, plan: Plan, store: RowStore, progress: Progress | None
) -> Part:
    start = time.perf_counter()
    if progress is not None:
        progress(f"table 1 · {source.name}: reading", 0.0)
    data = sources.load(source, plan.seed)
    rank = sources.choose_rank(data.name, data.split.train.n_items, rank)
    job = Job(data, digest(data.split), rank, plan, store)
    steps = _steps(some, data.name, plan)
    several = not data.stand_in and {"dlae", "edlae"} <= {row.key for row in some}  # smaller ranks are measured as well
    total = sum(weight for *_, weight in steps) + (LADDER if several else 0.0)
    records: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}
    done = 0.0
    for row, kind, weight in steps:
        inner = _inner(progress, f"table 1 · {data.name}: {row.label}", done / total, weight / total)
        why = missing(row)
        if why is None:
            try:
                records.append(fits.record(job, row, kind, records, inner))
            except OffdiagError as error:  # one row that fails does not stop the others
                why = str(error)
        if why is not None:
            left_out[row.key] = why
        done += weight
    if not records:
        raise OffdiagError(f"expected one row or more to be computed, received none: {next(iter(left_out.values()))}")
    inner = _inner(progress, f"table 1 · {data.name}: smaller ranks", done / total, 1 - done / total)
    ladder = fits.by_rank(job, records, inner)
    best = reference(records)
    for record in records:
        record["published"] = published_figures(BY_KEY[record["row"]], data.name)
        record |= difference(record, best)
    found = [] if data.stand_in else table1_claims.judged(records, ladder)
    return Part(data, rank, records, left_out, found, ladder, time.perf_counter() - start)


def _steps(some: list[Row], data: str, plan: Plan) -> list[tuple[Row, str, float]]:
    """(row, kind, share of the work): published settings first where there are any, then those found here."""
    steps = []
    for row in some:
        if row.key == "sampled":
            steps.append((row, fits.SAMPLED, row.cost))
            continue
        if published_settings(row, data) is not None:
            steps.append((row, fits.PUBLISHED, row.cost))
        kind = plan.kind(row)
        steps.append((row, kind, row.cost * (1 + (plan.trials if kind == fits.TUNED else 0))))
    return steps


def _inner(progress: Progress | None, label: str, low: float, width: float) -> Progress | None:
    """Progress of one row as a part of the whole: the bar continues, and the time left is that of the whole run."""
    if progress is None:
        return None
    progress(label, low)
    return lambda stage, fraction: progress(f"{label} · {stage}", low + width * min(max(fraction, 0.0), 1.0))


def reference(records: list[dict[str, Any]]) -> dict[str, Any]:
    """The line of the EDLAE family that is best on the validation users; without one, the best of all lines."""
    family = [r for r in records if r["emphasis"] and r["kind"] != fits.PUBLISHED] or records
    return max(family, key=lambda r: float(r["validation"]))


def difference(record: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """This line minus the other, user by user, for the metric that decides."""
    mean, sem, _, p = table1_claims.paired(record, other)
    return {
        "difference": mean,
        "difference_sem": sem if np.isfinite(sem) else None,
        "difference_p": p if np.isfinite(p) else None,
        "is_reference": record is other,
    } | ({"difference_sem_seeds": table1_claims.over_seeds(record, other)} if "seed_users" in record else {})
