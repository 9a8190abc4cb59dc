"""Dislikes: rows whose value is below a threshold become a second matrix, next to that of the likes."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from offdiag.data.ids import checked_ids, no_gaps, positions
from offdiag.data.interactions import Interactions
from offdiag.data.table import Table, checked_times, select_rows
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    import polars as pl

_LOG = logging.getLogger("offdiag")


def part_dislikes(table: Table, below: float) -> tuple[Table, Table]:
    """The rows of likes and those of dislikes; of a pair with both, only rows of the kind of its latest one remain."""
    import polars as pl

    assert table.value is not None
    if not table.value.dtype.is_numeric():
        raise OffdiagError(f"expected numbers for dislike_below, received {table.value.dtype} in {table.where}")
    no_gaps(table.value, "a value", table.where)
    low = table.value < below
    rows = pl.DataFrame({"user": table.user, "item": table.item, "low": low}).with_row_index("at")
    if table.time is not None:
        rows = rows.with_columns(time=pl.Series(checked_times(table.time, table.where)))
    pairs = rows.group_by("user", "item").agg(pl.col("low").any().alias("some"), pl.col("low").all().alias("all"))
    both = rows.join(pairs.filter(pl.col("some") & ~pl.col("all")).select("user", "item"), on=["user", "item"])
    if both.height:
        order = ["time", "at"] if table.time is not None else ["at"]
        latest = both.sort(order).group_by("user", "item").agg(pl.col("low").last().alias("latest"))
        gone = both.join(latest, on=["user", "item"]).filter(pl.col("low") != pl.col("latest"))["at"]
        kept = np.ones(rows.height, dtype=np.bool_)
        kept[gone.to_numpy()] = False
        table, low = select_rows(table, pl.Series(kept)), low.filter(pl.Series(kept))
        n = latest.height
        are = "pair was liked and disliked" if n == 1 else "pairs were liked and disliked"
        table = _noted(table, f"{n:,} {are}: the latest row counts")
    if not (~low).any():
        raise OffdiagError(
            f"expected values of {below:g} or more, which are likes, received only lower ones in {table.where}; lower "
            "dislike_below"
        )
    everyone = table.user if table.all_users is None else pl.concat([table.user, table.all_users])
    return replace(select_rows(table, ~low), all_users=everyone), select_rows(table, low)


def with_dislikes(liked: Interactions, disliked: Table) -> Interactions:
    """The dislikes as a matrix over the users and items of the likes; dislikes of other items are left out."""
    columns = _places(disliked.item, "item", disliked.where, liked)
    rows = _places(disliked.user, "user", disliked.where, liked)
    known = columns >= 0
    ones = np.ones(int(known.sum()), dtype=np.float32)
    matrix = sparse.csr_array((ones, (rows[known], columns[known])), shape=liked.shape)
    matrix.sum_duplicates()
    matrix.data[:] = 1
    notes = liked.notes
    if lost := int((~known).sum()):
        dislikes = "1 dislike is" if lost == 1 else f"{lost:,} dislikes are"
        note = f"{dislikes} of items that nobody likes, and left out"
        _LOG.info("%s: %s", disliked.where, note)
        notes = (*notes, note)
    return replace(liked, dislikes=matrix, notes=notes)


def _places(column: pl.Series, noun: str, where: str, liked: Interactions) -> np.ndarray:
    """Where the ids of a column are among those of the likes, which may have become text or numbers."""
    known = liked.item_ids if noun == "item" else liked.user_ids
    ids = checked_ids(column, noun, where).to_list()
    whole = known.dtype.kind in "iu"
    return positions([item if whole == isinstance(item, int) else str(item) for item in ids], known)


def _noted(table: Table, note: str) -> Table:
    _LOG.info("%s: %s", table.where, note)
    return replace(table, notes=(*table.notes, note))
