"""The filters of `offdiag fit`, on parts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from offdiag import checks
from offdiag.cluster.parts import Part, Parts, collect, matrix_of
from offdiag.cluster.placement import total, tree
from offdiag.cluster.sources import Events
from offdiag.cluster.stages import stage
from offdiag.data.prepare import nothing_left, threshold
from offdiag.data.sparse_rows import positions_of_rows
from offdiag.progress import Progress, reporter


def prepare(
    data: Parts,
    *,
    at_least: float | None = None,
    min_users: int = 0,
    min_items: int = 0,
    progress: Progress | bool | None = None,
) -> Parts:
    """The filters of `offdiag fit`: values of at least ``at_least`` become 1, others are dropped; then items with
    ``min_items`` users or more are kept, and users with ``min_users`` of them. One pass, as od.prepare.min_counts.

    Example, with a client connected by ``od.cluster.connect``:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(60, 20, 400)
        >>> od.cluster.prepare(od.cluster.read(X), min_items=15)
        Parts(1 parts, 60 users x 12 items, 362 interactions)
    """
    progress = reporter(progress)
    checks.whole("min_users", min_users)
    checks.whole("min_items", min_items)
    least = None if at_least is None else threshold(at_least)
    with stage(data.client, "filtering", progress) as work:
        futures = data.futures
        if least is not None:
            futures = [work.submit(_at_least, part, least) for part in futures]
        counts = tree(work, total, [work.submit(_item_counts, part, data.n_items) for part in futures])
        (counted,) = work.gather([counts], 0.0, 0.5)
        keep = np.flatnonzero(counted >= min_items)
        column = work.submit(_new_columns, counts, int(min_items))
        futures = [work.submit(_filtered, part, column, int(min_users)) for part in futures]
        if len(keep):
            kept = collect(work, futures, data.item_ids[keep], 0.5)
            if kept.nnz:
                return kept
    raise nothing_left(min_users, min_items)


def _at_least(part: Part, least: np.float32) -> Part:
    kept = np.full(len(part.indices), least <= 1) if part.data is None else part.data >= least
    picked, events = np.flatnonzero(kept), part.events
    if events is not None and not kept.all():
        sequences = part.sequences()
        m = int(part.indices.max(initial=0)) + 1  # no event has an item that no pair has
        events = Events.of(sequences.select_events(kept[sequences.pair_of_events(matrix_of(part, m))]))
    return Part(None, part.indices[picked], np.searchsorted(picked, part.indptr), part.user_ids, events)


def _item_counts(part: Part, m: int) -> NDArray[np.int64]:
    return np.bincount(part.indices, minlength=m).astype(np.int64)


def _new_columns(counts: NDArray[np.int64], least: int) -> NDArray[np.int32]:
    keep = counts >= least
    return np.where(keep, np.cumsum(keep) - 1, -1).astype(np.int32)


def _filtered(part: Part, column: NDArray[np.int32], min_users: int) -> Part:
    user_ids, moved = part.user_ids, column[part.indices]
    picked = np.flatnonzero(moved >= 0)
    indptr, indices = np.searchsorted(picked, part.indptr), moved[picked]
    data = None if part.data is None else part.data[picked]
    sequences = None if part.events is None else part.sequences().renumber_items(column)
    users = np.flatnonzero(np.diff(indptr) >= min_users)
    if len(users) < len(user_ids):
        indptr, rows = positions_of_rows(indptr, users)
        data, indices, user_ids = None if data is None else data[rows], indices[rows], user_ids[users]
        sequences = sequences and sequences.select_users(users)
    return Part(data, indices, indptr, user_ids, Events.of(sequences))
