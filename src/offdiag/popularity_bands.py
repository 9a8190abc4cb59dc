"""Accuracy by popularity: what lists find of popular, middling, rare and new items, and how many places these get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import metrics as formulas
from offdiag import notebook, tables
from offdiag.metric_names import FROM_HITS, Metric

NAMES = ("head", "middle", "tail", "new")
THIRDS = 3
Floats = NDArray[np.float64]


def band_of(popularity: Floats) -> NDArray[np.int64]:
    """The band of each item, as a position in NAMES.

    The head is the most popular items, which have a third of all interactions together; the middle has the next third,
    the tail the last. Items as popular as each other are in one band. New items have no interactions.
    """
    order = np.argsort(-popularity, kind="stable")
    falling = popularity[order]
    before = np.cumsum(falling) - falling
    first = np.searchsorted(-falling, -falling)  # of the items that are as popular
    share = before[first] / max(float(popularity.sum()), 1e-300)
    band = np.empty(len(popularity), dtype=np.int64)
    band[order] = np.minimum(np.floor(THIRDS * share + 1e-9).astype(np.int64), THIRDS - 1)
    band[popularity <= 0] = THIRDS
    return band


@dataclass(frozen=True, eq=False)
class Band:
    """What was measured on the targets of one band, and which share of all targets and places it has."""

    name: str
    items: int
    targets: float  # their share of all targets
    n_users: int  # who have such a target
    mean: dict[str, float]  # over these users; coverage: the share of these items that is in any list
    sem: dict[str, float]
    exposure: dict[str, float]  # "exposure@20": their share of the first 20 places of all lists


@dataclass(frozen=True, eq=False)
class Bands(tables.Tabular):
    """The head, the middle, the tail and new items: one row each, of those that there are.

    As a table: band, items, targets (share of all), n_users, each metric with its standard error, and for each length
    of list the share of its places, "exposure@k". Compare exposure with targets: what a band gets and what it deserves.
    """

    rows: list[Band]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> Band:
        """A band by name; KeyError if it has no items.

        Example:
            >>> import offdiag as od
            >>> split = od.split.strong(od.synthetic.interactions(300, 40, 3_000, seed=0), held_out=0.2)
            >>> found = od.evaluate(od.Popularity().fit(split.train), split.test, "ndcg@10", bands=True)
            >>> found.bands["head"].exposure["exposure@10"] > found.bands["head"].targets
            True
        """
        return {row.name: row for row in self.rows}[name]

    def _columns(self, form: str) -> Mapping[str, Any]:
        columns: dict[str, Any] = {
            "band": [row.name for row in self.rows],
            "items": np.array([row.items for row in self.rows]),
            "targets": np.array([row.targets for row in self.rows]),
            "n_users": np.array([row.n_users for row in self.rows]),
        }
        first = self.rows[0]
        for name in first.mean:
            columns[name] = np.array([row.mean[name] for row in self.rows])
            if name in first.sem:
                columns[f"{name}_sem"] = np.array([row.sem[name] for row in self.rows])
        return columns | {name: np.array([row.exposure[name] for row in self.rows]) for name in first.exposure}

    def _repr_html_(self) -> str:
        return notebook.card("By popularity", {"bands": ", ".join(row.name for row in self.rows)}, self.to_polars())

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Heads and rows of text, as they are printed."""
        first = self.rows[0]
        heads = ["band", "items", "targets", *first.mean, *first.exposure]
        return heads, [
            [
                row.name, f"{row.items:,}", f"{row.targets:.1%}",
                *(_with_error(row.mean[name], row.sem.get(name)) for name in first.mean),
                *(f"{share:.1%}" for share in row.exposure.values()),
            ]
            for row in self.rows
        ]  # fmt: skip

    def __str__(self) -> str:
        heads, rows = self.cells()
        lines = [heads, *rows]
        widths = [max(len(line[at]) for line in lines) for at in range(len(heads))]
        padded = [[f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True)] for line in lines]
        return "\n".join("  ".join([line[0].strip().ljust(widths[0]), *line[1:]]) for line in padded)

    def to_list(self) -> list[dict[str, Any]]:
        """JSON-ready: a dict for each band, None where a value does not exist."""

        def plain(values: dict[str, float]) -> dict[str, float | None]:
            return {name: value if np.isfinite(value) else None for name, value in values.items()}

        return [
            {
                "band": row.name, "items": row.items, "targets": row.targets, "n_users": row.n_users,
                "mean": plain(row.mean), "sem": plain(row.sem), "exposure": row.exposure,
            }
            for row in self.rows
        ]  # fmt: skip


