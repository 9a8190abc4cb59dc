"""Parts: users' rows spread over the workers, with common columns; never all in one process while they are read."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import checks, memory
from offdiag.cluster import session, sources
from offdiag.cluster.placement import tree
from offdiag.cluster.sources import Events, Raw, Wanted
from offdiag.cluster.stages import Report, Stage, stage
from offdiag.data.columns import Roles
from offdiag.data.interactions import Interactions
from offdiag.data.read import read as read_here
from offdiag.data.sequences import Sequences, sequences_of
from offdiag.data.sparse_rows import csr, positions_of_rows
from offdiag.data.table import Duplicates, Keep, check_duplicates
from offdiag.errors import OffdiagError
from offdiag.progress import Progress, reporter

if TYPE_CHECKING:
    from distributed import Client, Future

BYTES_PER_ROW = 64  # bytes per row of a table while it is read and sorted
SAMPLE = 256  # user ids sampled from a part to choose the ranges
IN_TASK = 8 << 20  # bytes of a matrix that are sent with one task


class Part(NamedTuple):
    """Some users: a tuple of arrays, so that Dask knows its size."""

    data: NDArray[np.float32] | None  # None when all values are 1
    indices: NDArray[Any]
    indptr: NDArray[Any]
    user_ids: NDArray[Any]
    events: Events | None = None

    def sequences(self) -> Sequences:
        """Its events in order."""
        assert self.events is not None
        return Sequences(*self.events)


@dataclass(frozen=True, eq=False)
class Parts:
    """Interactions on a cluster. Part p holds ``users[p]`` rows and ``entries[p]`` interactions.

    ``events[p]`` is the number of its events if they are kept in order, otherwise None.

    Example, with a client connected by ``od.cluster.connect``:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(60, 20, 400)
        >>> od.cluster.read(X).gather()
        Interactions(60 users x 20 items, 400 interactions, 33.3 % filled)
    """

    client: Client = field(repr=False)
    futures: list[Future] = field(repr=False)
    item_ids: NDArray[Any]
    users: NDArray[np.int64]
    entries: NDArray[np.int64]
    binary: bool  # every value is 1
    events: NDArray[np.int64] | None = None

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

    @property
    def n_users(self) -> int:
        return int(self.users.sum())

    @property
    def nnz(self) -> int:
        return int(self.entries.sum())

    @property
    def nbytes(self) -> int:
        """Approximate size of the matrices: columns, row pointers and, unless all are 1, values; and of the events."""
        events = 0 if self.events is None else 12 * int(self.events.sum())
        return self.nnz * (4 if self.binary else 8) + self.n_users * 16 + events

    def gather(self) -> Interactions:
        """All interactions on this machine, as od.read returns them: users in ascending order."""
        memory.require(4 * self.nbytes, "the whole of the interactions", "leave them on the cluster")
        with stage(self.client, "gathering") as work:
            parts = work.gather(self.futures)
        matrix, user_ids = by_user(parts, self.n_items)
        events = None
        if self.events is not None:
            order = np.argsort(np.concatenate([part.user_ids for part in parts]), kind="stable")
            events = stack_events(parts).select_users(order)
        return Interactions(matrix, user_ids, self.item_ids, events=events)

    def __repr__(self) -> str:
        return (
            f"Parts({len(self.futures)} parts, {self.n_users:,} users x {self.n_items:,} items, "
            f"{self.nnz:,} interactions)"
        )


def check_entries(parts: Parts) -> None:
    if not parts.nnz:
        size = f"{parts.n_users} users × {parts.n_items} items"
        raise OffdiagError(f"there is nothing to learn from: {size} without any interaction")


def matrix_of(part: Part, m: int) -> sparse.csr_array:
    """The rows of a part as a canonical matrix."""
    data = np.ones(len(part.indices), dtype=np.float32) if part.data is None else part.data
    return csr(data, part.indices, part.indptr, (len(part.indptr) - 1, m))


def interactions_of(part: Part, item_ids: NDArray[Any]) -> Interactions:
    """The users of a part, with their events if it has them."""
    events = None if part.events is None else part.sequences()
    return Interactions(matrix_of(part, len(item_ids)), part.user_ids, item_ids, events=events)


def stack(parts: list[Part], m: int) -> sparse.csr_array:
    """The rows of several parts, one after another."""
    X = sparse.vstack([matrix_of(part, m) for part in parts], format="csr")
    return csr(X.data, X.indices, X.indptr, X.shape)


def stack_events(parts: list[Part]) -> Sequences:
    """The events of several parts, users one after another."""
    found = [part.sequences() for part in parts]
    lengths = np.concatenate([one.lengths for one in found])
    times = [one.times for one in found if one.times is not None]
    items = np.concatenate([one.items for one in found])
    return Sequences(np.concatenate([[0], np.cumsum(lengths)]), items, np.concatenate(times) if times else None)


def by_user(parts: list[Part], m: int) -> tuple[sparse.csr_array, NDArray[Any]]:
    """The rows of several parts in ascending order of user ids, and these ids."""
    X, user_ids = stack(parts, m), np.concatenate([part.user_ids for part in parts])
    if (user_ids[1:] < user_ids[:-1]).any():
        order = np.argsort(user_ids, kind="stable")
        indptr, picked = positions_of_rows(X.indptr, order)
        X, user_ids = csr(X.data[picked], X.indices[picked], indptr, (len(order), m)), user_ids[order]
    return X, user_ids


def total_counts(found: list[tuple[NDArray[Any], ...]]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Users by activity, users per item and sums per item of all parts, from those of each."""
    activity = np.zeros(max(len(one[0]) for one in found), dtype=np.int64)
    for one in found:
        activity[: len(one[0])] += one[0]
    item_counts, item_sums = (np.sum([one[at] for one in found], axis=0) for at in (1, 2))
    return activity, item_counts, item_sums


