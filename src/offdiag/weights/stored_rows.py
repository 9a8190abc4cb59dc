"""Shared code of the shapes that store only some entries of each row: Sparse and Compressed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.weights import tiles
from offdiag.weights.protocol import Floats, Ints, Scores, Select, Tile
from offdiag.weights.tiles import Tiled


class StoredRows(Tiled):
    """The entries of row j are at indptr[j]..indptr[j + 1]; scores and lists read only these.

    A score costs one addition per stored weight of the history's items; lists need only these scores (``selector``).
    """

    indptr: NDArray[Any]  # (m + 1,)

    @property
    @abstractmethod
    def nnz(self) -> int: ...

    @abstractmethod
    def _kernels(self) -> ModuleType:
        """The compiled loops of this storage: the same functions for every storage, called with ``_entry_arrays``."""

    @abstractmethod
    def _entry_arrays(self) -> tuple[NDArray[Any], ...]:
        """The arrays that follow indptr, as the compiled loops read them."""

    @abstractmethod
    def _row_starts(self, rows: NDArray[Any]) -> tuple[Ints, ...]:
        """Where each row begins: the position, and anything else needed to continue from there."""

    def check(self) -> None:
        """Raise ValueError unless rows, columns and their order are as the compiled loops assume."""
        from offdiag._kernels import parallel

        m, entries, fine = self.shape[0], self._entry_arrays()[0], []
        valid_rows = self._kernels().valid_rows

        def part(first: int, last: int) -> None:
            fine.append(valid_rows(self.indptr, entries, m, first, last))

        if self.indptr[0] != 0 or self.indptr[-1] != len(entries):
            raise ValueError("the rows do not fit the entries")
        parallel.run_parallel(part, parallel.ranges(m, 4 * parallel.n_threads()))
        if not all(fine):
            raise ValueError("the rows are not in order or do not fit the catalogue")

    def tile_scorer(self, X: sparse.csr_array) -> Callable[[int, int], Scores]:
        """A function that returns the scores of items lo..hi; each range has to begin where the last one ended."""
        kernels, stored = self._kernels(), self._entry_arrays()
        rows, history = np.unique(X.indices, return_inverse=True)  # items without users in this batch are never read
        data = X.data.astype(self.dtype, copy=False)
        row_ends = self.indptr[rows + 1].astype(np.int64, copy=False)
        at = self._row_starts(rows)

        def tile(lo: int, hi: int) -> Scores:
            nonlocal at
            begin, end = at, tuple(map(np.empty_like, at))
            kernels.skip_to(stored[0], *begin, row_ends, hi, *end)
            at = end

            def score(first: int, last: int) -> Floats:
                out = np.empty((last - first, hi - lo), dtype=self.dtype)
                kernels.score_tile(X.indptr, history, data, *begin, end[0], *stored, lo, first, out)
                return out

            return score

        return tile

    def score_tiles(self, X: sparse.csr_array) -> Iterator[Tile]:
        m, scorer = self.shape[0], self.tile_scorer(X)
        few = max(1, tiles.USERS_AT_ONCE // max(X.shape[0], 1))  # for few users, wider tiles in the same memory
        for lo in range(0, m, tiles.DENSE_WIDTH * few):
            hi = min(lo + tiles.DENSE_WIDTH * few, m)
            yield lo, hi, scorer(lo, hi)

    def selector(
        self, X: sparse.csr_array, seen_ptr: NDArray[Any], allowed: NDArray[np.bool_], scores: Floats, items: Ints
    ) -> Select:
        """Visits only items reachable from the history, and as many items with score 0 as a list needs."""
        kernels, stored = self._kernels(), self._entry_arrays()
        data = X.data.astype(self.dtype, copy=False)

        def select(first: int, last: int) -> None:
            kernels.select(
                X.indptr, X.indices, data, seen_ptr, self.indptr, *stored,
                allowed, first, last, scores, items,
            )  # fmt: skip

        return select

    def diagonal(self) -> Floats:
        return self.tocsr().diagonal()

    def columns(self, lo: int, hi: int, out: Floats | None = None) -> Floats:
        out = np.empty((hi - lo, self.shape[0]), dtype=self.dtype) if out is None else out
        return self.tocsr()[:, lo:hi].T.toarray(out=out)

    def toarray(self) -> Floats:
        return self.tocsr().toarray()
