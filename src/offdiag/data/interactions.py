"""Interactions: who chose what, as one sparse matrix with the ids of its rows and columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import notebook, tables
from offdiag.data.columns import Roles
from offdiag.data.ids import text_array
from offdiag.data.selection import Which, chosen_rows, rows_of_ids
from offdiag.data.sequences import Sequences
from offdiag.data.sparse_rows import csr, positions_of_rows, sort_pairs
from offdiag.errors import OffdiagError


@dataclass(frozen=True, eq=False)
class Interactions(tables.Tabular):
    """A users × items matrix (CSR, float32, canonical) with the ids of its rows and columns.

    `times` and `rows` run along `matrix.data`: when each interaction happened, and its first row in
    the source table (only the order matters). `rows` is None when the table was in storage order.
    `notes` are sentences about rows that were left out or changed on reading, `columns` the columns that were
    read from a table; selections keep both.
    `events` holds every event in order, repeats included, if it was asked for (`od.read(…, keep="events")`). The
    pairs of the matrix are those of the events; selections keep the two consistent.
    `dislikes` is a second matrix of the same users and items, 1 where a user disliked an item, if dislikes were read
    (`od.read(…, dislike_below=3)`, docs/dislikes.md).

    Example:
        >>> import offdiag as od
        >>> import numpy as np
        >>> od.read(np.array([[1, 0], [1, 1]]), user_ids=["ann", "bob"], item_ids=["Alien", "Brazil"])
        Interactions(2 users x 2 items, 3 interactions, 75 % filled)
    """

    matrix: sparse.csr_array
    user_ids: NDArray[Any]
    item_ids: NDArray[Any]
    times: NDArray[Any] | None = None
    rows: NDArray[np.int64] | None = None
    notes: tuple[str, ...] = ()
    columns: Roles | None = None
    events: Sequences | None = None
    dislikes: sparse.csr_array | None = None

    def __post_init__(self) -> None:
        if self.matrix.dtype != np.float32:  # otherwise a selection, which is float32, would not hold the same values
            with np.errstate(over="ignore"):
                object.__setattr__(self, "matrix", self.matrix.astype(np.float32))
        for name in ("user_ids", "item_ids"):
            ids = getattr(self, name)
            text = isinstance(ids, list | tuple) and ids and all(isinstance(x, str) for x in ids)
            object.__setattr__(self, name, text_array(list(ids)) if text else np.asarray(ids))
        expected = (len(self.user_ids), len(self.item_ids))
        if self.matrix.shape != expected:
            raise OffdiagError(
                f"expected a matrix of {expected[0]} users x {expected[1]} items, as many as there are ids, "
                f"received {self.matrix.shape[0]} x {self.matrix.shape[1]}; give one id per row and per column"
            )
        for name, along in (("times", self.times), ("rows", self.rows)):
            if along is not None and len(along) != self.matrix.nnz:
                raise OffdiagError(
                    f"expected {name} to have one entry per stored interaction ({self.matrix.nnz}), "
                    f"received {len(along)}; align it with matrix.data"
                )
        if self.events is not None and self.events.n_users != len(self.user_ids):
            raise OffdiagError(
                f"expected events of {len(self.user_ids)} users, one sequence per row, received {self.events.n_users}"
            )

        if self.dislikes is not None and self.dislikes.shape != expected:
            raise OffdiagError(
                f"expected dislikes of the same {expected[0]} users x {expected[1]} items, received "
                f"{self.dislikes.shape[0]} x {self.dislikes.shape[1]}"
            )

    @property
    def n_users(self) -> int:
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

    @property
    def nnz(self) -> int:
        return int(self.matrix.nnz)

    @property
    def table_order(self) -> NDArray[np.int64]:
        """Sorting key of each stored interaction by its position in the source table."""
        return np.arange(self.nnz, dtype=np.int64) if self.rows is None else self.rows

    @property
    def _origin(self) -> tuple[tuple[str, ...], Roles | None]:
        return self.notes, self.columns

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_users, self.n_items

    def __getitem__(self, which: Any) -> Interactions:
        """Users by position, mask or slice: how scikit-learn divides data into folds."""
        if isinstance(which, tuple) and len(which) == 2 and which[1] is Ellipsis:
            which = which[0]
        if isinstance(which, tuple | str):
            raise OffdiagError("expected positions of users or a mask; use select_users(ids=…) and select_items(…)")
        return self.select_users(positions=which)

    __iter__ = None  # a loop over users would be slow, and over what is not obvious

    def select_users(
        self, which: Which | None = None, *, ids: Which | None = None, positions: Which | None = None
    ) -> Interactions:
        """The users with these ids, or picked by a mask or a slice, in that order; all columns stay.

        An unknown id is an error. Whole numbers are positions if ids are text or equal to the positions;
        where they could mean different users, use ``ids=`` or ``positions=``.

        Example:
            >>> import offdiag as od
            >>> od.synthetic.interactions(100, 50, 900).select_users(ids=[7, 3]).user_ids
            array([7, 3])
        """
        index = chosen_rows(which, ids, positions, self.user_ids, "user")
        indptr, picked = positions_of_rows(self.matrix.indptr, index)
        matrix = csr(self.matrix.data[picked], self.matrix.indices[picked], indptr, (len(index), self.n_items))
        moved = bool(np.any(np.diff(index) < 0))
        events = self.events and self.events.select_users(index)
        along = self._along(picked, moved)
        dislikes = None if self.dislikes is None else self.dislikes[index]
        return Interactions(matrix, self.user_ids[index], self.item_ids, *along, *self._origin, events, dislikes)

    def select_items(
        self, which: Which | None = None, *, ids: Which | None = None, positions: Which | None = None
    ) -> Interactions:
        """The items with these ids, or picked by a mask or a slice, in that order; all rows stay.

        Whole numbers are read as in ``select_users``.

        Example:
            >>> import offdiag as od
            >>> od.synthetic.interactions(100, 50, 900, names=False).select_items(slice(2)).item_ids
            array([0, 1])
        """
        index = chosen_rows(which, ids, positions, self.item_ids, "item")
        if len(np.unique(index)) != len(index):
            raise OffdiagError("expected each item once, received a position twice; select distinct items")
        column = np.full(self.n_items, -1, dtype=self.matrix.indices.dtype)
        column[index] = np.arange(len(index), dtype=column.dtype)
        cols = column[self.matrix.indices]
        picked = np.flatnonzero(cols >= 0)
        cols = cols[picked]
        indptr = np.searchsorted(picked, self.matrix.indptr)
        moved = bool(np.any(np.diff(index) < 0))
        if moved:
            users = np.repeat(np.arange(self.n_users), np.diff(indptr))
            order, cols = sort_pairs(users, cols, self.n_users, len(index))
            if order is not None:
                picked = picked[order]
        matrix = csr(self.matrix.data[picked], cols, indptr, (self.n_users, len(index)))
        events = self.events and self.events.renumber_items(column)
        along = self._along(picked, moved)
        dislikes = None if self.dislikes is None else sparse.csr_array(self.dislikes[:, index])
        return Interactions(matrix, self.user_ids, self.item_ids[index], *along, *self._origin, events, dislikes)

    def select_entries(self, mask: NDArray[np.bool_]) -> Interactions:
        """The stored interactions where the mask (along matrix.data) is true; all users and items stay.

        Example:
            >>> import offdiag as od
            >>> inter = od.synthetic.interactions(100, 50, 900, times=True)
            >>> inter.select_entries(inter.times < 1_704_067_200)  # before 2024
            Interactions(100 users x 50 items, ... interactions, ... % filled, with times)
        """
        picked = np.flatnonzero(mask)
        indptr = np.searchsorted(picked, self.matrix.indptr)
        matrix = csr(self.matrix.data[picked], self.matrix.indices[picked], indptr, self.matrix.shape)
        events = self.events and self.events.select_events(mask[self._pair_of_events()])
        along = self._along(picked, moved=False)
        return Interactions(matrix, self.user_ids, self.item_ids, *along, *self._origin, events, self.dislikes)

    def select_events(self, mask: NDArray[np.bool_]) -> Interactions:
        """The events where the mask (along events.items) is true, and the pairs that they consist of.

        A pair that loses some of its events and has a value other than 1 is an error: what is left of it is unknown.

        Example:
            >>> import offdiag as od
            >>> log = {"user": ["ann", "ann", "ann"], "item": ["tea", "cup", "tea"], "day": [1, 2, 3]}
            >>> inter = od.read(log, time="day", keep="events")
            >>> inter.select_events(inter.events.times < 3).history("ann")
            ['tea', 'cup']
        """
        if self.events is None:
            raise OffdiagError("expected interactions with their events, received pairs; read with keep='events'")
        pair = self._pair_of_events()
        kept, cut = np.zeros(self.nnz, dtype=bool), np.zeros(self.nnz, dtype=bool)
        kept[pair[mask]], cut[pair[~mask]] = True, True
        if (self.matrix.data[kept & cut] != 1).any():
            raise OffdiagError(
                "expected 0/1 data, since the value of a pair that loses some of its events is unknown, received "
                "other values; binarise first (od.prepare.binarize)"
            )
        left, events = replace(self, events=None).select_entries(kept), self.events.select_events(mask)
        times = left.times
        if times is not None and events.times is not None:
            times = np.full(left.nnz, events.times.min(initial=0), dtype=times.dtype)
            np.maximum.at(times, (np.cumsum(kept) - 1)[pair[mask]], events.times)
        return replace(left, times=times, events=events)

    def history(self, user: Any) -> list[Any]:
        """The ids of the items that a user chose: in the order of time, or of the table if there are no times.

        With `events`, an item is listed as often as it was chosen. An unknown id is an error.

        Example:
            >>> import offdiag as od
            >>> import polars as pl
            >>> log = pl.DataFrame({"user": ["ann", "bob", "ann"], "item": ["tea", "jam", "cup"], "day": [2, 1, 1]})
            >>> od.read(log, time="day").history("ann")
            ['cup', 'tea']
        """
        (row,) = rows_of_ids([user], self.user_ids, "user", "check its spelling; user_ids lists all of them")
        if self.events is not None:
            return self.item_ids[self.events.of(row)].tolist()  # type: ignore[no-any-return]
        lo, hi = self.matrix.indptr[row : row + 2]
        items, order = self.matrix.indices[lo:hi], self.table_order[lo:hi]
        order = np.argsort(order) if self.times is None else np.lexsort((order, self.times[lo:hi]))
        found: list[Any] = self.item_ids[items[order]].tolist()
        return found

    def _pair_of_events(self) -> NDArray[np.int64]:
        """Where the pair of each event is stored."""
        assert self.events is not None
        pair = self.events.pair_of_events(self.matrix)
        if (pair < 0).any():
            raise OffdiagError("the events hold pairs of user and item that the matrix does not; give both or neither")
        return pair

    def _along(self, picked: NDArray[np.int64], moved: bool) -> tuple[NDArray[Any] | None, NDArray[np.int64] | None]:
        # Once entries move, storage order is no longer table order, so the old positions must be remembered.
        rows = self.rows[picked] if self.rows is not None else (picked if moved else None)
        return None if self.times is None else self.times[picked], rows

    def _columns(self, form: str) -> Mapping[str, Any]:
        users = np.repeat(self.user_ids, np.diff(self.matrix.indptr))
        columns = {"user": users, "item": self.item_ids[self.matrix.indices], "value": self.matrix.data}
        return columns if self.times is None else columns | {"time": self.times}

    def _repr_html_(self) -> str:
        filled = f"{100 * self.nnz / max(1, self.n_users * self.n_items):.3g} %"
        facts = {"users": f"{self.n_users:,}", "items": f"{self.n_items:,}", "interactions": f"{self.nnz:,}"}
        first = self.select_users(slice(0, notebook.ROWS))
        return notebook.card("Interactions", facts | {"filled": filled}, first.to_polars(), n_rows=self.nnz)

    def __repr__(self) -> str:
        cells = max(1, self.n_users * self.n_items)
        times = ", with times" if self.times is not None else ""
        times += f", {self.events.n_events:,} events in order" if self.events is not None else ""
        times += f", {self.dislikes.nnz:,} dislikes" if self.dislikes is not None else ""
        return (
            f"Interactions({self.n_users:,} users x {self.n_items:,} items, {self.nnz:,} interactions, "
            f"{100 * self.nnz / cells:.3g} % filled{times})"
        )
