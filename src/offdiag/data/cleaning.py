"""Between reading and assembling: rows are filtered, weighted, netted or dropped by option, and every step is counted.

Each step is a function from a Table to a Table with a note for the rows that it changed. Without options only what is
unambiguous is converted, and `assemble` rejects the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from offdiag import checks, wording
from offdiag.data.columns import Cleaning, Column, Roles
from offdiag.data.failures import polars_failures
from offdiag.data.ids import no_gaps
from offdiag.data.table import Table, dates_of, select_rows
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    import polars as pl

_LOG = logging.getLogger("offdiag")
MORE = "more:"  # begins the name of a column that plays no role, but that a filter or an action needs
_GERMAN = r"^[+-]?(?:\d{1,3}(?:\.\d{3})+|\d+)?(?:,\d+)?$"  # 1.234,50 and 1234,5, but not 12.50


def check(cleaning: Cleaning, roles: Roles, duplicates: str | None = None) -> None:
    """Reject options that are wrong in themselves, before anything is read."""
    checks.choice("missing", cleaning.missing, ("error", "drop"))
    checks.choice("negative", cleaning.negative, ("error", "drop", "net"))
    checks.choice("decimal", cleaning.decimal, (".", ","))
    checks.flag("normalise_users", cleaning.normalise_users)
    if cleaning.date_format is not None and roles.time is None:
        raise OffdiagError("date_format= describes the time column, but none was named; add time=")
    if cleaning.negative != "error" and roles.value is None and cleaning.action is None:
        raise OffdiagError(f"negative={cleaning.negative!r} is about values, but no column was named; add value=")
    if cleaning.negative == "net" and duplicates == "once":
        raise OffdiagError("negative='net' adds up the values of a pair, duplicates='once' does not; leave one out")
    if cleaning.dislike_below is not None:
        checks.number("dislike_below", cleaning.dislike_below)
        if roles.value is None and cleaning.action is None:
            raise OffdiagError("dislike_below= is about values, but no column was named; add value=")
        if cleaning.negative != "error":
            raise OffdiagError(
                f"dislike_below= and negative={cleaning.negative!r} both say what a low value means; leave one out"
            )
    if (cleaning.action is None) != (cleaning.weights is None):
        given, other = ("action", "weights") if cleaning.weights is None else ("weights", "action")
        raise OffdiagError(f"{given}= needs {other}=: a column of actions, and a weight for each action; give both")
    for action, weight in (cleaning.weights or {}).items():
        checks.number(f"the weight of {action!r}", weight, hint="; e.g. 1 for a view, 5 for a purchase")


def columns_of(cleaning: Cleaning) -> tuple[Column, ...]:
    """The columns that the cleaning needs, whatever their roles."""
    action = () if cleaning.action is None else (cleaning.action,)
    return (*action, *(() if cleaning.where is None else where_columns(cleaning.where)))


def wanted(roles: Roles, more: Sequence[Column]) -> dict[str, Column]:
    """All columns to read, by role; those that only the cleaning needs have names of their own."""
    return roles.present() | {f"{MORE}{column}": column for column in more}


def where_columns(where: str) -> list[str]:
    """The columns that a filter names."""
    import polars as pl

    advice = "write a condition in SQL over the columns, e.g. event = 'purchase'"
    if not isinstance(where, str):
        raise OffdiagError(f"expected where to be text, received {where!r}; {advice}")
    with polars_failures("a condition for where", repr(wording.cut(where, 60)), advice):
        names = list(dict.fromkeys(pl.sql_expr(where).meta.root_names()))
    if not names:
        raise OffdiagError(f"expected where to name a column, received {where!r}; {advice}")
    return names


def table_of(columns: Mapping[str, pl.Series], where: str) -> Table:
    """A Table from columns by role; the others are kept until the table is clean."""
    return with_columns(Table(columns["user"], columns["item"], where=where), columns)


def with_columns(table: Table, columns: Mapping[str, pl.Series]) -> Table:
    """The table with other columns, by role."""
    roles: dict[str, Any] = {role: column for role, column in columns.items() if not role.startswith(MORE)}
    more = {name.removeprefix(MORE): column for name, column in columns.items() if name.startswith(MORE)}
    return replace(table, **roles, more={**table.more, **more})


def clean(table: Table, cleaning: Cleaning) -> Table:
    """The table as `assemble` takes it; its notes say what was left out, and the log of "offdiag" repeats them."""
    steps: tuple[Callable[[Table, Cleaning], Table], ...] = (
        keep_where, blank_ids, drop_missing, numbers, weigh_actions, dates, normalise_users, negatives,
    )  # fmt: skip
    before = len(table.notes)
    for step in steps:
        table = step(table, cleaning)
    for note in table.notes[before:]:
        _LOG.info("%s: %s", table.where, note)
    return replace(table, more={})


def noted(table: Table, note: str) -> Table:
    return replace(table, notes=(*table.notes, note))


def keep_where(table: Table, cleaning: Cleaning) -> Table:
    """Only the rows for which the condition is true."""
    import polars as pl

    if cleaning.where is None:
        return table
    names = where_columns(cleaning.where)
    frame = pl.DataFrame({name: table.more[name] for name in names}).fill_nan(None)  # pandas writes a gap as NaN
    listed = ", ".join(f"{name} ({dtype})" for name, dtype in frame.schema.items())
    expected = f"a condition over {listed} in {table.where}"
    with polars_failures(expected, f"where={cleaning.where!r}", "text is written in single quotes"):
        query = f"select ({cleaning.where}\n) as keep from rows"
        kept = pl.SQLContext(rows=frame).execute(query, eager=True).to_series()
        if kept.dtype != pl.Boolean:
            raise OffdiagError(f"expected {expected}, received {cleaning.where!r}, which is {kept.dtype}; compare it")
    kept = kept.fill_null(value=False)
    if not kept.any():
        shown = wording.shorten(frame.to_series(0).unique().sort().head(6).to_list())
        raise OffdiagError(
            f"expected rows where {cleaning.where}, received none among {len(kept):,} in {table.where}; "
            f"{names[0]} is {shown}"
        )
    # A user without a matching row is not a user of this data.
    table = replace(select_rows(table, kept), all_users=None)
    return noted(table, f"{_rows(len(kept) - int(kept.sum()))} left out: {cleaning.where} is not true of them")


def blank_ids(table: Table, cleaning: Cleaning) -> Table:
    """Text ids of nothing but white space: missing if those are dropped, otherwise ids like any other, with a note."""
    import polars as pl

    for role in ("user", "item"):
        column: pl.Series = getattr(table, role)
        if column.dtype.is_float():
            table = with_columns(table, {role: column.fill_nan(None)})
        blank = ~column.str.contains(r"\S") if column.dtype == pl.String else None
        if blank is None or not blank.any():
            continue
        if cleaning.missing == "drop":
            table = with_columns(table, {role: column.set(blank.fill_null(value=False), None)})
        else:
            n = int(blank.sum())
            rows = "1 row has" if n == 1 else f"{n:,} rows have"
            table = noted(table, f"{rows} a blank {role} id, which counts as one {role}; missing='drop' drops them")
    return table


def drop_missing(table: Table, cleaning: Cleaning) -> Table:
    """Rows without a user, then rows without an item."""
    if cleaning.missing != "drop":
        return table
    for role, noun in (("user", "a user"), ("item", "an item")):
        present = getattr(table, role).is_not_null()
        if not present.any():
            raise OffdiagError(
                f"expected {noun} in some row, received none among {len(present):,} in {table.where}; "
                f"is {role}= the right column?"
            )
        if not present.all():
            dropped = len(present) - int(present.sum())
            table = noted(select_rows(table, present), f"{_rows(dropped, f' without {noun}')} dropped")
    if table.all_users is not None:
        table = replace(table, all_users=table.all_users.drop_nulls())
    return table


def numbers(table: Table, cleaning: Cleaning) -> Table:
    """Values that are text as numbers."""
    import polars as pl

    column = table.value
    if column is None or column.dtype != pl.String:
        return table
    text = column.str.strip_chars()
    text = text.set(text == "", None)
    if cleaning.decimal == ",":
        fits = text.str.contains(_GERMAN)
        plain = text.set(~fits, None).str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
    else:
        plain = text
    found = plain.cast(pl.Float64, strict=False)
    bad = found.is_null() & text.is_not_null()
    if bad.any():
        row = bad.arg_max() or 0
        comma = cleaning.decimal == "." and "," in text[row]
        form = " with a decimal comma" if cleaning.decimal == "," else ""
        raise OffdiagError(
            f"expected numbers{form} in the value column of {table.where}, received {text[row]!r} in row {row + 1}; "
            + ("read with decimal=','" if comma else "check value=, separator= and decimal=")
        )
    return replace(table, value=found)


def weigh_actions(table: Table, cleaning: Cleaning) -> Table:
    """Each row counts the weight of its action, times its value if it has one; weight 0 drops it."""
    import polars as pl

    if cleaning.action is None or cleaning.weights is None:
        return table
    action = table.more[str(cleaning.action)].cast(pl.String)
    weights = {str(name): float(weight) for name, weight in cleaning.weights.items()}
    unknown = action.filter(~action.is_in(list(weights)) | action.is_null())
    if len(unknown):
        counts = action.value_counts(sort=True).rows()
        listed = ", ".join(f"{'no action' if name is None else repr(name)} ({n:,})" for name, n in counts[:10])
        more = f" and {len(counts) - 10} more" if len(counts) > 10 else ""
        missing = ", ".join("no action" if name is None else repr(name) for name in unknown.unique().sort().head(5))
        raise OffdiagError(
            f"expected a weight for every action, received none for {missing} in {table.where}; its actions are "
            f"{listed}{more}: add to weights=, with 0 to drop them"
        )
    weight = action.replace_strict(list(weights), list(weights.values()), return_dtype=pl.Float64)
    counted = weight != 0
    value = weight if table.value is None else weight * table.value.cast(pl.Float64)
    table = replace(table, value=value)
    if counted.all():
        return table
    if not counted.any():
        raise OffdiagError(f"expected an action with a weight other than 0, received none in {table.where}")
    dropped = ", ".join(repr(name) for name, each in weights.items() if each == 0)
    n = len(counted) - int(counted.sum())
    return noted(replace(select_rows(table, counted), all_users=None), f"{_rows(n)} dropped: {dropped} has weight 0")


def dates(table: Table, cleaning: Cleaning) -> Table:
    """Times that are written in a format of their own."""
    import polars as pl

    if cleaning.date_format is None or table.time is None or table.time.dtype.is_temporal():
        return table
    text = table.time.cast(pl.String).str.strip_chars()
    advice = "write it as for strptime, e.g. %d.%m.%Y %H:%M"
    with polars_failures("a date_format", repr(cleaning.date_format), advice):
        found = dates_of(text, cleaning.date_format)
    bad = found.is_null() & text.is_not_null()
    if bad.any():
        row = bad.arg_max() or 0
        raise OffdiagError(
            f"expected dates such as date_format={cleaning.date_format!r} in the time column of {table.where}, "
            f"received {text[row]!r} in row {row + 1} ({int(bad.sum()):,} in all); {advice}"
        )
    return replace(table, time=found)


def normalise_users(table: Table, cleaning: Cleaning) -> Table:
    """User ids without surrounding white space and without case; or a hint if some differ in nothing else."""
    import polars as pl

    if table.user.dtype != pl.String:
        return table
    distinct = table.user.drop_nulls().unique()
    if cleaning.normalise_users:
        plain = casefolded(distinct)
        merged = len(distinct) - plain.n_unique()

        def normalised(column: pl.Series) -> pl.Series:
            return column.replace_strict(distinct, plain, default=None, return_dtype=pl.String)

        table = replace(table, user=normalised(table.user))
        if table.all_users is not None:
            table = replace(table, all_users=casefolded(table.all_users.cast(pl.String)))
        if not merged:
            return table
        are = "user id was" if merged == 1 else "user ids were"
        return noted(table, f"{merged:,} {are} merged with others that differ only by case or white space")
    plain = distinct.str.strip_chars().str.to_lowercase()
    alike = len(distinct) - plain.n_unique()
    if not alike:
        return table
    pair = distinct.filter(plain == plain.filter(plain.is_duplicated()).sort()[0]).sort()
    return noted(
        table,
        f"{alike:,} user id{'s differ' if alike > 1 else ' differs'} from another only by case or surrounding white "
        f"space, such as {pair[0]!r} and {pair[1]!r}; normalise_users=True merges them",
    )


def casefolded(ids: pl.Series) -> pl.Series:
    """Text ids without surrounding white space and without case."""
    import polars as pl

    return pl.Series([name.strip().casefold() for name in ids], dtype=pl.String)


def negatives(table: Table, cleaning: Cleaning) -> Table:
    """Returns: rows with a negative value are dropped, or netted with the other rows of the same user and item."""
    if cleaning.negative == "error" or table.value is None or not table.value.dtype.is_numeric():
        return table
    no_gaps(table.value, "a value", table.where)
    below = table.value < 0
    if not below.any():
        return table
    n = int(below.sum())
    if cleaning.negative == "drop":
        if below.all():
            raise OffdiagError(f"expected values above 0, received only negative ones in {table.where}; check value=")
        return noted(select_rows(table, ~below), f"{_rows(n, ' with negative values')} dropped")
    netted, pairs = _net(table)
    if not len(netted.user):
        raise OffdiagError(f"expected a pair whose values add up to more than 0, received none in {table.where}")
    what = "pair of user and item" if pairs == 1 else "pairs of user and item"
    return noted(netted, f"{_rows(n, ' with negative values')} netted; {pairs:,} {what} left with nothing disappeared")


def _net(table: Table) -> tuple[Table, int]:
    """One row for each pair with a positive sum, and the number of other pairs that had positive values or returns."""
    import polars as pl

    assert table.value is not None
    if table.event is not None:
        raise OffdiagError("negative='net' joins rows, so their event ids are lost; leave the event column out")
    frame = pl.DataFrame({"user": table.user, "item": table.item, "value": table.value.cast(pl.Float64)})
    bought = pl.col("value") > 0
    sums = [pl.col("value").sum(), pl.col("value").abs().sum().alias("gross")]
    if table.time is not None:
        frame = frame.with_columns(time=dates_of(table.time) if table.time.dtype == pl.String else table.time)
        sums.append(pl.col("time").filter(bought).max())  # when it was last bought, not when it was returned
    pairs = frame.group_by("user", "item", maintain_order=True).agg(sums)
    # What is left of 0.1 + 0.2 − 0.3 is rounding; values may come from float32.
    kept = pairs.filter(pl.col("value") > 1e-6 * pl.col("gross"))
    columns = {name: kept.get_column(name) for name in ("user", "item", "value", "time") if name in kept.columns}
    return replace(table, **columns), pairs.height - kept.height  # type: ignore[arg-type]


def _rows(n: int, more: str = "") -> str:
    return f"1 row{more} was" if n == 1 else f"{n:,} rows{more} were"
