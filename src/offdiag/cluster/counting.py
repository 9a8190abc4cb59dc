"""X → G on a cluster: each worker counts the pairs of its users, and the counts are added piece by piece."""

from __future__ import annotations

from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offdiag import memory
from offdiag.cluster import session
from offdiag.cluster.parts import Part, Parts, read, stack, total_counts
from offdiag.cluster.placement import in_batches, total, tree
from offdiag.cluster.stages import Report, stage
from offdiag.errors import OffdiagError
from offdiag.gramian import layout
from offdiag.gramian.packed import EXACT_FLOAT32, Gram
from offdiag.gramian.packed import gram as gram_here
from offdiag.gramian.user_weights import checked_power
from offdiag.progress import Progress, reporter

if TYPE_CHECKING:
    from distributed import Client

SEGMENT = 1 << 26  # bytes of G that are added in one task
IDLE = 300 << 20  # bytes that a worker uses once the libraries are loaded


def gram(
    data: Any,
    user_power: float = 0.0,
    *,
    dtype: Any = None,
    client: Client | None = None,
    progress: Progress | bool | None = None,
    reports: list[Report] | None = None,
) -> Gram:
    """od.gram of users spread over workers: bit for bit the same for 0/1 data, otherwise up to rounding.

    ``data``: Parts (od.cluster.read) or any source that it takes. Each worker counts one whole Gram, and sums its
    share of all of them: m(m+1)/2 numbers plus a few per cent, and its users' rows. The result is on this machine.

    Example, with a client connected by ``od.cluster.connect``:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(60, 20, 400)
        >>> bool((od.cluster.gram(X).values == od.gram(X).values).all())
        True
    """
    progress = reporter(progress)
    client = session.current(client)
    parts = read(data, client=client, progress=progress, reports=reports)
    if dtype is None:  # as od.gram
        dtype = np.float32 if user_power == 0 and parts.binary and parts.n_users <= EXACT_FLOAT32 else np.float64
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise OffdiagError(f"the Gram is kept in float32 or float64, received {dtype}")
    user_power = checked_power(user_power)
    m = parts.n_items
    # More users than float32 can count: as on one machine, the sums are rounded once, at the end.
    exact = parts.n_users <= EXACT_FLOAT32 or dtype == np.float64
    wide = dtype if exact else np.dtype(np.float64)
    n_bytes = layout.size(m) * wide.itemsize
    workers = max(len(session.workers_of(client)), 1)  # 0 while the only worker is being restarted
    groups = in_groups(parts.entries, min(workers, len(parts.futures)))
    rows = 3 * parts.nbytes // len(groups)
    less = "use od.cluster.fit_full_rank, which never holds the whole Gram, or keep fewer items"
    session.require(client, IDLE + n_bytes * 17 // 16 + 10 * SEGMENT + rows, f"the Gram of {m:,} items", less)
    memory.require(layout.size(m) * dtype.itemsize, f"the Gram of {m:,} items", less)
    with stage(client, "counting pairs", progress, reports, less) as work:
        counted = [
            work.submit(_count, [parts.futures[at] for at in group], m, float(user_power), wide.str) for group in groups
        ]
        segments = in_segments(layout.size(m), max(workers, -(-n_bytes // SEGMENT)))
        sums = [tree(work, total, [work.submit(_segment, G, lo, hi) for G in counted]) for lo, hi in segments]
        about = [work.submit(itemgetter(1, 2, 3), G) for G in counted]
        small = work.gather(about, 0.0, 0.9)
        del counted, about
        values = np.empty(layout.size(m), dtype=dtype)
        work.wait(sums, 0.9, 0.95)
        for batch in in_batches([(hi - lo) * wide.itemsize for lo, hi in segments]):
            for at, numbers in zip(batch, work.gather([sums[at] for at in batch], 0.95, 1.0), strict=True):
                lo, hi = segments[at]
                values[lo:hi] = numbers
    return Gram(values, *total_counts(small), float(user_power))


def totals(parts: Parts, user_power: float, progress: Progress | None = None) -> Gram:
    """Users by activity, users and sums per item."""
    with stage(parts.client, "counting items", progress) as work:
        found = work.gather([work.submit(_part_totals, part, parts.n_items) for part in parts.futures])
    return Gram(np.zeros(0, dtype=np.float32), *total_counts(found), user_power)


def _part_totals(part: Part, m: int) -> tuple[Any, Any, Any]:
    counts = np.bincount(part.indices, minlength=m)
    sums = counts.astype(np.float64) if part.data is None else np.bincount(part.indices, weights=part.data, minlength=m)
    return np.bincount(np.diff(part.indptr)), counts, sums


def in_groups(entries: NDArray[np.int64], groups: int) -> list[list[int]]:
    """The parts in consecutive groups of about equal size."""
    place = (np.cumsum(entries) - entries / 2) * groups / max(int(entries.sum()), 1)
    of = np.minimum(place.astype(np.int64), groups - 1)
    return [np.flatnonzero(of == group).tolist() for group in range(groups) if (of == group).any()]


def in_segments(size: int, pieces: int) -> list[tuple[int, int]]:
    edges = np.unique(np.linspace(0, size, max(pieces, 1) + 1).astype(np.int64)).tolist()
    return list(pairwise(edges))


def _count(parts: list[Part], m: int, user_power: float, dtype: str) -> tuple[NDArray[Any], ...]:
    """The Gram of some parts: values, users by activity, users per item, sums per item."""
    G = gram_here(stack(parts, m), user_power, dtype=dtype)
    return G.values, G.activity, G.item_counts, G.item_sums


def _segment(G: tuple[NDArray[Any], ...], lo: int, hi: int) -> NDArray[Any]:
    return G[0][lo:hi]
