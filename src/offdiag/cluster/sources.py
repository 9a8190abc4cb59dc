"""Where partitions come from, and whether all have the same layout, which is checked before any work."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offdiag.data import formats
from offdiag.data.columns import Roles
from offdiag.data.frames import columns_of_frame, find_columns, is_frame
from offdiag.data.ids import checked_ids, number
from offdiag.data.interactions import Interactions
from offdiag.data.sequences import Sequences
from offdiag.data.table import Duplicates, Keep, Table, assemble
from offdiag.errors import OffdiagError


@dataclass(frozen=True)
class Wanted:
    """Which columns to read, and how; small, because it is sent with every task."""

    roles: Roles
    duplicates: Duplicates | None = None
    text_ids: bool = False
    verify: bool = False  # compare pages with their checksums
    keep: Keep = "pairs"


def files(source: Any) -> list[str]:
    """The files of a folder (including subfolders), a pattern or a list, sorted by path; of formats with a schema."""
    kind, suffixes = " or ".join(formats.partitioned()), formats.partition_suffixes()
    if isinstance(source, (list, tuple)):
        if not source or not all(isinstance(part, (str, os.PathLike)) for part in source):
            raise OffdiagError(f"expected a list of paths of {kind} files, received something else or nothing")
        found = [str(part) for part in source]
    elif Path(source).is_dir():
        paths = (path for suffix in suffixes for path in Path(source).rglob(f"*{suffix}"))
        # Writers give unfinished files names that begin with . or _
        found = sorted(str(p) for p in paths if not any(n[0] in "._" for n in p.relative_to(source).parts))
        if not found:
            raise OffdiagError(f"expected {kind} files in the folder {str(source)!r}, received none; check the path")
    elif any(sign in str(source) for sign in "*?[") and not Path(source).exists():
        found = sorted(glob.glob(str(source), recursive=True))
        if not found:
            raise OffdiagError(f"expected {kind} files, received the pattern {str(source)!r}, which matches none")
    else:
        found = [str(source)]
    for path in found:
        if Path(path).suffix.lower() not in suffixes:
            raise OffdiagError(f"expected {kind} files ({', '.join(suffixes)}), received {path!r}; convert it first")
    return found


def describe(source: Any, where: str) -> tuple[dict[str, str], int] | str:
    """(type of each column by name, number of rows) or what is wrong with the file; runs on a worker."""
    if is_frame(source):
        frame = source.head(1000)
        return {str(name): _frame_type(frame, at) for at, name in enumerate(frame.columns)}, len(source)
    if not Path(source).is_file():
        return f"expected a file that every worker can read, received {where!r}, which is not there"
    schema = formats.find(source).schema
    assert schema is not None  # as `files` has checked
    try:
        return schema(source, where)
    except OffdiagError as error:
        return str(error)


def _frame_type(frame: Any, at: int) -> str:
    """The type that polars sees in a column of a pandas table."""
    name = str(frame.dtypes.iloc[at])
    if name in ("object", "str") or name.startswith("string"):
        kinds = {type(value).__name__ for value in frame.iloc[:, at].dropna().tolist()}
        return "String" if kinds <= {"str"} else "Int64" if kinds <= {"int"} else ", ".join(sorted(kinds))
    return {"bool": "Boolean", "boolean": "Boolean", "category": "Categorical"}.get(name, name.capitalize())


def check_layouts(found: list[tuple[dict[str, str], int] | str], wheres: list[str], wanted: Wanted) -> list[int]:
    """Rows of each partition; an error names the first that cannot be read or differs from earlier ones."""
    bad = [text for text in found if isinstance(text, str)]
    if bad:
        raise OffdiagError(bad[0] + (f" ({len(bad) - 1} more like it)" if len(bad) > 1 else ""))
    layouts = [layout for layout in found if not isinstance(layout, str)]
    first: dict[str, tuple[str, str]] = {}
    for (types, rows), where in zip(layouts, wheres, strict=True):
        names = list(types)
        for role, position in find_columns(names, wanted.roles.present(), where).items():
            kind = _kind(types[names[position]], role, wanted.text_ids)
            if not rows and kind == "nothing":
                continue  # an empty table may have no types
            before, known = first.setdefault(role, (where, kind))
            if kind != known:
                raise OffdiagError(
                    f"expected {role} to be {known} in every partition, as in {before}, received {kind} "
                    f"({names[position]}: {types[names[position]]}) in {where}; convert it to the same type"
                )
    if not sum(rows for _, rows in layouts):
        raise OffdiagError(f"expected at least one interaction, received none in {wheres[0]} and the others")
    return [rows for _, rows in layouts]


def _kind(dtype: str, role: str, text_ids: bool) -> str:
    """The part of a type that matters: what an id becomes, whether a value is a number."""
    name = dtype.partition("(")[0].partition("[")[0].lower()
    if name in ("null", "unknown"):
        return "nothing"
    if name.startswith(("int", "uint", "float", "decimal")):
        return "text" if text_ids and role in ("user", "item") else "numbers"
    if role in ("user", "item"):
        return "text"
    return {"datetime": "dates", "datetime64": "dates", "date": "dates", "boolean": "true or false"}.get(name, "text")


def load(source: Any, where: str, wanted: Wanted) -> Table:
    """The wanted columns of a partition."""
    if is_frame(source):
        return columns_of_frame(source, wanted.roles, wanted.text_ids, where)
    form = formats.find(source)
    assert form.schema is not None  # as `files` has checked
    assert form.frame is not None
    names = list(form.schema(source, where)[0])
    at = find_columns(names, wanted.roles.present(), where)
    if wanted.verify and form.verify is not None:
        form.verify(source, [names[position] for position in at.values()], where)
    frame = form.frame(Path(source), sorted(set(at.values())), where)
    # From here on by name: positions change once other columns are left out.
    named = Roles(**{role: names[position] for role, position in at.items()})
    return columns_of_frame(frame, named, wanted.text_ids, where)


class Events(NamedTuple):
    """The arrays of Sequences."""

    indptr: NDArray[np.int64]
    items: NDArray[np.int32]
    times: NDArray[Any] | None

    @classmethod
    def of(cls, sequences: Sequences | None) -> Events | None:
        return None if sequences is None else cls(sequences.indptr, sequences.items, sequences.times)


Raw = tuple[NDArray[np.float32] | None, NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], Events | None]
Piece = tuple[NDArray[Any], NDArray[np.int32], NDArray[np.int32], NDArray[np.float32] | None, NDArray[Any] | None]


def read_partition(source: Any, where: str, wanted: Wanted) -> Raw:
    """(values or None when all are 1, columns, row pointer, user ids, item ids, events), read as od.read does."""
    inter = assemble(load(source, where, wanted), wanted.duplicates, wanted.keep)
    return _raw(inter, inter.user_ids)


def _raw(inter: Interactions, user_ids: NDArray[Any]) -> Raw:
    X, events = inter.matrix, Events.of(inter.events)
    return None if (X.data == 1).all() else X.data, X.indices, X.indptr, user_ids, inter.item_ids, events


def split_by_user(
    source: Any, where: str, wanted: Wanted, bounds: NDArray[Any], item_ids: NDArray[Any]
) -> tuple[Piece, ...]:
    """The rows of a partition, split by ranges of user ids: the users of each piece, and its rows in order."""
    import polars as pl

    table = load(source, where, wanted)
    user_ids, users = number(checked_ids(table.user, "user", where))
    own, items = number(checked_ids(table.item, "item", where))
    items = np.searchsorted(item_ids, own).astype(np.int32)[items]
    value = None if table.value is None else table.value.cast(pl.Float32).to_numpy()
    time = None if table.time is None else table.time.to_numpy()
    if time is not None and time.dtype == object:  # text
        time = time.astype(np.str_)
    edges = [0, *np.searchsorted(user_ids, bounds).tolist(), len(user_ids)]
    pieces = []
    for lo, hi in pairwise(edges):
        rows = np.flatnonzero((users >= lo) & (users < hi))
        pieces.append((
            user_ids[lo:hi], users[rows] - np.int32(lo), items[rows],
            None if value is None else value[rows], None if time is None else time[rows],
        ))  # fmt: skip
    return tuple(pieces)


def join_pieces(duplicates: Duplicates | None, keep: Keep, pieces: list[Piece]) -> Raw:
    """The pieces of one range of users from all partitions, joined in order; item ids are columns here."""
    import polars as pl

    pieces = [piece for piece in pieces if len(piece[1])]
    if not pieces:
        none, start = np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
        events = Events(start, none.astype(np.int32), None) if keep == "events" else None
        return None, none.astype(np.int32), start, none, none, events
    user_ids = union(*[piece[0] for piece in pieces])
    users = np.concatenate([np.searchsorted(user_ids, ids)[codes] for ids, codes, *_ in pieces])
    items, value, time = (
        None if pieces[0][at] is None else pl.Series(np.concatenate([piece[at] for piece in pieces]))
        for at in (2, 3, 4)
    )
    assert items is not None
    table = Table(pl.Series(users), items.cast(pl.Int64), value, time, "the partitions")
    return _raw(assemble(table, duplicates, keep), user_ids)


def union(*ids: NDArray[Any]) -> NDArray[Any]:
    """The distinct ids of all arrays, ascending."""
    return ids[0] if len(ids) == 1 else np.unique(np.concatenate(ids))
