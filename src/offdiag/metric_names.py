"""Metrics by name, such as ndcg@100: what is measured, how many places of a list count, and the formula."""

import difflib
import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from offdiag import metrics as formulas
from offdiag.errors import OffdiagError

FROM_HITS: dict[str, Callable[[formulas.Hits, formulas.Counts, int], NDArray[np.float64]]] = {
    "recall": formulas.recall,
    "recall_all": formulas.recall_all,
    "precision": formulas.precision,
    "ndcg": formulas.ndcg,
    "map": formulas.average_precision,
    "mrr": formulas.reciprocal_rank,
    "hit": formulas.hit,
}
KNOWN_METRICS = (*FROM_HITS, "coverage", "novelty")


class Metric(NamedTuple):
    """A parsed metric name such as `ndcg@100`."""

    name: str
    kind: str
    k: int


def parse_metric(name: str) -> Metric:
    if match := re.fullmatch(r"(\w+)@([1-9][0-9]{0,8})", str(name)):
        kind, k = match.groups()
        if kind in KNOWN_METRICS:
            return Metric(str(name), kind, int(k))
    stem, _, cut = str(name).partition("@")
    known = ", ".join(f"{kind}@k" for kind in KNOWN_METRICS)
    close = difflib.get_close_matches(stem.strip().lower(), KNOWN_METRICS, n=1)
    cut = cut.strip()
    number = cut if cut.isascii() and cut.isdigit() and 0 < len(cut) < 10 and int(cut) > 0 else "20"
    advice = f"; did you mean {close[0]}@{number}?" if close else ""
    raise OffdiagError(f"unknown metric {str(name)!r}: expected one of {known} with k a positive whole number{advice}")
