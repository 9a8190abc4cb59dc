"""Splits: what a model may learn from, and what it has to predict.

In `strong` and `liang` the users of validation and test are not in train: a part of their interactions is
their history, the rest the targets. In `weak`, `last_out`, `last_part`, `last_basket` and `by_time` every user is in
train and the rows of validation and test are the rows of train; a user without targets has an empty row there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import checks
from offdiag.data.held_out import HeldOut, Split, held_out_part, sizes_of_parts, within_users
from offdiag.data.interactions import Interactions
from offdiag.data.sequences import in_order, join
from offdiag.data.sparse_rows import rank_within_rows, row_of_entries, share_of_rows
from offdiag.data.split_items import ColdSplit, cold_items
from offdiag.data.split_time import by_time, last_basket, last_out, last_part
from offdiag.errors import OffdiagError

__all__ = [
    "ColdSplit",
    "HeldOut",
    "Split",
    "by_time",
    "carve",
    "cold_items",
    "given",
    "last_basket",
    "last_out",
    "last_part",
    "liang",
    "strong",
    "weak",
]


def strong(inter: Interactions, held_out: float | int = 0.1, fold_in: float = 0.8, seed: int = 0) -> Split:
    """Strong generalisation: `held_out` users (a fraction or a number) for validation, the same number for test.

    `fold_in` of each held-out user's interactions, drawn at random, is the history and the rest the targets,
    at least one of each; a user with a single interaction keeps it as history. All columns stay.

    Example:
        >>> import offdiag as od
        >>> od.split.strong(od.synthetic.interactions(100, 50, 900, times=True), held_out=10).test
        HeldOut(10 users, 62 in histories, 18 targets)
    """
    n = _number_of_users(held_out, inter.n_users)
    _fraction("fold_in", fold_in)
    rng = np.random.default_rng(seed)
    users = rng.permutation(inter.n_users)
    train, validation, test = np.sort(users[2 * n :]), np.sort(users[n : 2 * n]), np.sort(users[:n])

    def part(index: NDArray[np.int64]) -> HeldOut:
        some = inter.select_users(positions=index)
        n_targets = share_of_rows(np.diff(some.matrix.indptr), 1 - fold_in)
        return held_out_part(some, _random_rank(some, rng) < n_targets[row_of_entries(some.matrix.indptr)])

    return Split(inter.select_users(positions=train), part(validation), part(test))


def liang(inter: Interactions, held_out_users: int, seed: int = 98765) -> Split:
    """The protocol of Liang et al. (2018), draw for draw, so that it reproduces the published splits exactly.

    Users without interactions are dropped first. Columns are the items of the train users in the order of
    their first appearance in the table; interactions of held-out users with other items are dropped. Of a
    held-out user with at least 5 left, int(0.2 n) are targets. Rows are in ascending order of user id.

    Example:
        >>> import offdiag as od
        >>> od.split.liang(od.synthetic.interactions(100, 50, 900, times=True), held_out_users=10).test
        HeldOut(10 users, 52 in histories, 9 targets)
    """
    inter = inter.select_users(np.diff(inter.matrix.indptr) > 0)
    ascending = np.argsort(inter.user_ids, kind="stable")
    if np.any(np.diff(ascending) < 0):
        inter = inter.select_users(positions=ascending)
    n_users = inter.n_users
    if held_out_users < 1 or 2 * held_out_users >= n_users:
        raise OffdiagError(
            f"expected held_out_users between 1 and {max(0, (n_users - 1) // 2)} for {n_users:,} users, received "
            f"{held_out_users}; each of validation and test takes that many"
        )
    shuffled = np.random.RandomState(seed).permutation(n_users)  # the published draws
    train = inter.select_users(positions=np.sort(shuffled[: n_users - 2 * held_out_users]))
    never = np.iinfo(np.int64).max
    first = np.full(inter.n_items, never)
    np.minimum.at(first, train.matrix.indices, train.table_order)
    items = np.argsort(first)[: np.count_nonzero(first < never)]

    def part(index: NDArray[np.int64]) -> HeldOut:
        some = inter.select_users(positions=np.sort(index)).select_items(positions=items)
        rng = np.random.RandomState(seed)  # seeded again for validation and for test
        indptr = some.matrix.indptr
        is_target = np.zeros(some.nnz, dtype=bool)
        # Draws number a user's interactions in table order, not in the order they are stored.
        in_table = np.lexsort((some.table_order, row_of_entries(indptr)))
        for start, end in zip(indptr[:-1].tolist(), indptr[1:].tolist(), strict=True):
            n = end - start
            if n >= 5:
                is_target[in_table[start + rng.choice(n, size=int(0.2 * n), replace=False)]] = True
        return held_out_part(some, is_target)

    return Split(
        train.select_items(positions=items),
        part(shuffled[n_users - 2 * held_out_users : n_users - held_out_users]),
        part(shuffled[n_users - held_out_users :]),
    )


def weak(
    inter: Interactions, held_out: float = 0.2, validation: float = 0.0, seed: int = 0, users: int | None = None
) -> Split:
    """Weak generalisation: a random part of every user's interactions is held out.

    At least one of each user with two or more is a target, and at least one stays in train. With
    `validation` another part is held out for tuning; the histories of test then include it. With `users`, only so many
    random users with two items or more are asked; the others keep all of theirs in train.

    Example:
        >>> import offdiag as od
        >>> od.split.weak(od.synthetic.interactions(100, 50, 900, times=True), held_out=0.2).test
        HeldOut(100 users, 712 in histories, 188 targets)
    """
    n_test, n_validation = sizes_of_parts(np.diff(inter.matrix.indptr), held_out, validation, users, seed)
    rng = np.random.default_rng(seed)
    rank = _random_rank(inter, rng)
    rows = row_of_entries(inter.matrix.indptr)
    is_test = rank < n_test[rows]
    is_validation = ~is_test & (rank < (n_test + n_validation)[rows]) if validation else None
    return within_users(inter, is_test, is_validation)


def given(train: Interactions, test: Interactions, validation: Interactions | None = None) -> Split:
    """A split that already exists as separate tables, e.g. train.txt and test.txt of a published benchmark.

    Columns are the items of all tables, ascending. The histories of test are the users' rows in train and in
    validation; test users that are not in train have an empty history. Events are kept if all of these have them.

    Example:
        >>> import offdiag as od
        >>> import numpy as np
        >>> od.split.given(train=od.read(np.array([[1, 0, 1]])), test=od.read(np.array([[0, 1, 0]]))).test
        HeldOut(1 users, 2 in histories, 1 targets)
    """
    tables = [train, test] if validation is None else [train, validation, test]
    items = _union([t.item_ids for t in tables], "item")
    users = _union([t.user_ids for t in tables], "user")
    spread = [_spread(t, users, items) for t in tables]
    history, middle = spread[0], None
    if validation is not None:
        middle = HeldOut(history.matrix, spread[1].matrix, users, items, history)
        events = history.events and spread[1].events and join(history.events, spread[1].events)
        both = sparse.csr_array(history.matrix + spread[1].matrix)
        history = Interactions(both, users, items, events=events)
    # Rows of train are its own users; validation and test keep all users.
    own = spread[0].select_users(positions=np.isin(users, train.user_ids))
    return Split(own, middle, HeldOut(history.matrix, spread[-1].matrix, users, items, history))


def carve(split: Split, validation: float = 0.1, seed: int = 0) -> Split:
    """Hold out a random part of train to tune on, for a split without validation users (as many published ones are).

    At least one interaction of each user with two or more becomes a validation target and leaves train. The test part
    stays as it is: once settings are chosen, fit on the train part of the original split.

    Example:
        >>> import offdiag as od
        >>> split = od.split.weak(od.synthetic.interactions(100, 50, 900, times=True))
        >>> od.split.carve(split, validation=0.1).validation
        HeldOut(100 users, 613 in histories, 99 targets)
    """
    if not isinstance(split, Split):
        raise OffdiagError(f"expected a split with train and test to carve from, received {type(split).__name__}")
    if split.validation is not None:
        raise OffdiagError("this split has validation users already; tune on those")
    inner = weak(split.train, held_out=validation, seed=seed)
    return Split(inner.train, inner.test, split.test)


def _union(ids: list[NDArray[Any]], noun: str) -> NDArray[Any]:
    if len({a.dtype.kind for a in ids}) > 1:
        raise OffdiagError(
            f"expected {noun} ids of one type in all parts, received {', '.join(str(a.dtype) for a in ids)}; "
            "read all parts the same way"
        )
    return np.unique(np.concatenate(ids))


def _spread(inter: Interactions, users: NDArray[Any], items: NDArray[Any]) -> Interactions:
    coo = inter.matrix.tocoo()
    rows = np.searchsorted(users, inter.user_ids)[coo.row]
    cols = np.searchsorted(items, inter.item_ids)[coo.col]
    matrix = sparse.csr_array((coo.data, (rows, cols)), shape=(len(users), len(items)))
    matrix.sort_indices()
    if inter.events is None:
        return Interactions(matrix, users, items, columns=inter.columns)
    events = inter.events.renumber_items(np.searchsorted(items, inter.item_ids))
    row = np.searchsorted(users, inter.user_ids)[events.users].astype(np.int32)
    events = in_order(row, events.items, events.times, len(users))
    return Interactions(matrix, users, items, columns=inter.columns, events=events)


def _random_rank(inter: Interactions, rng: np.random.Generator) -> NDArray[np.int64]:
    # As many random bits as fit next to row and position in one sortable integer, and never fewer than 16.
    spare = 63 - (inter.nnz - 1).bit_length() - inter.n_users.bit_length() if inter.nnz else 16
    n_keys = 1 << min(max(spare, 16), 31)
    return rank_within_rows(inter.matrix.indptr, rng.integers(0, n_keys, inter.nnz, dtype=np.int64), n_keys)


def _number_of_users(held_out: float | int, n_users: int) -> int:
    n = int(held_out) if checks.is_whole(held_out) else max(1, round(_fraction("held_out", held_out) * n_users))
    if n < 1 or 2 * n >= n_users:
        raise OffdiagError(
            f"expected held_out to leave users for train, received {held_out} of {n_users} users for validation "
            "and as many for test; hold out fewer"
        )
    return n


def _fraction(name: str, value: Any) -> float:
    return float(checks.number(name, value, 0, 1, above=True, below=True, hint="; e.g. 0.2"))
