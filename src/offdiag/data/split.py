"""Splits: what a model may learn from, and what it has to predict.

In `strong` and `liang` the users of validation and test are not in train: a part of their interactions is
their history, the rest the targets. In `weak`, `last_out` and `by_time` every user is in train and the rows
of validation and test are the rows of train; a user without targets has an empty row there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import checks, notebook, tables
from offdiag.data.interactions import Interactions
from offdiag.data.sparse_rows import rank_within_rows, row_of_entries, share_of_rows
from offdiag.errors import OffdiagError


@dataclass(frozen=True, eq=False)
class HeldOut(tables.Tabular):
    """Users to evaluate on: histories go into the model, targets should come out.

    As a table: user, item, value, and the role of each interaction, "history" or "target".

    Example:
        >>> import offdiag as od
        >>> split = od.split.strong(od.synthetic.interactions(100, 50, 900), held_out=10)
        >>> split.test.histories.shape == split.test.targets.shape == (10, 50)
        True
    """

    histories: sparse.csr_array
    targets: sparse.csr_array
    user_ids: NDArray[Any]
    item_ids: NDArray[Any] | None = None  # of the columns, so that a model with other columns is detected

    def _columns(self, form: str) -> Mapping[str, Any]:
        return {name: np.concatenate(parts) for name, parts in self._parts().items()}

    def _parts(self) -> dict[str, list[NDArray[Any]]]:
        """The columns of the table, of histories and targets apart."""
        ids = np.arange(self.histories.shape[1]) if self.item_ids is None else self.item_ids
        both = {"history": self.histories, "target": self.targets}
        return {
            "user": [np.repeat(self.user_ids, np.diff(matrix.indptr)) for matrix in both.values()],
            "item": [ids[matrix.indices] for matrix in both.values()],
            "value": [matrix.data for matrix in both.values()],
            "role": [np.full(matrix.nnz, role) for role, matrix in both.items()],
        }

    def _repr_html_(self) -> str:
        facts = {
            "users": f"{len(self.user_ids):,}",
            "in histories": f"{self.histories.nnz:,}",
            "targets": f"{self.targets.nnz:,}",
        }
        return notebook.card("Held-out users", facts)

    def __repr__(self) -> str:
        return (
            f"HeldOut({len(self.user_ids):,} users, {self.histories.nnz:,} in histories, {self.targets.nnz:,} targets)"
        )


@dataclass(frozen=True, eq=False)
class Split(tables.Tabular):
    """Train and test parts, and optionally validation, over the same columns.

    As a table: every interaction with its part ("train", "validation" or "test") and role ("train", "history" or
    "target"). In splits where users are in train too, their training interactions are also their histories.

    Example:
        >>> import offdiag as od
        >>> split = od.split.strong(od.synthetic.interactions(100, 50, 900), held_out=10)
        >>> split.train.n_users, len(split.validation.user_ids), len(split.test.user_ids)
        (80, 10, 10)
    """

    train: Interactions
    validation: HeldOut | None
    test: HeldOut

    def _columns(self, form: str) -> Mapping[str, Any]:
        import polars as pl

        held_out = {"validation": self.validation, "test": self.test}
        named = [("train", self.train.to_polars().select("user", "item", "value").with_columns(role=pl.lit("train")))]
        named += [(name, part.to_polars()) for name, part in held_out.items() if part is not None]
        whole = pl.concat([frame.with_columns(part=pl.lit(name)) for name, frame in named])
        return {name: whole[name] for name in ("part", "role", "user", "item", "value")}

    def _repr_html_(self) -> str:
        rows: list[tuple[Any, ...]] = [("train", self.train.n_users, self.train.nnz, None)]
        for name, part in (("validation", self.validation), ("test", self.test)):
            if part is not None:
                rows.append((name, len(part.user_ids), part.histories.nnz, part.targets.nnz))
        names = ("part", "users", "interactions", "targets")
        table = tables.frame(dict(zip(names, zip(*rows, strict=True), strict=True)))
        return notebook.card("Split", {"items": f"{self.train.n_items:,}"}, table)


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
        return _held_out(some, _random_rank(some, rng) < n_targets[row_of_entries(some.matrix.indptr)])

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
        return _held_out(some, is_target)

    return Split(
        train.select_items(positions=items),
        part(shuffled[n_users - 2 * held_out_users : n_users - held_out_users]),
        part(shuffled[n_users - held_out_users :]),
    )


def weak(inter: Interactions, held_out: float = 0.2, validation: float = 0.0, seed: int = 0) -> Split:
    """Weak generalisation: a random part of every user's interactions is held out.

    At least one of each user with two or more is a target, and at least one stays in train. With
    `validation` another part is held out for tuning; the histories of test then include it.

    Example:
        >>> import offdiag as od
        >>> od.split.weak(od.synthetic.interactions(100, 50, 900, times=True), held_out=0.2).test
        HeldOut(100 users, 712 in histories, 188 targets)
    """
    _fraction("held_out", held_out)
    if not 0 <= validation < 1 or held_out + validation >= 1:
        raise OffdiagError(
            f"expected held_out + validation below 1, received {held_out} + {validation}; leave some for train"
        )
    rng = np.random.default_rng(seed)
    sizes = np.diff(inter.matrix.indptr)
    n_test = share_of_rows(sizes, held_out)
    # An interaction is held out for validation only if another one stays in train.
    n_validation = (
        np.minimum(share_of_rows(sizes, validation), np.maximum(sizes - n_test - 1, 0)) if validation else None
    )
    rank = _random_rank(inter, rng)
    rows = row_of_entries(inter.matrix.indptr)
    is_test = rank < n_test[rows]
    is_validation = None if n_validation is None else ~is_test & (rank < (n_test + n_validation)[rows])
    return _within_users(inter, is_test, is_validation)


def last_out(inter: Interactions, validation: bool = True) -> Split:
    """The last interaction of each user is the test target, the one before it the validation target.

    Needs times; for equal times the later row of the table is the last. At least one interaction stays in
    train: a user with two has no validation target, a user with one has no target at all.

    Example:
        >>> import offdiag as od
        >>> od.split.last_out(od.synthetic.interactions(100, 50, 900, times=True)).test
        HeldOut(100 users, 807 in histories, 93 targets)
    """
    sizes = np.diff(inter.matrix.indptr)
    rows = row_of_entries(inter.matrix.indptr)
    is_test = _last_of_rows(inter, np.ones(inter.nnz, dtype=bool)) & (sizes >= 2)[rows]
    if not is_test.any():
        raise OffdiagError("expected a user with two interactions or more, received none; nothing can be held out")
    is_validation = _last_of_rows(inter, ~is_test) & (sizes >= 3)[rows] if validation else None
    return _within_users(inter, is_test, is_validation)


def by_time(inter: Interactions, at: Any, validation_at: Any = None) -> Split:
    """Interactions before `at` are train (and history), those at or after it are the targets of test.

    `at` is a number in the unit of the time column, or a date (datetime or ISO text, UTC) when that column
    held dates or Unix seconds. With `validation_at` before `at`, interactions between the two are for validation.

    Example:
        >>> import offdiag as od
        >>> od.split.by_time(od.synthetic.interactions(100, 50, 900, times=True), "2024-07-01").test
        HeldOut(100 users, 437 in histories, 463 targets)
    """
    times = _needs_times(inter, "by_time")
    moment = _moment(at)
    is_test = times >= moment
    if is_test.all() or not is_test.any():
        raise OffdiagError(
            f"expected a time between the first ({times.min()}) and the last ({times.max()}), received at={at!r}; "
            "choose one that leaves interactions on both sides"
        )
    is_validation = None
    if validation_at is not None:
        earlier = _moment(validation_at)
        is_validation = ~is_test & (times >= earlier)
        if not is_validation.any() or bool((is_validation | is_test).all()):
            raise OffdiagError(
                f"expected validation_at to leave interactions before it and up to at={at!r}, "
                f"received {validation_at!r}; choose an earlier or later time"
            )
    return _within_users(inter, is_test, is_validation)


def given(train: Interactions, test: Interactions, validation: Interactions | None = None) -> Split:
    """A split that already exists as separate tables, e.g. train.txt and test.txt of a published benchmark.

    Columns are the items of all tables, ascending. The histories of test are the users' rows in train and in
    validation; test users that are not in train have an empty history.

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
    history = spread[0].matrix
    middle = None
    if validation is not None:
        middle = HeldOut(history, spread[1].matrix, users, items)
        history = sparse.csr_array(history + spread[1].matrix)
    # Rows of train are its own users; validation and test keep all users.
    own = spread[0].select_users(positions=np.isin(users, train.user_ids))
    return Split(own, middle, HeldOut(history, spread[-1].matrix, users, items))


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
    return Interactions(matrix, users, items, columns=inter.columns)


