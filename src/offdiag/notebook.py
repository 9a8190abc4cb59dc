"""What a notebook shows for an object: a card with facts and a table, from one template that escapes everything."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import polars as pl
    from jinja2 import Template

ROWS = 10  # of a table that are shown


def card(
    title: str,
    facts: Mapping[str, Any],
    table: pl.DataFrame | None = None,
    *,
    n_rows: int | None = None,
    note: str = "",
    links: Mapping[str, str] | None = None,
    pictures: Sequence[str] = (),
) -> str:
    """A self-contained fragment of HTML; ``n_rows`` is the length of the whole table if only its beginning is given.

    ``links`` gives for a column the one that holds the addresses of its links; ``pictures`` are columns of addresses.
    The caller vouches for the addresses: they must not be able to run code.
    """
    links = {} if table is None else {shown: at for shown, at in (links or {}).items() if at in table.columns}
    hidden = set(links.values()) - set(links)
    first = [] if table is None else table.head(ROWS).to_dicts()
    names = [] if table is None else [name for name in table.columns if name not in hidden]
    rows = [[Cell(cell(row[name]), row.get(links.get(name, "")), name in pictures) for name in names] for row in first]
    total = n_rows if n_rows is not None else (0 if table is None else table.height)
    return _template().render(
        title=title,
        facts=[(name, cell(value)) for name, value in facts.items()],
        columns=[] if table is None else [(name, table.schema[name].is_numeric()) for name in names],
        rows=rows,
        more=f"{total - len(rows):,} more rows" if total > len(rows) else "",
        note=note,
    )


class Cell(NamedTuple):
    """What a cell of a table shows."""

    text: str
    link: str | None = None
    picture: bool = False  # the text is its address


def cell(value: Any) -> str:
    """A value as a reader wants it: four digits, thousands separated, an empty cell where there is none."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def facts_of_rows(ids: Sequence[Any] | np.ndarray[Any, Any], most: int = 3) -> str:
    """The first ids of many: 'ann, bob, eve, …'."""
    shown = ", ".join(str(x) for x in list(ids[:most]))
    return f"{shown}, …" if len(ids) > most else shown


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("offdiag"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("notebook.html")


def is_running() -> bool:
    """Whether this program is the kernel of a notebook."""
    import sys

    if "IPython" not in sys.modules:
        return False
    shell = importlib.import_module("IPython").get_ipython()
    return shell is not None and hasattr(shell, "kernel")