def read(
    source: Any,
    user: str | int = "user",
    item: str | int = "item",
    value: str | int | None = None,
    time: str | int | None = None,
    *,
    duplicates: Duplicates | None = None,
    keep: Keep = "pairs",
    text_ids: bool = False,
    verify: bool = False,
    client: Client | None = None,
    progress: Progress | bool | None = None,
    reports: list[Report] | None = None,
) -> Parts:
    """Interactions from partitions, read by the workers; the same users, items and values as od.read of all files.

    ``source``: a folder, pattern or list of Parquet files that every worker can read, a Dask DataFrame, or (for small
    data) Interactions or a sparse matrix. Ids, values, duplicates and errors are those of od.read. Users whose rows
    are in several partitions are merged; times decide between duplicates and are then dropped. ``keep="events"`` keeps
    every row as an event in order, as od.read does, for od.cluster.fit_next_item; of Interactions, the order they have.
    ``verify=True`` also compares the pages of Parquet files with the checksums stored in them, which costs a second
    read by pyarrow and finds nothing if the writer stored no checksums.

    Example, with a client connected by ``od.cluster.connect``:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(60, 20, 400)
        >>> od.cluster.read(X)
        Parts(1 parts, 60 users x 20 items, 400 interactions)
    """
    progress = reporter(progress)
    client = session.current(client)
    if isinstance(source, Parts):
        return source
    if checks.choice("keep", keep, ("pairs", "events")) == "events":
        duplicates = duplicates or "once"
    if isinstance(source, Interactions) or sparse.issparse(source):
        return _spread(client, read_here(source), keep)
    check_duplicates(duplicates)
    wanted = Wanted(Roles(user, item, value, time), duplicates, text_ids, verify, keep)
    found: list[Any]
    if hasattr(source, "to_delayed") and hasattr(source, "npartitions"):
        found = client.compute(source.to_delayed())
        wheres = [f"partition {at}" for at in range(len(found))]
    elif isinstance(source, (str, os.PathLike, list, tuple)):
        found = wheres = sources.files(source)
    else:
        raise OffdiagError(
            "expected a folder, pattern or list of files, a Dask DataFrame or Interactions, "
            f"received {type(source).__name__}; convert it to one of these"
        )
    with stage(client, "reading", progress, reports) as work:
        layouts = work.gather([work.submit(sources.describe, f, w) for f, w in zip(found, wheres, strict=True)], 0, 0.1)
        rows = sources.check_layouts(layouts, wheres, wanted)
        session.require(
            client, max(rows) * BYTES_PER_ROW, f"the largest partition, {max(rows):,} rows,", "write smaller partitions"
        )
        kept = [(f, w) for f, w, n in zip(found, wheres, rows, strict=True) if n]
        return _read(work, kept, wanted)


def _read(work: Stage, found: list[tuple[Any, str]], wanted: Wanted) -> Parts:
    """The parts of partitions that are known to have the same layout."""
    raws = [work.submit(sources.read_partition, f, where, wanted) for f, where in found]
    spans = work.gather([work.submit(_span, raw) for raw in raws], 0.1, 0.6)
    ids = tree(work, sources.union, [work.submit(itemgetter(4), raw) for raw in raws])
    order = sorted(range(len(spans)), key=lambda at: spans[at][0])
    raws = [raws[at] for at in order]
    ranges = min(len(spans), max(4 * len(session.workers_of(work.client)), 16))  # there are partitions × ranges tasks
    bounds = _bounds([sample for *_, sample in spans], ranges)
    if _overlap([spans[at] for at in order]) and _share_users(work, raws, bounds):
        raws = []  # released before the rows are read again
        split = [work.submit(sources.split_by_user, f, where, wanted, bounds, ids) for f, where in found]
        pieces = [[work.submit(itemgetter(at), pieces) for pieces in split] for at in range(len(bounds) + 1)]
        joined = [work.submit(sources.join_pieces, wanted.duplicates, wanted.keep, piece) for piece in pieces]
        futures = [work.submit(_numbered, raw) for raw in joined]
    else:
        futures = [work.submit(_numbered, raw, ids) for raw in raws]
    (item_ids,) = work.gather([ids], 0.6, 0.65)
    return collect(work, futures, item_ids, 0.65)


