"""Histories of every accepted form as rows over the catalogue: the one place where a user's past becomes numbers.

Each form gives its entries in the order in which the user met them, and ``_rows`` decides what an entry counts for:
1 or its value, or with a ``Recency`` less the older it is.
Scores, reasons and explanations all read the values of those rows, so they cannot disagree about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.data.ids import positions
from offdiag.data.interactions import Interactions
from offdiag.data.sequences import Sequences, sequences_of, weighted_rows
from offdiag.errors import OffdiagError
from offdiag.gramian.packed import as_matrix

Encoded = tuple[sparse.csr_array, list[tuple[Any, ...]]]  # rows, and for each the ids that are not in the catalogue


class Recency(NamedTuple):
    """Recent choices count for more: the last 1, the one before it ``decay``, then decay², …; repeats add up."""

    decay: float = 1.0


class Entries(NamedTuple):
    """The entries of all histories, one user after the other, each user's in their order."""

    ends: NDArray[np.integer]  # (n + 1,) user u has the entries ends[u] to ends[u + 1]
    columns: NDArray[np.int64]  # of the catalogue; -1 where it lacks the id
    values: NDArray[np.floating]
    missing: list[Any]  # the ids that it lacks, one for each -1


def encode(histories: Any, item_ids: NDArray[Any], recency: Recency | None = None) -> Encoded:
    """Histories of any accepted form as rows over the catalogue, and the ids that are not in it, per history.

    With ``recency`` they must have an order: lists of ids, latest last, or Interactions with times or events. Values
    are then not used, and ids that are not in the catalogue take no place.
    """
    if recency is not None and (hasattr(histories, "matrix") or is_matrix(histories)):
        return _rows(_ordered_entries(histories, item_ids), len(item_ids), recency)
    if hasattr(histories, "matrix") and hasattr(histories, "item_ids"):  # Interactions: match columns by id
        where = positions(histories.item_ids, item_ids)
        matrix = as_matrix(histories)
        if np.array_equal(where, np.arange(len(item_ids))):
            return matrix, [()] * matrix.shape[0]
        columns = where[matrix.indices]
        missing = histories.item_ids[matrix.indices[columns < 0]].tolist()
        return _rows(Entries(matrix.indptr, columns, matrix.data, missing), len(item_ids))
    if is_matrix(histories):
        matrix = as_matrix(histories)
        if matrix.shape[1] != len(item_ids):
            raise OffdiagError(
                f"histories given as a matrix must have the model's {len(item_ids)} columns, received "
                f"{matrix.shape[1]}; pass Interactions or lists of item ids to match items by id"
            )
        return matrix, [()] * matrix.shape[0]
    lists = _as_lists(histories, ordered=recency is not None)
    ids = [x for history in lists for x in history]
    columns = positions(ids, item_ids)
    missing = [ids[at] for at in np.flatnonzero(columns < 0).tolist()]
    ends = np.cumsum([0, *map(len, lists)])
    return _rows(Entries(ends, columns, np.ones(len(ids), dtype=np.float32), missing), len(item_ids), recency)


def _ordered_entries(histories: Any, item_ids: NDArray[Any]) -> Entries:
    """The events of Interactions, each user's in order."""
    sequences = sequences_of(histories) if isinstance(histories, Interactions) else None
    if sequences is None:
        received = "Interactions without times" if hasattr(histories, "matrix") else "a matrix"
        raise OffdiagError(
            f"this model weighs a history by its order, but received {received}; give lists of item ids, latest last, "
            "or Interactions read with time=<column>"
        )
    columns = positions(histories.item_ids, item_ids)[sequences.items]
    missing = histories.item_ids[sequences.items[columns < 0]].tolist()
    return Entries(sequences.indptr, columns, np.ones(len(columns), dtype=np.float32), missing)


def _rows(entries: Entries, n_items: int, recency: Recency | None = None) -> Encoded:
    """One row per history. An id given twice is one interaction, with the larger of its values."""
    ends, columns, values, missing = entries
    known = columns >= 0
    unknown: list[tuple[Any, ...]] = [()] * (len(ends) - 1)
    users = np.searchsorted(ends, np.flatnonzero(~known), side="right") - 1
    for user, pairs in groupby(zip(users.tolist(), missing, strict=True), key=itemgetter(0)):
        unknown[user] = tuple(item for _, item in pairs)
    ends = np.concatenate([[0], np.cumsum(known)])[ends]
    if recency is not None:
        known_ones = Sequences(ends, columns[known].astype(np.int32))
        return weighted_rows(known_ones, n_items, recency.decay ** known_ones.from_end().astype(np.float64)), unknown
    shape = (len(unknown), n_items)
    rows = sparse.csr_array((values[known], columns[known].astype(np.int32), ends), shape=shape)
    rows.sort_indices()
    if not rows.has_canonical_format:
        row = np.repeat(np.arange(shape[0]), np.diff(rows.indptr))
        first = np.flatnonzero((np.diff(row, prepend=-1) != 0) | (np.diff(rows.indices, prepend=-1) != 0))
        largest = np.maximum.reduceat(rows.data, first)
        rows = sparse.csr_array((largest, rows.indices[first], np.searchsorted(first, rows.indptr)), shape=shape)
    return rows, unknown


def is_matrix(histories: Any) -> bool:
    """Whether histories are the rows of a matrix."""
    return sparse.issparse(histories) or (isinstance(histories, np.ndarray) and histories.ndim == 2)


def _as_lists(histories: Any, ordered: bool = False) -> list[list[Any]]:
    """A sequence of sequences of ids; a flat sequence of ids is one history. Sets are refused if ``ordered``."""
    if isinstance(histories, str) or not isinstance(histories, Sequence | np.ndarray | set | frozenset):
        raise OffdiagError(
            f"expected histories as a matrix, Interactions or lists of item ids, received {type(histories).__name__}; "
            "one history is a list such as ['a', 'b']"
        )
    outer = list(histories)
    if ordered and any(isinstance(x, set | frozenset) for x in (histories, *outer)):
        raise OffdiagError(
            "this model weighs a history by its order, but received a set; give lists of ids, latest last"
        )
    nested = [isinstance(x, Sequence | np.ndarray | set | frozenset) and not isinstance(x, str) for x in outer]
    if not outer or all(nested):
        return [id_list(x) for x in outer]
    if any(nested):
        raise OffdiagError("histories mix lists and single ids; pass one list of ids per user")
    return [id_list(histories)]


def id_list(ids: Any) -> list[Any]:
    """Ids as a list of plain values, without masked places."""
    if isinstance(ids, np.ma.MaskedArray):
        ids = ids.compressed()
    return ids.tolist() if isinstance(ids, np.ndarray) else list(ids)


def choose_histories(histories: Any, users: Any, data: Any) -> Any:
    """The histories themselves, or those of some users of the data."""
    if users is None and data is None:
        if histories is None:
            raise OffdiagError("expected histories, or users=[…] with data=Interactions, received neither; give one")
        return histories
    if histories is not None or data is None or not hasattr(data, "select_users"):
        raise OffdiagError(
            "expected users=[…] together with data=Interactions and no histories; od.read makes Interactions of a table"
        )
    return data if users is None else data.select_users(ids=users)


def one_per_row(histories: Any) -> Any:
    """Histories that can be cut into parts: a matrix or Interactions as they are, anything else as lists of ids."""
    if hasattr(histories, "matrix"):
        return histories
    return as_matrix(histories) if is_matrix(histories) else _as_lists(histories)
