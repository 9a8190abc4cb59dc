"""The rows of Table 1 of [Steck20] and some more: which model each is, what is held fixed, what was published."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal

from offdiag.errors import OffdiagError
from offdiag.papers.claims import read_expected

Group = Literal["rank", "others", "full rank", "simple"]
PAPER_RANK = 1000
# As in the paper, every interaction has the same weight, whatever the user's activity.
_ALIKE = {"user_power": 0.0}
_PLAIN = _ALIKE | {"propensity_power": 0.0}
EXTRAS = {"torch": "neural", "optuna": "tune"}  # library → extra of this package


@dataclass(frozen=True)
class Row:
    """One line of the table. ``key`` names it on the command line."""

    key: str
    label: str
    group: Group
    model: str  # its name in ``offdiag``
    number: int | None = None  # of the paper's rows
    fixed: dict[str, Any] = field(default_factory=dict)  # settings that define the row
    cost: float = 1.0  # time of one trial relative to a full-rank model, for the progress line
    needs: str | None = None  # an optional library
    emphasis: bool = False  # belongs to the EDLAE family, with which the others are compared

    @property
    def tunable(self) -> bool:
        return self.model != "Popularity"


ROWS: tuple[Row, ...] = (
    Row("weight-decay", "weight decay, λ(‖U‖² + ‖V‖²)", "rank", "WeightDecayLAE", 1, _ALIKE, cost=2),
    Row(
        "l2-product",
        "penalty on UVᵀ, λ‖UVᵀ‖²",
        "rank",
        "LowRankDLAE",
        2,
        _ALIKE | {"dropout": 0.0},
        cost=2,
    ),
    Row("dlae", "DLAE: penalty by item, ‖Λ^½UVᵀ‖²", "rank", "LowRankDLAE", 3, _ALIKE, cost=2),
    Row("sampled", "DLAE by sampled dropout", "rank", "LowRankDLAE", 4, _ALIKE, cost=10, needs="torch"),
    Row("edlae", "EDLAE", "rank", "LowRankEDLAE", 5, _ALIKE, cost=4, emphasis=True),
    Row(
        "zero-diagonal",
        "zero diagonal (Eq. 11)",
        "rank",
        "ZeroDiagonalLAE",
        None,
        _ALIKE,
        cost=4,
    ),
    Row("edlae-users", "EDLAE, users weighted", "rank", "LowRankEDLAE", cost=4, emphasis=True),
    Row("slim", "SLIM", "others", "SLIM", None, _ALIKE, cost=8),
    Row("wmf", "WMF", "others", "WMF", cost=8),
    Row("cdae", "CDAE", "others", "CDAE", cost=20, needs="torch"),
    Row("mult-vae", "Mult-VAE", "others", "MultVAE", cost=20, needs="torch"),
    Row("mult-dae", "Mult-DAE", "others", "MultDAE", cost=20, needs="torch"),
    Row("ease-full", "EASE", "full rank", "EASE", None, _PLAIN),
    Row("dlae-full", "DLAE", "full rank", "DLAE", None, _PLAIN),
    Row("edlae-full", "EDLAE", "full rank", "EDLAE", None, _PLAIN, emphasis=True),
    Row("rdlae-full", "RDLAE", "full rank", "RDLAE", None, _PLAIN, emphasis=True),
    Row("edlae-full-users", "EDLAE, users and popularity weighted", "full rank", "EDLAE", emphasis=True),
    Row("item-knn", "item neighbours", "simple", "ItemKNN"),
    Row("popularity", "popularity", "simple", "Popularity", cost=0.1),
)
BY_KEY = {row.key: row for row in ROWS}
# The rows of a run at the paper's scale: those that the paper computed itself, and the full-rank family.
OWN_ROWS = tuple(row.key for row in ROWS if row.number or (row.group == "full rank" and row.fixed))
_OTHERS = {"slim": "SLIM", "wmf": "WMF", "cdae": "CDAE", "mult-vae": "Mult-VAE", "mult-dae": "Mult-DAE"}


def chosen(keys: Sequence[str] | None) -> list[Row]:
    """The rows with these keys in the order of the table; all rows for None."""
    if keys is None:
        return list(ROWS)
    for key in keys:
        if key not in BY_KEY:
            near = difflib.get_close_matches(key, BY_KEY, n=1)
            advice = f"did you mean {near[0]}?" if near else "name some of them"
            raise OffdiagError(f"expected rows among {', '.join(BY_KEY)}, received {key!r}; {advice}")
    wanted = set(keys) | ({"dlae"} if "sampled" in keys else set())  # row 4 takes the settings of row 3
    if not wanted:
        raise OffdiagError(f"expected one row or more of {', '.join(BY_KEY)}, received none; name some of them")
    return [row for row in ROWS if row.key in wanted]


def missing(row: Row) -> str | None:
    """What has to be installed before this row can run, or None."""
    if row.needs is None or find_spec(row.needs) is not None:
        return None
    return f"needs {row.needs}, which is not installed; pip install 'offdiag[{EXTRAS[row.needs]}]'"


def expected() -> dict[str, Any]:
    """The published numbers: the part ``table1`` of expected.json."""
    table: dict[str, Any] = read_expected("steck2020")["table1"]
    return table


def published_figures(row: Row, data: str) -> list[float | None] | None:
    """recall@20, recall@50 and ndcg@100 as published for this row on this data; None if nothing was published."""
    table = expected()
    if row.number is not None:
        found = table["rows"][row.number - 1].get(data)
    elif row.key in _OTHERS:
        found = table["others"][_OTHERS[row.key]].get(data)
    elif row.group == "full rank" and row.fixed:
        found = table["full_rank"][row.model].get(data)
    else:
        found = None
    return list(found) if found is not None else None


def published_settings(row: Row, data: str) -> dict[str, Any] | None:
    """The settings published for this row on this data, including those that define the row; or None."""
    found = expected()["settings"].get(row.key, {}).get(data)
    return None if found is None else _ALIKE | row.fixed | found


def first_settings(row: Row, data: str) -> dict[str, Any] | None:
    """A starting point for tuning: the row's published settings, or those of the full-rank model of the same kind."""
    own = published_settings(row, data)
    if own is not None or row.model not in ("LowRankEDLAE", "ZeroDiagonalLAE", "RDLAE"):
        return own
    found = expected()["settings"]["edlae-full"].get(data)
    return None if found is None else _ALIKE | row.fixed | found
