"""Search of titles as people type: by parts of words, or the nearest titles if there are none with all of them."""

from __future__ import annotations

import threading
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from offdiag.server.limits import Refusal
from offdiag.title_search import TitleIndex

BETWEEN = "\x00"  # separates titles and occurs in none of them
PATIENCE = 2.0  # seconds that a search waits for the index of similar titles
MOST_NEAR = 50  # titles offered for a query that none contains


class Hits(NamedTuple):
    columns: list[int]  # of one page
    total: int
    exact: bool  # whether these titles contain every word; otherwise they are the nearest


def fold(text: str) -> str:
    """Without case and accents, as titles are compared: "Amélie" and "AMELIE" are the same."""
    plain = unicodedata.normalize("NFKD", text.replace(BETWEEN, " "))
    return "".join(c for c in plain if not unicodedata.combining(c)).casefold()


class Search:
    """All titles in one long string, the most popular first, so that one scan in C finds the candidates."""

    def __init__(self, titles: Sequence[str], order: Sequence[int]) -> None:
        self._titles = titles
        self.order = order  # columns of the catalogue, most popular first
        parts = [fold(titles[column]) for column in order]
        self.text = BETWEEN.join(parts)
        self.starts = [0, *accumulate(len(part) + 1 for part in parts)]

    @cached_property
    def _index(self) -> Future[TitleIndex]:
        """Made in a thread of its own from the first search on: of many titles it takes seconds, and others wait."""
        found: Future[TitleIndex] = Future()

        def make() -> None:
            try:
                found.set_result(TitleIndex([self._titles[column] for column in self.order]))
            except Exception as error:  # passed to those who wait
                found.set_exception(error)

        threading.Thread(target=make, name="offdiag titles", daemon=True).start()
        return found

    def _nearest(self, query: str) -> list[int]:
        try:
            index = self._index.result(PATIENCE)
        except TimeoutError:
            text = "no title has all these words, and the search for similar ones is still being prepared"
            raise Refusal(503, f"{text}; try again in a moment", retry_after="2") from None
        return [place for place, _ in index.find(query, MOST_NEAR)]

    def __call__(self, query: str, offset: int, limit: int) -> Hits:
        """The titles that contain every word of the query, or else those nearest to it.

        Titles that begin with the query come first, then the more popular ones.
        """
        wanted = fold(query).strip()
        words = sorted(set(wanted.split()), key=len, reverse=True)
        if not words:
            return Hits(list(self.order[offset : offset + limit]), len(self.order), True)
        _ = self._index  # likely to be complete when it is needed
        first: list[int] = []
        rest: list[int] = []
        for place in self._matches(words):
            begins = self.text.startswith(wanted, self.starts[place])
            (first if begins else rest).append(place)
        found, exact = first + rest, True
        if not found:
            found = self._nearest(query)
            exact = not found
        return Hits([self.order[place] for place in found[offset : offset + limit]], len(found), exact)

    def _matches(self, words: Sequence[str]) -> Iterable[int]:
        longest, others = words[0], words[1:]
        at = self.text.find(longest)
        while at >= 0:
            place = bisect_right(self.starts, at) - 1
            lo, hi = self.starts[place], self.starts[place + 1]
            if all(self.text.find(word, lo, hi) >= 0 for word in others):
                yield place
            at = self.text.find(longest, hi)
