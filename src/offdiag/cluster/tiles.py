"""Tasks on tiles of symmetric matrices: counting, H = RᵀR, M = R⁻ᵀ, C = MᵀM; all products have the form AᵀB.

A tile is an ordinary array; tile (i, j) holds the rows of block i and the columns of block j.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from offdiag.cluster.parts import Part, matrix_of
from offdiag.errors import OffdiagError
from offdiag.gramian.packed import weights_of
from offdiag.solvers import blas

Tile = NDArray[np.floating]
# users (global numbers, ascending), row pointer, columns from 0, values or None, weights or None
Block = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], NDArray[np.float32] | None, Any]


def column_blocks(part: Part, edges: NDArray[np.int64], first_user: int, user_power: float) -> tuple[Block, ...]:
    """A part cut into blocks of columns; each keeps only the users who have something in it."""
    X = matrix_of(part, int(edges[-1]))
    n_u = np.diff(X.indptr)
    weight = weights_of(n_u, user_power) if user_power else None
    rows = np.repeat(np.arange(len(n_u)), n_u)
    of = np.searchsorted(edges, X.indices, side="right") - 1
    order = np.argsort(of, kind="stable")  # block by block, in each the entries in their order
    ends = np.searchsorted(of[order], np.arange(len(edges)))
    blocks: list[Block] = []
    for at, (a, b) in enumerate(pairwise(ends.tolist())):
        picked = order[a:b]
        users, counts = np.unique(rows[picked], return_counts=True)
        blocks.append((
            users + first_user,
            np.concatenate([[0], np.cumsum(counts)]),
            (X.indices[picked] - edges[at]).astype(np.int32),
            None if part[0] is None else X.data[picked],
            None if weight is None else weight[users],
        ))  # fmt: skip
    return tuple(blocks)


def stacked(pieces: list[Block]) -> Block:
    """The same columns of consecutive parts, as one block."""
    ptr = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(piece[1]) for piece in pieces]))])
    values = None
    if any(piece[3] is not None for piece in pieces):
        values = np.concatenate([np.ones(len(p[2]), np.float32) if p[3] is None else p[3] for p in pieces])
    weight = None if pieces[0][4] is None else np.concatenate([piece[4] for piece in pieces])
    users, columns = (np.concatenate([piece[at] for piece in pieces]) for at in (0, 2))
    return users, ptr, columns, values, weight


def count(left: Block, right: Block, height: int, width: int, dtype: str) -> Tile:
    """A tile of the unnormalised Gram."""
    from offdiag._kernels import gram_tiles

    users, ptr, columns, _, weight = left
    ones = [np.ones(len(block[2]), np.float32) if block[3] is None else block[3] for block in (left, right)]
    by_item = sparse.csr_array((ones[0], columns, ptr), shape=(len(users), height)).tocsc()
    place = np.searchsorted(right[0], users)
    there = place < len(right[0])
    there[there] = right[0][place[there]] == users[there]
    place[~there] = -1
    out = np.empty((height, width), dtype=dtype)
    gram_tiles.gram_tile(
        by_item.indptr.astype(np.int64), by_item.indices.astype(np.int64), by_item.data,
        np.ones(len(users)) if weight is None else weight, place.astype(np.int64),
        right[1].astype(np.int64), right[2], ones[1], np.empty(width), out,
    )  # fmt: skip
    return out


def diagonal(tile: Tile) -> NDArray[np.float64]:
    return tile.diagonal().astype(np.float64)


def with_diagonal(tile: Tile, values: NDArray[np.float64]) -> Tile:
    out = tile.copy()
    np.fill_diagonal(out, values)
    return out


def less(tile: Tile, *pairs: Tile) -> Tile:
    """tile − Σ AᵀB over the pairs (A, B, A, B, …)."""
    return _added(np.ascontiguousarray(tile).copy(), pairs, -1.0)


def products(before: Tile | None, *pairs: Tile) -> Tile:
    """before + Σ AᵀB."""
    if before is None:
        return _added(blas.product(pairs[0], pairs[1], transposed=True), pairs[2:], 1.0)
    return _added(before.copy(), pairs, 1.0)


def _added(out: Tile, pairs: tuple[Tile, ...], alpha: float) -> Tile:
    for A, B in zip(pairs[::2], pairs[1::2], strict=True):
        blas.product(A, B, transposed=True, alpha=alpha, add_to=out)
    return out


def factor(tile: Tile, H_ii: NDArray[np.float64]) -> Tile:
    """The upper triangular R of RᵀR = tile; the error is that of the solver on one machine."""
    try:
        R = linalg.cholesky(tile, lower=False, check_finite=False)
        left_over = R.diagonal().astype(np.float64) ** 2 / H_ii  # of an item after regression on those before it
        fine = bool(left_over.min(initial=1.0) > 8 * np.finfo(tile.dtype).eps)
    except linalg.LinAlgError:
        fine = False
    if not fine:
        remedy = "set l2 or dropout > 0" + (", or dtype='float64' if they are" if tile.dtype == np.float32 else "")
        raise OffdiagError(
            "the regularised Gram matrix is singular at this precision: some items are combinations of others "
            f"(duplicate columns?) and too little separates them; {remedy}"
        )
    return np.ascontiguousarray(R)


def solved(R: Tile, tile: Tile, sign: float = 1.0) -> Tile:
    """sign·R⁻ᵀ tile."""
    out = linalg.solve_triangular(R, tile, trans="T", lower=False, check_finite=False)
    return np.ascontiguousarray(out if sign == 1.0 else -out)


def inverted(R: Tile) -> Tile:
    """R⁻ᵀ."""
    return solved(R, np.eye(len(R), dtype=R.dtype))


def mirrored(tile: Tile) -> Tile:
    """A diagonal tile made symmetric to the bit."""
    out = np.triu(tile)
    return out + np.triu(tile, 1).T


def strongest(tile: Tile, keep: int, first_row: int, is_diagonal: bool, turned: bool) -> tuple[Any, Any]:
    """(rows, values) of the ``keep`` largest |entries| of every column, or of every row when ``turned``."""
    columns = tile.T.copy() if turned else tile
    size = np.abs(columns)
    if is_diagonal:
        np.fill_diagonal(size, -1.0)
    rows = _largest(size, keep)
    values = np.take_along_axis(columns, rows, axis=0)
    values[np.take_along_axis(size, rows, axis=0) <= 0] = 0  # the diagonal, where fewer than keep are left
    return (rows + first_row).astype(np.int32), values


def merged(keep: int, *found: tuple[Any, Any]) -> tuple[Any, Any]:
    """The same over the tiles of one block of columns."""
    rows, values = (np.concatenate([pair[at] for pair in found]) for at in (0, 1))
    best = _largest(np.abs(values), keep)
    return np.take_along_axis(rows, best, axis=0), np.take_along_axis(values, best, axis=0)


def _largest(size: Tile, keep: int) -> NDArray[np.int64]:
    """Positions of the largest of each column, ascending."""
    if len(size) <= keep:
        return np.repeat(np.arange(len(size))[:, None], size.shape[1], axis=1)
    return np.sort(np.argpartition(-size, keep - 1, axis=0)[:keep], axis=0)
