"""The columns of a sparse model as problems on a Gram, packed or by rows, for fit_gram to choose supports and solve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from offdiag.gramian import layout
from offdiag.gramian.packed import Gram
from offdiag.gramian.sparse import SparseGram
from offdiag.models.grouping import Grouping
from offdiag.progress import Progress
from offdiag.solvers import gram_rows, gram_supports, gram_triangles, popularity_order, support

if TYPE_CHECKING:
    from offdiag.models.sparse import SparseEDLAE


@dataclass(frozen=True, eq=False)
class Columns:
    """Items numbered by popularity; ``solve`` overwrites G with β in its supports and returns what they explain."""

    rank: NDArray[np.int32]
    g: NDArray[np.float64]
    H: NDArray[np.float64]
    supports: support.Supports
    solve: Callable[[support.Supports, str], NDArray[np.float64]]


def by_rows(
    G: SparseGram, k: int, model: SparseEDLAE, block_bytes: int, kinds: Grouping | None, progress: Progress | None
) -> Columns:
    data = gram_supports.RankedGram.of(G)
    g = data.diagonal()
    H = model._penalise(g, G.scale)

    def solve(supports: support.Supports, stage: str) -> NDArray[np.float64]:
        plan = gram_triangles.plan(supports, np.dtype(model.dtype).itemsize, block_bytes)
        return support.solve(data, H, supports, plan, progress=progress)

    groups = model._groups_by(data.rank, kinds)
    supports = gram_supports.choose(data, H, k, model.dtype, groups=groups, progress=progress)
    return Columns(data.rank, g, H, supports, solve)


def packed_rows(G: Gram, k: int, model: SparseEDLAE, kinds: Grouping | None, progress: Progress | None) -> Columns:
    m = G.n_items
    rank = popularity_order.popularity_rank(G.item_counts)
    order = np.argsort(rank)
    g = G.own_diagonal()[order]
    H = model._penalise(g, G.scale)

    def rows(lo: int, hi: int) -> NDArray[np.float64]:
        found: NDArray[np.float64] = G.values[layout.positions(m, order[lo:hi], order)].astype(np.float64)
        return found

    supports = support.choose_from_rows(rows, g, H, k, model.dtype, model._groups_by(rank, kinds))
    arrays = gram_rows.of_gram(G.values, m, order, model.dtype)
    columns = np.arange(m, dtype=np.int32)

    def solve(supports: support.Supports, stage: str) -> NDArray[np.float64]:
        explained = np.zeros(m)
        support.solve_block(
            arrays, H, supports, columns, explained, progress=support.ColumnProgress(progress, m).within(m)
        )
        return explained

    return Columns(rank, g, H, supports, solve)
