"""`offdiag fit --cluster`: the same fit on Dask workers, from partitions that they read or from a table read here."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offdiag import wording
from offdiag.cli import console, inputs, item_features
from offdiag.cli.inputs import Columns, FilteredColumns
from offdiag.data import formats, places, remote, sql
from offdiag.data.columns import Cleaning
from offdiag.data.table import Keep
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    from offdiag import Features
    from offdiag.cluster import Parts, Report
    from offdiag.models.recommender import Recommender


def learn(
    learner: Recommender,
    data: str,
    columns: FilteredColumns,
    address: str,
    work: console.Work,
    *,
    keep: int | None = None,
    checkpoint: str | None = None,
    features: Features | None = None,
) -> tuple[Parts, list[Report]]:
    """Fit the model on the cluster at that address, or on local workers; returns its data and the reports."""
    import offdiag as od

    fit = _fit_of(learner, keep, checkpoint)
    keep_rows: Keep = "events" if learner.knows_order else "pairs"
    partitioned = is_partitioned(data) and inputs.cleaning(columns) == Cleaning()
    inputs.check_threshold("" if partitioned else data, columns)
    if partitioned and learner.knows_order and not columns.in_order:
        raise OffdiagError(
            f"{type(learner).__name__} learns from the order of events; add --time COLUMN, or --in-order if rows are"
        )
    reports: list[Report] = []
    work.begin(f"connecting to {address}")
    with od.cluster.connect(address) as client:
        work.begin(f"reading {inputs.name_of(data)}")
        if partitioned:
            parts = od.cluster.read(
                data, **column_arguments(columns), duplicates=columns.duplicates, keep=keep_rows,  # type: ignore[arg-type]
                text_ids=columns.text_ids, client=client, progress=work, reports=reports,
            )  # fmt: skip
        else:
            parts = od.cluster.read(inputs.read(data, columns), keep=keep_rows, client=client)
        least = {"min_users": max(columns.min_users, 1), "min_items": max(columns.min_items, 1)}
        parts = od.cluster.prepare(parts, at_least=columns.at_least, **least, progress=work)
        work.begin(f"fitting {type(learner).__name__}")
        known = item_features.noted(features, parts.item_ids)
        fit(learner, parts, item_features=known, client=client, progress=work, reports=reports)
    learner.columns_ = None if inputs.is_dataset(data) else inputs.roles(columns)
    return parts, reports


def pairs(reports: list[Report]) -> dict[str, str]:
    """Workers, peak memory and traffic, as text."""
    workers = max((len(report.peak_bytes) for report in reports), default=0)
    peak = max((max(report.peak_bytes.values(), default=0) for report in reports), default=0)
    moved = sum(report.moved_bytes for report in reports)
    return {"cluster": f"{workers} workers, at most {wording.size(peak)} each, {wording.size(moved)} moved"}


def facts(reports: list[Report]) -> list[dict[str, Any]]:
    """Every report, as JSON."""
    return [vars(report) for report in reports]


def _fit_of(learner: Recommender, keep: int | None, checkpoint: str | None) -> Any:
    import offdiag as od

    if learner.cluster_fit in ("sparse", "order", "low rank"):
        if keep is not None:
            raise OffdiagError("--keep is for full-rank models; sparse ones have --neighbours")
        if learner.cluster_fit == "sparse":
            return functools.partial(od.cluster.fit_sparse, checkpoint=checkpoint)
        return od.cluster.fit_next_item if learner.cluster_fit == "order" else od.cluster.fit_low_rank
    if learner.cluster_fit == "full rank":
        return functools.partial(od.cluster.fit_full_rank, keep=keep)
    raise OffdiagError(
        "--cluster fits edlae, dlae, ease, rdlae, next-item, sparse, low-rank and spectral models, received "
        f"{type(learner).__name__}; leave it out"
    )


def is_partitioned(data: str) -> bool:
    """Whether the workers read the data themselves: files of a suitable format, here and not elsewhere."""
    if sql.is_source(data) or remote.is_address(data) or data == places.STDIN:
        return False
    if Path(data).is_dir() or places.is_pattern(Path(data)):
        with places.local_files(data) as found:
            return all(formats.find(place.path).schema is not None for place in found.files)
    return Path(data).suffix.lower() in formats.partition_suffixes()


def column_arguments(columns: Columns) -> dict[str, Any]:
    forms = formats.partitioned()
    kind = " or ".join(forms)
    used = {name for form in forms.values() for name in form.options}
    for name in ("separator", "header"):
        if name not in used and getattr(columns, name) is not None:
            raise OffdiagError(f"--{name} is for text files, received {kind} partitions; leave it out")
    if columns.form not in (None, *forms):
        raise OffdiagError(f"expected {kind} partitions, received --format {columns.form}; leave it out")
    return dict(inputs.roles(columns).present())
