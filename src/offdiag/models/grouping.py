"""Groups of items in a fit: who takes them, and the number of each item's group."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from offdiag import model_list
from offdiag.data.catalogue import Catalogue
from offdiag.data.groups import group_numbers, read_groups
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    from offdiag.models.recommender import Recommender
    from offdiag.models.scores import Scores


@dataclass(frozen=True, eq=False)
class Grouping:
    """The groups as given, also of items that are not in the data, and as numbers for the solver."""

    catalogue: Catalogue
    numbers: NDArray[np.int64]  # of each item, from 0 without gaps

    @property
    def digest(self) -> str:
        """Two fits with the same digest have the same groups."""
        return hashlib.blake2b(self.numbers.astype("<i8").tobytes(), digest_size=16).hexdigest()


def check_taken(model: Recommender) -> None:
    """Raise if this model learns nothing from groups, or not with its settings."""
    if not model.takes_groups:
        takers = [name for name in model_list.MODELS if model_list.model_class(name).takes_groups]
        raise OffdiagError(
            f"{type(model).__name__} does not learn from groups; expected {', '.join(takers)}: fit one of them, or "
            "leave groups out"
        )
    for setting, why in (
        ("kept_weight", "with groups, an item is never predicted from itself"),
        ("rank", "the smooth part would predict items from their own group"),
    ):
        if value := getattr(model, setting, 0):
            raise OffdiagError(f"groups need {setting}=0, received {value:g}: {why}")


def grouping_of(model: Recommender, groups: Any, item_ids: NDArray[Any]) -> Grouping | None:
    """The groups of a fit, checked; None if there are none."""
    if groups is None:
        return None
    check_taken(model)
    catalogue = read_groups(groups, item_ids)
    return Grouping(catalogue, group_numbers(catalogue, item_ids))


def listed_groups(model: Scores) -> NDArray[np.int64]:
    """The group of each item for ``one_per_group``: that of the fit, or else that of the catalogue."""
    groups = model.groups_
    if groups is None and model.catalogue_ is not None and "group" in model.catalogue_.columns:
        groups = model.catalogue_
    if groups is None:
        raise OffdiagError(
            f"one_per_group needs groups, and this {type(model).__name__} has none; fit it with groups=…, or give it a "
            "catalogue with a group column: model.with_catalogue(…)"
        )
    return group_numbers(groups, model.item_ids_)
