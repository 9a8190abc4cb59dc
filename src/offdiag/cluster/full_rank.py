"""Full-rank models whose m×m matrices fit in the memory of all workers together, but not of one machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import checks
from offdiag.cluster import auto, features, session, tiles
from offdiag.cluster.auto import Model
from offdiag.cluster.counting import IDLE, totals
from offdiag.cluster.parts import Parts, check_entries, read, same
from offdiag.cluster.placement import Homes, in_batches
from offdiag.cluster.stages import Report, Stage, stage
from offdiag.errors import OffdiagError
from offdiag.gramian import layout
from offdiag.gramian.packed import Gram
from offdiag.models.side_information import Side, side_of
from offdiag.progress import Progress, reporter
from offdiag.solvers import cholesky, precision
from offdiag.solvers.products import item_l2
from offdiag.weights import Dense, Packed, Sparse, Weights

if TYPE_CHECKING:
    from distributed import Client, Future

TILE = 2_048  # items per tile
BLOCKS = 250  # most tiles in a row unless ``tile`` is given: the number of tasks is its cube
LESS = "use a smaller tile, more workers, od.SparseEDLAE, or keep fewer items"


def fit_full_rank(
    model: Model,
    data: Any,
    *,
    keep: int | None = None,
    tile: int | None = None,
    item_features: Any = None,
    client: Client | None = None,
    progress: Progress | bool | None = None,
    reports: list[Report] | None = None,
) -> Model:
    """Fit EASE, DLAE, EDLAE or RDLAE on a cluster; the weights are those of ``model.fit`` up to rounding.

    ``data``: Parts (od.cluster.read) or any source that it takes. ``keep``: return only this many of the strongest
    entries of every column, as sparse weights; this makes a model usable that is too large for one machine. Without
    it all m(m+1)/2 numbers are returned. ``tile``: items per tile, the unit of work and of transfer. ``item_features``
    as in ``fit``; a prior is not taken.

    Example, with a client connected by ``od.cluster.connect``:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(60, 20, 400)
        >>> od.cluster.fit_full_rank(od.EASE(l2=5.0), X, keep=3).weights_.kind
        'sparse'
    """
    progress = reporter(progress)
    client = session.current(client)
    if getattr(model, "cluster_fit", None) != "full rank":
        raise OffdiagError(
            f"fit_full_rank takes EASE, DLAE, EDLAE or RDLAE, received {type(model).__name__}; "
            "od.SparseEDLAE goes to od.cluster.fit_sparse, and others fit on one machine"
        )
    settings: dict[str, Any] = model._valid_settings()  # type: ignore[attr-defined]
    if keep is not None:
        checks.whole("keep", keep, 1, other=" or None")
    if keep is not None and settings["propensity_power"]:
        raise OffdiagError("propensity_power must be 0 with keep, which chooses by the weights without it")
    if settings.get("prior_weight", "auto") not in ("auto", 0.0):
        raise OffdiagError("a prior is not taken on a cluster; use fit on one machine, or leave prior_weight out")
    parts = read(data, client=client, progress=progress, reports=reports)
    check_entries(parts)
    side = side_of(model, parts.item_ids, item_features)  # type: ignore[arg-type]
    settings = auto.resolve(model, settings, parts, progress)
    used: Any = model._with(settings)  # type: ignore[attr-defined]
    features.choose(used, side, parts, progress)
    settings, dtype = used._settings(), used.dtype
    if keep is None:
        cholesky.check_feasible(parts.n_items, np.dtype(dtype).itemsize)
    solution, about = solve(parts, settings, dtype, tile, side, used, progress, reports)
    weights: Weights = solution.gather(progress) if keep is None else solution.strongest(keep, progress)
    if keep is None and model.storage == "dense":  # type: ignore[attr-defined]
        weights = Dense(weights.toarray())
    model._store(  # type: ignore[attr-defined]
        weights, parts.item_ids, about.item_sums, about.n_users, settings | {"propensity_power": 0.0},
        objective_=solution.objective,
    )  # fmt: skip
    if settings["propensity_power"]:  # a factor of every column, known to the model
        scaled = model.with_propensity(settings["propensity_power"])  # type: ignore[attr-defined]
        model.weights_, model.settings_ = scaled.weights_, scaled.settings_  # type: ignore[attr-defined]
    return model._keep_features(side.features)  # type: ignore[attr-defined,no-any-return]


def solve(
    parts: Parts,
    settings: dict[str, Any],
    dtype: Any,
    tile: int | None,
    side: Side,
    used: Any,
    progress: Progress | bool | None = None,
    reports: list[Report] | None = None,
) -> tuple[Inverse, Gram]:
    """The inverse on the workers, and a Gram with its totals but without its values."""
    progress = reporter(progress)
    m, dtype = parts.n_items, np.dtype(dtype)
    edges = _edges(m, tile)
    _check_memory(parts, edges, dtype)
    about = totals(parts, settings["user_power"], progress)
    with stage(parts.client, "counting pairs", progress, reports, LESS) as work:
        A = _count(work, parts, edges, settings["user_power"], dtype)
        g = _diagonal(work, A, len(edges) - 1)
        if weight := side.weight(used, g):
            A = _add_features(work, A, edges, side, weight)
            g = _diagonal(work, A, len(edges) - 1)
        work.wait(list(A.values()), 0.1, 1.0)
    precision.check_squares(g)
    problem = {
        "dropout": settings.get("dropout", 0.0),
        "l2": item_l2(settings["l2"] / about.scale, g, settings["item_power"]),
        "kept_weight": settings.get("kept_weight", 0.0),
        "max_diagonal": settings.get("max_diagonal"),
    }
    H_ii = cholesky.regularised(g, dtype, **problem)
    with stage(parts.client, "inverting", progress, reports, LESS) as work:
        pieces = [H_ii[lo:hi].astype(dtype).astype(np.float64) for lo, hi in pairwise(edges)]
        for k, piece in enumerate(pieces):
            A[k, k] = work.submit(tiles.with_diagonal, A[k, k], piece)
        C = tiles.invert(work, A, pieces)
        C_ii = np.concatenate(work.gather([work.submit(tiles.diagonal, C[k, k]) for k in range(len(pieces))], 1.0))
    cholesky.check_inverse(C_ii)
    scale, diagonal, objective = cholesky.read(C_ii.astype(dtype), g, **problem)
    return Inverse(parts.client, C, edges, scale, diagonal, objective * about.scale), about


def _edges(m: int, tile: int | None) -> NDArray[np.int64]:
    size = max(TILE, -(-m // BLOCKS)) if tile is None else checks.whole("tile", tile, 1, hint=f"; e.g. {TILE}")
    return np.linspace(0, m, max(-(-m // size), 1) + 1).astype(np.int64)


def _check_memory(parts: Parts, edges: NDArray[np.int64], dtype: Any) -> None:
    """A triangle of tiles and the interactions by columns; then two triangles and the rows of tiles in transit."""
    m, tile = parts.n_items, int(np.diff(edges).max())
    workers = max(len(session.workers_of(parts.client)), 1)
    triangle = m * (m + tile) // 2 * dtype.itemsize
    passing = min(2 * tiles.DEPTH * tile * m * dtype.itemsize, triangle) if workers > 1 else 0
    counting = triangle // workers + 24 * parts.nnz
    needed = IDLE + max(counting, 2 * triangle // workers + passing + 12 * tile**2 * dtype.itemsize)
    session.require(parts.client, needed, f"a full-rank model of {m:,} items on {workers} workers", LESS)


def _count(work: Stage, parts: Parts, edges: NDArray[np.int64], user_power: float, dtype: Any) -> tiles.Tiles:
    """The upper tiles of the Gram. A worker receives the columns of two blocks, never other workers' counts."""
    first = np.concatenate([[0], np.cumsum(parts.users)])
    cut = [
        work.submit(tiles.column_blocks, part, edges, int(start), float(user_power))
        for part, start in zip(parts.futures, first, strict=False)
    ]
    blocks = [
        work.submit(tiles.stack_blocks, [work.submit(itemgetter(k), pieces) for pieces in cut])
        for k in range(len(edges) - 1)
    ]
    size, homes = np.diff(edges).tolist(), Homes.of(work.client)
    return {
        (i, j): work.submit(tiles.count, blocks[i], blocks[j], size[i], size[j], dtype.str, **homes.near(j))
        for i in range(len(size))
        for j in range(i, len(size))
    }


