"""Which models take part, from cheap to dear, and what a fit of each will cost."""

from __future__ import annotations

from dataclasses import dataclass

from offdiag.autopilot.holding_out import Serve
from offdiag.autopilot.sight import Sight
from offdiag.baselines.item_knn import ItemKNN
from offdiag.baselines.markov_chain import MarkovChain
from offdiag.baselines.popularity import Popularity
from offdiag.models.blend import DENSE_ITEMS
from offdiag.models.full_rank import EDLAE, RDLAE
from offdiag.models.low_rank import LowRankEDLAE
from offdiag.models.next_item import NextItem
from offdiag.models.recommender import Recommender
from offdiag.models.sparse import SparseEDLAE
from offdiag.models.spectral import smooth_part

FLOPS = 3e10  # per second, a cautious guess; only orders of magnitude matter


@dataclass(frozen=True, eq=False)
class Entrant:
    """A family in the race."""

    family: str
    model: Recommender  # not fitted, its settings automatic
    flops: float  # of a fit, roughly
    tunable: bool = True  # worth tuning, if it is among the best
    automatic: bool = False  # what a person gets without asking: it is fitted however small the budget is

    @property
    def seconds(self) -> float:
        return self.flops / FLOPS


def entrants(sight: Sight, serve: Serve) -> list[Entrant]:
    """The families for this data, the automatic one first, the others from cheap to dear."""
    m, n = float(sight.n_items), float(sight.n_interactions)
    pairs = n * n / max(sight.n_users, 1)  # Σ n_u² if all users were alike
    dense = sight.n_items <= DENSE_ITEMS
    smooth = smooth_part(sight.n_users, sight.n_items)
    sparse_cost = 10 * pairs + m * 2e7
    order = serve == "next"
    found = [
        Entrant("popularity", Popularity(), n, tunable=False),
        Entrant("item neighbours", ItemKNN(), 4 * pairs, tunable=False),
        Entrant("smooth", smooth, 30 * n * smooth.rank, tunable=False),
        Entrant("sparse columns", SparseEDLAE(), sparse_cost, automatic=not order and not dense),
    ]
    if dense:
        found.append(Entrant("full rank", EDLAE(), 4 * pairs + m**3, automatic=not order))
        found.append(Entrant("bounded diagonal", RDLAE(), 4 * pairs + m**3))
    else:
        found.append(Entrant("low rank", LowRankEDLAE(rank=200), 400 * n * 200, tunable=False))
    if order:
        found.append(Entrant("markov chain", MarkovChain(), n, tunable=False))
        neighbours = None if dense else 300
        cost = 8 * pairs + (3 * m**3 if dense else m * 4e7)
        found.append(Entrant("next item", NextItem(neighbours=neighbours), cost, automatic=True))
    return sorted(found, key=lambda one: (not one.automatic, one.flops))
