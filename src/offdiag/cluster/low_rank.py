"""The low-rank family on a cluster: the solver of one machine, on products that the workers compute."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from offdiag.cluster import features, session
from offdiag.cluster.auto import Model, unseen_user_l2
from offdiag.cluster.counting import totals
from offdiag.cluster.parts import check_entries, read
from offdiag.cluster.placement import Homes
from offdiag.cluster.products import LESS, MULTIPLYING, ShardedProduct
from offdiag.cluster.stages import Report, stage
from offdiag.errors import OffdiagError
from offdiag.living.past import Past
from offdiag.models import auto
from offdiag.models.side_information import side_of
from offdiag.models.source import Source
from offdiag.progress import Progress, reporter

if TYPE_CHECKING:
    from distributed import Client


def fit_low_rank(
    model: Model,
    data: Any,
    *,
    item_features: Any = None,
    client: Client | None = None,
    progress: Progress | bool | None = None,
    reports: list[Report] | None = None,
) -> Model:
    """Fit Spectral or a low-rank autoencoder on a cluster: ``model.fit`` with products that the workers compute.

    ``data``: Parts (od.cluster.read) or any source that it takes. Each worker holds its users by item (12 bytes per
    interaction, 28 while it sorts them) and a few arrays of items × rank; this machine about 17 of these, as in
    ``fit``. Each product moves 2(W − 1) + 1 of them for W workers. Sums are rounded in another order than on one
    machine, so weights are the same as far as the problem and its stopping rule determine them. ``item_features`` as
    in ``fit``.

    Example, with a client connected by ``od.cluster.connect``:
        >>> import offdiag as od
        >>> X = od.synthetic.interactions(60, 20, 400)
        >>> od.cluster.fit_low_rank(od.Spectral(rank=3), X).weights_.Q.shape
        (20, 3)
    """
    progress = reporter(progress)
    client = session.current(client)
    if getattr(model, "cluster_fit", None) != "low rank":
        raise OffdiagError(
            f"fit_low_rank takes Spectral and the low-rank models, received {type(model).__name__}; full-rank models "
            "go to fit_full_rank, sparse ones to fit_sparse"
        )
    used: Any = model._validate()  # type: ignore[attr-defined]
    if used.products == "gram":
        raise OffdiagError(
            "on a cluster products are computed from the interactions, received products='gram'; leave it out"
        )
    parts = read(data, client=client, progress=progress, reports=reports)
    check_entries(parts)
    side = side_of(used, parts.item_ids, item_features)
    used._resolve(partial(auto.from_scale, partial(unseen_user_l2, parts, progress=progress)))
    features.choose(used, side, parts, progress)
    rank = min(used.rank, parts.n_items)
    used._check_memory(parts.n_items, rank, 0)
    used.products = "data"
    about = totals(parts, used.user_power, progress)
    counts_users = np.array_equal(about.item_sums, about.item_counts)
    source = Source(
        parts.item_ids, about.item_sums.astype(np.float64), parts.n_users, Past(), counts_users=counts_users
    )
    with stage(client, MULTIPLYING, None, reports, LESS) as work:
        product = ShardedProduct.of(
            work, parts, float(used.user_power), about.scale, used.dtype, rank, Homes.of(client)
        )
        model._solve(side.added(product, used), used, source, progress)  # type: ignore[attr-defined]
    return model._keep_features(side.features)  # type: ignore[attr-defined,no-any-return]
