"""Files with one user or basket per line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from offdiag.data.columns import Options, Roles
from offdiag.data.ids import whole_numbers
from offdiag.data.table import Table
from offdiag.data.text_files import file_bytes
from offdiag.errors import MissingColumnsError, OffdiagError

if TYPE_CHECKING:
    import polars as pl


def read_lines(form: str, path: Path, roles: Roles, options: Options) -> Table:
    """`user item item …` (adjacency, or sequence if in order), `item item …` (baskets) or `n item item …` (counted)."""
    if options.more:
        raise OffdiagError(
            f"expected neither where nor action with format={form!r}, whose lines hold ids only, received "
            f"{', '.join(map(str, options.more))}; leave them out"
        )
    if roles != Roles(roles.user, roles.item):
        also = "" if roles.event is None else f", event={roles.event!r}"
        raise MissingColumnsError(
            f"expected neither value nor time with format={form!r}, whose lines hold ids only, "
            f"received value={roles.value!r}, time={roles.time!r}{also}; leave them out"
        )
    return parse_lines(file_bytes(path, options.encoding), form, path.name, options.separator, options.text_ids)


def parse_lines(raw: bytes, form: str, where: str, separator: str | None = None, text_ids: bool = False) -> Table:
    """The same from bytes (UTF-8). Without a separator, any whitespace separates."""
    import polars as pl

    # In a basket or counted file the line number is the user, so an empty line is a user without items.
    lines = pl.Series(raw.decode("utf-8").removesuffix("\n").split("\n"), dtype=pl.String).str.strip_chars()
    if form in ("adjacency", "sequence"):
        lines = lines.filter(lines != "")
    if separator is None:
        tokens = lines.str.extract_all(r"\S+")
    else:
        tokens = lines.str.split(separator).list.eval(pl.element().str.strip_chars())
    lengths = np.where(lines == "", 0, tokens.list.len().cast(pl.Int64).to_numpy())
    if lengths.sum() == 0:
        raise OffdiagError(f"expected at least one interaction, received none in {where}; is the file complete?")
    flat = tokens.filter(pl.Series(lengths > 0)).explode()
    starts = np.cumsum(lengths) - lengths
    if form == "baskets":
        return Table(
            pl.Series(np.repeat(np.arange(len(lengths)), lengths)),
            _numbers_if_all(flat, text_ids),
            where=where,
            all_users=pl.Series(np.arange(len(lengths))),
        )
    leads = np.zeros(len(flat), dtype=bool)
    leads[starts[lengths > 0]] = True
    first, items = flat.filter(pl.Series(leads)), flat.filter(pl.Series(~leads))
    per_line = np.maximum(lengths - 1, 0)
    if form == "counted":
        stated = np.zeros(len(lengths), dtype=np.int64)
        counts = first.cast(pl.Int64, strict=False)
        stated[lengths > 0] = counts.fill_null(-1).to_numpy()
        wrong = np.flatnonzero(stated != per_line)
        if len(wrong):
            line = int(wrong[0])
            raise OffdiagError(
                f"expected each line of {where} to start with the number of its items, received a line {line + 1}"
                f" with {per_line[line]} items after its first field; try format='adjacency' or 'baskets'"
            )
        everyone = pl.Series(np.arange(len(lengths)))
    else:
        everyone = _numbers_if_all(first, text_ids)
    if not len(items):
        raise OffdiagError(
            f"expected `user item item …` in {where}, received one field per line; "
            "give separator= if the ids are not divided by white space"
        )
    user = everyone.gather(np.repeat(np.arange(len(everyone)), per_line))
    time = None
    if form == "sequence":  # the place in the line, from 1
        time = pl.Series(np.arange(len(items)) - np.repeat(np.cumsum(per_line) - per_line, per_line) + 1)
    return Table(user, _numbers_if_all(items, text_ids), time=time, where=where, all_users=everyone)


def _numbers_if_all(column: pl.Series, text_ids: bool) -> pl.Series:
    if text_ids:
        return column
    numbers = whole_numbers(column)
    return column if numbers.has_nulls() else numbers
