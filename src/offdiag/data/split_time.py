"""Splits by order and time: the past is for learning, what comes after it has to be predicted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag import checks
from offdiag.data.held_out import HeldOut, Split, sizes_of_parts, within_users
from offdiag.data.interactions import Interactions
from offdiag.data.moments import moment_of
from offdiag.data.sequences import sequences_of
from offdiag.data.sparse_rows import rank_within_rows, row_of_entries
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


def last_part(
    inter: Interactions, held_out: float = 0.2, validation: float = 0.0, users: int | None = None, seed: int = 0
) -> Split:
    """The end of every user's interactions is held out: a part of each history, as in ``weak``, but the latest part.

    By time where it is known, else by the order of the rows in the source table, as in the lists of published splits.
    With `validation`, the part before it is held out for tuning. With `users`, only so many random users with two
    interactions or more are asked; the others keep all of theirs in train.

    Example:
        >>> import offdiag as od
        >>> od.split.last_part(od.synthetic.interactions(100, 50, 900, times=True), held_out=0.2).test
        HeldOut(100 users, 712 in histories, 188 targets)
    """
    n_test, n_validation = sizes_of_parts(np.diff(inter.matrix.indptr), held_out, validation, users, seed)
    rows = row_of_entries(inter.matrix.indptr)
    left = np.diff(inter.matrix.indptr)[rows] - 1 - place_in_row(inter)
    is_test = left < n_test[rows]
    is_validation = ~is_test & (left < (n_test + n_validation)[rows]) if validation else None
    return within_users(inter, is_test, is_validation)


def place_in_row(inter: Interactions) -> NDArray[np.int64]:
    """0 for the first interaction of each user, 1 for the next, …: by time, equal times and no times by table order."""
    keys = (inter.table_order,) if inter.times is None else (inter.table_order, inter.times)
    order = np.lexsort(keys)
    place = np.empty(inter.nnz, dtype=np.int64)
    place[order] = np.arange(inter.nnz)
    return rank_within_rows(inter.matrix.indptr, place, max(inter.nnz, 1))


def last_basket(inter: Interactions, gap_minutes: float = 0.0, validation: bool = True) -> Split:
    """The last basket of each user is the target of test, as a whole; the one before it is for validation.

    A basket is what a user chose at the same time; with `gap_minutes`, a visit: it ends where nothing happens for
    longer than that (times in seconds then, as dates are read). Needs times. At least one basket stays in train: a
    user with two has no validation target, a user with one no target at all. What was bought before can be in the
    last basket too, if events are kept (``od.read(…, keep="events")``): of a repeated pair without its events only the
    latest time is known. Where such items may be recommended, measure with ``od.evaluate(…, exclude_seen=False)``.

    Example:
        >>> import offdiag as od
        >>> log = {"user": ["ann"] * 4, "item": ["tea", "jam", "tea", "cup"], "day": [1, 1, 2, 2]}
        >>> od.split.last_basket(od.read(log, time="day", keep="events")).test
        HeldOut(1 users, 2 in histories, 2 targets)
    """
    gap = 60 * checks.number("gap_minutes", gap_minutes, 0, np.inf, below=True, hint="; 0: events at the same time")
    events = sequences_of(inter)
    if events is None or events.times is None:
        raise _no_times("last_basket")
    number = np.cumsum(events.starts(gap))  # of the basket of each event, counted over all users
    first, last = number[events.indptr[:-1][events.users]], number[events.indptr[1:][events.users] - 1]
    is_test, is_validation = (number == last) & (last > first), (number == last - 1) & (last > first + 1)
    if not is_test.any():
        raise OffdiagError("expected a user with two baskets or more, received none; nothing can be held out")
    if inter.events is not None:
        return _events_within_users(inter, is_test, is_validation if validation else None)
    place = np.argsort(events.pair_of_events(inter.matrix))  # each stored pair is one event here
    return within_users(inter, is_test[place], is_validation[place] if validation else None)


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
