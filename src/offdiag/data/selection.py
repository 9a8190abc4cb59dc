"""Users or items chosen by id, by position, or by a mask; numbers that could mean either are an error."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag import wording
from offdiag.data.ids import positions as places_of
from offdiag.errors import OffdiagError

Which = NDArray[Any] | Sequence[Any] | slice


def chosen_rows(
    which: Which | None, ids: Which | None, positions: Which | None, known: NDArray[Any], noun: str
) -> NDArray[np.int64]:
    """Rows or columns selected in one of the three ways; ``noun`` says what they are."""
    ways = sum(way is not None for way in (which, ids, positions))
    if ways != 1:
        raise OffdiagError(f"expected one way to select {noun}s, received {ways}; give ids=, positions= or a mask")
    if ids is not None:
        return rows_of_ids(ids, known, noun)
    if which is None or isinstance(which, slice):
        return _by_position(positions if which is None else which, len(known), noun)
    if isinstance(which, Sequence) and (isinstance(which, str) or any(isinstance(x, str) for x in which)):
        return rows_of_ids(which, known, noun)
    index = np.asarray(which)
    if index.dtype.kind in "UO" and index.ndim == 1:
        return rows_of_ids(index, known, noun)
    whole = known.dtype.kind in "iu" and index.dtype.kind in "iu" and index.ndim == 1
    if not whole or np.array_equal(known, np.arange(len(known))):
        return _by_position(index, len(known), noun)
    chosen = rows_of_ids(index, known, noun)
    # The same numbers may be meant as positions. Guessing could silently select other users.
    as_positions = np.where(index < 0, index + len(known), index)
    if index.min() >= -len(known) and index.max() < len(known) and not np.array_equal(chosen, as_positions):
        raise OffdiagError(
            f"expected {noun}s chosen unambiguously, received numbers that are ids of some {noun}s and positions of "
            f"others; write ids=… or positions=…"
        )
    return chosen


def rows_of_ids(
    ids: Which,
    known: NDArray[Any],
    noun: str,
    advice: str = "remove unknown ones, or write positions=… if these are positions",
) -> NDArray[np.int64]:
    """The rows or columns with these ids; an unknown id is an error."""
    listed = ids.tolist() if isinstance(ids, np.ndarray) else ids
    listed = list(listed) if isinstance(listed, Iterable) and not isinstance(listed, str) else [listed]
    index = places_of(listed, known)
    unknown = [x for x, place in zip(listed, index.tolist(), strict=True) if place < 0]
    if unknown:
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        example = f", such as {_short(known[0].item())}" if len(known) else ""
        raise OffdiagError(
            f"expected ids of {noun}s in the data{example}, received {', '.join(map(_short, unknown[:5]))}{more}; "
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