def _diagonal(work: Stage, A: tiles.Tiles, blocks: int) -> NDArray[np.float64]:
    return np.concatenate(work.gather([work.submit(tiles.diagonal, A[k, k]) for k in range(blocks)], 0, 0.1))


def _add_features(work: Stage, A: tiles.Tiles, edges: NDArray[np.int64], side: Side, weight: float) -> tiles.Tiles:
    """The tiles of the users and of the pseudo-users, one for each feature."""
    assert side.rows is not None
    rows = [work.submit(same, side.rows[lo:hi]) for lo, hi in pairwise(edges.tolist())]
    homes = Homes.of(work.client)
    return {
        (i, j): work.submit(tiles.add_features, tile, rows[i], rows[j], weight, **homes.near(j))
        for (i, j), tile in A.items()
    }


@dataclass(frozen=True, eq=False)
class Inverse:
    """B_ji = C_ji·scale_i off the diagonal, B_ii = diagonal_i, with the upper tiles of C on the workers."""

    client: Client = field(repr=False)
    C: tiles.Tiles = field(repr=False)
    edges: NDArray[np.int64]  # items edges[k] … edges[k + 1] are block k
    scale: NDArray[np.floating]
    diagonal: NDArray[np.floating]
    objective: float

    def gather(self, progress: Progress | bool | None = None) -> Packed:
        """The whole matrix on this machine: m(m+1)/2 numbers."""
        progress = reporter(progress)
        m, dtype = len(self.scale), self.scale.dtype
        cholesky.check_feasible(m, dtype.itemsize)
        values = np.empty(layout.size(m), dtype=dtype)
        keys = list(self.C)
        span = [np.arange(lo, hi) for lo, hi in pairwise(self.edges)]
        with stage(self.client, "gathering", progress) as work:
            for batch in in_batches([len(span[i]) * len(span[j]) * dtype.itemsize for i, j in keys]):
                done = batch.stop / len(keys)
                for at, tile in zip(batch, work.gather([self.C[keys[at]] for at in batch], done, done), strict=True):
                    i, j = keys[at]
                    values[layout.positions(m, span[i], span[j])] = tile
        return Packed(values, self.scale, self.diagonal)

    def strongest(self, keep: int, progress: Progress | bool | None = None) -> Sparse:
        """The ``keep`` largest |B_ji| of every column and the diagonal, chosen on the workers; the rest is dropped."""
        progress = reporter(progress)
        m = len(self.scale)
        found: list[list[Future]] = [[] for _ in self.edges[1:]]
        columns, rows, data = [np.arange(m)], [np.arange(m)], [self.diagonal]
        with stage(self.client, "choosing the strongest", progress) as work:
            for (i, j), tile in self.C.items():
                found[j].append(work.submit(tiles.strongest, tile, keep, int(self.edges[i]), i == j, False))
                if i != j:
                    found[i].append(work.submit(tiles.strongest, tile, keep, int(self.edges[j]), False, True))
            best = [work.submit(tiles.merge_strongest, keep, *pieces) for pieces in found]
            found.clear()
            for (lo, hi), (row, value) in zip(pairwise(self.edges), work.gather(best), strict=True):
                columns.append(np.broadcast_to(np.arange(lo, hi), row.shape).ravel())
                rows.append(row.ravel())
                data.append((value * self.scale[lo:hi]).ravel())
        kept = np.flatnonzero(strong := np.concatenate(data))
        at = (np.concatenate(rows)[kept], np.concatenate(columns)[kept])
        return Sparse.of(sparse.csr_array((strong[kept], at), shape=(m, m)))
