"""Shared code of the shapes that can be read tile by tile: Packed and Dense."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.weights import byte_copy, tiles
from offdiag.weights.byte_copy import OnDemand, Rank
from offdiag.weights.protocol import Floats, Ints, Select, Tile
from offdiag.weights.tiles import Tiled

ROWS_AT_ONCE = 512  # of a block of columns: still in the cache when they are transposed


class Matrix(Tiled):
    """Everything that needs only tiles W[rows, lo:hi]."""

    @cached_property
    def byte_copy(self) -> OnDemand:
        return OnDemand()

    @abstractmethod
    def tile(self, rows: Ints, places: Ints, lo: int, hi: int, out: Floats, first: int, last: int) -> None:
        """out[places[r]] = W[rows[r], lo:hi] for r in first..last; rows ascend."""

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        from offdiag._kernels import parallel, topk

        m = X.shape[1]
        counts = np.bincount(X.indices, minlength=m)
        rows = np.flatnonzero(counts)  # items without users in this batch are never read
        places = np.empty(len(rows), dtype=np.int64)  # items of many histories are stored together, in few cache pages
        places[np.argsort(-counts[rows], kind="stable")] = np.arange(len(rows))
        place_of = np.zeros(m, dtype=np.uint32)
        place_of[rows] = places
        history = place_of[X.indices]
        data = X.data.astype(self.dtype, copy=False)
        width = min(m, max(64, tiles.TILE_BYTES // (max(len(rows), 1) * self.dtype.itemsize)))
        weights = np.empty(len(rows) * width, dtype=self.dtype)
        parts = parallel.n_threads() if len(rows) * m > 1 << 22 else 1  # small requests are not worth a thread
        for lo in range(0, m, width):
            hi = min(lo + width, m)
            W = weights[: len(rows) * (hi - lo)].reshape(len(rows), hi - lo)
            fill = [(rows, places, lo, hi, W, first, last) for first, last in parallel.ranges(len(rows), parts)]
            parallel.run_parallel(self.tile, fill)

            def score(first: int, last: int, W: Floats = W) -> Floats:
                out = np.empty((last - first, W.shape[1]), dtype=self.dtype)
                topk.score_tile(X.indptr, history, data, W, 0, W.shape[1], first, out)
                return out

            yield lo, hi, score

    def rank_exactly(self) -> Rank | None:
        """A function that puts candidates into heaps by the sums of their weights, if there is one."""
        return None

    def prepare_lists(self) -> bool:
        large = self.shape[0] >= byte_copy.FEWEST_ITEMS and self.rank_exactly() is not None
        return large and self.byte_copy.make(self) is not None

    def selector(
        self, X: sparse.csr_array, seen_ptr: NDArray[Any], allowed: NDArray[np.bool_], scores: Floats, items: Ints
    ) -> Select | None:
        if not byte_copy.applies(X, scores.shape[1]) or (rank := self.rank_exactly()) is None:
            return None
        found = self.byte_copy.find(self, X)
        return None if found is None else found.selector(rank, X, seen_ptr, allowed, scores, items)

    def column(self, items: Ints, target: int) -> Floats:
        out = np.empty((len(items), 1), dtype=self.dtype)
        self.tile(items, np.arange(len(items)), target, target + 1, out, 0, len(items))
        return out[:, 0]

    def columns(self, lo: int, hi: int, out: Floats | None = None) -> Floats:
        from offdiag._kernels import parallel

        m = self.shape[0]
        found = np.empty((hi - lo, m), dtype=self.dtype) if out is None else out
        items = np.arange(m)

        def part(first: int, last: int) -> None:
            rows = np.empty((last - first, hi - lo), dtype=self.dtype)
            self.tile(items[first:last], items[: last - first], lo, hi, rows, 0, last - first)
            found[:, first:last] = rows.T

        parallel.run_parallel(part, parallel.ranges(m, -(-m // ROWS_AT_ONCE)))
        return found

    def toarray(self) -> Floats:
        m = self.shape[0]
        out = np.empty(self.shape, dtype=self.dtype)
        self.tile(np.arange(m), np.arange(m), 0, m, out, 0, m)
        return out
