"""The products of a shop by item id: title, category, image, price, link and group, as they are shown with lists."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offdiag import notebook, tables, wording
from offdiag.data.coverage import Coverage
from offdiag.data.ids import is_whole_text, of_type, places_of, text_array
from offdiag.data.product_cells import ADDRESSES, LONGEST, NAMES, is_address, shown_text
from offdiag.data.texts import Texts
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    import polars as pl

_LOG = logging.getLogger("offdiag")

Column = Texts | NDArray[np.float64]  # texts, or prices that are numbers
Cell = str | float


@dataclass(frozen=True, eq=False)
class Catalogue(tables.Tabular):
    """Products by item id: a row for each, with a title, category, image, price, link and group where given.

    ``od.read_catalogue`` makes one from a table; ``model.with_catalogue`` keeps it in a model and its file, and titles
    are then shown with every list. Rows of items that the model does not know are kept: an update may bring them.
    An empty cell is null. Prices are numbers where all of them are, otherwise text. Images and links are addresses
    that begin with http:// or https:// or are relative; others are dropped.

    ``notes`` says what was guessed, left out or cut, ``source`` which column of the table each column comes from.

    Example:
        >>> import offdiag as od
        >>> shop = od.read_catalogue({"sku": [7, 8], "name": ["Alien", "Brazil"], "price": [9.5, None]})
        >>> shop.columns, shop.title(7), shop.row(8)
        (('title', 'price'), 'Alien', {'title': 'Brazil'})
    """

    items: NDArray[Any]  # ids, ascending: whole numbers or text
    data: Mapping[str, Column]  # by name, in the order of NAMES
    notes: tuple[str, ...] = field(default=(), compare=False)
    source: Mapping[str, str] = field(default_factory=dict, compare=False)

    @classmethod
    def of(
        cls,
        ids: Sequence[Any] | NDArray[Any],
        columns: Mapping[str, Sequence[Any]],
        notes: Iterable[str] = (),
        source: Mapping[str, str] | None = None,
    ) -> Catalogue:
        """From distinct ids of one type and clean columns of cells, ``None`` where a cell is empty.

        Example:
            >>> import offdiag as od
            >>> od.Catalogue.of([8, 7], {"title": ["Brazil", None]}).to_dicts()
            [{'item': 7, 'title': None}, {'item': 8, 'title': 'Brazil'}]
        """
        kept = np.asarray(ids) if isinstance(ids, np.ndarray) else _array(list(ids))
        order = np.argsort(kept, kind="stable")
        data: dict[str, Column] = {}
        for name in (name for name in NAMES if name in columns):
            cells = [columns[name][place] for place in order]
            if name == "price" and all(cell is None or isinstance(cell, float) for cell in cells):
                data[name] = np.array([np.nan if cell is None else cell for cell in cells], dtype=np.float64)
            else:
                data[name] = Texts.of("" if cell is None else str(cell) for cell in cells)
        return cls(kept[order], data, tuple(notes), dict(source or {}))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that it has, besides the item.

        Example:
            >>> import offdiag as od
            >>> od.read_catalogue({"id": [7], "url": ["https://shop.example/7"], "title": ["Alien"]}).columns
            ('title', 'link')
        """
        return tuple(self.data)

    def __len__(self) -> int:
        return len(self.items)

    def title(self, item: Any) -> str | None:
        """The title of an item, if it has one.

        Example:
            >>> import offdiag as od
            >>> od.read_catalogue({"id": [7], "title": ["Alien"]}).title(7)
            'Alien'
        """
        (found,) = self.column("title", [item])
        return None if found is None else str(found)

    def row(self, item: Any) -> dict[str, Cell]:
        """The cells of an item by column name, without empty ones; nothing for an item without a row.

        Example:
            >>> import offdiag as od
            >>> od.read_catalogue({"id": ["a"], "title": ["Alien"], "genre": ["horror"]}).row("a")
            {'title': 'Alien', 'category': 'horror'}
        """
        place = int(self.places([item])[0])
        found = {} if place < 0 else {name: self._cell(name, place) for name in self.data}
        return {name: cell for name, cell in found.items() if cell is not None}

    def column(self, name: str, items: Sequence[Any] | NDArray[Any]) -> list[Cell | None]:
        """One column for these items, None where there is no value; an unknown name is a column without values.

        Example:
            >>> import offdiag as od
            >>> od.read_catalogue({"id": [7, 8], "title": ["Alien", "Brazil"]}).column("title", [8, 9])
            ['Brazil', None]
        """
        if name not in NAMES:
            raise OffdiagError(f"a catalogue has the columns {', '.join(NAMES)}; received {name!r}")
        if name not in self.data:
            return [None] * len(items)
        return [None if place < 0 else self._cell(name, place) for place in self.places(items).tolist()]

    def select(self, items: Sequence[Any]) -> Catalogue:
        """The rows of these items.

        Example:
            >>> import offdiag as od
            >>> od.Catalogue.of([7, 8], {"title": ["Alien", "Brazil"]}).select([8, 9])
            Catalogue(1 item: title)
        """
        places = [place for place in self.places(items).tolist() if place >= 0]
        cells = {name: [self._cell(name, place) for place in places] for name in self.data}
        return Catalogue.of(self.items[places], cells, self.notes, self.source)

    def series(self, name: str, items: Sequence[Any] | NDArray[Any]) -> pl.Series:
        """The same as a column of polars, whose type does not depend on the items.

        Example:
            >>> import offdiag as od
            >>> od.Catalogue.of([7], {"title": ["Alien"]}).series("title", [8]).dtype
            String
        """
        import polars as pl

        texts = name not in self.data or isinstance(self.data[name], Texts)
        return pl.Series(name, self.column(name, items), dtype=pl.String if texts else pl.Float64)

    def places(self, items: Sequence[Any] | NDArray[Any]) -> NDArray[np.int64]:
        """The row of each item, -1 where it has none; 7 and "7" are the same item, 7 and "007" are not.

        Example:
            >>> import offdiag as od
            >>> od.Catalogue.of([7, 8], {"title": ["Alien", "Brazil"]}).places([8, "7", "007"])
            array([ 1,  0, -1])
        """
        return places_of(items, self.items)

    def with_titles(self, titles: Mapping[Any, str]) -> Catalogue:
        """The same with these titles, by item id, in place of its own; the titles of other items stay.

        Example:
            >>> import offdiag as od
            >>> shop = od.read_catalogue({"id": [7, 8], "title": ["Alien", "Brazil"]})
            >>> shop.with_titles({8: "Brasil", 9: "Cube"}).to_dicts()[1:]
            [{'item': 8, 'title': 'Brasil'}, {'item': 9, 'title': 'Cube'}]
        """
        items, given = [_plain(item) for item in titles], list(titles.values())
        places = self.places(items).tolist()
        new = [place for place, row in enumerate(places) if row < 0]
        whole = self.items.dtype.kind in "iu" and all(_is_whole(items[place]) for place in new)
        ids = [of_type(item, whole) for item in [*self.items.tolist(), *(items[place] for place in new)]]
        columns = {name: [*self.column(name, self.items), *([None] * len(new))] for name in (*self.data, "title")}
        for title, row in zip(given, places, strict=True):
            if row >= 0:
                columns["title"][row] = title
        columns["title"][len(self) :] = [given[place] for place in new]
        return Catalogue.of(ids, columns, self.notes, self.source)

    def coverage(self, item_ids: NDArray[Any]) -> Coverage:
        """How the rows and the items of a model belong together.

        Example:
            >>> import offdiag as od
            >>> shop = od.read_catalogue({"id": [7, 8], "title": ["Alien", "Brazil"]})
            >>> shop.coverage(np.array([8, 9])).notes
            ('1 of 2 items has no row in the catalogue: 9', '1 row is of an item that the model does not know')
        """
        places = self.places(item_ids)
        return Coverage(len(item_ids), item_ids[places < 0].tolist(), len(self) - int((places >= 0).sum()))

    @cached_property
    def nbytes(self) -> int:
        """The size of its arrays."""
        arrays = [part for column in self.data.values() for part in (column if isinstance(column, Texts) else [column])]
        return int(self.items.nbytes) + sum(int(array.nbytes) for array in arrays)

    def too_long(self) -> str | None:
        """The name of a column with a text that is longer than allowed, if there is one.

        Example:
            >>> import offdiag as od
            >>> od.Catalogue.of([7], {"title": ["Alien" * 1000]}).too_long()
            'title'
        """
        texts = {name: column for name, column in self.data.items() if isinstance(column, Texts)}
        # A character takes at most four bytes.
        long = [name for name, column in texts.items() if np.diff(column.offsets).max(initial=0) > 4 * LONGEST[name]]
        return next(iter(long), None)

    def _cell(self, name: str, place: int) -> Cell | None:
        column = self.data[name]
        if not isinstance(column, Texts):
            number = float(column[place])
            return None if np.isnan(number) else number
        text = column.at(place)  # a file may hold anything
        if name in ADDRESSES:
            return text if is_address(text) else None
        return shown_text(text) or None

    def _columns(self, form: str) -> Mapping[str, Any]:
        return {"item": self.items} | {name: self.series(name, self.items) for name in self.data}

    def __repr__(self) -> str:
        return f"Catalogue({len(self):,} item{'s' * (len(self) != 1)}: {', '.join(self.data)})"

    def _repr_html_(self) -> str:
        first = Catalogue(self.items[: notebook.ROWS], {name: _head(self.data[name]) for name in self.data})
        facts = {f"note {number}": note for number, note in enumerate(self.notes, 1)}
        return notebook.card(
            f"Catalogue of {len(self):,} items", facts, first.to_polars(), n_rows=len(self),
            links={"item": "link", "title": "link"},
            pictures=("image",),
        )  # fmt: skip


