"""Columns of a sparse model, block by block: each block is solved on one worker from rows that all of them keep."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from sys import getsizeof
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from offdiag.cluster.bands import SOON, Bands
from offdiag.cluster.parts import same
from offdiag.cluster.placement import Homes
from offdiag.cluster.stages import Stage
from offdiag.data.sparse_rows import positions_of_rows
from offdiag.solvers import Doubles, Ints, gram_bands, gram_rows, support
from offdiag.solvers.gram_bands import Bench, StoredRows

if TYPE_CHECKING:
    from distributed import Future

BLOCKS = 8  # per worker, at least: at the end the slowest worker has at most an eighth of its share left
IN_FLIGHT = 3  # blocks per worker: one that is solved, the others with their rows in transit
BLOCKS_HELD = (2 + IN_FLIGHT) / 2  # in a worker: half of a block is popular rows, the other half there once per block
LEAST_ITEMS = 64  # in a block
SAMPLE = 8  # blocks whose rows are counted beforehand, to estimate the traffic of all


@dataclass(frozen=True)
class Solver:
    """Distributes blocks of columns; the rows of popular items, which most blocks need, are copied to every worker."""

    stage: Callable[[str], AbstractContextManager[Stage]]
    bands: Bands
    homes: Homes
    H: Doubles
    block_bytes: int

    def solve(self, supports: support.Supports, kept: support.Kept | None = None) -> Doubles:
        """Replace the values of the supports by β; returns G_iS·β of each item i.

        Blocks found in ``kept`` are taken from there; the others are stored in it as they finish.
        """
        dtype, n = supports.values.dtype, len(self.homes)
        at_most = int(np.clip(len(self.H) // (BLOCKS * n), LEAST_ITEMS, gram_rows.BLOCK_ITEMS))
        plan = gram_rows.plan(supports, dtype.itemsize, self._block_bytes(supports.below, dtype.itemsize), at_most)
        explained = np.zeros(len(self.H))
        left = []
        for number, items in enumerate(plan.blocks):
            found = kept.restore(number, items) if kept else None
            if found is None:
                left.append(number)
            else:
                support.put(supports, items, explained, found)
        if not left:
            return explained
        blocks = _Blocks(supports, plan, left)
        with self.stage("copying popular items") as work:
            popular = gram_rows.bytes_of_rows(supports.below[: plan.n_head], dtype.itemsize)
            work.expected_bytes = int(popular.sum()) * (n - 1)
            heads = self._heads(work, plan.n_head)
            sampled = [
                self._picked(work, blocks[at]) for at in np.unique(np.linspace(0, len(left) - 1, SAMPLE, dtype=int))
            ]
            sizes = work.gather([work.submit(getsizeof, rows) for block in sampled for rows in block])
            rows_bytes = sum(sizes) / len(sampled) * len(left)
            del sampled
        with self.stage(support.SOLVING) as work:
            work.expected_bytes = int(rows_bytes * (n - 1) / n) + dtype.itemsize * len(supports.rows)
            whole, busy, home_of = work.submit(same, self.H), np.zeros(n), dict[int, int]()

            def start(at: int) -> Future:
                home = home_of[at] = int(busy.argmin())
                busy[home] += 1
                block = blocks[at]
                tail = self._picked(work, block)
                return work.submit(_solve_block, heads[home], tail, whole, *block.columns, **self.homes.near(home))

            for at, result in work.each(start, len(left), IN_FLIGHT * n):
                busy[home_of.pop(at)] -= 1
                items = plan.blocks[left[at]]
                support.put(supports, items, explained, result)
                if kept:
                    kept.store(left[at], items, result)
        return explained

    def _block_bytes(self, below: Ints, itemsize: int) -> int:
        """All rows at once if they take no more than those of several blocks."""
        whole = int(gram_rows.bytes_of_rows(below, itemsize).sum())
        return whole if whole <= BLOCKS_HELD * self.block_bytes else self.block_bytes

    def _heads(self, work: Stage, n_head: int) -> list[Future]:
        """The rows of popular items, on every worker: to count them again it would need all users."""
        first = [
            work.submit(gram_bands.first_rows, rows, n_head, **self.homes.near(home))
            for rows, (lo, _), home in zip(self.bands.futures, self.bands.ranges, self.bands.homes, strict=True)
            if lo < n_head
        ]
        heads = [work.submit(_bench, first, **self.homes.near(home)) for home in range(len(self.homes))]
        work.wait(heads)
        return heads

    def _picked(self, work: Stage, block: _Block) -> list[Future]:
        """The rows that a block needs; each worker picks and sends its own before it turns to other tasks."""
        band = np.searchsorted([lo for lo, _ in self.bands.ranges], block.rest, side="right") - 1
        owner = np.array(self.bands.homes)[band]
        return [
            work.submit(
                gram_bands.pick, [self.bands.futures[b] for b in np.unique(band[mine])], block.rest[mine], block.needed,
                priority=SOON, **self.homes.near(home),
            )
            for home in np.unique(owner).tolist()
            for mine in [owner == home]
        ]  # fmt: skip


class _Block(NamedTuple):
    """What the columns of a block need: the items of their supports, those of them that are not popular, and G."""

    needed: NDArray[np.int32]
    rest: NDArray[np.int32]
    columns: tuple[
        NDArray[Any], ...
    ]  # lengths, rows and values of the supports, in ascending order of the items; items


@dataclass(frozen=True)
class _Blocks:
    """Made when it is their turn, so that few are held at a time."""

    supports: support.Supports
    plan: gram_rows.Plan
    left: list[int]

    def __getitem__(self, at: int) -> _Block:
        items, supports = self.plan.blocks[self.left[at]], self.supports
        ptr, picked = positions_of_rows(supports.ptr, np.sort(items).astype(np.int64))
        rows = supports.rows[picked]
        needed = np.unique(rows)
        return _Block(needed, needed[needed >= self.plan.n_head], (np.diff(ptr), rows, supports.values[picked], items))


def _bench(rows: list[StoredRows]) -> Bench | None:
    return Bench(gram_bands.join(rows)) if rows else None


def _solve_block(
    head: Bench | None,
    tail: list[StoredRows],
    H: Doubles,
    lengths: Ints,
    rows: NDArray[np.int32],
    values: NDArray[np.floating],
    items: NDArray[np.int32],
) -> dict[str, NDArray[Any]]:
    """The columns of one block; its supports are in ascending order of the items."""
    m = len(H)
    of_all = np.zeros(m, dtype=np.int64)
    of_all[np.sort(items)] = lengths
    ptr = np.concatenate([[0], np.cumsum(of_all)])
    none = np.zeros(0, dtype=np.int64)
    supports = support.Supports(ptr, rows, values.copy(), none.astype(np.int32), none)
    explained = np.zeros(m)
    if head is not None:
        with head.rows(tail) as stored:
            support.solve_block(stored.shelf(m), H, supports, items, explained)
    elif tail:  # else no item of the block has a neighbour
        support.solve_block(gram_bands.join(tail).shelf(m), H, supports, items, explained)
    return support.take(supports, items, explained)
