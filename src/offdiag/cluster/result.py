"""The inverse that stays on the workers, and the ways it can come back: by columns, whole, or its strongest entries."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.cluster import tiles
from offdiag.cluster.inverse import Tiles
from offdiag.cluster.placement import in_batches
from offdiag.cluster.stages import stage
from offdiag.gramian import layout
from offdiag.progress import Progress
from offdiag.solvers import cholesky
from offdiag.weights import Packed, Sparse

if TYPE_CHECKING:
    from distributed import Client, Future


@dataclass(frozen=True, eq=False)
class Inverse:
    """B_ji = C_ji·scale_i off the diagonal, B_ii = diagonal_i, with the upper tiles of C on the workers."""

    client: Client = field(repr=False)
    C: Tiles = field(repr=False)
    edges: NDArray[np.int64]  # items edges[k] … edges[k + 1] are block k
    scale: NDArray[np.floating]
    diagonal: NDArray[np.floating]
    objective: float

    @property
    def n_blocks(self) -> int:
        return len(self.edges) - 1

    def columns(self, block: int) -> NDArray[np.floating]:
        """B of all rows and the columns of one block, on this machine: m × tile numbers."""
        lo, hi = self.edges[block], self.edges[block + 1]
        with stage(self.client, "gathering") as work:
            keys = [(min(k, block), max(k, block)) for k in range(self.n_blocks)]
            found = work.gather([self.C[key] for key in keys])
        B: NDArray[np.floating] = np.concatenate([t if k <= block else t.T for k, t in enumerate(found)])
        B *= self.scale[lo:hi]
        B[np.arange(lo, hi), np.arange(hi - lo)] = self.diagonal[lo:hi]
        return B

    def gather(self, progress: Progress | None = None) -> Packed:
        """All of it on this machine: m(m+1)/2 numbers."""
        m, dtype = len(self.scale), self.scale.dtype
        cholesky.check_feasible(m, dtype.itemsize)
        values = np.empty(layout.size(m), dtype=dtype)
        keys = list(self.C)
        span = [np.arange(lo, hi) for lo, hi in pairwise(self.edges)]
        with stage(self.client, "gathering", progress) as work:
            for batch in in_batches([len(span[i]) * len(span[j]) * dtype.itemsize for i, j in keys]):
                done = batch.stop / len(keys)
                for at, tile in zip(batch, work.gather([self.C[keys[at]] for at in batch], done, done), strict=True):
                    i, j = keys[at]
                    values[layout.positions(m, span[i], span[j])] = tile
        return Packed(values, self.scale, self.diagonal)

    def strongest(self, keep: int, progress: Progress | None = None) -> Sparse:
        """Of every column the ``keep`` largest |B_ji| and the diagonal, chosen on the workers; the rest is dropped."""
        m = len(self.scale)
        found: dict[int, list[Future]] = {block: [] for block in range(self.n_blocks)}
        columns, rows, data = [np.arange(m)], [np.arange(m)], [self.diagonal]
        with stage(self.client, "choosing the strongest", progress) as work:
            for (i, j), tile in self.C.items():
                found[j].append(work.submit(tiles.strongest, tile, keep, int(self.edges[i]), i == j, False))
                if i != j:
                    found[i].append(work.submit(tiles.strongest, tile, keep, int(self.edges[j]), False, True))
            best = [work.submit(tiles.merged, keep, *found.pop(block)) for block in range(self.n_blocks)]
            for block, (row, value) in enumerate(work.gather(best)):
                lo, hi = self.edges[block], self.edges[block + 1]
                columns.append(np.broadcast_to(np.arange(lo, hi), row.shape).ravel())
                rows.append(row.ravel())
                data.append((value * self.scale[lo:hi]).ravel())
        kept = np.flatnonzero(strong := np.concatenate(data))
        at = (np.concatenate(rows)[kept], np.concatenate(columns)[kept])
        return Sparse.of(sparse.csr_array((strong[kept], at), shape=(m, m)))
