"""Interactions: who chose what, as one sparse matrix with the ids of its rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.data.order import csr, positions_of_rows, sort_pairs
from offdiag.errors import OffdiagError

Which = NDArray[Any] | Sequence[int] | Sequence[bool] | slice


@dataclass(frozen=True, eq=False)
class Interactions:
    """A users × items matrix (CSR, float32, canonical) and what its rows and columns stand for.

    `times` and `rows` run along `matrix.data`: when each interaction happened, and where it first stood in
    the table it came from (only the order matters). `rows` is None when the table was in storage order.
    """

    matrix: sparse.csr_array
    user_ids: NDArray[Any]
    item_ids: NDArray[Any]
    times: NDArray[Any] | None = None
    rows: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if self.matrix.dtype != np.float32:  # else a part of it, which is, would not hold the same values
            with np.errstate(over="ignore"):
                object.__setattr__(self, "matrix", self.matrix.astype(np.float32))
        object.__setattr__(self, "user_ids", np.asarray(self.user_ids))
        object.__setattr__(self, "item_ids", np.asarray(self.item_ids))
        expected = (len(self.user_ids), len(self.item_ids))
        if self.matrix.shape != expected:
            raise OffdiagError(
                f"expected a matrix of {expected[0]} users x {expected[1]} items, as many as there are ids, "
                f"received {self.matrix.shape[0]} x {self.matrix.shape[1]}; give one id per row and per column"
            )
        for name, along in (("times", self.times), ("rows", self.rows)):
            if along is not None and len(along) != self.matrix.nnz:
                raise OffdiagError(
                    f"expected {name} to have one entry per stored interaction ({self.matrix.nnz}), "
                    f"received {len(along)}; align it with matrix.data"
                )

    @property
    def n_users(self) -> int:
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

    @property
    def nnz(self) -> int:
        return int(self.matrix.nnz)

    @property
    def table_order(self) -> NDArray[np.int64]:
        """Sorting key of each stored interaction by its place in the source table."""
        return np.arange(self.nnz, dtype=np.int64) if self.rows is None else self.rows

    def select_users(self, which: Which) -> Interactions:
        """The rows picked by a mask or by positions, in that order; all columns stay."""
        index = _positions(which, self.n_users, "user")
        indptr, picked = positions_of_rows(self.matrix.indptr, index)
        matrix = csr(self.matrix.data[picked], self.matrix.indices[picked], indptr, (len(index), self.n_items))
        moved = bool(np.any(np.diff(index) < 0))
        return Interactions(matrix, self.user_ids[index], self.item_ids, *self._along(picked, keep_rows=moved))

    def select_items(self, which: Which) -> Interactions:
        """The columns picked by a mask or by positions, in that order; all rows stay."""
        index = _positions(which, self.n_items, "item")
        if len(np.unique(index)) != len(index):
            raise OffdiagError("expected each item once, received a position twice; select distinct items")
        column = np.full(self.n_items, -1, dtype=self.matrix.indices.dtype)
        column[index] = np.arange(len(index), dtype=column.dtype)
        cols = column[self.matrix.indices]
        picked = np.flatnonzero(cols >= 0)
        cols = cols[picked]
        indptr = np.searchsorted(picked, self.matrix.indptr)
        moved = bool(np.any(np.diff(index) < 0))
        if moved:
            users = np.repeat(np.arange(self.n_users), np.diff(indptr))
            order, cols = sort_pairs(users, cols, self.n_users, len(index))
            if order is not None:
                picked = picked[order]
        matrix = csr(self.matrix.data[picked], cols, indptr, (self.n_users, len(index)))
        return Interactions(matrix, self.user_ids, self.item_ids[index], *self._along(picked, keep_rows=moved))

    def select_entries(self, mask: NDArray[np.bool_]) -> Interactions:
        """The stored interactions where the mask (along matrix.data) is true; users and items all stay."""
        picked = np.flatnonzero(mask)
        indptr = np.searchsorted(picked, self.matrix.indptr)
        matrix = csr(self.matrix.data[picked], self.matrix.indices[picked], indptr, self.matrix.shape)
        return replace(
            self,
            matrix=matrix,
            times=None if self.times is None else self.times[picked],
            rows=None if self.rows is None else self.rows[picked],
        )

    def _along(
        self, picked: NDArray[np.int64], *, keep_rows: bool
    ) -> tuple[NDArray[Any] | None, NDArray[np.int64] | None]:
        # Once entries move, storage order is no longer table order, so the old positions must be remembered.
        rows = self.rows[picked] if self.rows is not None else (picked if keep_rows else None)
        return None if self.times is None else self.times[picked], rows

    def __repr__(self) -> str:
        cells = max(1, self.n_users * self.n_items)
        times = ", with times" if self.times is not None else ""
        return (
            f"Interactions({self.n_users:,} users x {self.n_items:,} items, {self.nnz:,} interactions, "
            f"{100 * self.nnz / cells:.3g} % filled{times})"
        )


def _positions(which: Which, n: int, noun: str) -> NDArray[np.int64]:
    if isinstance(which, slice):
        return np.arange(n, dtype=np.int64)[which]
    index = np.asarray(which)
    if index.dtype == bool:
        if index.shape != (n,):
            raise OffdiagError(
                f"expected a mask over {n} {noun}s, received shape {index.shape}; give one entry per {noun}"
            )
        return np.flatnonzero(index)
    if index.size == 0:
        return np.zeros(0, dtype=np.int64)
    if index.ndim != 1 or not np.issubdtype(index.dtype, np.integer):
        raise OffdiagError(
            f"expected a 1-D boolean mask or integer positions of {noun}s, "
            f"received {index.dtype} of shape {index.shape}; "
            f"turn ids into positions with np.searchsorted({noun}_ids, ids)"
        )
    if index.min() < -n or index.max() >= n:
        raise OffdiagError(f"expected {noun} positions below {n}, received up to {index.max()}; use positions, not ids")
    return np.where(index < 0, index + n, index).astype(np.int64)
