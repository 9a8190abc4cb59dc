"""From a path, pattern, folder, archive, address or stdin to files on this machine, each with the keys of its folders.

What has to be unpacked or fetched is put into a temporary folder that is removed afterwards.
"""

from __future__ import annotations

import glob
import os
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from offdiag import wording
from offdiag.data import formats, remote, sql
from offdiag.data.text_files import head_of
from offdiag.errors import OffdiagError

STDIN = "-"
_NOTHING = "__HIVE_DEFAULT_PARTITION__"  # the value of a key without one


@dataclass(frozen=True)
class Place:
    """A file to read, its name in messages, and what its folders say, such as date=2024-01-01."""

    path: Path
    name: str
    keys: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Places:
    """The files of a source, and notes about those that are not read."""

    files: list[Place]
    notes: tuple[str, ...] = ()
    chosen: bool = False  # from a folder, a pattern or an archive


def name_of(source: str) -> str:
    """The name of a source that is not a database, without folders and secrets."""
    if source == STDIN:
        return "stdin"
    return remote.name_of(source) if remote.is_address(source) else Path(source).name or str(source)


@contextmanager
def local_files(source: str | os.PathLike[str], form: str | None = None, table: str | None = None) -> Iterator[Places]:
    """The files behind a source, for as long as they are needed. `table` names one file of an archive or a folder."""
    if form is not None:
        formats.find("", form)  # an unknown format is reported before a missing file
    with ExitStack() as stack:

        def scratch() -> Path:
            return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="offdiag-")))

        text = os.fspath(source)
        name = name_of(text)
        if text == STDIN:
            path = _suffixed(_spool(scratch() / "stdin"), form)
        elif remote.is_address(text):
            path = remote.fetch(text, scratch())
            path = path if path.is_dir() else _suffixed(path, form)
        else:
            path = Path(unquote(urlsplit(text).path)) if text.startswith("file://") else Path(text)
        if is_pattern(path):
            yield _choose(_matches(path), Path(root_of(str(path))), name, form, table)
        elif not path.exists():
            shown = "what may be a connection string" if sql.may_hold_a_secret(text) else repr(text)
            raise OffdiagError(f"expected a file, received {shown}, which does not exist; check the path")
        elif path.is_file() and path.suffix.lower() == ".zip":
            inside = _unzip(path, scratch(), name)
            yield _choose(_below(inside), inside, name, form, table)
        elif path.is_dir():
            yield _choose(_below(path), path, name, form, table)
        else:
            yield Places([Place(path, name)])


def is_several(source: str) -> bool:
    """Whether a source may stand for several files, or for one that is not at hand."""
    path = Path(source)
    return source == STDIN or remote.is_address(source) or path.is_dir() or is_pattern(path)


def is_pattern(path: Path) -> bool:
    """Whether a path that names no file is a pattern for the names of several."""
    return any(sign in str(path) for sign in "*?[") and not path.exists()


def root_of(pattern: str) -> str:
    """The folder above the first part of a pattern that is not a plain name."""
    plain = []
    for part in Path(pattern).parts:
        if any(sign in part for sign in "*?["):
            break
        plain.append(part)
    return str(Path(*plain))


def _spool(target: Path) -> Path:
    with target.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
    if not target.stat().st_size:
        raise OffdiagError("expected a table on stdin, received nothing; pipe one into this command")
    return target


def _suffixed(path: Path, form: str | None) -> Path:
    """A file whose name says nothing, renamed to say what its first bytes say."""
    if form is not None or formats.is_known(path) or path.suffix.lower() == ".zip":
        return path
    suffix = formats.sniff(head_of(path))
    return path.rename(path.with_name(path.name + suffix)) if suffix else path


def _unzip(path: Path, folder: Path, name: str) -> Path:
    """Its files, without those that Macs add."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [m for m in archive.infolist() if not m.is_dir() and not m.filename.startswith("__MACOSX/")]
            need, free = sum(m.file_size for m in members), shutil.disk_usage(folder).free
            if need > free:
                raise OffdiagError(
                    f"expected room for the {wording.size(need)} in {name}, received {wording.size(free)} in {folder}; "
                    "set TMPDIR to a larger place"
                )
            for member in members:
                archive.extract(member, folder)  # never outside the folder, and never more than the stated size
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise OffdiagError(
            f"expected a complete zip file without a password, received {name} ({error}); fetch or pack it again"
        ) from None
    return folder


def _below(folder: Path) -> list[Path]:
    """The files of a folder and its subfolders; writers give unfinished ones names that begin with . or _"""
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(p for p in found if not any(part[0] in "._" for part in p.relative_to(folder).parts))


def _matches(pattern: Path) -> list[Path]:
    found = [Path(path) for path in sorted(glob.glob(str(pattern), recursive=True))]
    files = [inner for path in found for inner in (_below(path) if path.is_dir() else [path])]
    if not files:
        raise OffdiagError(f"expected files, received the pattern {str(pattern)!r}, which matches none; check it")
    return files


def _choose(paths: Sequence[Path], root: Path, name: str, form: str | None, table: str | None) -> Places:
    """The tables among these files, which must be of one format, and a note about the others."""
    inside = {path: path.relative_to(root).as_posix() for path in paths}
    if table is not None:
        chosen = [path for path in paths if table in (path.name, inside[path])]
    elif form is not None:
        suffixes = formats.find("", form).suffixes
        chosen = [path for path in paths if formats.suffix(path) in suffixes] or list(paths)
    else:
        chosen = [path for path in paths if formats.is_known(path)]
    listed = wording.shorten([inside[path] for path in paths]) if paths else "nothing"
    if not chosen:
        what = f"the file {table!r}" if table is not None else "tables"
        raise OffdiagError(f"expected {what} in {name}, received {listed}; give format=, or name the files")
    kinds = sorted({kind for path in chosen if (kind := formats.name_of(path))})
    if form is None and len(kinds) > 1:
        raise OffdiagError(
            f"expected files of one format in {name}, received {' and '.join(kinds)} ({listed}); "
            "give format=, or table= for one of the files"
        )
    left = [inside[path] for path in paths if path not in set(chosen)]
    notes: tuple[str, ...] = ()
    if left and table is None:
        are = "file was" if len(left) == 1 else "files were"
        notes = (f"{len(left):,} other {are} not read in {name}: {wording.shorten(left)}",)
    files = [Place(path, inside[path], _keys(inside[path].split("/")[:-1])) for path in chosen]
    return Places(files, notes, chosen=True)


def _keys(folders: Sequence[str]) -> dict[str, str | None]:
    """Columns that the names of folders give, as Hive and Spark write them."""
    pairs = (part.partition("=") for part in folders if "=" in part and not part.startswith("="))
    return {unquote(key): None if value == _NOTHING else unquote(value) for key, _, value in pairs}
