"""Which items may be recommended: lists of items to allow or block, and items blocked for single users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag.data.frames import is_frame
from offdiag.data.ids import positions
from offdiag.data.read import read
from offdiag.errors import OffdiagError
from offdiag.pair_filter import PairFilter
from offdiag.ranking.histories import encode, id_list
from offdiag.ranking.unknown_ids import distinct, refuse, warn
from offdiag.wording import shorten


def allowed_mask(
    allow: Any, block: Any, item_ids: NDArray[Any], *, strict: bool = False
) -> tuple[NDArray[np.bool_] | None, list[Any]]:
    """Which columns may be recommended, and the ids of the two lists that are not in the catalogue.

    Unknown ids are ignored: a stock list may be newer than the model. An ``allow`` of unknown ids allows nothing.
    """
    if allow is None and block is None:
        return None, []
    mask = np.ones(len(item_ids), dtype=np.bool_) if allow is None else np.zeros(len(item_ids), dtype=np.bool_)
    unknown: list[Any] = []
    for name, ids, value in (("allow", allow, True), ("block", block, False)):
        if ids is None:
            continue
        wanted = _filter_ids(ids, name)
        where = positions(wanted, item_ids)
        missing = [x for x, place in zip(wanted, where, strict=True) if place < 0]
        if missing and strict:
            refuse(f"{name} holds", missing)
        unknown += missing
        mask[where[where >= 0]] = value
    return mask, distinct(unknown)


def _filter_ids(ids: Any, name: str) -> list[Any]:
    """One list of ids; per-user lists and single ids are rejected, since guessing would let a blocked item through."""
    if isinstance(ids, str) or not isinstance(ids, Sequence | np.ndarray | set | frozenset):
        raise OffdiagError(f"{name} takes a list of item ids, received {type(ids).__name__}; write {name}=[...]")
    wanted = id_list(ids)
    if any(isinstance(x, list | tuple | set | frozenset | np.ndarray) for x in wanted):
        raise OffdiagError(f"{name} takes one list of item ids for all histories, received a list of lists")
    return wanted


def pair_filter(block: Any, item_ids: NDArray[Any]) -> PairFilter | None:
    """A table of users and items as a filter; None for anything else."""
    if is_frame(block):
        block = read(block)
    if not hasattr(block, "matrix"):
        return None
    matrix, unknown = encode(block, item_ids)
    return PairFilter(block.user_ids, matrix, distinct(item for items in unknown for item in items))


def report_filters(ignored: list[Any], blocked: PairFilter | None = None, *, stacklevel: int = 4) -> None:
    """Warn about ids of allow and block that are not known."""
    if ignored:
        warn(f"{len(ignored)} ids of allow and block are unknown to the model: {shorten(ignored)}", stacklevel)
    if blocked is not None and (strangers := blocked.unknown_users()):
        warn(f"{len(strangers)} users of block have no history here: {shorten(strangers)}", stacklevel)
