"""SparseEDLAE on a cluster: no worker holds all interactions, or all of the Gram.

Interactions stay where they are. Each worker counts the Gram of its users, band by band of items; the owner of a band
adds up what all have counted, finds the supports of its items, and keeps their rows. A block of columns is then solved
from the rows that its supports need. Sums of 0/1 data do not depend on where they are computed, so the bytes are those
of one machine.
"""

from __future__ import annotations

import hashlib
import os
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from offdiag.cluster import auto, bands, features, rooms, session, shards
from offdiag.cluster.auto import Model
from offdiag.cluster.columns import Solver
from offdiag.cluster.counting import totals
from offdiag.cluster.parts import Parts, check_entries, read
from offdiag.cluster.placement import Homes
from offdiag.cluster.products import MULTIPLYING, ShardedProduct
from offdiag.cluster.stages import Report, stage
from offdiag.errors import OffdiagError
from offdiag.files.block_checkpoints import BlockCheckpoints
from offdiag.models.side_information import Side, side_of
from offdiag.models.sparse import LowPass, smooth_directions
from offdiag.progress import Progress, reporter
from offdiag.solvers import low_pass, support

if TYPE_CHECKING:
    from distributed import Client


def fit_sparse(
    model: Model,
    data: Any,
    *,
    item_features: Any = None,
    client: Client | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | bool | None = None,
    reports: list[Report] | None = None,
) -> Model:
    """Fit a SparseEDLAE on a cluster: of 0/1 data the same bytes as ``model.fit`` on one machine.

    ``data``: Parts (od.cluster.read) or any source that it takes. Each worker holds its share of the interactions (16
    bytes each) and of the Gram, and ``block_bytes`` of rows copied from others; this machine only the supports and the
    weights. ``max_bytes`` and ``item_features`` as in ``fit``; with features, and in the smooth part of ``rank`` > 0,
    sums are rounded in another order. ``checkpoint`` names a folder of this machine from which a fit that was stopped
    resumes: pairs are counted again, finished columns are not solved again.

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
    parts = read(data, client=client, progress=progress, reports=reports)
    m, dtype = parts.n_items, model.dtype  # type: ignore[attr-defined]
    check_entries(parts)
    side = side_of(model, parts.item_ids, item_features)  # type: ignore[arg-type]
    k = model._check_memory(m, 0, settings)  # type: ignore[attr-defined]
    used: Any = model._with(auto.resolve(model, settings, parts, progress))  # type: ignore[attr-defined]
    features.choose(used, side, parts, progress)
    settings = used._settings()
    homes, power = Homes.of(client), float(settings["user_power"])
    begin = partial(stage, client, progress=progress, reports=reports, lower=rooms.LESS)
    with begin("ordering items") as work:
        known = shards.popularity(work, parts, power)
        kept = _checkpoints(checkpoint, settings | {"dtype": dtype}, parts, known, side)
        mine = shards.spread(work, parts, known, power, homes)
        g = shards.diagonal(work, mine)
        if weight := side.weight(used, g[known.rank]):
            assert side.rows is not None
            mine = mine.with_features(work, known, side.rows, weight, dtype, homes)
            known = known.with_features(side.rows)
            g = shards.diagonal(work, mine)
    H = support.penalised(
        g, known.scale, dtype,
        dropout=settings["dropout"], l2=settings["l2"], item_power=settings["item_power"],
    )  # fmt: skip
    with begin("estimating sizes") as work:
        sizes = bands.estimate(work, mine, known, np.dtype(dtype).itemsize, homes)
    of_entry = shards.BYTES_PER_ENTRY + (0 if parts.binary else shards.BYTES_PER_VALUE)
    held = of_entry * mine.entries + 64 * parts.n_users // len(homes)
    what = f"its share of {parts.nnz:,} interactions and of the Gram of {m:,} items"
    block, band = rooms.sizes(client, held + 24 * m, sizes, settings["block_bytes"], len(homes), what)
    with begin("counting pairs") as work:
        stored, supports = bands.count(work, mine, known, sizes, H, k, dtype, homes, band)
    del mine
    solver = [Solver(begin, stored, homes, H, block)]
    del stored

    def solve(supports: support.Supports, name: str) -> Any:
        return solver[0].solve(supports, kept and kept.stage(name))

    supports, explained = support.to_size(supports, H, used._budget(m), solve)
    solver.clear()  # and with it the rows on the workers
    smooth = _smooth(parts, used, homes, begin, progress) if used.rank else None
    model._finish(  # type: ignore[attr-defined]
        supports, known.rank, g, explained, known.scale, settings, parts.item_ids, known.sums, parts.n_users,
        smooth=smooth,
    )  # fmt: skip
    return model._keep_features(side.features)  # type: ignore[attr-defined,no-any-return]


def _smooth(parts: Parts, used: Any, homes: Homes, begin: Any, progress: Progress | None) -> LowPass:
    """The smooth part, from products that the workers compute."""
    columns = low_pass.width(used.rank, parts.n_items)
    about = totals(parts, 1.0, progress)
    with begin(MULTIPLYING) as work:
        product = ShardedProduct.of(work, parts, 1.0, about.scale, used.dtype, columns, homes)
        return smooth_directions(product, used.rank, progress)


def _checkpoints(
    folder: str | os.PathLike[str] | None, of_fit: dict[str, Any], parts: Parts, known: shards.Popularity, side: Side
) -> BlockCheckpoints | None:
    """The folder of this fit; another fit, or one of other data, is refused there."""
    if folder is None:
        return None
    of_fit = {name: value for name, value in of_fit.items() if name != "block_bytes"}
    facts = {"users": parts.n_users, "items": parts.n_items, "interactions": parts.nnz}
    contents = hashlib.sha256(parts.item_ids.tobytes() + known.contents.to_bytes(8)).hexdigest()[:16]
    return BlockCheckpoints(folder, of_fit, facts | {"contents": contents} | side.facts())
