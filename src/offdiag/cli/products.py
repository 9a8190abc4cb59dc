"""The catalogue on the command line: read with notes, given titles before stored ones, names of items."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from offdiag import wording
from offdiag.cli import console
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    from offdiag import Catalogue
    from offdiag.models.recommender import Recommender

CatalogueFile = Annotated[
    str | None,
    Option("--catalogue", metavar="FILE", help="A table of products, kept in the model: titles, prices, …"),
]
CatalogueColumns = Annotated[
    str | None,
    Option(
        "--catalogue-columns", metavar="NAME=COLUMN,…", help="Its columns, e.g. title=name,price=3. Default: found."
    ),
]
Titles = Annotated[
    str | None, Option("--titles", metavar="FILE", help="A table of items and titles, shown before those of the model.")
]
With = Annotated[
    str | None, Option("--with", metavar="COLUMNS", help="Also show these columns of the catalogue: category,price,…")
]
ATTACH = "offdiag catalogue MODEL FILE --columns"


def read(source: str, columns: str | None = None, option: str = ATTACH, **how: Any) -> Catalogue:
    """A table of products; what was guessed or left out is printed. `option` names columns, for messages."""
    import offdiag as od
    from offdiag.data.read_catalogue import parse_columns

    with hints(option):
        found = od.read_catalogue(source, **parse_columns(columns or ""), **how)  # type: ignore[arg-type]
    for note in found.notes:
        console.note(note)
    return found


def given(catalogue: str | None, columns: str | None) -> Catalogue | None:
    """The table of products of --catalogue and --catalogue-columns."""
    if catalogue is None and columns is not None:
        raise OffdiagError("--catalogue-columns names columns of a table of products; add --catalogue FILE")
    return None if catalogue is None else read(catalogue, columns, "--catalogue-columns")


@contextmanager
def hints(option: str) -> Iterator[None]:
    """Errors inside name the columns of a catalogue by this option, not by an argument of Python."""
    try:
        yield
    except OffdiagError as error:
        raise OffdiagError(re.sub(r"\b(item|title)=…", rf"{option} '\1=…'", str(error))) from None


def attach(model: Recommender, catalogue: Catalogue) -> None:
    """Give a catalogue to a model that was just fitted; if it does not fit, the work is not lost."""
    try:
        with hints(ATTACH):
            model.catalogue_ = catalogue
    except OffdiagError as error:
        console.note(f"the model is saved without a catalogue: {error}")
    else:
        note_coverage(catalogue, model)


def note_coverage(catalogue: Catalogue, model: Recommender) -> None:
    for note in catalogue.coverage(model.item_ids_).notes:
        console.note(note)


def shown(model: Recommender, titles: str | None, also: str | None) -> tuple[Catalogue | None, tuple[str, ...]]:
    """The catalogue of the lists, with given titles before those of the model, and the columns to show."""
    from offdiag.data.catalogue import with_titles
    from offdiag.data.product_cells import NAMES

    found: Catalogue | None = model.catalogue_
    if titles is not None:
        given = read(titles)
        if "title" not in given.columns:
            raise OffdiagError(f"expected a column of titles in {titles!r}, received none; name it: {ATTACH} 'title=…'")
        if not given.coverage(model.item_ids_).n_covered:
            console.note(f"no row of {titles} is of an item of the model, such as {model.item_ids_[0]}")
        named = zip(given.items.tolist(), given.column("title", given.items), strict=True)
        found = with_titles(found, {item: str(title) for item, title in named if title is not None})
    wanted = [name.strip() for name in (also or "").split(",") if name.strip()]
    for name in wanted:
        if name not in NAMES:
            raise OffdiagError(f"--with takes columns of a catalogue ({', '.join(NAMES)}), received {name!r}")
        if found is None or name not in found.columns:
            has = "none" if found is None else f"only {', '.join(found.columns)}"
            raise OffdiagError(f"--with {name} needs that column in the catalogue of the model, which has {has}")
    return found, tuple(dict.fromkeys(["title", *wanted]))


def facts(model: Recommender) -> dict[str, Any] | None:
    """What there is to know about the catalogue of a model; None without one."""
    found: Catalogue | None = model.catalogue_
    if found is None:
        return None
    covered = found.coverage(model.item_ids_)
    return {
        "columns": list(found.columns), "rows": len(found), "items": covered.n_items, "covered": covered.n_covered,
        "bytes": found.nbytes,
    }  # fmt: skip


def facts_text(facts: Mapping[str, Any]) -> str:
    return (
        f"{', '.join(facts['columns'])} of {facts['covered']:,} of {facts['items']:,} items; {facts['rows']:,} rows, "
        f"{wording.size(facts['bytes'])}"
    )


def label(item: Any, catalogue: Catalogue | None) -> str:
    """An item as a person reads it: its title and its id, or the id alone."""
    title = None if catalogue is None else catalogue.title(item)
    return str(item) if title in (None, str(item)) else f"{title} ({item})"


def with_cells(entry: dict[str, Any], catalogue: Catalogue | None, columns: tuple[str, ...]) -> dict[str, Any]:
    """A dict of an item for JSON, with its cells."""
    row = {} if catalogue is None else catalogue.row(entry["item"])
    present = [] if catalogue is None else [name for name in columns if name in catalogue.columns]
    return {"item": entry["item"]} | {name: row.get(name) for name in present} | entry
