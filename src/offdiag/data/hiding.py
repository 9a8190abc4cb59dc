"""Hide a part of each user's items, the same part whoever asks: which ones follows from the row itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import checks
from offdiag.data.sparse_rows import rank_within_rows, row_of_entries, share_of_rows
from offdiag.data.split import HeldOut

KEYS = 1 << 31  # of which each entry of a row has one


def hide(matrix: sparse.csr_array, share: float = 0.2, seed: int = 0) -> HeldOut:
    """The rows of a canonical matrix, each divided into history and targets.

    A share of the items is hidden, rounded, at least one and never all; a row of one item keeps it. The choice is
    pseudo-random but depends only on the columns of the row and on the seed: not on values, other rows or their order.
    """
    checks.number("hidden", share, 0, 1, above=True, below=True, hint="; e.g. 0.2")
    checks.whole("seed", seed)
    rows = row_of_entries(matrix.indptr)
    sizes = np.diff(matrix.indptr)
    rank = rank_within_rows(matrix.indptr, _keys(matrix, rows, seed), KEYS)
    hidden = rank < share_of_rows(sizes, share)[rows]
    return HeldOut(_entries(matrix, ~hidden), _entries(matrix, hidden), np.arange(matrix.shape[0]))


def _keys(matrix: sparse.csr_array, rows: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """A pseudo-random number for each entry, from its column and the columns of its row."""
    of_column = _mixed(matrix.indices.astype(np.uint64) + _mixed(np.array([seed], dtype=np.uint64)))
    of_row = np.zeros(matrix.shape[0], dtype=np.uint64)
    np.add.at(of_row, rows, of_column)  # sums do not depend on the order of the columns
    return (_mixed(of_column ^ of_row[rows]) % np.uint64(KEYS)).astype(np.int64)


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64: every bit of the result depends on every bit of x."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _entries(matrix: sparse.csr_array, mask: NDArray[np.bool_]) -> sparse.csr_array:
    picked = np.flatnonzero(mask)
    indptr = np.searchsorted(picked, matrix.indptr)
    return sparse.csr_array((matrix.data[picked], matrix.indices[picked], indptr), shape=matrix.shape)
