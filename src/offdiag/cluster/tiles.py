"""Symmetric matrices as tiles on workers, and the inverse of a positive definite one; no worker holds a full matrix.

Problem   C = H⁻¹ by H = RᵀR, M = R⁻ᵀ, C = MᵀM, upper tiles of R and C, lower tiles of M; all products are AᵀB.
Cost      m³ flops over all workers; m² numbers at the peak, two triangles; each worker receives 3 triangles in total.
Equals    ``scipy.linalg.inv`` of the whole matrix, up to rounding.

A tile is an ordinary array; tile (i, j) holds the rows of block i and the columns of block j. The tiles of column j
belong to worker j mod W: a task runs where the column it adds to is, and the other tiles it needs, those of one row of
R or one column of M, are sent once to every worker. The steps are awaited one by one, because Dask drops a copy only
when no submitted task will need it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from offdiag.cluster.parts import Part, matrix_of
from offdiag.cluster.placement import Homes
from offdiag.cluster.stages import Stage
from offdiag.gramian.user_weights import weights_of
from offdiag.solvers import blas, cholesky

if TYPE_CHECKING:
    from distributed import Future

DEPTH = 4  # products that one task adds: more means fewer tasks, but 2·DEPTH + 2 tiles in a worker's memory at once

Tile = NDArray[np.floating]
Tiles = dict[tuple[int, int], "Future"]
# users (global numbers, ascending), row pointer, columns from 0, values or None, weights or None
Block = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], NDArray[np.float32] | None, Any]


def column_blocks(part: Part, edges: NDArray[np.int64], first_user: int, user_power: float) -> tuple[Block, ...]:
    """A part split into blocks of columns; each keeps only the users with entries in it."""
    X = matrix_of(part, int(edges[-1]))
    n_u = np.diff(X.indptr)
    weight = weights_of(n_u, user_power) if user_power else None
    rows = np.repeat(np.arange(len(n_u)), n_u)
    of = np.searchsorted(edges, X.indices, side="right") - 1
    order = np.argsort(of, kind="stable")  # by block, entries in their original order
    ends = np.searchsorted(of[order], np.arange(len(edges)))
    blocks: list[Block] = []
    for at, (a, b) in enumerate(pairwise(ends.tolist())):
        picked = order[a:b]
        users, counts = np.unique(rows[picked], return_counts=True)
        blocks.append((
            users + first_user,
            np.concatenate([[0], np.cumsum(counts)]),
            (X.indices[picked] - edges[at]).astype(np.int32),
            None if part.data is None else X.data[picked],
            None if weight is None else weight[users],
        ))  # fmt: skip
    return tuple(blocks)


def stack_blocks(pieces: list[Block]) -> Block:
    """The same columns of consecutive parts, stacked into one block."""
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


def add_features(tile: Tile, left: sparse.csr_array, right: sparse.csr_array, weight: float) -> Tile:
    """tile + w F_i F_jᵀ, for the features of the items of its rows and columns."""
    out: Tile = tile + (weight * (left @ right.T)).toarray().astype(tile.dtype)
    return out


def diagonal(tile: Tile) -> NDArray[np.float64]:
    return tile.diagonal().astype(np.float64)


def with_diagonal(tile: Tile, values: NDArray[np.float64]) -> Tile:
    out = tile.copy()
    np.fill_diagonal(out, values)
    return out


def subtract_products(tile: Tile, *pairs: Tile) -> Tile:
    """tile − Σ AᵀB over the pairs (A, B, A, B, …)."""
    return _add(np.ascontiguousarray(tile).copy(), pairs, -1.0)


def add_products(before: Tile | None, *pairs: Tile) -> Tile:
    """before + Σ AᵀB."""
    if before is None:
        return _add(blas.product(pairs[0], pairs[1], transposed=True), pairs[2:], 1.0)
    return _add(before.copy(), pairs, 1.0)


def _add(out: Tile, pairs: tuple[Tile, ...], alpha: float) -> Tile:
    for A, B in zip(pairs[::2], pairs[1::2], strict=True):
        blas.product(A, B, transposed=True, alpha=alpha, add_to=out)
    return out


def factor(tile: Tile, H_ii: NDArray[np.float64]) -> Tile:
    """The upper triangular R of RᵀR = tile; raises the same error as the solver on one machine."""
    try:
        R = linalg.cholesky(tile, lower=False, check_finite=False)
    except linalg.LinAlgError:
        R = None
    cholesky.check_factor(None if R is None else R.diagonal(), H_ii, tile.dtype)
    return np.ascontiguousarray(R)


def solve_triangle(R: Tile, tile: Tile, sign: float = 1.0) -> Tile:
    """sign·R⁻ᵀ tile."""
    out = linalg.solve_triangular(R, tile, trans="T", lower=False, check_finite=False)
    return np.ascontiguousarray(out if sign == 1.0 else -out)


def invert_triangle(R: Tile) -> Tile:
    """R⁻ᵀ."""
    return solve_triangle(R, np.eye(len(R), dtype=R.dtype))


def symmetrise(tile: Tile) -> Tile:
    """A diagonal tile made exactly symmetric."""
    out = np.triu(tile)
    return out + np.triu(tile, 1).T


def strongest(tile: Tile, keep: int, first_row: int, is_diagonal: bool, transposed: bool) -> tuple[Any, Any]:
    """(rows, values) of the ``keep`` largest |entries| of every column, or of every row when ``transposed``."""
    columns = tile.T.copy() if transposed else tile
    size = np.abs(columns)
    if is_diagonal:
        np.fill_diagonal(size, -1.0)
    rows = _largest(size, keep)
    values = np.take_along_axis(columns, rows, axis=0)
    values[np.take_along_axis(size, rows, axis=0) <= 0] = 0  # the diagonal, where fewer than keep are left
    return (rows + first_row).astype(np.int32), values


def merge_strongest(keep: int, *found: tuple[Any, Any]) -> tuple[Any, Any]:
    """The ``keep`` largest over the tiles of one block of columns."""
    rows, values = (np.concatenate([pair[at] for pair in found]) for at in (0, 1))
    best = _largest(np.abs(values), keep)
    return np.take_along_axis(rows, best, axis=0), np.take_along_axis(values, best, axis=0)


def _largest(size: Tile, keep: int) -> NDArray[np.int64]:
    """Positions of the largest entries of each column, ascending."""
    if len(size) <= keep:
        return np.repeat(np.arange(len(size))[:, None], size.shape[1], axis=1)
    return np.sort(np.argpartition(-size, keep - 1, axis=0)[:keep], axis=0)


def invert(work: Stage, A: Tiles, H_ii: list[NDArray[np.float64]]) -> Tiles:
    """The upper tiles of the inverse; ``A``, the upper tiles of H, is emptied in the process."""
    n, homes = len(H_ii), Homes.of(work.client)
    R = _factor(work, homes, A, H_ii)
    work.wait(list(R.values()), 0.0, 1 / 3)
    M = _triangle(work, homes, R, n)
    work.wait(list(M.values()), 1 / 3, 2 / 3)
    C = _square(work, homes, M, n)
    work.wait(list(C.values()), 2 / 3, 1.0)
    return C


def _factor(work: Stage, homes: Homes, A: Tiles, H_ii: list[NDArray[np.float64]]) -> Tiles:
    """R of RᵀR = A, row by row; the contribution of finished rows to the rest is subtracted DEPTH rows at a time."""
    n = len(H_ii)
    R: Tiles = {}
    for k in range(n):
        pending = range(k - k % DEPTH, k)
        for j in range(k, n):
            home = homes.near(j)
            if pending:
                A[k, j] = work.submit(subtract_products, A[k, j], *_pairs(R, R, pending, k, j), **home)
            if j == k:
                R[k, k] = work.submit(factor, A.pop((k, k)), H_ii[k], **home)
            else:
                R[k, j] = work.submit(solve_triangle, R[k, k], A.pop((k, j)), **home)
        if k % DEPTH == DEPTH - 1:
            rows = range(k - DEPTH + 1, k + 1)
            for i in range(k + 1, n):
                for j in range(i, n):
                    A[i, j] = work.submit(subtract_products, A[i, j], *_pairs(R, R, rows, i, j), **homes.near(j))
    return R


def _triangle(work: Stage, homes: Homes, R: Tiles, n: int) -> Tiles:
    """M = R⁻ᵀ: M_ij = −R_iiᵀ⁻¹ Σ_{j ≤ k < i} R_kiᵀ M_kj; column i of R is released once row i of M is submitted."""
    M: Tiles = {}
    for i in range(n):
        for j in range(i):
            home = homes.near(j)
            total = _chain(work, home, R, M, range(j, i), i, j)
            M[i, j] = work.submit(solve_triangle, R[i, i], total, -1.0, **home)
        M[i, i] = work.submit(invert_triangle, R[i, i], **homes.near(i))
        for k in range(i + 1):
            del R[k, i]
    return M


def _square(work: Stage, homes: Homes, M: Tiles, n: int) -> Tiles:
    """C = MᵀM: C_ij = Σ_{k ≥ j} M_kiᵀ M_kj for i ≤ j, in order of the columns i of M."""
    C: Tiles = {}
    for i in range(n):
        for j in range(i, n):
            C[i, j] = _chain(work, homes.near(j), M, M, range(j, n), i, j)
        C[i, i] = work.submit(symmetrise, C[i, i], **homes.near(i))
    return C


def _chain(work: Stage, home: dict[str, Any], left: Tiles, right: Tiles, rows: range, i: int, j: int) -> Future:
    """Σ left_kiᵀ right_kj over k, a few at a time."""
    total: Future | None = None
    for lo in range(rows.start, rows.stop, DEPTH):
        some = range(lo, min(lo + DEPTH, rows.stop))
        total = work.submit(add_products, total, *_pairs(left, right, some, i, j), **home)
    assert total is not None
    return total


def _pairs(left: Tiles, right: Tiles, rows: range, i: int, j: int) -> list[Future]:
    return [tile for k in rows for tile in (left[k, i], right[k, j])]
