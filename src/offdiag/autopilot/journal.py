"""The journal of a race: every row as it was measured, so that a run that was killed does not measure it again.

The file is append-only lines of JSON (``files.run_journal``). Fitted models are not kept: the few that are needed later
are fitted again. Next to it are the studies of the families whose settings were searched.
"""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from offdiag import wording
from offdiag.autopilot.outcome import Row
from offdiag.data.split import Split
from offdiag.evaluation import Result
from offdiag.files import checkpoints, run_journal

FORMAT = "offdiag race 1"


class Journal:
    """Rows of an earlier part of the run by name, and the seconds that it took; without a path, of this run only."""

    def __init__(self, path: str | os.PathLike[str] | None, header: dict[str, Any]) -> None:
        self.path = None if path is None else Path(path)
        self.rows: dict[str, Row] = {}
        self.known: frozenset[str] = frozenset()  # names of the rows of an earlier part
        self.spent = 0.0
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if self.path is not None:
            header = {"format": FORMAT} | header
            for spent, row in run_journal.resume(self.path, header, "race", _read):
                self.spent = max(self.spent, spent)
                if row is not None:
                    self.rows[row.name] = row
        self.known = frozenset(self.rows)

    def close(self) -> None:
        """Delete what is of this run only."""
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, row: Row, spent: float) -> None:
        """Keep a row."""
        self.rows[row.name] = row
        if self.path is not None:
            run_journal.append(self.path, {"spent": spent, "row": _written(row)})

    def beat(self, spent: float) -> None:
        """Keep how much time is gone: that of a fit that is killed counts, too."""
        if self.path is not None:
            run_journal.append(self.path, {"spent": spent})

    def study(self, family: str) -> str:
        """The file with the trials of a family; it outlives this run if the journal does."""
        words = "-".join(word for word in family.replace("+", " ").replace(",", " ").split())
        if self.path is not None:
            return f"{self.path}.{words}.study"
        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="offdiag-race-")
        return str(Path(self._folder.name, f"{words}.study"))


def remove(path: str | os.PathLike[str]) -> None:
    """Delete a journal and its studies, once they are of no use."""
    for file in [Path(path), *Path(path).parent.glob(f"{Path(path).name}.*.study")]:
        file.unlink(missing_ok=True)


def fingerprint(split: Split) -> str:
    """A digest of what is learned from, in order where that is known, and of the validation users."""
    digest = hashlib.blake2b(digest_size=16)
    held = split.validation
    assert held is not None
    for matrix in (split.train.matrix, held.histories, held.targets):
        digest.update(str(matrix.shape).encode())
        checkpoints.add_matrix(digest, matrix, "<i8", "<i8", "<f8")
    if split.train.events is not None:
        digest.update(np.ascontiguousarray(split.train.events.items, dtype="<i8").data)
    return digest.hexdigest()


def digest_of(also: Mapping[str, Any]) -> str:
    """A digest of features or groups of the items; "" of nothing."""
    digest = hashlib.blake2b(digest_size=16)
    if (features := also.get("item_features")) is not None:
        digest.update(str((features.about(), features.items.tolist())).encode())
        checkpoints.add_matrix(digest, features.matrix, "<i8", "<i8", "<f8")
    if (groups := also.get("groups")) is not None:
        digest.update(str(groups.to_dicts()).encode())
    return digest.hexdigest() if also else ""


def _written(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = wording.plain(asdict(replace(row, result=None)))
    if row.result is not None:
        values = {
            name: base64.b64encode(np.ascontiguousarray(one, dtype="<f8").data).decode()
            for name, one in row.result.per_user.items()
        }
        found["result"] = wording.plain(row.result.to_dict()) | {"per_user": values}
    return found


def _read(line: dict[str, Any]) -> tuple[float, Row | None]:
    try:
        return float(line["spent"]), _row(line["row"]) if "row" in line else None
    except (KeyError, AttributeError) as error:
        raise ValueError(f"a row that cannot be read, {wording.one_line(error)}") from None


def _row(line: dict[str, Any]) -> Row:
    kept = line.get("result")
    if kept is not None:
        values = {name: np.frombuffer(base64.b64decode(text), dtype="<f8") for name, text in kept["per_user"].items()}
        sems = {name: np.nan if sem is None else sem for name, sem in kept["sem"].items()}
        kept = Result(**kept | {"per_user": values, "sem": sems})
    row = Row(**line | {"result": kept})
    return replace(row, fit_seconds=np.nan if row.fit_seconds is None else row.fit_seconds)
