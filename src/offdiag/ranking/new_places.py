"""Places at the end of a list that go to new items, which would seldom get one by their scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Lists = tuple[NDArray[np.int64], NDArray[np.floating]]  # columns, -1 after the end, and their scores


def lacking(indices: NDArray[np.int64], first_new: int, places: int) -> NDArray[np.int64]:
    """The lists with fewer new items than that; new items are the columns from ``first_new``."""
    return np.flatnonzero((indices >= first_new).sum(axis=1) < places)


def give(lists: Lists, best_new: Lists, first_new: int) -> Lists:
    """Each list with as many new items as it has best ones: those it lacks replace the last known items of it.

    An item that was at the end costs least, and the others keep their order.
    """
    (indices, scores), (new, values) = lists, best_new
    k, places = indices.shape[1], new.shape[1]
    had = indices >= first_new
    added = (new >= 0) & ~(new[:, :, None] == indices[:, None, :]).any(axis=2)
    added &= np.cumsum(added, axis=1) <= places - had.sum(axis=1, keepdims=True)
    known = (indices >= 0) & ~had
    from_end = np.cumsum(known[:, ::-1], axis=1)[:, ::-1]  # 1: the last known item
    room = (indices < 0).sum(axis=1, keepdims=True)
    gives_way = known & (from_end <= added.sum(axis=1, keepdims=True) - room)
    kept = np.concatenate([(indices >= 0) & ~gives_way, added], axis=1)
    order = np.argsort(~kept, axis=1, kind="stable")[:, :k]

    def merged(old: NDArray[Any], more: NDArray[Any], none: float) -> NDArray[Any]:
        both = np.where(kept, np.concatenate([old, more], axis=1), old.dtype.type(none))
        found: NDArray[Any] = np.take_along_axis(both, order, axis=1)
        return found

    return merged(indices, new, -1), merged(scores, values, -np.inf)
