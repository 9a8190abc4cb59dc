"""Which models take part, from cheap to dear, and what a fit of each will cost."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

from offdiag.autopilot.holding_out import Serve
from offdiag.autopilot.sight import Sight
from offdiag.baselines.item_knn import ItemKNN, near_part
from offdiag.baselines.markov_chain import MarkovChain
from offdiag.baselines.popularity import Popularity
from offdiag.baselines.slim import SLIM
from offdiag.baselines.wmf import WMF
from offdiag.models.blend import DENSE_ITEMS
from offdiag.models.full_rank import DLAE, EDLAE, RDLAE
from offdiag.models.low_rank import LowRankDLAE, LowRankEDLAE
from offdiag.models.next_item import NextItem
from offdiag.models.recommender import Recommender
from offdiag.models.sparse import SparseEDLAE
from offdiag.models.spectral import Spectral, smooth_part

FLOPS = 3e10  # per second, a cautious guess; only orders of magnitude matter
LARGE = 1200.0  # seconds of a budget in which nets and SLIM take part


@dataclass(frozen=True, eq=False)
class Entrant:
    """A family in the race."""

    family: str
    model: Recommender  # not fitted, its settings automatic
    flops: float  # of a fit, roughly
    kind: str = "sharp"  # a blend has one part of each kind: those of one kind know the same
    tunable: bool = True  # worth tuning, if it is among the best
    automatic: bool = False  # what a person gets without asking: it is fitted however small the budget is
    by_users: bool = False  # with fewer users its fit is that much cheaper, so it may be looked at on a part of them

    @property
    def seconds(self) -> float:
        return self.flops / FLOPS

    @property
    def takes_features(self) -> bool:
        return "item_features" in inspect.signature(type(self.model).fit).parameters

    @property
    def takes_groups(self) -> bool:
        return self.model.takes_groups and not getattr(self.model, "rank", 0)


def entrants(sight: Sight, serve: Serve, seconds: float = 300.0) -> list[Entrant]:
    """The families for this data and budget, the automatic one first, the others from cheap to dear."""
    m, n, users = float(sight.n_items), float(sight.n_interactions), float(sight.n_users)
    pairs = n * n / max(users, 1)  # Σ n_u² if all users were alike
    dense = sight.n_items <= DENSE_ITEMS
    smooth = smooth_part(sight.n_users, sight.n_items)
    order = serve == "next"
    latent: dict[str, Any] = {"rank": max(1, min(128, sight.n_items // 4))}
    wmf = 16 * (4 * n * latent["rank"] ** 2 + (users + m) * latent["rank"] ** 3)
    found = [
        Entrant("popularity", Popularity(), n, "popularity", tunable=False),
        Entrant("item neighbours", ItemKNN(), 4 * pairs, "near"),
        Entrant("near", near_part(), 4 * pairs, "near", tunable=False),
        Entrant("smooth", smooth, 30 * n * smooth.rank, "smooth", tunable=False),
        Entrant("sparse columns", SparseEDLAE(), 10 * pairs + m * 2e7, automatic=not order and not dense),
        Entrant("latent factors", WMF(**latent), wmf, "smooth", by_users=True),
    ]
    if dense:
        inverse = 4 * pairs + m**3
        low = max(1, min(200, sight.n_items // 10))
        found += [
            Entrant("full rank", EDLAE(), inverse, automatic=not order),
            Entrant("bounded diagonal", RDLAE(), inverse),
            Entrant("free diagonal", DLAE(), inverse),
            Entrant("spectral", Spectral(rank=smooth.rank), 30 * n * smooth.rank, "smooth", tunable=False),
            Entrant("low rank", LowRankDLAE(rank=low), 4 * pairs + 120 * m * m * low, "smooth"),
        ]
        if sight.disliked:
            found.append(Entrant("full rank, dislikes", EDLAE(dislike_weight=1.0), 8 * inverse, tunable=False))
    else:
        found.append(Entrant("low rank", LowRankEDLAE(rank=200), 400 * n * 200, "smooth", tunable=False, by_users=True))
    if order:
        found.append(Entrant("markov chain", MarkovChain(), n, "markov", tunable=False))
        cost = 8 * pairs + (3 * m**3 if dense else m * 4e7)
        found.append(Entrant("next item", NextItem(neighbours=None if dense else 300), cost, "order", automatic=True))
    if seconds >= LARGE:
        found += _dear(sight, order)
    return sorted(found, key=lambda one: (not one.automatic, one.flops))


def _dear(sight: Sight, order: bool) -> list[Entrant]:
    """Families for a large budget only; nets need torch."""
    m, n, users = float(sight.n_items), float(sight.n_interactions), float(sight.n_users)
    found = [Entrant("slim", SLIM(), 1e4 * m * m, tunable=False)] if sight.n_items <= DENSE_ITEMS else []
    if find_spec("torch") is None:
        return found
    from offdiag.baselines.nets.mult import MultVAE
    from offdiag.baselines.nets.sasrec import SASRec

    net = MultVAE(depth=0)
    found.append(Entrant("variational net", net, 300 * users * m * 200, "net", tunable=False, by_users=True))
    if order:
        found.append(Entrant("attention net", SASRec(), 3e8 * n, "attention", tunable=False, by_users=True))
    return found


def with_features(entrant: Entrant) -> Entrant:
    """The same family that also learns from features of the items."""
    return replace(entrant, family=f"{entrant.family} + features", automatic=False)