def _within_users(inter: Interactions, is_test: NDArray[np.bool_], is_validation: NDArray[np.bool_] | None) -> Split:
    """Rows of every part are the users of inter. The history of test is everything except the test targets."""
    if is_validation is None:
        train = inter.select_entries(~is_test)
        return Split(train, None, _held_out(inter, is_test, train))
    train = inter.select_entries(~(is_test | is_validation))
    return Split(train, _held_out(inter, is_validation, train), _held_out(inter, is_test))


def _held_out(inter: Interactions, is_target: NDArray[np.bool_], histories: Interactions | None = None) -> HeldOut:
    kept = inter.select_entries(~is_target) if histories is None else histories
    return HeldOut(kept.matrix, inter.select_entries(is_target).matrix, inter.user_ids, inter.item_ids)


def _random_rank(inter: Interactions, rng: np.random.Generator) -> NDArray[np.int64]:
    # As many random bits as fit next to row and position in one sortable integer, and never fewer than 16.
    spare = 63 - (inter.nnz - 1).bit_length() - inter.n_users.bit_length() if inter.nnz else 16
    n_keys = 1 << min(max(spare, 16), 31)
    return rank_within_rows(inter.matrix.indptr, rng.integers(0, n_keys, inter.nnz, dtype=np.int64), n_keys)


