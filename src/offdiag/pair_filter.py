"""Items that single users must not be shown: a table of user and item, applied to ranked lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.data.ids import positions
from offdiag.data.sparse_rows import positions_of_rows

Lists = tuple[NDArray[np.int64], NDArray[np.floating]]  # columns, -1 after the end, and their scores


@dataclass(frozen=True, eq=False)
class PairFilter:
    """Pairs that are left out of the lists; users are matched by id."""

    user_ids: NDArray[Any]
    matrix: sparse.csr_array  # these users × the model's items
    unknown_items: list[Any]

    @cached_property
    def _met(self) -> NDArray[np.bool_]:
        return np.zeros(len(self.user_ids), dtype=np.bool_)

    def rows(self, user_ids: NDArray[Any]) -> sparse.csr_array:
        """The blocked items of these users."""
        where = positions(user_ids, self.user_ids)
        self._met[where[where >= 0]] = True
        lengths = np.zeros(len(where), dtype=np.int64)
        known = where[where >= 0]
        pointer, entries = positions_of_rows(self.matrix.indptr, known)
        lengths[where >= 0] = np.diff(pointer)
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        ones = np.ones(len(entries), dtype=np.float32)
        return sparse.csr_array((ones, self.matrix.indices[entries], indptr), shape=(len(where), self.matrix.shape[1]))

    def unknown_users(self) -> list[Any]:
        """Users of the table for whom no list was made."""
        return self.user_ids[~self._met].tolist()  # type: ignore[no-any-return]


def without_pairs(
    rank: Callable[[sparse.csr_array, int], Lists],
    X: sparse.csr_array,
    k: int,
    blocked: sparse.csr_array,
    dtype: np.dtype[Any],
) -> Lists:
    """The k best items of each row that are not blocked for it: of a longer list, the blocked ones are removed.

    Rows are ranked together with those that need about the same length, so one user with many blocked items costs
    only their own list. ``dtype`` is that of the scores.
    """
    n, m = X.shape
    n_blocked = np.diff(blocked.indptr)
    extra = np.where(n_blocked > 0, 2 ** np.ceil(np.log2(np.maximum(n_blocked, 1))), 0).astype(np.int64)
    items, scores = np.full((n, k), -1, dtype=np.int64), np.full((n, k), -np.inf, dtype=dtype)
    for more in np.unique(extra).tolist():
        rows = np.flatnonzero(extra == more)
        columns, values = rank(X[rows], min(k + more, m))
        if more:
            columns, values = _remove(columns, values, blocked[rows])
        width = min(k, columns.shape[1])
        items[rows, :width], scores[rows, :width] = columns[:, :width], values[:, :width]
    return items, scores


def _remove(columns: NDArray[np.int64], values: NDArray[np.floating], blocked: sparse.csr_array) -> Lists:
    m = blocked.shape[1]
    row = np.arange(len(columns))
    pairs = np.repeat(row, np.diff(blocked.indptr)) * m + blocked.indices
    gone = np.isin(row[:, None] * m + columns, pairs) | (columns < 0)
    order = np.argsort(gone, axis=1, kind="stable")
    columns = np.where(gone, -1, columns)
    values = np.where(gone, -np.inf, values)
    return np.take_along_axis(columns, order, axis=1), np.take_along_axis(values, order, axis=1)
