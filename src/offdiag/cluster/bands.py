"""The Gram of all users, band by band of items: each worker counts its users' pairs, the owner of a band adds them up.

The owner also finds the supports of these items, and keeps their rows up to the diagonal, from which other workers take
those that they need. How large all this will be is estimated from a few rows before anything is counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offdiag._kernels import parallel
from offdiag.cluster.parts import same
from offdiag.cluster.placement import Homes
from offdiag.cluster.shards import Popularity, Shards
from offdiag.cluster.stages import Stage
from offdiag.solvers import Doubles, Ints, gram_bands, support
from offdiag.solvers.gram_bands import Piece, StoredRows
from offdiag.solvers.gram_rows import bytes_of_rows

if TYPE_CHECKING:
    from distributed import Future

TASKS = 8  # bands per worker, at least: the last one to finish is then a small part of the work
IN_FLIGHT = 2  # bands per worker: one that is counted, one that is added up
BANDS_HELD = 3 * IN_FLIGHT  # pieces as they were counted, together, and in transit
STRATA, ROWS = 32, 4  # of the sample: ranges of items, and rows of each
SOON = 10  # priority of what others wait for


@dataclass(frozen=True, eq=False)
class Sizes:
    """Estimated for each item: entries in the pieces of its row, and bytes of its row up to the diagonal."""

    entries: Doubles
    stored: Doubles


@dataclass(frozen=True, eq=False)
class Bands:
    """Stored rows: those of the items ranges[b] are in futures[b], at homes[b]."""

    futures: list[Future]
    ranges: list[tuple[int, int]]
    homes: list[int]


def estimate(work: Stage, shards: Shards, known: Popularity, itemsize: int, homes: Homes) -> Sizes:
    """From some rows of each range of items, in proportion to the pairs that make them up."""
    m = len(known.counts)
    most = np.minimum(known.cost, m)  # entries of a row if no two of its pairs were the same
    strata = parallel.ranges(m, STRATA)
    items = np.unique(np.concatenate([np.linspace(lo, hi - 1, ROWS).astype(np.int64) for lo, hi in strata]))
    pieces = _pieces(work, shards, items, homes)
    ((counted, below),) = work.gather([work.submit(_row_lengths, pieces, items, m)])
    entries, stored = np.zeros(m), np.zeros(m)
    for lo, hi in strata:
        sample = (items >= lo) & (items < hi)
        share = most[lo:hi] / max(float(most[items[sample]].sum()), 1.0)
        entries[lo:hi] = share * counted[sample].sum()
        before = np.minimum(share * below[sample].sum(), np.arange(lo, hi))
        stored[lo:hi] = bytes_of_rows(np.ceil(before).astype(np.int64), itemsize, lo)
    return Sizes(entries, stored)


def _row_lengths(pieces: list[tuple[Piece, ...]], items: Ints, m: int) -> tuple[Ints, Ints]:
    """Entries in all pieces of each row, and different ones up to the diagonal."""
    counted = np.sum([np.diff(piece.ptr) for several in pieces for piece in several], axis=0)
    return counted, gram_bands.entries_before_diagonal(gram_bands.add([several[-1] for several in pieces]), items, m)


def _pieces(work: Stage, shards: Shards, items: Ints, homes: Homes) -> list[Future]:
    """The rows of these items from the users of each worker."""
    return [
        work.submit(gram_bands.pieces, data, items, **homes.near(home))
        for data, home in zip(shards.futures, shards.homes, strict=True)
    ]


def count(
    work: Stage,
    shards: Shards,
    known: Popularity,
    sizes: Sizes,
    H: Doubles,
    k: int,
    dtype: str,
    homes: Homes,
    at_once: int,
    *,
    repeats: bool = False,
) -> tuple[Bands, support.Supports]:
    """The stored rows of all items, which stay on the workers, and the supports, which come here.

    ``at_once``: bytes of the pieces of a band; ``repeats``: whether an item may be its own neighbour.
    """
    m, n = len(H), len(homes)
    pieces_bytes = int(sizes.entries.sum()) * known.piece_bytes
    work.expected_bytes = pieces_bytes * (n - 1) // n + m * k * (4 + np.dtype(dtype).itemsize)
    each = sizes.entries + sizes.entries.sum() / m  # and a constant cost per item
    ranges = parallel.shares(each, max(-(-pieces_bytes // at_once), TASKS * n))
    owners = _owners(np.array([sizes.stored[lo:hi].sum() for lo, hi in ranges]), n)
    whole = work.submit(same, (H, known.counts))
    rows: dict[int, Future] = {}

    def start(band: int) -> Future:
        lo, hi = ranges[band]
        here = homes.near(owners[band]) | {"priority": SOON}
        pieces = _pieces(work, shards, np.arange(lo, hi), homes)
        added = work.submit(_add_up, pieces, lo, whole, k, dtype, repeats, **here)
        rows[band] = work.submit(itemgetter(0), added, **here)
        return work.submit(itemgetter(1), added, **here)

    found = dict(work.each(start, len(ranges), IN_FLIGHT * n))
    supports = support.join([support.Supports(*found[band]) for band in range(len(ranges))])
    return Bands([rows[band] for band in range(len(ranges))], ranges, owners), supports


def _add_up(
    pieces: list[tuple[Piece, ...]], lo: int, whole: tuple[Doubles, Ints], k: int, dtype: str, repeats: bool
) -> tuple[StoredRows, tuple[NDArray[Any], ...]]:
    """The stored rows and the supports of a band that begins with item ``lo``."""
    H, counts = whole
    added = gram_bands.add([several[0] for several in pieces])
    found = gram_bands.choose(added, lo, H, k, dtype, counts, repeats=repeats)
    below = found.below
    if len(pieces[0]) > 1:  # neighbours are chosen from other numbers than the rows
        added = gram_bands.add([several[1] for several in pieces])
        below = gram_bands.entries_before_diagonal(added, np.arange(lo, lo + len(below)), len(H))
    stored = gram_bands.store(added, lo, below, len(H), dtype)
    return stored, (found.ptr, found.rows, found.values, found.parent, below)


def _owners(stored: Doubles, n: int) -> list[int]:
    """A worker for each band: the largest bands first, each to the worker that has least."""
    owners, filled = np.zeros(len(stored), dtype=np.int64), np.zeros(n)
    for band in np.argsort(-stored, kind="stable"):
        owners[band] = filled.argmin()
        filled[owners[band]] += stored[band]
    return [int(owner) for owner in owners]
