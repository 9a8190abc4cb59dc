"""Ranked lists as returned to the caller: ids and scores of equal length, masked after the end of a short list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Recommendations:
    """A ranked list per history, best first.

    A list is shorter than k when no more items are left. ``lengths`` gives the length of each; after its end
    ``items`` and ``scores`` are masked (``None`` in ``tolist()``) and ``indices`` is -1.
    """

    items: np.ma.MaskedArray[Any, Any]  # (n, k) item ids
    scores: np.ma.MaskedArray[Any, Any]  # (n, k)
    indices: NDArray[np.int64]  # (n, k) columns of the catalogue
    unknown_in_histories: list[list[Any]]  # per history, its ids that are not in the catalogue
    unknown_in_filters: list[Any] = field(default_factory=list)  # the same for allow and block

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many items each list has; less than k only when no more are left."""
        lengths: NDArray[np.int64] = (self.indices >= 0).sum(axis=1, dtype=np.int64)
        return lengths

    @property
    def unknown(self) -> list[list[Any]]:
        """For each history, the ids that were ignored because the catalogue lacks them: its own, then allow and block.

        Built when read: the ids of allow and block repeat for every history.
        """
        return [[*own, *self.unknown_in_filters] for own in self.unknown_in_histories]

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[list[tuple[Any, float]]]:
        """For each history, its list of (item id, score) pairs, without masked places."""
        rows = zip(self.items.data, self.scores.data, self.lengths.tolist(), strict=True)
        for items, scores, n in rows:
            yield list(zip(items[:n].tolist(), scores[:n].tolist(), strict=True))


def named_lists(
    indices: NDArray[np.int64],
    scores: NDArray[np.floating],
    item_ids: NDArray[Any],
    unknown_in_histories: list[list[Any]],
    unknown_in_filters: list[Any],
) -> Recommendations:
    """The lists of ``top_k`` with the ids of their items; index -1 becomes a masked place."""
    padded = indices < 0
    items = item_ids[np.maximum(indices, 0)]
    masked_items: Any = np.ma.MaskedArray(items, mask=padded)
    masked_scores: Any = np.ma.MaskedArray(scores, mask=padded.copy())  # a separate mask: either may be changed
    if padded.any():
        items[padded] = _not_an_id(item_ids)
        masked_items.fill_value, masked_scores.fill_value = items[padded][0], -np.inf
    return Recommendations(masked_items, masked_scores, indices, unknown_in_histories, unknown_in_filters)


def _not_an_id(item_ids: NDArray[Any]) -> Any:
    """The value under a mask: ``np.asarray`` drops masks, and even then no item of the catalogue may appear."""
    if item_ids.dtype.kind in "iu":
        info = np.iinfo(item_ids.dtype)
        ends = range(info.min, info.max) if info.min else range(info.max, 0, -1)
        return next((x for x in ends if x not in item_ids), info.min)
    private = map(chr, range(0xE000, 0xF900))  # private-use characters
    return next((x for x in chain([""], private) if x not in item_ids), "")