def _last_of_rows(inter: Interactions, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask of the latest interaction of each row within `among`, ties by position in the table."""
    times = _needs_times(inter, "last_out")
    sizes = np.diff(inter.matrix.indptr)
    starts = inter.matrix.indptr[:-1][sizes > 0]
    last = among
    for key in (times, inter.table_order):
        latest = np.maximum.reduceat(np.where(last, key, key.min()), starts)
        last = last & (key == np.repeat(latest, sizes[sizes > 0]))
    return last


def _needs_times(inter: Interactions, name: str) -> NDArray[Any]:
    if inter.times is None:
        raise OffdiagError(f"expected interactions with times for {name}, received none; read with time=<column>")
    return inter.times


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


def _moment(at: Any) -> float:
    if isinstance(at, str):
        try:
            at = datetime.fromisoformat(at)
        except ValueError:
            raise OffdiagError(
                f"expected a number or an ISO date such as 2024-05-31, received {at!r}; write it that way"
            ) from None
    if isinstance(at, np.datetime64):
        at = at.astype("datetime64[us]").item()
    if isinstance(at, datetime):
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    if isinstance(at, date):
        return datetime(at.year, at.month, at.day, tzinfo=UTC).timestamp()
    if not checks.is_number(at) or not np.isfinite(at):
        raise OffdiagError(f"expected a number or a date, received {at!r}; use the unit of the time column")
    return at  # type: ignore[no-any-return]
