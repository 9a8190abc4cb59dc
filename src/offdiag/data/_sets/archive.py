"""A data set on disk: a folder, a zip or tar archive, or one file; its files are found by name."""

from __future__ import annotations

import gzip
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from offdiag.errors import OffdiagError

Wanted = Callable[[str], bool]


def files(source: Path, wanted: Wanted) -> Iterator[tuple[str, bytes]]:
    """(name without folders and .gz, content) of the wanted files, also inside archives, sorted by name."""
    try:
        if source.is_dir():
            for path in sorted(path for path in source.rglob("*") if path.is_file()):
                with path.open("rb") as file:
                    yield from _open(path.name, file, wanted)
        else:
            with source.open("rb") as file:
                yield from _open(source.name, file, wanted)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise OffdiagError(f"expected a complete archive, received {source.name} ({error}); fetch it again") from None


def first_file(source: Path, *names: str) -> tuple[str, bytes] | None:
    """The first of these files that exists."""
    found = dict(files(source, lambda name: name in names))
    return next(((name, found[name]) for name in names if name in found), None)


def _open(name: str, file: IO[bytes], wanted: Wanted) -> Iterator[tuple[str, bytes]]:
    if name.endswith(".zip"):
        with zipfile.ZipFile(file) as archive:
            for member in sorted(archive.namelist()):
                if _interesting(_last(member), wanted):
                    with archive.open(member) as inner:
                        yield from _open(_last(member), inner, wanted)
    elif name.endswith((".tar", ".tar.gz", ".tgz")):
        # A gzip tar has to be read forwards, or it is decompressed again for every member.
        with tarfile.open(fileobj=file, mode="r:*") as archive:
            for entry in archive:
                if entry.isfile() and _interesting(_last(entry.name), wanted):
                    inner_file = archive.extractfile(entry)
                    assert inner_file is not None  # isfile() above
                    yield from _open(_last(entry.name), inner_file, wanted)
    elif wanted(name.removesuffix(".gz")):
        content = file.read()
        yield name.removesuffix(".gz"), gzip.decompress(content) if name.endswith(".gz") else content


def _interesting(name: str, wanted: Wanted) -> bool:
    return name.endswith((".zip", ".tar", ".tar.gz", ".tgz")) or wanted(name.removesuffix(".gz"))


def _last(name: str) -> str:
    return name.rpartition("/")[2]
