"""A study as lines of JSON: a header with the model and the data, then a line per finished trial."""

from __future__ import annotations

import math
import os
from collections.abc import Collection
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from offdiag.files import run_journal
from offdiag.tuning.trials import COMPLETE, REJECTED, Trial

FORMAT = "offdiag study 1"


class Journal:
    """The file of a study, or no file if there is no path; ``known`` are the settings of its model."""

    def __init__(self, path: str | os.PathLike[str] | None, header: dict[str, Any], known: Collection[str]) -> None:
        self._path = None if path is None else Path(path)
        self.trials: list[Trial] = []
        if self._path is not None:
            self.trials = run_journal.resume(self._path, {"format": FORMAT, **header}, "study", partial(_trial, known))

    def add(self, trial: Trial) -> None:
        self.trials.append(trial)
        if self._path is not None:
            run_journal.append(self._path, asdict(trial))


def _trial(known: Collection[str], line: dict[str, Any]) -> Trial:
    """Raises ValueError or TypeError unless every field is valid and every setting known."""
    trial = Trial(**line)
    if trial.state == "pruned":  # its name in older studies
        trial = replace(trial, state=REJECTED)
    numbers = (trial.value, trial.sem, trial.small_value, trial.left_out_error)
    if not all(number is None or (isinstance(number, int | float) and math.isfinite(number)) for number in numbers):
        raise ValueError("a value that is not a number")
    texts = (trial.origin, trial.state, trial.note)
    if not isinstance(trial.settings, dict) or not all(isinstance(text, str) for text in texts):
        raise ValueError("a trial without settings")
    if unknown := trial.settings.keys() - set(known):
        raise ValueError(f"a trial with the unknown setting {min(unknown)!r}")
    if trial.state == COMPLETE and trial.value is None:
        raise ValueError("a complete trial without a value")
    return trial
