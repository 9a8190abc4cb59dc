"""A study as lines of JSON: a header with the model and the data, then a line per finished trial.

Appended to and flushed after every trial, so a killed run loses only its current trial. A truncated line is dropped
when the study is resumed.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from offdiag.errors import OffdiagError
from offdiag.tuning.trials import COMPLETE, Trial
from offdiag.wording import cut

FORMAT = "offdiag study 1"


class Journal:
    """The file of a study, or no file if there is no path."""

    def __init__(self, path: str | os.PathLike[str] | None, header: dict[str, Any]) -> None:
        self._path = None if path is None else Path(path)
        self.trials: list[Trial] = []
        if self._path is None:
            return
        odd = self._path.exists() and not self._path.is_file()
        if odd or not self._path.resolve().parent.is_dir():
            raise OffdiagError(f"expected a file name in a folder that exists for the study, received {str(path)!r}")
        header = json.loads(json.dumps({"format": FORMAT, **header}))
        if self._path.exists() and self._path.stat().st_size:
            self.trials = self._resume(header)
        else:
            self._write([header], "w")

    def add(self, trial: Trial) -> None:
        self.trials.append(trial)
        if self._path is not None:
            self._write([asdict(trial)], "a")

    def _resume(self, header: dict[str, Any]) -> list[Trial]:
        assert self._path is not None
        name = str(self._path)
        text = self._path.read_text(encoding="utf-8", errors="replace")
        whole = text[: text.rfind("\n") + 1]
        try:
            first, *lines = [json.loads(line) for line in whole.splitlines()]
            if first.get("format") != FORMAT:
                raise ValueError("another format")
            trials = [_trial(line) for line in lines]
        except (ValueError, TypeError, AttributeError) as error:
            raise OffdiagError(
                f"expected a study written by offdiag in {name!r}, received something else ({error}); "
                "choose another file, or delete this one"
            ) from None
        differing = [key for key in header if first.get(key) != header[key]]
        if differing:
            shown = ", ".join(
                f"{key} {cut(str(first.get(key)), 40)} there and {cut(str(header[key]), 40)} here" for key in differing
            )
            raise OffdiagError(f"the study in {name!r} is of something else: {shown}; choose another file")
        if len(whole) < len(text):  # a line truncated by a kill
            with self._path.open("r+b") as file:
                file.truncate(len(whole.encode("utf-8")))
        return trials

    def _write(self, lines: list[dict[str, Any]], mode: str) -> None:
        assert self._path is not None
        with self._path.open(mode, encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())


def _trial(line: dict[str, Any]) -> Trial:
    """Raises ValueError or TypeError unless every field is valid."""
    trial = Trial(**line)
    numbers = (trial.value, trial.sem, trial.small_value, trial.left_out_error)
    if not all(number is None or (isinstance(number, int | float) and math.isfinite(number)) for number in numbers):
        raise ValueError("a value that is not a number")
    texts = (trial.origin, trial.state, trial.note)
    if not isinstance(trial.settings, dict) or not all(isinstance(text, str) for text in texts):
        raise ValueError("a trial without settings")
    if trial.state == COMPLETE and trial.value is None:
        raise ValueError("a complete trial without a value")
    return trial
