"""Histories of every accepted form as rows over the catalogue: the one place where a user's past becomes numbers.

Each form gives its entries in the order in which the user met them, and ``rows`` decides what an entry counts for:
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
from offdiag.data.moments import past_moments
from offdiag.data.sequences import Sequences, in_order, sequences_of, weighted_rows
from offdiag.errors import OffdiagError
from offdiag.gramian.packed import as_matrix
from offdiag.ranking.recency import Recency

Encoded = tuple[sparse.csr_array, list[tuple[Any, ...]]]  # rows, and for each the ids that are not in the catalogue


class Entries(NamedTuple):
    """The entries of all histories, one user after the other, each user's in their order."""

    ends: NDArray[np.integer]  # (n + 1,) user u has the entries ends[u] to ends[u + 1]
    columns: NDArray[np.int64]  # of the catalogue; -1 where it lacks the id
    values: NDArray[np.floating]
    missing: list[Any]  # the ids that it lacks, one for each -1
    times: NDArray[Any] | None = None


def encode(histories: Any, item_ids: NDArray[Any], recency: Recency | None = None) -> Encoded:
    """Histories of any accepted form as rows over the catalogue, and the ids that are not in it, per history.

    With ``recency`` they must have an order: lists of ids, latest last, lists of (id, time) pairs, or Interactions with
    times or events. Values are then not used, and ids that are not in the catalogue take no place.
    """
    if recency is not None:
        return rows(ordered_entries(histories, item_ids), len(item_ids), recency)
    if hasattr(histories, "matrix") and hasattr(histories, "item_ids"):  # Interactions: match columns by id
        where = positions(histories.item_ids, item_ids)
        matrix = as_matrix(histories)
        if np.array_equal(where, np.arange(len(item_ids))):
            return matrix, [()] * matrix.shape[0]
        columns = where[matrix.indices]
        missing = histories.item_ids[matrix.indices[columns < 0]].tolist()
        return rows(Entries(matrix.indptr, columns, matrix.data, missing), len(item_ids))
    if is_matrix(histories):
        matrix = as_matrix(histories)
        if matrix.shape[1] != len(item_ids):
            raise OffdiagError(
                f"histories given as a matrix must have the model's {len(item_ids)} columns, received "
                f"{matrix.shape[1]}; pass Interactions or lists of item ids to match items by id"
            )
        return matrix, [()] * matrix.shape[0]
    return rows(_entries_of_lists(_as_lists(histories), item_ids), len(item_ids))


def ordered_entries(histories: Any, item_ids: NDArray[Any]) -> Entries:
    """The entries of histories that have an order; those of lists are in the order of the list even if it has times."""
    if not hasattr(histories, "matrix") and not is_matrix(histories):
        return _entries_of_lists(_as_lists(histories, ordered=True), item_ids)
    sequences = sequences_of(histories) if isinstance(histories, Interactions) else None
    if sequences is None:
        received = "Interactions without times" if hasattr(histories, "matrix") else "a matrix"
        raise OffdiagError(
            f"here a history is weighed by its order, but received {received}; give lists of item ids, latest last, "
            "or Interactions read with time=<column>"
        )
    columns = positions(histories.item_ids, item_ids)[sequences.items]
    missing = histories.item_ids[sequences.items[columns < 0]].tolist()
    return Entries(sequences.indptr, columns, np.ones(len(columns), dtype=np.float32), missing, sequences.times)


def _entries_of_lists(lists: list[list[Any]], item_ids: NDArray[Any]) -> Entries:
    """The entries of lists of ids, or of (id, time) pairs."""
    ids, times = [x for history in lists for x in history], None
    if any(history and _is_pair(history[0]) for history in lists):
        if not all(map(_is_pair, ids)):
            other = next(x for x in ids if not _is_pair(x))
            raise OffdiagError(
                f"histories mix (id, time) pairs and ids, such as {other!r}; give the time of every choice, or of none"
            )
        times = past_moments([at for _, at in ids])
        ids = [item for item, _ in ids]
    columns = positions(ids, item_ids)
    missing = [ids[at] for at in np.flatnonzero(columns < 0).tolist()]
    ends = np.cumsum([0, *map(len, lists)])
    return Entries(ends, columns, np.ones(len(ids), dtype=np.float32), missing, times)


def _is_pair(entry: Any) -> bool:
    return isinstance(entry, tuple | list) and len(entry) == 2


def events_of(entries: Entries) -> Sequences:
    """The entries that are in the catalogue, each user's in the order of their times if they have times."""
    ends, columns, _, _, times = entries
    known = columns >= 0
    ends = np.concatenate([[0], np.cumsum(known)])[ends]
    found = Sequences(ends, columns[known].astype(np.int32), None if times is None else times[known])
    if found.times is None:
        return found
    return in_order(found.users.astype(np.int32), found.items, found.times, found.n_users)


def rows(entries: Entries, n_items: int, recency: Recency | None = None) -> Encoded:
    """One row per history. An id given twice is one interaction, with the larger of its values."""
    ends, columns, values, missing, _ = entries
    known = columns >= 0
    unknown: list[tuple[Any, ...]] = [()] * (len(ends) - 1)
    users = np.searchsorted(ends, np.flatnonzero(~known), side="right") - 1
    for user, pairs in groupby(zip(users.tolist(), missing, strict=True), key=itemgetter(0)):
        unknown[user] = tuple(item for _, item in pairs)
    if recency is not None:
        events = events_of(entries)
        return weighted_rows(events, n_items, recency.weights(events)), unknown
    ends = np.concatenate([[0], np.cumsum(known)])[ends]
    shape = (len(unknown), n_items)
    found = sparse.csr_array((values[known], columns[known].astype(np.int32), ends), shape=shape)
    found.sort_indices()
    if not found.has_canonical_format:
        row = np.repeat(np.arange(shape[0]), np.diff(found.indptr))
        first = np.flatnonzero((np.diff(row, prepend=-1) != 0) | (np.diff(found.indices, prepend=-1) != 0))
        largest = np.maximum.reduceat(found.data, first)
        found = sparse.csr_array((largest, found.indices[first], np.searchsorted(first, found.indptr)), shape=shape)
    return found, unknown


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
        raise OffdiagError("here a history is weighed by its order, but received a set; give lists of ids, latest last")
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


def one_per_row(histories: Any, *, ordered: bool = False) -> Any:
    """Histories that can be cut into parts: a matrix or Interactions as they are, anything else as lists of ids."""
    if hasattr(histories, "matrix"):
        return histories
    return as_matrix(histories) if is_matrix(histories) else _as_lists(histories, ordered)
