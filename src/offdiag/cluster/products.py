"""G @ V with the users spread over workers: each computes Xᵀ(X V) of its own users, and these are added up.

The low-rank solvers know the data by such products alone, so they run here as on one machine. V is sent to every
worker, and as much comes back: nothing of users × rank or items × items is ever held or moved.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offdiag.cluster import session
from offdiag.cluster.counting import IDLE, SEGMENT, in_segments
from offdiag.cluster.parts import Part, Parts, same, stack
from offdiag.cluster.placement import Homes, in_batches, total, tree
from offdiag.cluster.shards import groups_by_home
from offdiag.cluster.stages import Stage
from offdiag.solvers import Doubles, Floats
from offdiag.solvers.products import DataProduct

if TYPE_CHECKING:
    from distributed import Future

MULTIPLYING = "multiplying"  # the stage of all products of a fit
PIECE = 1 << 22  # bytes of V below which it is not worth cutting for the network
COPIES = 5  # of V on a worker: as it came, as one array, the product, its sum with others, and one in transit
BYTES_PER_ENTRY = 28  # while users are laid out by item: 4 in its part, 8 in each of three matrices; 12 later
BYTES_PER_VALUE = 4  # more if it has values
LESS = "lower the rank, or give more workers, or workers with more memory"


@dataclass(eq=False)
class ShardedProduct:
    """V → G V, a ``solvers.products.Product``; G carries the scale of the user weights of all users."""

    m: int
    g: Doubles
    dtype: np.dtype[Any]
    work: Stage = field(repr=False)
    shards: list[Future] = field(repr=False)  # a DataProduct each
    homes: Homes = field(repr=False)

    @classmethod
    def of(
        cls, work: Stage, parts: Parts, user_power: float, scale: float, dtype: Any, rank: int, homes: Homes
    ) -> ShardedProduct:
        """The users of each worker by item, where their parts are; ``rank``: columns of V, about."""
        m, dtype = parts.n_items, np.dtype(dtype)
        groups = groups_by_home(parts, homes)
        entries = max(int(parts.entries[group].sum()) for group in groups.values())
        of_entry = BYTES_PER_ENTRY + (0 if parts.binary else BYTES_PER_VALUE)
        need = IDLE + of_entry * entries + COPIES * m * rank * dtype.itemsize
        session.require(work.client, need, f"products with {m:,} items and {rank:,} columns", LESS)
        shards = [
            work.submit(_shard, [parts.futures[at] for at in group], m, user_power, scale, dtype.str, rank,
                        **homes.near(home))
            for home, group in groups.items()
        ]  # fmt: skip
        (g,) = work.gather([tree(work, total, [work.submit(attrgetter("g"), shard) for shard in shards])])
        return cls(m, g, dtype, work, shards, homes)

    def __call__(self, V: Floats) -> Floats:
        if V.shape[0] != self.m or V.dtype != self.dtype:
            raise ValueError(f"expected {self.m} rows of {self.dtype}, received {V.shape} of {V.dtype}")
        n, work = len(self.shards), self.work
        work.expected_bytes = (work.expected_bytes or 0) + (2 * (n - 1) + 1) * V.nbytes
        pieces = max(min(len(self.homes), -(-V.nbytes // PIECE)), -(-V.nbytes // SEGMENT), 1)
        rows = in_segments(self.m, pieces)
        V = np.ascontiguousarray(V)
        sent = [work.submit(same, V[lo:hi], **self.homes.near(at)) for at, (lo, hi) in enumerate(rows)]
        found = [work.submit(_times, shard, sent) for shard in self.shards]
        sums = [
            tree(work, total, [work.submit(_rows, one, lo, hi) for one in found] if len(rows) > 1 else found)
            for lo, hi in rows
        ]
        del found
        out = np.empty_like(V)
        for batch in in_batches([(hi - lo) * V.shape[1] * V.itemsize for lo, hi in rows]):
            for at, numbers in zip(batch, work.gather([sums[at] for at in batch]), strict=True):
                out[slice(*rows[at])] = numbers
        return out


class _Shard(DataProduct):
    """A DataProduct with the size that Dask should see."""

    def __sizeof__(self) -> int:
        arrays = [array for b in self._blocks for array in (b.weight, b.items, b.ptr, b.columns)]
        return sum(array.nbytes for array in (self.g, *arrays)) + 4 * sum(len(b.columns) for b in self._blocks)


def _shard(parts: list[Part], m: int, user_power: float, scale: float, dtype: str, rank: int) -> _Shard:
    return _Shard(stack(parts, m), user_power, dtype, rank=rank, scale=scale)


def _times(shard: _Shard, V: list[Floats]) -> Floats:
    return shard(V[0] if len(V) == 1 else np.concatenate(V))


def _rows(array: NDArray[Any], lo: int, hi: int) -> NDArray[Any]:
    return array[lo:hi]
