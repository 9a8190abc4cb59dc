"""Splits by item: items that nobody in train has chosen, as new products are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import checks
from offdiag.data.features import Features
from offdiag.data.held_out import HeldOut, Split, held_out_part
from offdiag.data.interactions import Interactions
from offdiag.errors import OffdiagError


@dataclass(frozen=True, eq=False)
class ColdSplit(Split):
    """A split in which some items are new: they are not in train, and the targets are theirs.

    The columns of validation and test are the items of train, then all hidden ones in ascending order: the items of a
    model that was fitted on train and given all hidden items by one ``add_items``.

    Example:
        >>> import offdiag as od
        >>> split = od.split.cold_items(od.synthetic.interactions(100, 50, 900), share=0.1)
        >>> split.train.n_items, len(split.validation_items), len(split.test_items)
        (40, 5, 5)
    """

    validation_items: NDArray[Any]
    test_items: NDArray[Any]

    @property
    def hidden_items(self) -> NDArray[Any]:
        """Those of validation and of test, ascending."""
        return np.sort(np.concatenate([self.validation_items, self.test_items]))


def cold_items(
    inter: Interactions, share: float = 0.1, held_out: float = 0.0, seed: int = 0, features: Features | None = None
) -> ColdSplit:
    """New items: `share` of the items, drawn at random, is hidden from train for validation, and as much for test.

    All users are in train, with their other items; those are their histories, and the hidden items that they chose
    are the targets. Validation and test have different items, so that what is chosen on some is measured on others.

    With `held_out`, for lists of new and other items together: that share of the interactions with other items, drawn
    at random, are targets too, half of them for validation and half for test. Of the interactions with new items the
    same half remains, so that they are as many among the targets as they would be among all interactions.

    With `features`, only items that ``add_items`` can place are hidden: those that share a feature with one in train.
    Real tables of products rarely have a row for every item, and the others cannot be recommended by any features.

    Example:
        >>> import offdiag as od
        >>> split = od.split.cold_items(od.synthetic.interactions(100, 50, 900), share=0.1)
        >>> split.test
        HeldOut(100 users, ... in histories, ... targets)
        >>> bool(np.isin(split.test_items, split.train.item_ids).any())
        False
    """
    checks.number("share", share, 0, 0.5, above=True, below=True, hint="; e.g. 0.1")
    checks.number("held_out", held_out, 0, 1, below=True, hint="; e.g. 0.2")
    used = np.flatnonzero(np.bincount(inter.matrix.indices, minlength=inter.n_items))
    rows = None if features is None else features.rows(inter.item_ids)
    if rows is not None:
        used = used[np.diff(rows.indptr)[used] > 0]
    n = max(1, round(share * len(used)))
    if 2 * n >= len(used):
        kind = "items with users" if rows is None else "items with users and features"
        raise OffdiagError(
            f"expected items that are left for train, received {len(used)} {kind}, of which {n} are hidden "
            "for validation and as many for test; take a smaller share or more data"
        )
    rng = np.random.default_rng(seed)
    drawn = rng.permutation(used)[: 2 * n]
    if rows is not None:
        drawn, n = _placeable(rows, drawn, n)
    hidden = drawn[np.argsort(inter.item_ids[drawn])]
    known = np.setdiff1d(np.arange(inter.n_items), drawn)
    is_test = np.zeros(inter.n_items, dtype=bool)
    is_test[drawn[n:]] = True
    # 0: in train, 1: of validation, 2: of test
    part_of = np.concatenate([np.zeros(len(known), dtype=np.int8), np.where(is_test[hidden], 2, 1).astype(np.int8)])
    inter = inter.select_items(positions=np.concatenate([known, hidden]))
    of_entry = part_of[inter.matrix.indices]
    drawn_entries = rng.random(inter.nnz)
    is_target = drawn_entries < np.where(of_entry > 0, held_out / 2, held_out) if held_out else of_entry > 0
    of_target = np.where(of_entry > 0, of_entry, np.where(drawn_entries < held_out / 2, 1, 2))
    history = inter.select_entries((of_entry == 0) & ~is_target)

    def part(number: int) -> HeldOut:
        return held_out_part(inter, is_target & (of_target == number), history)

    ids = inter.item_ids
    return ColdSplit(
        history.select_items(positions=np.arange(len(known))),
        part(1),
        part(2),
        ids[part_of == 1],
        ids[part_of == 2],
    )


def _placeable(rows: sparse.csr_array, drawn: NDArray[np.int64], n: int) -> tuple[NDArray[np.int64], int]:
    """The items drawn, n of them for validation, without those that share no feature with an item that is not drawn."""
    known = np.setdiff1d(np.arange(rows.shape[0]), drawn)
    in_train = np.bincount(rows[known].indices, minlength=rows.shape[1]) > 0
    shared = np.array([in_train[rows.indices[rows.indptr[i] : rows.indptr[i + 1]]].any() for i in drawn], dtype=bool)
    if not (shared[:n].any() and shared[n:].any()):
        raise OffdiagError(
            "expected items that share features with others, received none to hide; describe more of them"
        )
    return drawn[shared], int(shared[:n].sum())
