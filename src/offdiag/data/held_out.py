"""The parts of a split: what a model may learn from, and users with a history and targets to predict from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import checks, notebook, tables
from offdiag.data.interactions import Interactions
from offdiag.data.sequences import sequences_of
from offdiag.data.sparse_rows import row_of_entries, share_of_rows
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
    ordered: Interactions | None = None  # the histories with their times or events, for models that know the order
    target_times: NDArray[Any] | None = None  # along targets.data, where known

    def users_with_later_history(self) -> int:
        """How many users have a history with an event later than one of their targets, as far as times are known.

        Example:
            >>> import offdiag as od
            >>> X = od.synthetic.interactions(100, 50, 900, times=True)
            >>> [part.test.users_with_later_history() for part in (od.split.last_out(X), od.split.weak(X))]
            [0, 80]
        """
        past = None if self.ordered is None else sequences_of(self.ordered)
        if past is None or past.times is None or self.target_times is None:
            return 0
        latest, earliest = np.full(len(self.user_ids), -np.inf), np.full(len(self.user_ids), np.inf)
        np.maximum.at(latest, past.users, past.times)
        np.minimum.at(earliest, row_of_entries(self.targets.indptr), self.target_times)
        return int((latest > earliest).sum())

    def only(self, items: Any) -> HeldOut:
        """The same users and histories with only the targets among these items, by id: new items, or a band of them.

        Example:
            >>> import offdiag as od
            >>> split = od.split.cold_items(od.synthetic.interactions(100, 50, 900), held_out=0.2)
            >>> new, rest = split.test.only(split.test_items), split.test.only(split.train.item_ids)
            >>> new.targets.nnz + rest.targets.nnz == split.test.targets.nnz
            True
        """
        ids = np.arange(self.targets.shape[1]) if self.item_ids is None else self.item_ids
        wanted = np.isin(ids, np.asarray(items))[self.targets.indices]
        indptr = np.concatenate([[0], np.cumsum(wanted)])[self.targets.indptr]
        left = self.targets.data[wanted], self.targets.indices[wanted], indptr
        times = None if self.target_times is None else self.target_times[wanted]
        return replace(self, targets=sparse.csr_array(left, shape=self.targets.shape), target_times=times)

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


def sizes_of_parts(
    sizes: NDArray[np.int64], held_out: float, validation: float, users: int | None, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many interactions of each user are test and validation targets; one at least stays in train.

    With ``users``, only so many random users with two interactions or more have targets.
    """
    checks.number("held_out", held_out, 0, 1, above=True, below=True, hint="; e.g. 0.2")
    if not 0 <= validation < 1 or held_out + validation >= 1:
        raise OffdiagError(
            f"expected held_out + validation below 1, received {held_out} + {validation}; leave some for train"
        )
    asked = sizes >= 2
    if users is not None and checks.whole("users", users, 1) < asked.sum():
        some = np.random.default_rng([seed, users]).choice(np.flatnonzero(asked), users, replace=False)
        asked = np.isin(np.arange(len(sizes)), some)
    n_test = np.where(asked, share_of_rows(sizes, held_out), 0)
    if not validation:
        return n_test, np.zeros_like(n_test)
    # An interaction is held out for validation only if another one stays in train.
    return n_test, np.where(asked, np.minimum(share_of_rows(sizes, validation), np.maximum(sizes - n_test - 1, 0)), 0)


def within_users(inter: Interactions, is_test: NDArray[np.bool_], is_validation: NDArray[np.bool_] | None) -> Split:
    """Rows of every part are the users of inter. The history of test is everything except the test targets.

    The masks are along the stored pairs.
    """
    if is_validation is None:
        train = inter.select_entries(~is_test)
        return Split(train, None, held_out_part(inter, is_test, train))
    train = inter.select_entries(~(is_test | is_validation))
    return Split(train, held_out_part(inter, is_validation, train), held_out_part(inter, is_test))


def held_out_part(inter: Interactions, is_target: NDArray[np.bool_], histories: Interactions | None = None) -> HeldOut:
    """The pairs in the mask are the targets, the others (or ``histories``) the histories."""
    kept = inter.select_entries(~is_target) if histories is None else histories
    targets = replace(inter, events=None).select_entries(is_target)
    return HeldOut(kept.matrix, targets.matrix, inter.user_ids, inter.item_ids, kept, targets.times)
