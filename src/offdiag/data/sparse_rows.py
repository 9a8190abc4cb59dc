"""Sort (row, column) pairs into CSR order quickly; the only place where entries are sorted."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

_BLOCK = 1 << 16


def sort_pairs(
    rows: NDArray[Any], cols: NDArray[Any], n_rows: int, n_cols: int
) -> tuple[NDArray[np.int64] | None, NDArray[Any]]:
    """(positions that sort the pairs by row, then column; the columns in that order).

    Equal pairs stay in their given order. The positions are None when the pairs are sorted already.

    Row, column and position usually fit in 63 bits together. Sorting those packed integers uses NumPy's
    vectorised sort, several times faster than an argsort, and is stable because no two are equal.
    """
    n = len(rows)
    if n < 2 or _is_sorted(rows, cols):
        return None, cols
    place_bits, col_bits = (n - 1).bit_length(), (n_cols - 1).bit_length()
    if place_bits + col_bits + (n_rows - 1).bit_length() > 63:
        order = np.lexsort((cols, rows))
        return order, cols[order]
    key = np.empty(n, dtype=np.int64)
    ordered = np.empty(n, dtype=cols.dtype)
    blocks = [slice(start, min(start + _BLOCK, n)) for start in range(0, n, _BLOCK)]
    for block in blocks:  # in blocks that stay in the cache: no temporary array of full length
        part = key[block]
        part[:] = rows[block]
        part <<= col_bits
        part |= cols[block]
        part <<= place_bits
        part |= np.arange(block.start, block.stop)
    key.sort()
    for block in blocks:
        part = key[block]
        ordered[block] = (part >> place_bits) & ((1 << col_bits) - 1)
        part &= (1 << place_bits) - 1
    return key, ordered


def _is_sorted(rows: NDArray[Any], cols: NDArray[Any]) -> bool:
    if np.any(rows[1:] < rows[:-1]):
        return False
    return not np.any((cols[1:] < cols[:-1]) & (rows[1:] == rows[:-1]))


def csr(data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: tuple[int, int]) -> sparse.csr_array:
    """A float32 CSR array from parts that are already canonical, with int32 indices when they fit."""
    index: type[np.signedinteger[Any]] = np.int32 if max(len(indices), *shape) < 2**31 else np.int64
    matrix = sparse.csr_array(
        (
            data.astype(np.float32, copy=False),
            indices.astype(index, copy=False),
            indptr.astype(index, copy=False),
        ),
        shape=shape,
    )
    matrix.has_canonical_format = True
    return matrix


def row_pointer(rows: NDArray[Any], n_rows: int) -> NDArray[np.int64]:
    """Where each row starts, given the row of every entry (in any order)."""
    indptr = np.zeros(n_rows + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=n_rows), out=indptr[1:])
    return indptr


def positions_of_rows(indptr: NDArray[Any], index: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(new indptr, positions in data) of the chosen rows, one after another."""
    indptr = indptr.astype(np.int64, copy=False)
    lengths = indptr[index + 1] - indptr[index]
    new = np.zeros(len(index) + 1, dtype=np.int64)
    np.cumsum(lengths, out=new[1:])
    picked = np.arange(new[-1], dtype=np.int64)
    picked += np.repeat(indptr[index] - new[:-1], lengths)
    return new, picked


def row_of_entries(indptr: NDArray[Any]) -> NDArray[np.int64]:
    """The row of every stored entry."""
    return np.repeat(np.arange(len(indptr) - 1, dtype=np.int64), np.diff(indptr))


def rank_within_rows(indptr: NDArray[Any], key: NDArray[Any], n_keys: int) -> NDArray[np.int64]:
    """0 for the entry with the smallest key of its row, 1 for the next, …; equal keys in storage order.

    Keys are integers in [0, n_keys).
    """
    rows = row_of_entries(indptr)
    place = np.arange(len(key), dtype=np.int64)
    place -= np.asarray(indptr, dtype=np.int64)[rows]
    order, _ = sort_pairs(rows, key, len(indptr) - 1, n_keys)
    if order is None:
        return place
    rank = np.empty(len(key), dtype=np.int64)
    rank[order] = place
    return rank


def share_of_rows(sizes: NDArray[Any], fraction: float) -> NDArray[np.int64]:
    """How many entries of each row to hold out: rounded, at least 1 and never all; none of a row of 1."""
    rounded = np.rint(sizes * fraction).astype(np.int64)
    return np.clip(rounded, np.minimum(1, sizes - 1).clip(0), np.maximum(sizes - 1, 0))


def runs_of_rows(indptr: NDArray[Any], entries: int) -> list[tuple[int, int]]:
    """Consecutive rows with about this many entries together, for work that needs memory for each entry."""
    n = len(indptr) - 1
    edges = np.searchsorted(indptr, np.arange(entries, int(indptr[-1]), entries))
    return [(int(lo), int(hi)) for lo, hi in pairwise(np.unique([0, *edges, n])) if hi > lo]