def _with_error(mean: float, sem: float | None) -> str:
    if not np.isfinite(mean):
        return "-"
    return f"{mean:.4f}" if sem is None or not np.isfinite(sem) else f"{mean:.4f} ± {sem:.4f}"


class Counting:
    """Collects what ``Bands`` says from the lists of one evaluation, part by part."""

    def __init__(self, band: NDArray[np.int64], targets: sparse.csr_array, wanted: Sequence[Metric]) -> None:
        self._band = band
        self._wanted = [metric for metric in wanted if metric.kind != "novelty"]  # which is about lists, not targets
        self._targets = [_only(targets, band == b) for b in range(len(NAMES))]
        self._values: list[dict[str, list[Floats]]] = [{m.name: [] for m in self._wanted} for _ in NAMES]
        self._listed = {m.name: np.zeros(len(band), dtype=np.bool_) for m in self._wanted if m.kind == "coverage"}
        self._places = {k: np.zeros(len(NAMES)) for k in sorted({metric.k for metric in wanted})}

    def add(self, indices: NDArray[np.int64], users: NDArray[np.int64]) -> None:
        """Lists for these rows of the targets."""
        for k, places in self._places.items():
            top = indices[:, :k]
            places += np.bincount(self._band[top[top >= 0]], minlength=len(NAMES))
        for metric in self._wanted:
            if metric.kind == "coverage":
                self._listed[metric.name] |= formulas.recommended(indices, len(self._band), metric.k)
        for own, values in zip(self._targets, self._values, strict=True):
            counts = np.diff(own.indptr)[users]
            some = np.flatnonzero(counts)
            if not len(some):
                continue
            hits = formulas.find_hits(indices[some], own[users[some]])
            for metric in self._wanted:
                if metric.kind != "coverage":
                    values[metric.name].append(FROM_HITS[metric.kind](hits, counts[some].astype(np.int64), metric.k))

    def end(self) -> Bands:
        total = max(sum(own.nnz for own in self._targets), 1)
        rows = []
        for b, (name, own, values) in enumerate(zip(NAMES, self._targets, self._values, strict=True)):
            mine = self._band == b
            if not mine.any():
                continue
            mean, sem = {}, {}
            for metric in self._wanted:
                if metric.kind == "coverage":
                    mean[metric.name] = float(self._listed[metric.name][mine].mean())
                    continue
                found = np.concatenate([*values[metric.name], np.empty(0)])
                mean[metric.name] = float(found.mean()) if len(found) else float("nan")
                sem[metric.name] = float(found.std(ddof=1) / np.sqrt(len(found))) if len(found) > 1 else float("nan")
            exposure = {f"exposure@{k}": float(n[b] / max(n.sum(), 1.0)) for k, n in self._places.items()}
            n_users = int(np.count_nonzero(np.diff(own.indptr)))
            rows.append(Band(name, int(mine.sum()), own.nnz / total, n_users, mean, sem, exposure))
        return Bands(rows)


def _only(targets: sparse.csr_array, items: NDArray[np.bool_]) -> sparse.csr_array:
    """The targets among these items, in the same columns."""
    kept = items[targets.indices]
    ends = np.concatenate([[0], np.cumsum(kept)])[targets.indptr]
    return sparse.csr_array((targets.data[kept], targets.indices[kept], ends), shape=targets.shape)