def with_titles(catalogue: Catalogue | None, titles: Mapping[Any, str] | None) -> Catalogue | None:
    """What is shown: titles that a caller gives, before those of the catalogue; None if there is neither."""
    return catalogue if titles is None else (catalogue or Catalogue.of([], {})).with_titles(titles)


def check_catalogue(catalogue: Any, item_ids: NDArray[Any]) -> None:
    """Reject a catalogue that cannot be of these items; what does not belong together is logged."""
    if not isinstance(catalogue, Catalogue):
        raise OffdiagError(
            f"expected a catalogue, received {type(catalogue).__name__}; make one with od.read_catalogue(source)"
        )
    if (long := catalogue.too_long()) is not None:
        raise OffdiagError(
            f"expected texts of at most {LONGEST[long]:,} characters in the column {long!r}, received a longer one; "
            "od.read_catalogue(source) cuts them"
        )
    coverage = catalogue.coverage(item_ids)
    if not coverage.n_covered:
        column = catalogue.source.get("item", "item")
        raise OffdiagError(
            f"expected a catalogue of the model's items, such as {wording.shorten(item_ids[:3].tolist())}, received "
            f"none of them in the column {column!r}, which has {wording.shorten(catalogue.items[:3].tolist())}; name "
            "another column with item=…"
        )
    for note in coverage.notes:
        _LOG.info("%s", note)


def _array(ids: list[Any]) -> NDArray[Any]:
    return text_array(ids) if ids and isinstance(ids[0], str) else np.array(ids, dtype=np.int64)


def _plain(item: Any) -> Any:
    return item.item() if isinstance(item, np.generic) else item


def _is_whole(item: Any) -> bool:
    return is_whole_text(str(_plain(item)))


def _head(column: Column) -> Column:
    n = notebook.ROWS
    return Texts(column.offsets[: n + 1], column.utf8) if isinstance(column, Texts) else column[:n]
