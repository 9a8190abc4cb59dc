"""Item titles: read from a table, and searched by a few letters."""

from __future__ import annotations

import csv
import io
import os
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from offdiag.data import formats
from offdiag.data.text_files import unpack
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    import polars as pl

BETWEEN = "\x00"  # separates titles and occurs in none of them


def read(path: str | os.PathLike[str], item: str = "item", title: str = "title") -> dict[str, str]:
    """Titles by id, both as text, from CSV, TSV, MovieLens ``::`` or Parquet; columns by name or position from 0."""
    file = Path(path)
    if not file.is_file():
        raise OffdiagError(f"expected a table of titles, received {str(path)!r}, which is not a file; check the path")
    typed = formats.find(file).frame
    rows = _delimited(file) if typed is None else _rows(typed(file))
    if not rows:
        raise OffdiagError(f"expected a table of titles, received the empty file {file.name}; is it complete?")
    header = [name.strip() for name in rows[0]]
    at, to = (_position(name, header, file.name) for name in (item, title))
    last = max(at, to)
    named = not (item.isdecimal() and title.isdecimal())  # then the first row is a header
    return {row[at].strip(): row[to].strip() for row in rows[named:] if len(row) > last and row[to].strip()}


def _position(name: str, header: Sequence[str], where: str) -> int:
    if name.isdecimal() and int(name) < len(header):
        return int(name)
    if name in header:
        return header.index(name)
    raise OffdiagError(f"expected a column {name!r} in {where}, received the columns {', '.join(header)}; name another")


def _delimited(file: Path) -> list[list[str]]:
    raw = unpack(file)
    if raw is None:
        raw = file.read_bytes()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:  # older MovieLens files
        text = raw.decode("latin-1")
    first = text.partition("\n")[0]
    if "::" in first:
        return [line.split("::") for line in text.splitlines()]
    separator = max("\t;|,", key=first.count)
    try:
        return [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator) if row]
    except csv.Error as error:
        raise OffdiagError(f"expected a table of titles, but {file.name} cannot be read as one ({error})") from None


def _rows(table: pl.DataFrame) -> list[list[str]]:
    import polars as pl

    columns = [table[name].cast(pl.String, strict=False).fill_null("").to_list() for name in table.columns]
    return [list(table.columns), *map(list, zip(*columns, strict=True))]


def fold(text: str) -> str:
    """Without case and accents, as titles are compared: "Amélie" and "AMELIE" are the same."""
    plain = unicodedata.normalize("NFKD", text.replace(BETWEEN, " "))
    return "".join(c for c in plain if not unicodedata.combining(c)).casefold()


class Search:
    """All titles in one long string, the most popular first, so that one scan in C finds the candidates."""

    def __init__(self, titles: Sequence[str], order: Sequence[int]) -> None:
        self.order = order  # columns of the catalogue, most popular first
        parts = [fold(titles[column]) for column in order]
        self.text = BETWEEN.join(parts)
        self.starts = [0, *accumulate(len(part) + 1 for part in parts)]

    def __call__(self, query: str, offset: int, limit: int) -> tuple[list[int], int]:
        """Columns of the titles that contain every word of the query, and their total number.

        Titles that begin with the query come first, then the more popular ones.
        """
        wanted = fold(query).strip()
        words = sorted(set(wanted.split()), key=len, reverse=True)
        if not words:
            return list(self.order[offset : offset + limit]), len(self.order)
        first: list[int] = []
        rest: list[int] = []
        for place in self._matches(words):
            begins = self.text.startswith(wanted, self.starts[place])
            (first if begins else rest).append(place)
        found = (first + rest)[offset : offset + limit]
        return [self.order[place] for place in found], len(first) + len(rest)

    def _matches(self, words: Sequence[str]) -> Iterable[int]:
        longest, others = words[0], words[1:]
        at = self.text.find(longest)
        while at >= 0:
            place = bisect_right(self.starts, at) - 1
            lo, hi = self.starts[place], self.starts[place + 1]
            if all(self.text.find(word, lo, hi) >= 0 for word in others):
                yield place
            at = self.text.find(longest, hi)