def collect(work: Stage, futures: list[Future], item_ids: NDArray[Any], start: float = 0.0) -> Parts:
    """Parts from the futures of non-empty parts."""
    about = np.array(work.gather([work.submit(_about, part) for part in futures], start, 1.0), dtype=np.int64)
    full = about[:, 0] > 0
    futures = [future for future, some in zip(futures, full, strict=True) if some]
    users, entries, binary, events = about[full].T
    in_order = None if (events < 0).any() else events
    return Parts(work.client, futures, item_ids, users, entries, bool(binary.all()), in_order)


def _about(part: Part) -> tuple[int, int, int, int]:
    events = -1 if part.events is None else len(part.events.items)
    return len(part.indptr) - 1, len(part.indices), int(part.data is None), events


def _numbered(raw: Raw, item_ids: NDArray[Any] | None = None) -> Part:
    """A partition with the columns common to all partitions; without ``item_ids`` its own ids are these columns."""
    data, indices, indptr, user_ids, own, events = raw
    columns = (own if item_ids is None else np.searchsorted(item_ids, own)).astype(np.int32)
    events = events and events._replace(items=columns[events.items])
    return Part(data, columns[indices], indptr, user_ids, events)


def _span(raw: Raw) -> tuple[Any, Any, NDArray[Any]]:
    """First and last user, and user ids evenly spaced over the rows."""
    user_ids, indptr = raw[3], raw[2]
    at = np.searchsorted(indptr[1:], np.linspace(0, max(indptr[-1], 1), SAMPLE, endpoint=False), side="right")
    return user_ids[0], user_ids[-1], user_ids[np.minimum(at, len(user_ids) - 1)]


def _overlap(spans: list[tuple[Any, Any, NDArray[Any]]]) -> bool:
    """Whether two partitions, in order of their first users, share a range of users."""
    lasts = accumulate((last for _, last, _ in spans), max)
    return any(first <= last for (first, *_), last in zip(spans[1:], lasts, strict=False))


def _bounds(samples: list[NDArray[Any]], ranges: int) -> NDArray[Any]:
    """User ids that divide the rows into about equal ranges; range r begins at bounds[r − 1]."""
    pool = np.sort(np.concatenate(samples))
    return np.unique(pool[np.arange(1, ranges) * len(pool) // ranges])


def _share_users(work: Stage, raws: list[Future], bounds: NDArray[Any]) -> bool:
    """Whether any user is in two partitions; ids are compared range by range, so no worker holds all of them."""
    slices = [work.submit(_user_slices, raw, bounds) for raw in raws]
    checks = [
        work.submit(_any_repeated, [work.submit(itemgetter(at), part) for part in slices])
        for at in range(len(bounds) + 1)
    ]
    return any(work.gather(checks, 0.6, 0.6))


def _user_slices(raw: Raw, bounds: NDArray[Any]) -> list[NDArray[Any]]:
    return np.split(raw[3], np.searchsorted(raw[3], bounds))


def _any_repeated(ids: list[NDArray[Any]]) -> bool:
    together = np.sort(np.concatenate(ids))
    return bool((together[1:] == together[:-1]).any())


def _spread(client: Client, inter: Interactions, keep: Keep) -> Parts:
    """A matrix of this process, split into at least one part per worker; the scheduler keeps them in case of loss."""
    X, all_events = inter.matrix, sequences_of(inter) if keep == "events" else None
    if keep == "events" and all_events is None:
        raise OffdiagError(
            "expected Interactions with times or events for keep='events', received some without an order; read the "
            "table with time=<column>, or with keep='events' if its rows are in order"
        )
    binary = bool((X.data == 1).all())
    parts = max(len(session.workers_of(client)), -(-8 * X.nnz // IN_TASK), 1)
    inner = np.searchsorted(X.indptr, np.linspace(0, X.nnz, parts + 1)[1:-1])
    with stage(client, "spreading") as work:
        futures = []
        for lo, hi in pairwise(np.unique([0, *inner, X.shape[0]]).tolist()):
            a, b = X.indptr[lo], X.indptr[hi]
            data = None if binary else X.data[a:b]
            events = Events.of(all_events and all_events.select_users(np.arange(lo, hi)))
            part = Part(data, X.indices[a:b], X.indptr[lo : hi + 1] - a, inter.user_ids[lo:hi], events)
            futures.append(work.submit(same, part))
        return collect(work, futures, inter.item_ids)


def same(result: Any) -> Any:
    """A task that only places data on a worker."""
    return result
