"""Options for what a choice counts for by its age, and times that are typed."""

from __future__ import annotations

from typing import Annotated, Any

from typer import Option

from offdiag.errors import OffdiagError

HistoryDecay = Annotated[
    float | None,
    Option("--history-decay", metavar="SHARE", help="What a choice counts for, compared with the one after it."),
]
HistoryHalfLife = Annotated[
    float | None,
    Option("--history-half-life", metavar="AGE", help="Age at which a choice counts half; seconds if times are dates."),
]
Times = Annotated[
    str | None, Option("--times", metavar="TIMES", help="When each item was chosen: numbers or ISO dates, by commas.")
]


def with_times(history: list[Any], times: str | None) -> list[Any]:
    """The items with their times, as pairs; without times, the items themselves."""
    if times is None:
        return history
    given = [part.strip() for part in times.split(",")] if times.strip() else []
    if len(given) != len(history):
        raise OffdiagError(
            f"--times: expected one for each item of the history ({len(history)}), received {len(given)}"
        )
    return list(zip(history, map(_number_or_date, given), strict=True))


def _number_or_date(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
