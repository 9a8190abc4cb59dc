"""What a fitted model knows about one pair of items: its settings and its Gram, as input of ``offdiag.reasons``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag import reasons
from offdiag.data.groups import group_numbers
from offdiag.data.ids import positions
from offdiag.errors import OffdiagError
from offdiag.living.past import gram_of, learned_ids
from offdiag.models.full_rank import inverse_propensity
from offdiag.models.low_rank import WeightDecayLAE
from offdiag.models.recommender import Recommender
from offdiag.solvers.products import item_l2


def explain(model: Recommender, item: Any, other: Any) -> reasons.PairReason:
    """``Recommender.explain_pair``."""
    a, b = positions([item, other], model.item_ids_).tolist()
    for asked, place in ((item, a), (other, b)):
        if place < 0:
            raise OffdiagError(f"the model has no item {asked!r}; ids are compared exactly, with their type")
        if place >= model.weights_.learned.shape[0]:
            raise OffdiagError(
                f"explain_pair needs items that users have chosen, and {asked!r} was added after the fit: its weights "
                "are those of the items it is like (model.new_items_)"
            )
    if a == b:
        raise OffdiagError(f"a pair is two different items, received {item!r} twice")
    settings, W = model.settings_, model.weights_
    if (
        "l2" not in settings
        or isinstance(model, WeightDecayLAE)
        or model.knows_order
        or not W.linear
        or W.takes_dislikes
    ):
        raise OffdiagError(
            f"explain_pair takes apart weights that were fitted by regularised regression (EASE, DLAE, EDLAE, RDLAE, "
            f"SparseEDLAE, their low-rank forms, SLIM), received {type(model).__name__}; explain works for any matrix"
        )
    if settings.get("feature_weight") or settings.get("prior_weight"):
        raise OffdiagError(
            "explain_pair takes weights apart by users alone, received a model fitted with item_features or a prior; "
            "explain works for any matrix"
        )
    G = gram_of(model)
    row = np.array(G.row(a), dtype=np.float64)
    if model.groups_ is not None:  # H has 1 + c times the Gram within a group
        numbers = group_numbers(model.groups_, learned_ids(model))
        same = numbers == numbers[a]
        same[[a, b]] = False
        row[same] /= 1 - settings.get("dropout", 0.0)
    power = float(settings.get("weight_power", 1.0))
    rarity = float(inverse_propensity(model.popularity_, settings.get("propensity_power", 0.0))[b])

    def column(items: NDArray[np.int64]) -> NDArray[np.float64]:
        """β_jb as fitted, before weight_power and propensity_power."""
        beta: NDArray[np.float64] = W.column(items, b).astype(np.float64) / rarity
        if power == 1.0 or W.compound:  # a sum cannot be separated again
            return beta
        undone: NDArray[np.float64] = np.sign(beta) * np.abs(beta) ** (1 / power)
        return undone

    return reasons.pair(
        model.item_ids_, row, column, a, b,
        weight=float(W.column(np.array([a], dtype=np.int64), b)[0]),
        penalty=_penalty(G, settings, float(row[a]), a),
        itself=_diagonal_share(settings),
    )  # fmt: skip


def _penalty(G: Any, settings: dict[str, Any], g_a: float, a: int) -> float:
    """Λ_a = p/(1−p)·g_a + l2, in the Gram's own unit."""
    g = np.asarray(G.diagonal(), dtype=np.float64) / G.scale
    l2 = item_l2(settings["l2"] / G.scale, g, settings.get("item_power", 0.0))
    dropout = settings.get("dropout", 0.0)
    return float(dropout / (1 - dropout) * g_a + (l2 if isinstance(l2, float) else l2[a]))


def _diagonal_share(settings: dict[str, Any]) -> float:
    """How much of an item's weight on itself counts in the objective: b/(p + b(1 − p)) of [Steck20 Eq. 6]."""
    p, b = settings.get("dropout", 0.0), settings.get("kept_weight", 1.0)
    seen = p + b * (1 - p)
    return float(b / seen) if seen else 0.0
