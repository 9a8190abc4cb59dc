"""A training run on disk: what the next epoch needs, and the identity of the run, so that no other one continues it.

Batches, masks and noise of an epoch are drawn from (seed, epoch), so no generator state has to be kept, and a
resumed run takes exactly the steps it would have taken.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag.errors import OffdiagError
from offdiag.files import checkpoints
from offdiag.wording import one_line

QUIET = 20  # wait this many times the last write before the next: writes take at most a twentieth of the time


@dataclass(eq=False)
class Run:
    """How far training has come. Arrays are by the name of the parameter."""

    epoch: int = 0  # epochs done
    losses: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
    best_epoch: int = 0  # the epoch of the parameters in ``best``; counted from 1, 0 before the first
    parameters: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    best: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    means: dict[str, NDArray[np.float32]] = field(default_factory=dict)  # of Adam
    squares: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    steps: int = 0


_GROUPS = ("parameters", "best", "means", "squares")
_FACTS = ("epoch", "losses", "validation", "best_epoch", "steps")


def fingerprint(name: str, settings: dict[str, Any], matrices: list[Any]) -> str:
    """A digest of the model, its settings (except the number of epochs) and the data: equal only for the same run."""
    settings_of_fit = {key: value for key, value in settings.items() if key != "epochs"}
    digest = hashlib.sha256(json.dumps([name, settings_of_fit], sort_keys=True).encode())
    for matrix in matrices:
        digest.update(repr(matrix.shape).encode())
        checkpoints.add_matrix(digest, matrix, np.int64, np.int32, np.float64)
    return digest.hexdigest()


class Checkpoint:
    """The file of one run; no file if the path is None."""

    def __init__(self, path: str | os.PathLike[str] | None, mark: str, settings: dict[str, Any]) -> None:
        self.path = None if path is None else Path(os.path.realpath(path))
        self.mark, self.settings = mark, settings
        self._free_at = 0.0
        if self.path is not None and self.path.is_dir():
            raise OffdiagError(f"checkpoint takes a file name, received the folder {str(path)!r}; add a name")
        if self.path is not None and not self.path.parent.is_dir():
            raise OffdiagError(
                f"cannot write the checkpoint {str(path)!r}: the folder {str(self.path.parent)!r} does not exist; "
                "create it first"
            )

    def read(self) -> Run | None:
        """The run so far; None if there is no file yet. Any other file is rejected, never overwritten."""
        if self.path is None or not self.path.exists():
            return None
        about, arrays = checkpoints.read(self.path)
        if "checkpoint" not in about:
            raise OffdiagError(
                f"expected a checkpoint, received the model file {str(self.path)!r}; choose another path"
            )
        if about["checkpoint"] != self.mark:
            differing = checkpoints.differences(about.get("settings", {}), self.settings, but=("epochs",))
            raise checkpoints.other_run(self.path, "run", differing or ["other data or another model"], "path")
        try:
            run = Run(**{name: about[name] for name in _FACTS})
            for name, array in arrays.items():
                group, _, parameter = name.partition(".")
                getattr(run, group)[parameter] = array.copy()
        except (KeyError, TypeError, AttributeError) as error:
            raise OffdiagError(
                f"the checkpoint {str(self.path)!r} makes no sense ({one_line(error)}); delete it"
            ) from error
        return run

    def write(self, run: Run, *, last: bool) -> None:
        """Write after an epoch; skipped if writes would take more than their share of time, unless it is the last."""
        started = time.monotonic()
        if self.path is None or (started < self._free_at and not last):
            return
        about = {"checkpoint": self.mark, "settings": self.settings} | {name: getattr(run, name) for name in _FACTS}
        arrays = {f"{group}.{name}": array for group in _GROUPS for name, array in getattr(run, group).items()}
        checkpoints.write(self.path, about, arrays)
        now = time.monotonic()
        self._free_at = now + QUIET * (now - started)
