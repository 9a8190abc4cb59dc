"""Items as a person names them on the command line: by id, by title, or by a title with typing errors."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from offdiag.cli import console
from offdiag.data.ids import is_whole_text, of_type
from offdiag.errors import OffdiagError
from offdiag.title_search import TitleIndex, fold

if TYPE_CHECKING:
    from offdiag import Catalogue
    from offdiag.models.recommender import Recommender

GOOD = 0.7  # score of a match that may be used
LEAD = 0.08  # over the next best, about an error in a title of ten letters; otherwise the user is asked
OFFERED = 4  # matches that an error names


class Lookup:
    """Finds the items of a model: by id, else among the titles, and then what was found is printed.

    Ids are never matched approximately: A-1001 is not A-1002.
    """

    def __init__(self, model: Recommender, catalogue: Catalogue | None = None) -> None:
        self._known = model.item_ids_.tolist()
        self._whole = model.item_ids_.dtype.kind in "iu"
        self._popularity = model.popularity_
        self._catalogue = catalogue if catalogue is not None else model.catalogue_

    def history(self, text: str) -> list[Any]:
        """Items separated by commas; a name that contains a comma is put in double quotes, or is the whole text.

        Ids that the model does not know are returned as well, for the caller to report.
        """
        if (item := self._exact(text)) is not None:
            return [item]
        (row,) = csv.reader([" ".join(text.splitlines())], skipinitialspace=True) if text.strip() else ([],)
        names = [part.strip() for part in row if part.strip()]
        return [of_type(name, self._whole) if (item := self._find(name)) is None else item for name in names]

    def items(self, texts: Iterable[str]) -> list[Any]:
        """Items that the model must know."""
        found = []
        for text in texts:
            if (item := self._find(text)) is None:
                raise OffdiagError(f"the model does not know the item {text!r}; {self._hint(text)}")
            found.append(item)
        return found

    def _find(self, text: str) -> Any:
        """The item that is meant; None for an id that the model does not know, if there is no title to compare."""
        if (item := self._exact(text)) is not None:
            return item
        if not self._titles or (self._whole and is_whole_text(text)):
            return None
        words = set(fold(text).split())
        holding = [place for place, title in enumerate(self._index.texts) if words <= set(title.split())]
        if len(holding) == 1 and words:
            return self._resolved(text, holding[0])
        found = self._index.find(text, OFFERED + 1)
        best, second = ([score for _, score in found] + [0.0, 0.0])[:2]
        if best >= GOOD and (best - second >= LEAD or best == 1.0 > second):
            return self._resolved(text, found[0][0])
        near = [place for place, _ in found][:OFFERED]
        if not near:
            raise OffdiagError(f"no item has the id {text!r} or a title like it; offdiag info MODEL shows some")
        offers = ", ".join(f"{self._titles[place]!r} (id {self._ranked[place]})" for place in near)
        raise OffdiagError(f"no item has the id or the title {text!r}; did you mean {offers}?")

    def _exact(self, text: str) -> Any:
        """The item with this id or, whatever the case, this title."""
        item = of_type(text, self._whole)
        if item in self._ids:
            return item
        places = self._by_title.get(text.strip().casefold(), []) if text.strip() else []
        if len(places) > 1:
            ids = ", ".join(str(self._ranked[place]) for place in places[:OFFERED])
            raise OffdiagError(f"{len(places):,} items have the title {text!r}; name one by its id: {ids}")
        return self._resolved(text, places[0]) if places else None

    def _resolved(self, text: str, place: int) -> Any:
        item = self._ranked[place]
        console.note(f"{text!r} → {item} {self._titles[place]}")
        return item

    def _hint(self, text: str) -> str:
        if self._whole:
            return f"its ids are whole numbers such as {', '.join(map(str, self._known[:3]))}"
        close = _similar_names(text, self._known)
        return f"did you mean {' or '.join(map(repr, close))}?" if close else "offdiag info MODEL shows some ids"

    @cached_property
    def _ids(self) -> set[Any]:
        return set(self._known)

    @cached_property
    def _ranked(self) -> list[Any]:
        """The items, popular ones first, so that they are offered first."""
        return [self._known[place] for place in np.argsort(-self._popularity, kind="stable").tolist()]

    @cached_property
    def _titles(self) -> list[str | None]:
        """Their titles; nothing if there is no title at all."""
        if self._catalogue is None or "title" not in self._catalogue.columns:
            return []
        return [None if title is None else str(title) for title in self._catalogue.column("title", self._ranked)]

    @cached_property
    def _by_title(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for place, title in enumerate(self._titles):
            if title is not None:
                found.setdefault(title.casefold(), []).append(place)
        return found

    @cached_property
    def _index(self) -> TitleIndex:
        return TitleIndex(self._titles)


def _similar_names(item: str, known: list[str], most: int = 3) -> list[str]:
    """Ids that contain the text come first, then those a few letters away; case is ignored."""
    lower = {name.lower(): name for name in reversed(known)}
    wanted = item.lower()
    inside = sorted((name for low, name in lower.items() if wanted and wanted in low), key=len)
    near = difflib.get_close_matches(wanted, lower, n=most, cutoff=0.6)
    return list(dict.fromkeys([*inside[:most], *(lower[low] for low in near)]))[:most]
