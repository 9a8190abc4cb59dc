"""Table: the common columns of every source; assemble: turn that table into Interactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from offdiag import checks
from offdiag.data.ids import checked_ids, no_gaps, number
from offdiag.data.interactions import Interactions
from offdiag.data.moments import past_dates
from offdiag.data.sequences import in_order
from offdiag.data.sparse_rows import csr, row_pointer, sort_pairs
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    import polars as pl

Duplicates = Literal["sum", "once"]
Keep = Literal["pairs", "events"]
_CONTENTS = {  # of the columns of a Table, for messages
    "user": "user ids", "item": "item ids", "value": "values", "time": "times", "all_users": "user ids",
    "event": "event ids",
}  # fmt: skip


@dataclass(frozen=True)
class Table:
    """One row per event, as read. `all_users` adds users without events; `event` identifies each row.

    `more` holds columns without a role that the cleaning needs; `notes` says what was left out so far.
    """

    user: pl.Series
    item: pl.Series
    value: pl.Series | None = None
    time: pl.Series | None = None
    where: str = "the table"
    all_users: pl.Series | None = None
    event: pl.Series | None = None
    more: Mapping[str, pl.Series] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def select_rows(table: Table, mask: pl.Series) -> Table:
    """The rows where the mask is true."""
    columns = {
        role: column.filter(mask)
        for role in ("user", "item", "value", "time", "event")
        if (column := getattr(table, role)) is not None
    }
    return replace(table, **columns, more={name: column.filter(mask) for name, column in table.more.items()})


def concatenate(tables: list[Table], *, gaps: bool = False) -> Table:
    """Concatenate tables of the same layout; `gaps`: ids may be missing, because they will be cleaned."""
    first = tables[0]
    if len(tables) == 1:
        return first
    tables = [
        replace(
            t,
            user=checked_ids(t.user, "user", t.where, gaps=gaps),
            item=checked_ids(t.item, "item", t.where, gaps=gaps),
        )
        for t in tables
    ]
    if any(t.all_users is not None for t in tables):
        tables = [t if t.all_users is not None else replace(t, all_users=t.user) for t in tables]
    joined = {
        role: _join([getattr(t, role) for t in tables], what)
        for role, what in _CONTENTS.items()
        if getattr(tables[0], role) is not None
    }
    more = {name: _join_any([t.more[name] for t in tables]) for name in first.more}
    notes = tuple(dict.fromkeys(note for t in tables for note in t.notes))
    return Table(**joined, where=f"{first.where} and {len(tables) - 1} more", more=more, notes=notes)


def _join_any(parts: list[pl.Series]) -> pl.Series:
    """Columns of different types, such as those of text files, as text."""
    import polars as pl

    if len({part.dtype for part in parts}) > 1 and not all(part.dtype.is_numeric() for part in parts):
        parts = [part.cast(pl.String) for part in parts]
    return _join(parts, "values")


def _join(parts: list[pl.Series], what: str) -> pl.Series:
    import polars as pl

    types = {part.dtype for part in parts}
    if len(types) > 1 and not all(dtype.is_numeric() for dtype in types):
        raise OffdiagError(
            f"expected the same kind of {what} in every file, received {', '.join(sorted(map(str, types)))}; "
            "read them with text_ids=True, or one by one to see which differs"
        )
    joined: pl.DataFrame = pl.concat([part.alias("x").to_frame() for part in parts], how="vertical_relaxed")
    return joined.to_series()


def check_duplicates(rule: Duplicates | None) -> None:
    if rule is not None:
        checks.choice("duplicates", rule, ("sum", "once"))


def assemble(table: Table, duplicates: Duplicates | None, keep: Keep = "pairs") -> Interactions:
    """Check, number the ids, sort into CSR order and merge repeated pairs; ``keep="events"`` also keeps every row."""
    check_duplicates(duplicates)
    where = table.where
    user = checked_ids(table.user, "user", where)
    item = checked_ids(table.item, "item", where)
    n = len(user)
    if n == 0:
        raise OffdiagError(f"expected at least one interaction, received none in {where}; is the file complete?")
    if table.all_users is None:
        user_ids, users = number(user)
    else:
        user_ids, together = number(_join([user, checked_ids(table.all_users, "user", where)], "user ids"))
        users = together[:n]
    item_ids, items = number(item)
    value = None if table.value is None else checked_values(table.value, where)
    time = None if table.time is None else checked_times(table.time, where)
    # With a value column the rows are amounts, which add up; without one a row only means "it happened".
    rule = duplicates or ("sum" if value is not None else "once")
    inter = replace(build(users, items, value, time, user_ids, item_ids, rule), notes=table.notes)
    if keep == "pairs":
        return inter
    happened: Any = slice(None) if value is None else value != 0  # a value of 0 is no event
    when = None if time is None else time[happened]
    events = in_order(users[happened], items[happened], when, len(user_ids))
    if value is not None and not value.all():  # a pair whose latest value is 0 is not in the matrix
        events = events.select_events(events.pair_of_events(inter.matrix) >= 0)
    return replace(inter, events=events)


def build(
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    value: NDArray[Any] | None,
    time: NDArray[Any] | None,
    user_ids: NDArray[Any],
    item_ids: NDArray[Any],
    rule: Duplicates,
) -> Interactions:
    """Interactions from numbered rows: sorted, repeated pairs merged, zeros dropped."""
    shape = (len(user_ids), len(item_ids))
    rows, items = sort_pairs(users, items, *shape)
    indptr = row_pointer(users, shape[0])
    if rows is not None:
        value = None if value is None else np.take(value, rows, mode="clip")  # faster than indexing
        time = None if time is None else np.take(time, rows, mode="clip")
    start = np.zeros(len(items), dtype=bool)  # true where a pair (user, item) begins
    np.not_equal(items[1:], items[:-1], out=start[1:])
    start[indptr[:-1][np.diff(indptr) > 0]] = True
    if not start.all():
        extra = np.flatnonzero(~start)  # the second and later rows of a pair: few, so work only on these
        value, time = _merge_pairs(value, time, start, extra, rule)
        items = items[start]
        rows = np.flatnonzero(start) if rows is None else rows[start]
        indptr = indptr - np.searchsorted(extra, indptr)
    data = np.ones(len(items), dtype=np.float32) if value is None else value.astype(np.float32, copy=False)
    if not np.isfinite(data).all():
        raise OffdiagError("expected values that fit float32, received a sum beyond 3.4e38; scale the values down")
    interactions = Interactions(csr(data, items, indptr, shape), user_ids, item_ids, time, rows)
    return interactions if data.all() else interactions.select_entries(data != 0)


def _merge_pairs(
    value: NDArray[Any] | None,
    time: NDArray[Any] | None,
    start: NDArray[np.bool_],
    extra: NDArray[np.int64],
    rule: Duplicates,
) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Value and time of each pair: the sum of its rows or its latest row, and its latest time."""
    pair = extra - np.arange(len(extra)) - 1  # number of the pair an extra row belongs to
    repeated, first, more = np.unique(pair, return_index=True, return_counts=True)
    merged = None if value is None else value[start]
    if rule == "sum" and value is None:
        merged = np.ones(len(start) - len(extra), dtype=np.float32)
        merged[repeated] += more
    elif rule == "sum" and merged is not None and value is not None:
        total = np.add.reduceat(value[extra].astype(np.float64), first) + merged[repeated]
        with np.errstate(over="ignore"):  # checked by the caller
            merged[repeated] = total
    elif merged is not None and value is not None:
        candidates = np.concatenate([extra[first] - 1, extra])  # the row before the first extra starts its pair
        of_pair = np.concatenate([repeated, pair])
        keys = (candidates, of_pair) if time is None else (candidates, time[candidates], of_pair)
        order = np.lexsort(keys)
        ends = np.append(np.flatnonzero(np.diff(of_pair[order])), len(order) - 1)
        merged[repeated] = value[candidates[order[ends]]]
    if time is None:
        return merged, None
    latest = time[start]
    np.maximum.at(latest, pair, time[extra])
    return merged, latest


