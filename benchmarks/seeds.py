"""One table from several seeds of the split: the test users of all seeds, with errors over users and over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from offdiag.measured import over_groups, standard_error
from offdiag.papers.steck2020 import fits, table1, table1_claims
from offdiag.papers.steck2020.table1 import Part

Record = dict[str, Any]
BY_SEED = ("kind", "settings", "mean", "validation", "trials", "tune_seconds")


def pooled(parts: list[Part], seeds: list[int]) -> Part:
    """The parts of one data set as one. Lines that a seed lacks are left out; claims are judged on all users."""
    records = _merged([part.records for part in parts], _line_of, seeds)
    by_rank = _merged([part.by_rank for part in parts], lambda line: (line["row"], line["rank"]), seeds)
    best = table1.reference(records)
    for record in records:
        record |= table1.difference(record, best)
    there = {record["row"] for record in records}
    left_out = {key: why for part in parts for key, why in part.left_out.items() if key not in there}
    found = ", ".join(str(seed) for seed in seeds)
    first = parts[0].data
    data = replace(first, protocol=first.protocol.replace(f"(seed {seeds[0]})", f"(seeds {found})"))
    return replace(
        parts[0], data=data, records=records, by_rank=by_rank, left_out=left_out,
        claims=table1_claims.judged(records, by_rank), seconds=sum(part.seconds for part in parts),
    )  # fmt: skip


def _line_of(record: Record) -> tuple[str, bool]:
    return record["row"], record["kind"] == fits.PUBLISHED


def _merged(runs: list[list[Record]], key: Callable[[Record], Any], seeds: list[int]) -> list[Record]:
    at = [{key(record): record for record in run} for run in runs]
    return [merged([run[name] for run in at], seeds) for name in at[0] if all(name in run for run in at)]


def merged(lines: list[Record], seeds: list[int]) -> Record:
    """One line from the same line of every seed; its settings are those of the first."""
    users = [line["n_users"] for line in lines]
    values = {name: np.concatenate([line["per_user"][name] for line in lines]) for name in lines[0]["per_user"]}
    typical = {
        name: statistics.median([line[name] for line in lines])
        for name in ("fit_seconds", "evaluate_seconds", "extra_peak_bytes", "n_bytes")
        if lines[0][name] is not None
    }
    means = {name: statistics.fmean([line[name] for line in lines]) for name in ("validation", "tune_seconds")}
    kinds = [line["kind"] for line in lines if "kind" in line]  # the lines of smaller ranks have none
    return lines[0] | typical | means | {
        **({"kind": fits.TUNED if fits.TUNED in kinds else kinds[0]} if kinds else {}),
        "n_bytes": int(typical["n_bytes"]),
        "trials": round(statistics.fmean([line["trials"] for line in lines])),
        "per_user": {name: one.tolist() for name, one in values.items()},
        "mean": {name: float(one.mean()) for name, one in values.items()},
        "sem": {name: standard_error(one) for name, one in values.items()},
        "sem_seeds": {name: over_groups(one, users) for name, one in values.items()},
        "n_users": sum(users),
        "n_without_targets": sum(line["n_without_targets"] for line in lines),
        "seed_users": users,
        "by_seed": [
            {"seed": seed} | {name: line[name] for name in BY_SEED if name in line}
            for seed, line in zip(seeds, lines, strict=True)
        ],
    }  # fmt: skip
