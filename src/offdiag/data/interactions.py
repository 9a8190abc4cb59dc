"""Interactions: who chose what, as one sparse matrix with the ids of its rows and columns."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import notebook, tables, wording
from offdiag.data.columns import Roles
from offdiag.data.ids import positions as places_of
from offdiag.data.ids import text_array
from offdiag.data.sparse_rows import csr, positions_of_rows, sort_pairs
from offdiag.errors import OffdiagError

Which = NDArray[Any] | Sequence[Any] | slice


@dataclass(frozen=True, eq=False)
class Interactions(tables.Tabular):
    """A users × items matrix (CSR, float32, canonical) with the ids of its rows and columns.

    `times` and `rows` run along `matrix.data`: when each interaction happened, and its first row in
    the source table (only the order matters). `rows` is None when the table was in storage order.
    `notes` are sentences about rows that were left out or changed on reading, `columns` the columns that were
    read from a table; selections keep both.

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
        index = _positions(which, ids, positions, self.user_ids, "user")
        indptr, picked = positions_of_rows(self.matrix.indptr, index)
        matrix = csr(self.matrix.data[picked], self.matrix.indices[picked], indptr, (len(index), self.n_items))
        moved = bool(np.any(np.diff(index) < 0))
        return Interactions(matrix, self.user_ids[index], self.item_ids, *self._along(picked, moved), *self._origin)

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
        index = _positions(which, ids, positions, self.item_ids, "item")
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
        return Interactions(matrix, self.user_ids, self.item_ids[index], *self._along(picked, moved), *self._origin)

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
        return Interactions(matrix, self.user_ids, self.item_ids, *self._along(picked, moved=False), *self._origin)

    def history(self, user: Any) -> list[Any]:
        """The ids of the items that a user chose: in the order of time, or of the table if there are no times.

        An unknown id is an error.

        Example:
            >>> import offdiag as od
            >>> import polars as pl
            >>> log = pl.DataFrame({"user": ["ann", "bob", "ann"], "item": ["tea", "jam", "cup"], "day": [2, 1, 1]})
            >>> od.read(log, time="day").history("ann")
            ['cup', 'tea']
        """
        (row,) = _by_id([user], self.user_ids, "user", "check its spelling; user_ids lists all of them")
        lo, hi = self.matrix.indptr[row : row + 2]
        items, order = self.matrix.indices[lo:hi], self.table_order[lo:hi]
        order = np.argsort(order) if self.times is None else np.lexsort((order, self.times[lo:hi]))
        found: list[Any] = self.item_ids[items[order]].tolist()
        return found

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
        return (
            f"Interactions({self.n_users:,} users x {self.n_items:,} items, {self.nnz:,} interactions, "
            f"{100 * self.nnz / cells:.3g} % filled{times})"
        )


def _positions(
    which: Which | None, ids: Which | None, positions: Which | None, known: NDArray[Any], noun: str
) -> NDArray[np.int64]:
    """Rows or columns selected in one of the three ways."""
    ways = sum(way is not None for way in (which, ids, positions))
    if ways != 1:
        raise OffdiagError(f"expected one way to select {noun}s, received {ways}; give ids=, positions= or a mask")
    if ids is not None:
        return _by_id(ids, known, noun)
    if which is None or isinstance(which, slice):
        return _by_position(positions if which is None else which, len(known), noun)
    if isinstance(which, Sequence) and (isinstance(which, str) or any(isinstance(x, str) for x in which)):
        return _by_id(which, known, noun)
    index = np.asarray(which)
    if index.dtype.kind in "UO" and index.ndim == 1:
        return _by_id(index, known, noun)
    whole = known.dtype.kind in "iu" and index.dtype.kind in "iu" and index.ndim == 1
    if not whole or np.array_equal(known, np.arange(len(known))):
        return _by_position(index, len(known), noun)
    chosen = _by_id(index, known, noun)
    # The same numbers may be meant as positions. Guessing could silently select other users.
    as_positions = np.where(index < 0, index + len(known), index)
    if index.min() >= -len(known) and index.max() < len(known) and not np.array_equal(chosen, as_positions):
        raise OffdiagError(
            f"expected {noun}s chosen unambiguously, received numbers that are ids of some {noun}s and positions of "
            f"others; write ids=… or positions=…"
        )
    return chosen


def _by_id(
    ids: Which,
    known: NDArray[Any],
    noun: str,
    advice: str = "remove unknown ones, or write positions=… if these are positions",
) -> NDArray[np.int64]:
    listed = ids.tolist() if isinstance(ids, np.ndarray) else ids
    listed = list(listed) if isinstance(listed, Iterable) and not isinstance(listed, str) else [listed]
    index = places_of(listed, known)
    unknown = [x for x, place in zip(listed, index.tolist(), strict=True) if place < 0]
    if unknown:
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        example = f", such as {_short(known[0].item())}" if len(known) else ""
        raise OffdiagError(
            f"expected ids of {noun}s that are here{example}, received {', '.join(map(_short, unknown[:5]))}{more}; "
            f"{advice}{_near(unknown[0], known)}"
        )
    return index


def _near(unknown: Any, known: NDArray[Any]) -> str:
    """The ids that were probably meant."""
    listed = {str(x).casefold(): x for x in known[:100_000].tolist()}
    near = difflib.get_close_matches(str(unknown).strip().casefold(), list(listed), n=1, cutoff=0.8)
    return f"; did you mean {_short(listed[near[0]])}?" if near else ""


def _short(value: Any) -> str:
    return wording.cut(repr(value.item() if isinstance(value, np.generic) else value), 60)


def _by_position(which: Which | None, n: int, noun: str) -> NDArray[np.int64]:
    if isinstance(which, slice):
        return np.arange(n, dtype=np.int64)[which]
    index = np.asarray(which)
    if index.dtype == bool:
        if index.shape != (n,):
            raise OffdiagError(
                f"expected a mask over {n} {noun}s, received shape {index.shape}; give one entry per {noun}"
            )
        return np.flatnonzero(index)
    if index.size == 0:
        return np.zeros(0, dtype=np.int64)
    if index.ndim != 1 or not np.issubdtype(index.dtype, np.integer):
        raise OffdiagError(
            f"expected {noun} ids, a 1-D mask or positions, received {index.dtype} of shape {index.shape}; "
            f"give the ids as they are in {noun}_ids"
        )
    if index.min() < -n or index.max() >= n:
        raise OffdiagError(
            f"expected {noun} positions below {n}, received {index.min()} to {index.max()}; "
            f"select by id with ids=…, by position only what is there"
        )
    return np.where(index < 0, index + n, index).astype(np.int64)
