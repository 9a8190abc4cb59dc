"""Ranked lists to files, batch by batch: Parquet, CSV or JSON lines, one file or many, whole or not at all."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from offdiag import checks, tables
from offdiag.errors import OffdiagError
from offdiag.files import atomic
from offdiag.progress import Progress
from offdiag.recommendations import Recommendations

if TYPE_CHECKING:
    import polars as pl


class Writer(Protocol):
    """Appends tables of the same columns to one open file."""

    def write(self, frame: pl.DataFrame) -> None: ...
    def close(self) -> None: ...


class Csv:
    """Comma-separated with a header line; numbers have as many digits as it takes to read them back exactly."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._begun = file, False

    def write(self, frame: pl.DataFrame) -> None:
        # Text first: polars itself reports a closed pipe as a failure of its own kind.
        self._file.write(frame.write_csv(include_header=not self._begun).encode())
        self._begun = True

    def close(self) -> None:
        pass


class JsonLines:
    """One JSON object per row."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, frame: pl.DataFrame) -> None:
        self._file.write(frame.write_ndjson().encode())

    def close(self) -> None:
        pass


class Parquet:
    """A row group per table; needs pyarrow, since polars can write a file only at once.

    Zstandard at its fastest, and no dictionary of scores, which hardly repeat: smaller and faster than the defaults.
    """

    def __init__(self, file: IO[bytes]) -> None:
        tables.require("pyarrow")
        self._file = file
        self._writer: Any = None

    def write(self, frame: pl.DataFrame) -> None:
        import polars as pl
        from pyarrow import parquet

        table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
        if self._writer is None:
            repeating = [column.name for column in frame.iter_columns() if not column.dtype.is_float()]
            self._writer = parquet.ParquetWriter(
                self._file, table.schema, compression="zstd", compression_level=1, use_dictionary=repeating
            )
        self._writer.write_table(table)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


FORMATS: dict[str, Callable[[IO[bytes]], Writer]] = {
    ".parquet": Parquet,
    ".csv": Csv,
    ".jsonl": JsonLines,
    ".ndjson": JsonLines,
}


@dataclass
class Written:
    """What was written: counted while it was, so that nothing is dropped silently.

    Example:
        >>> X = od.synthetic.interactions(300, 40, 3_000, seed=0)
        >>> done = od.EASE(l2=10.0).fit(X).recommend_to("top.csv", X, k=5)
        >>> done.n_lists, done.n_rows, done.files
        (300, 1500, ['top.csv'])
    """

    files: list[str] = field(default_factory=list)
    n_lists: int = 0
    n_rows: int = 0
    n_short: int = 0  # lists with fewer than k items
    n_popular: int = 0  # lists of popular items, because nothing of the history was known
    unknown: dict[Any, int] = field(default_factory=dict)  # ids that are not in the catalogue, and how often
    seconds: float = 0.0

    def count(self, lists: Recommendations) -> None:
        """Add a batch of lists."""
        lengths = lists.lengths
        self.n_lists += len(lists)
        self.n_rows += int(lengths.sum())
        self.n_short += int((lengths < lists.indices.shape[1]).sum())
        self.n_popular += int(lists.popular.sum())
        for ids in filter(None, lists.unknown_in_histories):
            for item in ids:
                self.unknown[item] = self.unknown.get(item, 0) + 1

    def add(self, other: Written) -> None:
        """Count the files and lists of another."""
        self.files += other.files
        for name in ("n_lists", "n_rows", "n_short", "n_popular", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for item, times in other.unknown.items():
            self.unknown[item] = self.unknown.get(item, 0) + times


def format_of(path: str | os.PathLike[str]) -> str:
    """The ending that decides the format of a file."""
    ending = Path(path).suffix.lower()
    if ending not in FORMATS:
        raise OffdiagError(f"expected a file ending in {', '.join(FORMATS)}, received {str(path)!r}; rename it")
    return ending


def write(
    batches: Iterable[Recommendations],
    path: str | os.PathLike[str],
    *,
    rows_per_file: int | None = None,
    progress: Progress | None = None,
    n_lists: int = 0,
) -> Written:
    """Write lists as they come. The file, or with ``rows_per_file`` the folder, appears when all are written.

    The long table of the lists, see ``Recommendations``. ``n_lists`` is the number to expect, for the progress.
    """
    ending, target = format_of(path), Path(path)
    make = FORMATS[ending]
    done, begin = Written(), time.perf_counter()
    most = None if rows_per_file is None else checks.whole("rows_per_file", rows_per_file, 1)
    with ExitStack() as stack:
        if most is None:
            file = stack.enter_context(atomic.replacing(target))
            done.files.append(str(path))
            sink: Writer = make(file)
        else:
            folder = stack.enter_context(atomic.new_folder(target))
            sink = _Parts(folder, ending, make, most, done.files, str(path))
        # closed before the file is: whatever ends this loop, the thread has written its batch
        for _ in stack.enter_context(closing(_written(batches, sink, done))):
            if progress is not None:
                progress("recommending", done.n_lists / max(n_lists, done.n_lists, 1))
        sink.close()
    done.seconds = time.perf_counter() - begin
    return done


def _written(batches: Iterable[Recommendations], sink: Writer, done: Written) -> Generator[None]:
    """Write and count each batch in a second thread, while the next one is ranked; at most two are in memory."""

    def write(lists: Recommendations) -> None:
        sink.write(lists.to_polars())
        done.count(lists)

    with ThreadPoolExecutor(1, "offdiag-lists") as thread:
        before: Future[None] | None = None
        for lists in batches:
            if before is not None:
                before.result()
                yield
            before = thread.submit(write, lists)
        if before is not None:
            before.result()
            yield


class _Parts:
    """Files of at most some rows in one folder, numbered from 0."""

    def __init__(
        self, folder: Path, ending: str, make: Callable[[IO[bytes]], Writer], most: int, names: list[str], shown: str
    ) -> None:
        self._folder, self._ending, self._make, self._most = folder, ending, make, most
        self._names, self._shown = names, shown
        self._left, self._file, self._writer = 0, None, None  # type: tuple[int, IO[bytes] | None, Writer | None]

    def write(self, frame: pl.DataFrame) -> None:
        at = 0
        while at < frame.height or not self._names:  # an empty table is one file with its columns
            if self._left == 0:
                self._open()
            assert self._writer is not None
            part = frame.slice(at, self._left)
            self._writer.write(part)
            at += part.height
            self._left -= part.height

    def _open(self) -> None:
        self.close()
        name = f"part-{len(self._names):05}{self._ending}"
        self._names.append(str(Path(self._shown, name)))
        self._file = open(self._folder / name, "wb")  # noqa: SIM115 - closed in close
        self._writer, self._left = self._make(self._file), self._most

    def close(self) -> None:
        if self._writer is not None and self._file is not None:
            self._writer.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        self._writer = self._file = None


def slices(histories: Any, n: int) -> Iterator[Any]:
    """Histories of any accepted form, n at a time; at least one, which may be empty."""
    total = len_of(histories)
    for first in range(0, max(total, 1), n):
        if hasattr(histories, "matrix") and hasattr(histories, "select_users"):
            yield histories.select_users(slice(first, first + n))
        else:
            yield histories[first : first + n]


def len_of(histories: Any) -> int:
    """The number of histories."""
    if hasattr(histories, "matrix"):
        return int(histories.matrix.shape[0])
    return int(histories.shape[0]) if hasattr(histories, "shape") else len(histories)


def batch_size(k: int, most: int) -> int:
    """How many lists are held at once: at most ``most``, and a million rows of a table."""
    return max(1, min(most, 1_000_000 // max(k, 1)))


def to_stream(batches: Iterable[Recommendations], file: IO[bytes], ending: str) -> Written:
    """Write lists to an open stream such as stdout."""
    writer, done, begin = FORMATS[ending](file), Written(), time.perf_counter()
    with closing(_written(batches, writer, done)) as steps:
        for _ in steps:
            pass
    writer.close()
    done.seconds = time.perf_counter() - begin
    return done