def checked_values(column: pl.Series, where: str) -> NDArray[Any]:
    import polars as pl

    if not (column.dtype.is_numeric() or str(column.dtype) == "Boolean"):
        raise OffdiagError(f"expected numbers in the value column of {where}, received {column.dtype}; check it")
    no_gaps(column, "a value", where)
    value = column.cast(pl.Float32).to_numpy(writable=True)
    for bad, expected, advice in (
        (~np.isfinite(value), "finite values", "remove or fix those rows"),
        (value < 0, "values of 0 or more", "shift or clip them, or read with negative='drop' or 'net'"),
    ):
        if bad.any():
            row = int(bad.argmax())
            raise OffdiagError(
                f"expected {expected}, received {column[row]} in row {row + 1} of {where} ({int(bad.sum())} in all); "
                f"{advice}"
            )
    return value


def checked_times(column: pl.Series, where: str) -> NDArray[Any]:
    """Numbers as they are; dates as seconds since 1970."""
    import polars as pl

    no_gaps(column, "a time", where)
    if column.dtype == pl.Date:
        return past_dates(column.cast(pl.Int64).to_numpy() * 86_400, column, where)
    if column.dtype == pl.Datetime:
        micro = column.dt.epoch("us").to_numpy()
        return past_dates(micro // 1_000_000 if not np.any(micro % 1_000_000) else micro / 1e6, column, where)
    if column.dtype.is_integer():
        try:
            return column.cast(pl.Int64).to_numpy(writable=True)
        except pl.exceptions.PolarsError:
            raise OffdiagError(
                f"expected times below 2^63, received up to {column.max()!r} in {where}; use seconds since 1970"
            ) from None
    if column.dtype.is_float():
        time = column.cast(pl.Float64).to_numpy(writable=True)
        if not np.isfinite(time).all():
            row = int((~np.isfinite(time)).argmax())
            raise OffdiagError(
                f"expected finite times, received {time[row]} in row {row + 1} of {where}; fix those rows"
            )
        return time
    if column.dtype == pl.String:
        return checked_times(_iso_dates(column, where), where)
    raise OffdiagError(f"expected numbers or dates in the time column of {where}, received {column.dtype}; convert it")


def dates_of(column: pl.Series, form: str | None = None) -> pl.Series:
    """Text as times: in a strptime format, null where it does not fit; or as the ISO dates or numbers that it holds.

    Text that is neither of these is returned unchanged.
    """
    import polars as pl

    if form is not None:
        zoned = "%z" in form or "%Z" in form
        dates = column.str.to_datetime(form, strict=False, time_unit="us", time_zone="UTC" if zoned else None)
        if dates.is_null().all():  # of a format without hours, which polars takes only for days
            dates = column.str.to_date(form, strict=False).cast(pl.Datetime("us"))
        return dates
    text = column.str.strip_chars().str.replace(r"(Z|[+]00:?00)$", "")
    for form in ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M"):
        dates = text.str.to_datetime(form, strict=False, time_unit="us")
        if not dates.is_null().any():
            return dates
    number = column.str.strip_chars().cast(pl.Float64, strict=False)
    return column if number.is_null().any() else number


def _iso_dates(column: pl.Series, where: str) -> pl.Series:
    import polars as pl

    dates = dates_of(column)
    if dates.dtype != pl.String:
        return dates
    text = column.str.strip_chars()
    row = (
        text.cast(pl.Float64, strict=False).is_null() & text.str.to_datetime("%Y-%m-%d", strict=False).is_null()
    ).arg_max() or 0
    raise OffdiagError(
        f"expected numbers or ISO dates such as 2024-05-31 12:00:00 in the time column of {where}, "
        f"received {column[row]!r} in row {row + 1}; read with date_format='…', e.g. '%d.%m.%Y %H:%M'"
    )
