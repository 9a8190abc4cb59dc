"""Find titles in spite of typing errors: candidates by shared trigrams, then edit distances, word by word.

Case and accents are ignored, and the order of words is free. The last letters of a word may be missing, so that a
list can be shown while somebody types.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

CANDIDATES = 96  # titles whose edit distances are computed
MOST_HITS = 250_000  # occurrences of trigrams that are counted, those of rare trigrams first
LONGEST_QUERY = 100  # characters
LONGEST_TITLE = 160  # characters that are compared
_BITS = 21  # of a code point
_WORD = re.compile(r"\w+")


def fold(text: str) -> str:
    """Words without case, accents and punctuation: "Amélie!" and "AMELIE" are the same."""
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return " ".join(_WORD.findall(text.casefold()))


class TitleIndex:
    """Titles that can be searched; positions are those in the sequence given.

    Equal scores are in the order of the titles, so put the popular ones first.

    Example:
        >>> from offdiag.title_search import TitleIndex
        >>> index = TitleIndex(["Alien", "Aliens", "Brazil", "Fullmetal Alchemist: Brotherhood"])
        >>> index.find("fulmetal alchemst", 1)[0][0]
        3
        >>> index.find("alien", 2)[0]
        (0, 1.0)
    """

    def __init__(self, titles: Sequence[str | None]) -> None:
        self.texts = [fold(title or "") for title in titles]
        # Every title begins and ends with a blank, so that a trigram can contain the beginning of a word.
        joined = " " + "  ".join(self.texts) + " "
        letters = np.frombuffer(joined.encode("utf-32-le", "replace"), dtype=np.uint32).astype(np.uint64)
        starts = np.cumsum([0, *(len(text) + 2 for text in self.texts)])
        self._letters, self._starts = letters.astype(np.uint32), starts
        codes = _trigrams(letters)
        owner = np.repeat(np.arange(len(self.texts), dtype=np.int32), np.diff(starts))[: len(codes)]
        inside = np.arange(len(codes)) + 3 <= starts[1:][owner]  # the others belong to two titles
        codes, owner = codes[inside], owner[inside]
        order = np.argsort(codes, kind="stable")
        self._owner = owner[order]
        codes = codes[order]
        new = np.flatnonzero(np.append(True, codes[1:] != codes[:-1])[: len(codes)])
        self._codes, self._first = codes[new], np.append(new, len(codes))

    def find(self, text: str, limit: int = 10) -> list[tuple[int, float]]:
        """The best titles as (position, score): 1 for the same words, above 0.7 for good matches, none below 0.4."""
        query = fold(text[: 4 * LONGEST_QUERY])[:LONGEST_QUERY].strip()
        words = query.split()
        if not words or limit < 1:
            return []
        places = self._candidates(words)
        if not len(places):
            return []
        window = self._windows(places)
        errors = np.zeros(len(places), dtype=np.int32)
        for word in words:
            errors += np.minimum(_distances(f" {word}", window), len(word))
        size = sum(map(len, words))
        lengths = np.array([max(len(self.texts[place]), len(query)) for place in places.tolist()])
        scores = (1 - errors / size) * (0.8 + 0.2 * len(query) / lengths)
        same = np.array([self.texts[place] == query for place in places.tolist()])
        scores = np.where(same, 1.0, np.minimum(scores, 0.999))
        best = np.lexsort((places, -scores))[:limit]
        return [(int(places[at]), float(scores[at])) for at in best if scores[at] >= 0.4]

    def _candidates(self, words: Sequence[str]) -> NDArray[np.int64]:
        """The titles that share most trigrams with the words, rare ones counting more."""
        ranges = sorted(
            {pair for word in words for pair in self._ranges(f" {word}")}, key=lambda pair: pair[1] - pair[0]
        )
        hits: list[NDArray[np.int32]] = []
        weights: list[float] = []
        total, n = 0, len(self.texts)
        for lo, hi in ranges:
            if hits and total + hi - lo > MOST_HITS:
                break
            hits.append(self._owner[lo:hi])
            weights.append(float(np.log1p(n / (hi - lo))))
            total += hi - lo
        if not hits:
            return np.zeros(0, dtype=np.int64)
        shared = np.zeros(n)
        for owners, weight in zip(hits, weights, strict=True):
            shared[owners] += weight  # not once for each time: a word that is repeated counts once
        found = np.flatnonzero(shared)
        if len(found) <= CANDIDATES:
            return found
        # Short titles are nearer to the query among those that share as much.
        lengths = (self._starts[1:] - self._starts[:-1])[found]
        rank = shared[found] - 1e-3 * np.minimum(lengths, 500)
        kept = found[np.argpartition(-rank, CANDIDATES)[:CANDIDATES]]
        kept.sort()
        return kept

    def _ranges(self, word: str) -> list[tuple[int, int]]:
        """Where the titles of each trigram of a word are; of one letter, those of all words that begin with it."""
        letters = np.array([min(ord(c), (1 << _BITS) - 1) for c in word], dtype=np.uint64)
        if len(letters) < 3:
            low = (letters[0] << np.uint64(2 * _BITS)) | (letters[1] << np.uint64(_BITS))
            ends = np.searchsorted(self._codes, [low, low + np.uint64(1 << _BITS)])
            lo, hi = (int(self._first[end]) for end in ends)
            return [(lo, hi)] if lo < hi else []
        codes = _trigrams(letters)
        at = np.minimum(np.searchsorted(self._codes, codes), max(len(self._codes) - 1, 0))
        if not len(self._codes):
            return []
        return [
            (int(self._first[a]), int(self._first[a + 1]))
            for a, code in zip(at.tolist(), codes, strict=True)
            if self._codes[a] == code
        ]

    def _windows(self, places: NDArray[np.int64]) -> NDArray[np.uint32]:
        """The letters of these titles as rows of equal length, filled up with 0."""
        starts = self._starts[places]
        lengths = np.minimum(self._starts[places + 1] - starts, LONGEST_TITLE)
        column = np.arange(int(lengths.max()))
        at = np.minimum(starts[:, None] + column, len(self._letters) - 1)
        return np.where(column < lengths[:, None], self._letters[at], np.uint32(0))


def _trigrams(letters: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Three code points in one number, for each place."""
    one, two = np.uint64(_BITS), np.uint64(2 * _BITS)
    return (letters[:-2] << two) | (letters[1:-1] << one) | letters[2:]


def _distances(word: str, window: NDArray[np.uint32]) -> NDArray[np.int32]:
    """Fewest letters to insert, drop, replace or swap to find the word somewhere in each row.

    Sellers' algorithm, one row of the table for all titles at once. Insertions run along the row, so the usual minimum
    of three becomes a running minimum of (entry − place).
    """
    n, width = window.shape
    step = np.arange(width + 1, dtype=np.int32)
    before = last = np.zeros((n, width + 1), dtype=np.int32)  # a match may begin anywhere
    known = None
    for at, letter in enumerate(word, 1):
        equal = window == np.uint32(ord(letter))
        now = np.empty_like(last)
        now[:, 0] = at
        now[:, 1:] = np.minimum(last[:, 1:] + 1, last[:, :-1] + ~equal)
        if known is not None:  # two letters that were swapped
            swapped = equal[:, :-1] & known[:, 1:]
            now[:, 2:] = np.where(swapped, np.minimum(now[:, 2:], before[:, :-2] + 1), now[:, 2:])
        now = np.minimum.accumulate(now - step, axis=1) + step
        before, last, known = last, now, equal
    least: NDArray[np.int32] = last.min(axis=1)
    return least
