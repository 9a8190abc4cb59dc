"""Finished rows on disk: an interrupted run continues where it stopped, and nothing is computed twice."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from offdiag.data.split import Split
from offdiag.files import checkpoints, run_journal
from offdiag.report import writer

FORMAT = 1  # of a record; a record of another format is computed again


@dataclass(frozen=True)
class RowStore:
    """A folder of records, each under a name and a fingerprint of everything that determines its content."""

    folder: Path

    def find(self, name: str, fingerprint: str) -> dict[str, Any] | None:
        """The record, or None if it is missing, damaged or made with other settings."""
        try:
            (record,) = run_journal.read(self.path(name, fingerprint))
        except (OSError, ValueError):
            return None
        return record if record.get("fingerprint") == fingerprint else None

    def keep(self, name: str, fingerprint: str, record: dict[str, Any]) -> None:
        """Write the record completely or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(record | {"fingerprint": fingerprint}, allow_nan=False)
        writer.replace_text(self.path(name, fingerprint), text + "\n")

    def path(self, name: str, fingerprint: str, suffix: str = "json") -> Path:
        return self.folder / f"{name}-{fingerprint[:12]}.{suffix}"


def fingerprint(**facts: Any) -> str:
    """A hash of the facts that does not depend on their order."""
    text = json.dumps({"format": FORMAT} | facts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def digest(split: Split) -> str:
    """A hash of all data that a model is fitted to and measured on."""
    found = hashlib.sha256(repr(split.train.matrix.shape).encode())
    held_out = [held for held in (split.validation, split.test) if held is not None]
    for matrix in (split.train.matrix, *(matrix for held in held_out for matrix in (held.histories, held.targets))):
        checkpoints.add_matrix(found, matrix, np.int64, np.int64, matrix.data.dtype)
    return found.hexdigest()
