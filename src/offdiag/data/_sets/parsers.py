"""The layout of each public data set: from the published files to a Table."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from offdiag.data._sets.archive import files, first_file
from offdiag.data.cleaning import table_of
from offdiag.data.failures import polars_failures
from offdiag.data.lines import parse_lines
from offdiag.data.parquet import check_pages, reading_parquet
from offdiag.data.table import Table, concatenate
from offdiag.errors import OffdiagError


def _require_file(source: Path, *names: str) -> tuple[str, bytes]:
    found = first_file(source, *names)
    if found is None:
        raise OffdiagError(
            f"expected {' or '.join(names)} in {source.name}, received no such file; "
            "give the folder or archive as published"
        )
    return found


def _delimited(
    content: bytes, name: str, separator: str, types: dict[str, str | None], header: bool = False
) -> dict[str, Any]:
    """Columns as polars Series by name; a type of None skips the column."""
    import polars as pl

    kinds: dict[str, Any] = {"int": pl.Int64, "float": pl.Float32, "text": pl.String}
    schema = {column: kinds[t or "text"] for column, t in types.items()}
    if len(separator) > 1:
        content, separator = content.replace(separator.encode(), b"\x1f"), "\x1f"
    with polars_failures(f"{name} as published", "something else", "fetch it again"):
        return pl.read_csv(
            content,
            has_header=False,
            skip_rows=int(header),
            separator=separator,
            schema=schema,
            columns=[i for i, t in enumerate(types.values()) if t is not None],
            quote_char=None,
        ).to_dict()


def _ratings(content: bytes, name: str, separator: str, header: bool = False) -> Table:
    types: dict[str, str | None] = {"user": "int", "item": "int", "value": "float", "time": "int"}
    return Table(**_delimited(content, name, separator, types, header), where=name)


def movielens_csv(source: Path) -> Table:
    """ratings.csv of ml-latest and ml-20m: userId,movieId,rating,timestamp."""
    name, content = _require_file(source, "ratings.csv")
    return _ratings(content, name, ",", header=True)


def movielens_100k(source: Path) -> Table:
    """u.data: user, item, rating, time, tab-separated."""
    name, content = _require_file(source, "u.data")
    return _ratings(content, name, "\t")


def movielens_1m(source: Path) -> Table:
    """ratings.dat, `::` between the fields; or a ratings.parquet with only the ids."""
    name, content = _require_file(source, "ratings.dat", "ratings.parquet")
    if name.endswith(".parquet"):
        import polars as pl

        with reading_parquet(name):
            check_pages(content)
            frame = pl.read_parquet(io.BytesIO(content))
        user, item = (frame.get_column(c).cast(pl.Int64) for c in ("userID", "movieID"))
        return Table(user, item, where=name)
    return _ratings(content, name, "::")


def movie_titles(source: Path) -> dict[int, str] | None:
    """Titles of any MovieLens release."""
    found = first_file(source, "movies.csv", "movies.dat", "u.item")
    if found is None:
        return None
    name, content = found
    if name == "movies.csv":
        rows: Iterable[list[str]] = csv.reader(io.StringIO(content.decode("utf-8-sig")))
        return {int(row[0]): row[1] for row in rows if row and row[0].isdigit()}
    separator = "::" if name == "movies.dat" else "|"
    lines = content.decode("latin-1").splitlines()
    return {int(f[0]): f[1] for f in (line.split(separator) for line in lines) if len(f) > 1}


_NETFLIX = re.compile(r"mv_\d+\.txt|combined_data_\d\.txt")


def netflix(source: Path) -> Table:
    """mv_*.txt (also inside training_set.tar) or combined_data_*.txt: `film:` followed by user,rating,date lines."""
    import polars as pl

    parts: list[pl.DataFrame] = []
    waiting = io.BytesIO()
    for _, content in files(source, lambda name: bool(_NETFLIX.fullmatch(name))):
        waiting.write(content.rstrip() + b"\n")
        if waiting.tell() > 1 << 28:  # many small files are parsed together, within bounded memory
            parts.append(_netflix_part(waiting.getvalue()))
            waiting = io.BytesIO()
    if waiting.tell():
        parts.append(_netflix_part(waiting.getvalue()))
    if not parts:
        raise OffdiagError(
            f"expected mv_*.txt, training_set.tar or combined_data_*.txt in {source.name}, received no such file; "
            "give the folder or archive as published"
        )
    return table_of(pl.concat(parts).to_dict(), "the Netflix files")


def _netflix_part(content: bytes) -> Any:
    import polars as pl

    # Give a heading the same number of fields as the other lines.
    content = content.replace(b"\r\n", b"\n").replace(b":\n", b":,,\n")
    types: dict[str, str | None] = {"first": "text", "value": "float", "date": "text"}
    frame = pl.DataFrame(_delimited(content, "the Netflix files", ",", types))
    heading = pl.col("first").str.ends_with(":")
    try:
        return (
            frame.with_columns(item=pl.when(heading).then(pl.col("first").str.head(-1)).cast(pl.Int32).forward_fill())
            .filter(~heading)
            .select(
                user=pl.col("first").cast(pl.Int32),
                item=pl.col("item"),
                value=pl.col("value"),
                time=pl.col("date").str.to_date("%Y-%m-%d"),
            )
        )
    except pl.exceptions.PolarsError as error:
        raise OffdiagError(
            f"expected `film:` and user,rating,date lines, received something else "
            f"({str(error)[:80]!r}); fetch them again"
        ) from None


def netflix_titles(source: Path) -> dict[int, str] | None:
    """movie_titles: id,year,title in latin-1, with commas in some titles."""
    found = first_file(source, "movie_titles.txt", "movie_titles.csv")
    if found is None:
        return None
    lines = found[1].decode("latin-1").splitlines()
    return {int(f[0]): f[2] for f in (line.split(",", 2) for line in lines) if len(f) == 3}


def taste_profile(source: Path) -> Table:
    """train_triplets.txt: user, song, plays, tab-separated."""
    name, content = _require_file(source, "train_triplets.txt")
    return Table(**_delimited(content, name, "\t", {"user": "text", "item": "text", "value": "float"}), where=name)


def song_titles(source: Path) -> dict[str, str] | None:
    """unique_tracks.txt of the Million Song data set: track<SEP>song<SEP>artist<SEP>title."""
    found = first_file(source, "unique_tracks.txt")
    if found is None:
        return None
    rows = (line.split("<SEP>") for line in found[1].decode("utf-8").splitlines())
    return {row[1]: f"{row[3]} ({row[2]})" for row in rows if len(row) == 4}


def gowalla_parts(source: Path) -> tuple[Table, Table | None, Table]:
    """train.txt, valid.txt if it exists, and test.txt, one line per user."""
    found = dict(files(source, lambda name: name in ("train.txt", "valid.txt", "test.txt")))
    if "train.txt" not in found or "test.txt" not in found:
        raise OffdiagError(
            f"expected train.txt and test.txt in {source.name}, received no such files; check the folder"
        )
    parts = {name: parse_lines(content, "adjacency", name) for name, content in found.items()}
    return parts["train.txt"], parts.get("valid.txt"), parts["test.txt"]


def gowalla(source: Path) -> Table:
    """All pairs of the LightGCN files, or else the raw check-ins of SNAP: user, time, latitude, longitude, place."""
    raw = first_file(source, "loc-gowalla_totalCheckins.txt")
    if raw is not None:
        types = {"user": "int", "time": "text", "latitude": None, "longitude": None, "item": "int"}
        return Table(**_delimited(raw[1], raw[0], "\t", types), where=raw[0])
    return concatenate([part for part in gowalla_parts(source) if part is not None])


def citeulike(source: Path) -> Table:
    """users.dat: line u has the number of articles of user u, followed by the articles."""
    name, content = _require_file(source, "users.dat")
    return parse_lines(content, "counted", name)


def article_titles(source: Path) -> dict[int, str] | None:
    """Titles by article; raw-data.csv numbers articles from 1, users.dat from 0."""
    found = first_file(source, "raw-data.csv")
    if found is None:
        return None
    rows = csv.reader(io.StringIO(found[1].decode("utf-8", errors="replace")))
    return {int(row[0]) - 1: row[1] for row in rows if len(row) > 1 and row[0].isdigit()}
