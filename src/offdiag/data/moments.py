"""Moments that a caller gives as numbers or dates, as numbers: dates become seconds since 1970, as in ``od.read``."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag import checks
from offdiag.errors import OffdiagError

CLOCKS_DIFFER = 86_400.0  # seconds by which a date may be ahead of this machine's clock: time zones, wrong clocks


def moment_of(at: Any) -> float:
    """A number as it is; a date (datetime or ISO text, in UTC unless it names a zone) as seconds since 1970."""
    if isinstance(at, str):
        try:
            at = datetime.fromisoformat(at)
        except ValueError:
            raise OffdiagError(
                f"expected a number or an ISO date such as 2024-05-31, received {at[:100]!r}; write it that way"
            ) from None
    if isinstance(at, np.datetime64):
        at = at.astype("datetime64[us]").item()
    if isinstance(at, datetime) and at == at:  # unlike pandas.NaT
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    if isinstance(at, date) and at == at:
        return datetime(at.year, at.month, at.day, tzinfo=UTC).timestamp()
    if not checks.is_number(at) or not abs(at) < math.inf:
        raise OffdiagError(f"expected a number or a date, received {at!r}; use the unit of the time column")
    return at  # type: ignore[no-any-return]


def past_dates(seconds: NDArray[Any], dates: Any, where: str) -> NDArray[Any]:
    """The dates of a column in seconds, none in the future: it would be the last event of its user for years."""
    late = _in_future(seconds)
    if late.any():
        row = int(late.argmax())
        raise OffdiagError(
            f"expected the dates of past events, received {dates[row]}, which is in the future, in row {row + 1} of "
            f"{where} ({int(late.sum())} in all); fix those rows, or give times as numbers"
        )
    return seconds


def past_moments(times: Sequence[Any]) -> NDArray[np.float64]:
    """The times of events: all numbers or all dates, and no date in the future."""
    numbers = [checks.is_number(at) for at in times]
    if any(numbers) and not all(numbers):
        one, other = times[0], times[numbers.index(not numbers[0])]
        raise OffdiagError(
            f"expected times of one kind, all numbers or all dates, received {one!r} and {other!r}; convert them"
        )
    try:
        found = np.array([float(moment_of(at)) for at in times], dtype=np.float64)
    except OverflowError:
        raise OffdiagError("expected times below 1e308, received a larger number; use seconds since 1970") from None
    if times and not numbers[0] and _in_future(found).any():
        latest = times[int(found.argmax())]
        raise OffdiagError(f"expected the dates of past events, received {str(latest)!r}, which is in the future")
    return found


def _in_future(seconds: NDArray[Any]) -> NDArray[np.bool_]:
    return seconds > time.time() + CLOCKS_DIFFER
