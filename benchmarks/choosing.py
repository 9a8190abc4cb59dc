"""What studies of accuracy share: the folder of data sets, scores per user, and a grid chosen on validation users."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import offdiag as od
from offdiag import evaluation
from offdiag.autopilot import clock, race, searching
from offdiag.data.split import Split
from offdiag.tuning import trial_loop

SHARED = Path(__file__).parent.parent.parent / "shared" / "data"
METRIC = "ndcg@100"
DROPOUTS = (0.3, 0.5, 0.7)
L2_STEPS = (0.03, 0.125, 0.5, 2.0)  # times the l2 that "auto" would choose


def data_folder(words: list[str]) -> Path:
    """The folder named first on the command line, which is removed from the words; or the usual one."""
    folder = Path(words.pop(0)) if words and Path(words[0]).is_dir() else SHARED
    if not folder.is_dir():
        raise SystemExit(f"no data sets at {folder}: pass the folder that holds them")
    return folder


def count_processor_time() -> None:
    """Searches and races look at the processor time of this process instead of a clock: other programs cost nothing."""
    timer = SimpleNamespace(perf_counter=time.process_time)
    for module in (clock, race, searching, trial_loop, evaluation):
        assert "time" in vars(module), module
        vars(module)["time"] = timer


def score(model: Any, users: Any) -> Any:
    """One number per user."""
    return od.evaluate(model, users, [METRIC]).per_user[METRIC]


def standard_error(values: Any) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def best_of_grid(make: Callable[..., Any], l2: float, split: Split) -> tuple[Any, float]:
    """The best model of all dropouts and multiples of l2 on validation users, and its mean there."""
    tried = [make(dropout=p, l2=l2 * step).fit(split.train) for p in DROPOUTS for step in L2_STEPS]
    found = [float(score(model, split.validation).mean()) for model in tried]
    return tried[int(np.argmax(found))], max(found)
