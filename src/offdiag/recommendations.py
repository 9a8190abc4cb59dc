"""Ranked lists as returned to the caller: ids and scores of equal length, masked after the end of a short list."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offdiag import checks, notebook, tables
from offdiag.data.catalogue import Catalogue
from offdiag.data.product_cells import CARD, NAMES

if TYPE_CHECKING:
    from offdiag.list_files import Written


class Reasons(NamedTuple):
    """Of each recommended item, the item of the history that adds most to its score."""

    items: np.ma.MaskedArray[Any, Any]  # (n, k) ids, masked where nothing in the history adds to the score
    shares: np.ma.MaskedArray[Any, Any]  # (n, k) of all that is added, from 0 to 1


@dataclass(frozen=True, eq=False)
class Recommendations(tables.Tabular):
    """A ranked list per history, best first.

    A list is shorter than k when no more items are left. ``lengths`` gives the length of each; after its end
    ``items`` and ``scores`` are masked (``None`` in ``tolist()``) and ``indices`` is -1.

    Tables: "long" has a row per recommendation (user, rank from 1, item, score; title and reason where known),
    "wide" a row per user with the items in columns item_1, item_2, …, null after the end of a short list.
    ``user_ids`` are the ids of the histories where these were Interactions, otherwise their positions from 0.

    Example:
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> lists = od.EASE(l2=10.0).fit(X).recommend(X, k=2)
        >>> lists.to_polars("wide").columns
        ['user', 'item_1', 'item_2']
    """

    TABLES: ClassVar[tuple[str, ...]] = ("long", "wide")

    items: np.ma.MaskedArray[Any, Any]  # (n, k) item ids
    scores: np.ma.MaskedArray[Any, Any]  # (n, k)
    indices: NDArray[np.int64]  # (n, k) columns of the catalogue
    unknown_in_histories: list[tuple[Any, ...]]  # per history, its ids that are not in the catalogue
    unknown_in_filters: list[Any] = field(default_factory=list)  # the same for allow and block
    user_ids: NDArray[Any] | None = field(default=None, repr=False)  # None: positions from 0
    reasons: Reasons | None = field(default=None, repr=False)
    catalogue: Catalogue | None = field(default=None, repr=False)  # whose columns are shown with the items
    shown: tuple[str, ...] = field(default=("title",), repr=False)  # columns of the catalogue
    popular: NDArray[np.bool_] = field(
        default_factory=lambda: np.zeros(0, np.bool_), repr=False
    )  # lists of popular items
    names: tuple[str, str] = ("user", "item")  # what the lists belong to, and what they hold; as columns of tables

    @property
    def users(self) -> NDArray[Any]:
        """The id of each list's user; its position from 0 where ids are not known."""
        return np.arange(len(self.indices)) if self.user_ids is None else self.user_ids

    def with_catalogue(self, catalogue: Catalogue | None, columns: Sequence[str] = ("title",)) -> Recommendations:
        """The same lists with these columns of a catalogue in their tables; lists of a model have those of its own.

        Example:
            >>> model = od.Popularity().fit(np.array([[1, 0, 1], [1, 1, 0]]))
            >>> shop = od.read_catalogue({"id": [0], "title": ["Alien"], "price": [9.5]})
            >>> model.recommend([[1]], k=1).with_catalogue(shop, ["title", "price"]).to_dicts()
            [{'user': 0, 'rank': 1, 'item': 0, 'title': 'Alien', 'price': 9.5, 'score': 0.5}]
        """
        for name in columns:
            checks.choice("a column of a catalogue", name, NAMES)
        return replace(self, catalogue=catalogue, shown=tuple(columns))

    def with_titles(self, titles: Mapping[Any, str]) -> Recommendations:
        """The same lists with the titles of their items, by id; an id and its text are the same here.

        Items without one keep the title that they have in the catalogue.

        Example:
            >>> model = od.Popularity().fit(np.array([[1, 0, 1], [1, 1, 0]]))
            >>> model.recommend([[1]], k=1).with_titles({0: "Alien"}).to_dicts()[0]["title"]
            'Alien'
        """
        known = Catalogue.of([], {}) if self.catalogue is None else self.catalogue
        return self.with_catalogue(known.with_titles(titles), self.shown)

    def _columns(self, form: str) -> Mapping[str, Any]:
        key, value = self.names
        if form == "wide":
            places = range(self.indices.shape[1])
            return {key: self.users} | {f"{value}_{place + 1}": self.items[:, place] for place in places}
        real = self.indices >= 0
        list_of, place = np.nonzero(real)
        some, at = tables.distinct(self.indices[real])  # ids and their columns are converted once per item
        ids = self.items.data[list_of[some], place[some]]
        columns: dict[str, Any] = {
            key: tables.series(key, self.users).gather(list_of),
            "rank": place + 1,
            value: tables.series(value, ids).gather(at),
        }
        if self.catalogue is not None:
            shown = [name for name in self.shown if name in self.catalogue.columns]
            columns |= {name: self.catalogue.series(name, ids).gather(at) for name in shown}
        columns["score"] = self.scores.data[real]
        if self.reasons is not None:
            columns["reason"] = self.reasons.items[real]
            if "title" in columns and self.catalogue is not None:
                columns["reason_title"] = self._titles(columns["reason"])
            columns["reason_share"] = self.reasons.shares[real]
        return columns

    def _titles(self, items: Any) -> Any:
        """The titles of some items of histories, null where there is none."""
        assert self.catalogue is not None
        distinct = tables.series("", items).drop_nulls().unique().to_list()
        named = zip(distinct, self.catalogue.column("title", distinct), strict=True)
        return tables.looked_up(items, {str(item): str(title) for item, title in named if title is not None})

    def __str__(self) -> str:
        return f"{self._title()}\n{self._first(notebook.ROWS).to_polars()}"

    def _title(self) -> str:
        n, k = self.indices.shape
        return f"{n:,} list{'s' * (n != 1)} of up to {k:,} items"

    def _repr_html_(self) -> str:
        first = self._first(notebook.ROWS)
        facts = {"left out": f"{n_unknown:,} ids that the model does not know"} if (n_unknown := self.n_unknown) else {}
        if self.catalogue is not None:  # there is more room for them than on a terminal
            first = replace(first, shown=(*CARD, *(name for name in self.shown if name not in CARD)))
        return notebook.card(
            self._title(),
            facts,
            first.to_polars(),
            n_rows=int(self.lengths.sum()),
            pictures=("image",),
            links={self.names[1]: "link", "title": "link"},
        )

    @property
    def n_unknown(self) -> int:
        """How many ids of histories and filters were left out because the catalogue lacks them."""
        return sum(map(len, self.unknown_in_histories)) + len(self.unknown_in_filters)

    def write(self, path: str | os.PathLike[str], *, rows_per_file: int | None = None) -> Written:
        """Write the long table to a file that ends in .parquet, .csv, .jsonl or .ndjson, whole or not at all.

        With ``rows_per_file``, ``path`` is a new folder of files part-00000, part-00001, … For lists that do not fit
        into memory at once, use ``model.recommend_to``.

        Example:
            >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
            >>> od.EASE(l2=10.0).fit(X).similar(X.item_ids, k=5).write("similar.csv").n_rows
            200
        """
        from offdiag import list_files

        return list_files.write([self], path, rows_per_file=rows_per_file)

    def _first(self, n: int) -> Recommendations:
        rows, reasons = slice(n), self.reasons
        return replace(
            self,
            items=self.items[rows],
            scores=self.scores[rows],
            indices=self.indices[rows],
            unknown_in_histories=self.unknown_in_histories[rows],
            user_ids=self.users[rows],
            reasons=None if reasons is None else Reasons(reasons.items[rows], reasons.shares[rows]),
        )

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many items each list has; less than k only when no more are left."""
        lengths: NDArray[np.int64] = (self.indices >= 0).sum(axis=1, dtype=np.int64)
        return lengths

    @property
    def unknown(self) -> list[list[Any]]:
        """For each history, the ids that were ignored because the catalogue lacks them: its own, then allow and block.

        Built when read: the ids of allow and block repeat for every history.
        """
        return [[*own, *self.unknown_in_filters] for own in self.unknown_in_histories]

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[list[tuple[Any, float]]]:
        """For each history, its list of (item id, score) pairs, without masked places."""
        rows = zip(self.items.data, self.scores.data, self.lengths.tolist(), strict=True)
        for items, scores, n in rows:
            yield list(zip(items[:n].tolist(), scores[:n].tolist(), strict=True))


def named_lists(
    indices: NDArray[np.int64],
    scores: NDArray[np.floating],
    item_ids: NDArray[Any],
    unknown_in_histories: list[tuple[Any, ...]],
    unknown_in_filters: list[Any],
    **more: Any,
) -> Recommendations:
    """The lists of ``top_k`` with the ids of their items; index -1 becomes a masked place.

    ``more``: further fields of the result.
    """
    masked_items = named(indices, item_ids)
    masked_scores: Any = np.ma.MaskedArray(scores, mask=indices < 0)  # a separate mask: either may be changed
    if masked_items.mask.any():
        masked_scores.fill_value = -np.inf
    return Recommendations(masked_items, masked_scores, indices, unknown_in_histories, unknown_in_filters, **more)


def named(indices: NDArray[np.int64], item_ids: NDArray[Any]) -> np.ma.MaskedArray[Any, Any]:
    """The ids of columns; masked where the column is -1."""
    padded = indices < 0
    items = item_ids[np.maximum(indices, 0)]
    masked: Any = np.ma.MaskedArray(items, mask=padded)
    if padded.any():
        items[padded] = _not_an_id(item_ids)
        masked.fill_value = items[padded][0]
    return masked  # type: ignore[no-any-return]


def _not_an_id(item_ids: NDArray[Any]) -> Any:
    """The value under a mask: ``np.asarray`` drops masks, and even then no item of the catalogue may appear."""
    if item_ids.dtype.kind in "iu":
        info = np.iinfo(item_ids.dtype)
        ends = range(info.min, info.max) if info.min else range(info.max, 0, -1)
        return next((x for x in ends if x not in item_ids), info.min)
    private = map(chr, range(0xE000, 0xF900))  # private-use characters
    return next((x for x in chain([""], private) if x not in item_ids), "")
