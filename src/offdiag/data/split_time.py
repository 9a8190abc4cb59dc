"""Splits by order and time: the past is for learning, what comes after it has to be predicted."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag import checks
from offdiag.data.held_out import HeldOut, Split, within_users
from offdiag.data.interactions import Interactions
from offdiag.data.sparse_rows import row_of_entries
from offdiag.errors import OffdiagError


def last_out(inter: Interactions, validation: bool = True) -> Split:
    """The last interaction of each user is the test target, the one before it the validation target.

    Needs times, or events in order; for equal times the later row of the table is the last. At least one interaction
    stays in train: a user with two has no validation target, a user with one has no target at all. With events, it is
    the last event that is held out, and its item may occur in the history too.

    Example:
        >>> import offdiag as od
        >>> od.split.last_out(od.synthetic.interactions(100, 50, 900, times=True)).test
        HeldOut(100 users, 807 in histories, 93 targets)
    """
    if inter.events is not None:
        left, length = inter.events.from_end(), np.repeat(inter.events.lengths, inter.events.lengths)
        is_test, is_validation = (left == 0) & (length >= 2), (left == 1) & (length >= 3)
        if not is_test.any():
            raise _nothing_to_hold_out()
        return _events_within_users(inter, is_test, is_validation if validation else None)
    sizes = np.diff(inter.matrix.indptr)
    rows = row_of_entries(inter.matrix.indptr)
    is_test = _last_of_rows(inter, np.ones(inter.nnz, dtype=bool)) & (sizes >= 2)[rows]
    if not is_test.any():
        raise _nothing_to_hold_out()
    is_validation = _last_of_rows(inter, ~is_test) & (sizes >= 3)[rows] if validation else None
    return within_users(inter, is_test, is_validation)


def by_time(inter: Interactions, at: Any, validation_at: Any = None) -> Split:
    """Interactions before `at` are train (and history), those at or after it are the targets of test.

    `at` is a number in the unit of the time column, or a date (datetime or ISO text, UTC) when that column
    held dates or Unix seconds. With `validation_at` before `at`, interactions between the two are for validation.
    Nothing that happened after a cut is in the histories or in train: items and users that appear later have empty
    columns and rows there. Of a repeated pair without its events only the latest time is known, so that it counts as
    one interaction; with events (`od.read(…, keep="events")`) each repeat is where it belongs.

    Example:
        >>> import offdiag as od
        >>> od.split.by_time(od.synthetic.interactions(100, 50, 900, times=True), "2024-07-01").test
        HeldOut(100 users, 437 in histories, 463 targets)
    """
    times = _needs_times(inter, "by_time") if inter.events is None else inter.events.times
    if times is None:
        raise _no_times("by_time")
    moment = moment_of(at)
    is_test = times >= moment
    if is_test.all() or not is_test.any():
        raise OffdiagError(
            f"expected a time between the first ({times.min()}) and the last ({times.max()}), received at={at!r}; "
            "choose one that leaves interactions on both sides"
        )
    is_validation = None
    if validation_at is not None:
        earlier = moment_of(validation_at)
        is_validation = ~is_test & (times >= earlier)
        if not is_validation.any() or bool((is_validation | is_test).all()):
            raise OffdiagError(
                f"expected validation_at to leave interactions before it and up to at={at!r}, "
                f"received {validation_at!r}; choose an earlier or later time"
            )
    divide = within_users if inter.events is None else _events_within_users
    return divide(inter, is_test, is_validation)


def _events_within_users(
    inter: Interactions, is_test: NDArray[np.bool_], is_validation: NDArray[np.bool_] | None
) -> Split:
    """As ``within_users``, with masks along the events."""
    before_test = inter.select_events(~is_test)

    def part(histories: Interactions, is_target: NDArray[np.bool_]) -> HeldOut:
        targets = inter.select_events(is_target).matrix
        return HeldOut(histories.matrix, targets, inter.user_ids, inter.item_ids, histories)

    if is_validation is None:
        return Split(before_test, None, part(before_test, is_test))
    train = inter.select_events(~(is_test | is_validation))
    return Split(train, part(train, is_validation), part(before_test, is_test))


def _last_of_rows(inter: Interactions, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask of the latest interaction of each row within `among`, ties by position in the table."""
    times = _needs_times(inter, "last_out")
    sizes = np.diff(inter.matrix.indptr)
    starts = inter.matrix.indptr[:-1][sizes > 0]
    last = among
    for key in (times, inter.table_order):
        latest = np.maximum.reduceat(np.where(last, key, key.min()), starts)
        last = last & (key == np.repeat(latest, sizes[sizes > 0]))
    return last


def _needs_times(inter: Interactions, name: str) -> NDArray[Any]:
    if inter.times is None:
        raise _no_times(name)
    return inter.times


def _no_times(name: str) -> OffdiagError:
    return OffdiagError(f"expected interactions with times for {name}, received none; read with time=<column>")


def _nothing_to_hold_out() -> OffdiagError:
    return OffdiagError("expected a user with two interactions or more, received none; nothing can be held out")


def moment_of(at: Any) -> float:
    """A number, or a date in seconds since 1970."""
    if isinstance(at, str):
        try:
            at = datetime.fromisoformat(at)
        except ValueError:
            raise OffdiagError(
                f"expected a number or an ISO date such as 2024-05-31, received {at!r}; write it that way"
            ) from None
    if isinstance(at, np.datetime64):
        at = at.astype("datetime64[us]").item()
    if isinstance(at, datetime):
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    if isinstance(at, date):
        return datetime(at.year, at.month, at.day, tzinfo=UTC).timestamp()
    if not checks.is_number(at) or not np.isfinite(at):
        raise OffdiagError(f"expected a number or a date, received {at!r}; use the unit of the time column")
    return at  # type: ignore[no-any-return]
