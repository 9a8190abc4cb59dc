"""How commands read data for a model, which remembers the columns of its fit and the type of its ids."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from offdiag.cli import inputs
from offdiag.cli.inputs import Columns, option
from offdiag.data import places

if TYPE_CHECKING:
    from offdiag import Interactions
    from offdiag.models.recommender import Recommender


@dataclass(frozen=True)
class ModelColumns(Columns):
    """The same for the commands that read data for a model, which remembers the columns of its fit."""

    user: str | None = option("--user", "Column of users. Default: that of the fit, if it is there, or user.")
    item: str | None = option("--item", "Column of items. Default: that of the fit, if it is there, or item.")
    value: str | None = option("--value", "Column of ratings or counts. Default: that of the fit, if it is there.")
    time: str | None = option("--time", "Column of times. Default: that of the fit, if it is there.")


def read_for(model: Recommender, source: str, columns: Columns) -> Interactions:
    """A table for a model, with the columns of its fit unless others are named, and item ids of its type.

    Whole numbers in a file may mean text ids such as '7'.
    """
    columns = replace(columns, in_order=columns.in_order or model.reads_order)
    inter = inputs.read(source, columns, remembered=model.columns_)
    if model.item_ids_.dtype.kind in "iu" or inter.item_ids.dtype.kind not in "iu":
        return inter
    if source == places.STDIN:  # which can be read only once
        return replace(inter, item_ids=inter.item_ids.astype(np.str_))
    return inputs.read(source, columns, text_ids=True, remembered=model.columns_)
