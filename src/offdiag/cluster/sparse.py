"""SparseEDLAE on a cluster: each task finds the neighbours of a range of items, or solves a block of columns.

Every worker receives the interactions once, by popularity, and holds the Gram of the popular items; a task then
transfers only its own supports and their weights. Sums do not depend on where they are computed, so the bytes are
those of one machine.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offdiag._kernels import parallel
from offdiag.cluster import auto, session
from offdiag.cluster.auto import Model
from offdiag.cluster.counting import IDLE
from offdiag.cluster.parts import Part, Parts, by_user, check_entries, read, same
from offdiag.cluster.placement import Homes
from offdiag.cluster.stages import Report, Stage, stage
from offdiag.data.sparse_rows import positions_of_rows
from offdiag.errors import OffdiagError
from offdiag.gramian.user_weights import scale_of, weights_of
from offdiag.progress import Progress, reporter
from offdiag.solvers import gram_rows, popularity_order, support

if TYPE_CHECKING:
    from distributed import Client, Future

TASKS = 8  # at least, per worker and stage: at the end the slowest worker has at most an eighth of its share left
IN_FLIGHT = 2  # tasks submitted per worker: one running, and the next with its data in transit
BYTES_PER_ENTRY = 40  # bytes for the interactions by user and by item, including while they are built
LEAST_BLOCK, LARGEST_BLOCK = 1 << 26, 1 << 32  # bytes of the Gram when block_bytes is "auto"
LESS = "ask for fewer neighbours or a smaller block_bytes, or give the workers more memory"


def fit_sparse(
    model: Model,
    data: Any,
    *,
    client: Client | None = None,
    progress: Progress | bool | None = None,
    reports: list[Report] | None = None,
) -> Model:
    """Fit a SparseEDLAE on a cluster: the same bytes as ``model.fit`` on one machine.

    ``data``: Parts (od.cluster.read) or any source that it takes. Each worker holds all interactions (about 20 bytes
    each) and ``block_bytes`` of the Gram; this machine only the supports and the weights. ``max_bytes`` as in ``fit``.

    Example, with a client connected by ``od.cluster.connect``:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(60, 20, 400)
        >>> od.cluster.fit_sparse(od.SparseEDLAE(neighbours=3), X).weights_.shape
        (20, 20)
    """
    progress = reporter(progress)
    client = session.current(client)
    if getattr(model, "cluster_fit", None) != "sparse":
        raise OffdiagError(
            f"fit_sparse takes SparseEDLAE, received {type(model).__name__}; full-rank models go to fit_full_rank"
        )
    settings: dict[str, Any] = model._valid_settings()  # type: ignore[attr-defined]
    if settings["rank"]:
        raise OffdiagError("the smooth part (rank > 0) is not learned on a cluster; use fit on one machine, or rank=0")
    parts = read(data, client=client, progress=progress, reports=reports)
    m, dtype = parts.n_items, model.dtype  # type: ignore[attr-defined]
    check_entries(parts)
    k = model._check_memory(m, 0, settings)  # type: ignore[attr-defined]
    settings["block_bytes"] = _block_bytes(client, parts, settings["block_bytes"])
    settings = auto.resolve(model, settings, parts, progress)
    homes = Homes.of(client)
    with stage(client, "ordering items", progress, reports, LESS) as work:
        rows = work.submit(_by_popularity, parts.futures, m, settings["user_power"])
        ((rank, g, sums, cost, scale),) = work.gather([work.submit(itemgetter(0), rows)])
    H = support.penalised(
        g, scale, dtype,
        dropout=settings["dropout"], l2=settings["l2"], item_power=settings["item_power"],
    )  # fmt: skip
    with stage(client, "finding neighbours", progress, reports, LESS) as work:
        copies = [work.submit(same, rows, **homes.near(home)) for home in range(len(homes))]
        supports = _choose(work, copies, homes, H, k, dtype, cost)
    del rows
    solver = _Solver(client, copies, homes, H, settings["block_bytes"], progress, reports)
    supports, explained = support.to_size(supports, H, settings["max_bytes"], solver.solve)
    model._finish(  # type: ignore[attr-defined]
        supports, rank, g, explained, scale, settings, parts.item_ids, sums, parts.n_users
    )
    return model


def _block_bytes(client: Client, parts: Parts, wanted: int | str) -> int:
    """Bytes of the Gram that a worker may hold at a time, besides the interactions; raises if they do not fit."""
    taken = IDLE + BYTES_PER_ENTRY * parts.nnz + 24 * parts.n_users
    limit = session.limit_of(client)
    if isinstance(wanted, str):
        room = int(0.6 * (session.USABLE * limit - taken)) if limit else LARGEST_BLOCK
        wanted = min(max(room, LEAST_BLOCK), LARGEST_BLOCK)
    session.require(client, taken + 3 * wanted // 2, f"a sparse model from {parts.nnz:,} interactions", LESS)
    return wanted


def _by_popularity(parts: list[Part], m: int, user_power: float) -> tuple[Any, ...]:
    """((rank, g, sums, cost of each item, scale), arrays of Rows …), from all users in ascending order."""
    X, _ = by_user(parts, m)
    n_u = np.diff(X.indptr)
    weight = weights_of(n_u, user_power)
    rank = popularity_order.popularity_rank(np.bincount(X.indices, minlength=m))
    data = popularity_order.by_popularity(X, weight, rank)
    sums = np.bincount(X.indices, weights=X.data, minlength=m).astype(np.float64)
    cost = np.bincount(data.indices, weights=np.repeat(n_u, n_u), minlength=m)
    scale = scale_of(np.bincount(n_u), user_power)
    return (rank, popularity_order.diagonal(data), sums, cost, scale), *data.arrays()


def _choose(
    work: Stage, copies: list[Future], homes: Homes, H: NDArray[np.float64], k: int, dtype: str, cost: NDArray[Any]
) -> support.Supports:
    """The supports of all items, range by range."""
    filled = cost + cost.sum() / max(len(cost), 1)  # pairs to count, plus a constant cost per item
    whole = work.submit(same, H)
    jobs = [(whole, k, dtype, lo, hi) for lo, hi in parallel.shares(filled, TASKS * len(homes))]
    found = dict(work.each(_neighbours, copies, jobs, homes, IN_FLIGHT))
    return support.join([support.Supports(*found[at]) for at in range(len(found))])


def _neighbours(rows: tuple[Any, ...], H: NDArray[np.float64], k: int, dtype: str, lo: int, hi: int) -> tuple[Any, ...]:
    found = support.choose(popularity_order.Rows(*rows[1:]), H, k, dtype, lo=lo, hi=hi)
    return found.ptr, found.rows, found.values, found.parent, found.below


@dataclass(frozen=True)
class _Solver:
    """Distributes blocks of columns to workers that hold the interactions and the rows of popular items."""

    client: Client
    copies: list[Future]  # of the interactions, one per home
    homes: Homes
    H: NDArray[np.float64]
    block_bytes: int
    progress: Progress | None
    reports: list[Report] | None

    def solve(self, supports: support.Supports, stage: str) -> NDArray[np.float64]:
        """Replace the values of the supports by β; returns G_iS·β of each item i."""
        m, dtype = len(self.H), supports.values.dtype
        at_most = int(np.clip(m // (TASKS * len(self.homes)), 64, gram_rows.BLOCK_ITEMS))
        plan = gram_rows.plan(supports, dtype.itemsize, self.block_bytes, at_most)
        with self._stage("counting popular items") as work:
            below = work.submit(same, supports.below)
            # Counted at every home: this takes less time and memory than sending it.
            heads = [
                work.submit(_head, rows, below, plan.n_head, dtype.str, **self.homes.near(home))
                for home, rows in enumerate(self.copies)
            ]
            work.wait(heads)
        explained = np.zeros(m)
        with self._stage(support.SOLVING) as work:
            jobs = _Jobs(work.submit(same, self.H), supports, plan.blocks)
            for at, found in work.each(_solve_block, heads, jobs, self.homes, IN_FLIGHT):
                support.put(supports, plan.blocks[at], explained, found)
        return explained

    def _stage(self, name: str) -> AbstractContextManager[Stage]:
        return stage(self.client, name, self.progress, self.reports, LESS)


@dataclass(frozen=True)
class _PopularRows:
    """The rows of popular items and the interactions behind them, with the size that Dask should see."""

    shelf: gram_rows.Shelf

    def __sizeof__(self) -> int:
        return sum(array.nbytes for array in (*self.shelf.arrays(), *self.shelf.data.arrays()))


@dataclass(frozen=True)
class _Jobs(Sequence[tuple[Any, ...]]):
    """What a worker needs for each block besides the data it holds: the supports, in ascending order of the items."""

    H: Future
    supports: support.Supports
    blocks: list[NDArray[np.int32]]

    def __len__(self) -> int:
        return len(self.blocks)

    def __getitem__(self, at: Any) -> Any:
        items, supports = self.blocks[at], self.supports
        ascending = np.sort(items).astype(np.int64)
        ptr, picked = positions_of_rows(supports.ptr, ascending)
        return self.H, np.diff(ptr), supports.rows[picked], supports.values[picked], items


def _head(rows: tuple[Any, ...], below: NDArray[np.int64], n_head: int, dtype: str) -> _PopularRows:
    """The rows of popular items, which all blocks need."""
    return _PopularRows(gram_rows.Shelf(popularity_order.Rows(*rows[1:]), below, n_head, np.dtype(dtype)))


def _solve_block(
    head: _PopularRows,
    H: NDArray[np.float64],
    lengths: NDArray[np.int64],
    rows: NDArray[np.int32],
    values: NDArray[np.floating],
    items: NDArray[np.int32],
) -> dict[str, NDArray[Any]]:
    """The columns of one block."""
    m = len(H)
    of_all = np.zeros(m, dtype=np.int64)
    of_all[np.sort(items)] = lengths
    ptr = np.concatenate([[0], np.cumsum(of_all)])
    none = np.zeros(0, dtype=np.int64)
    supports = support.Supports(ptr, rows, values.copy(), none.astype(np.int32), none)
    shelf = copy.copy(head.shelf)  # the argument belongs to another task and is used again
    shelf.place = shelf.place.copy()
    shelf.hold(supports, items)
    explained = np.zeros(m)
    support.solve_block(shelf.arrays(), H, supports, items, explained)
    return support.take(supports, items, explained)
