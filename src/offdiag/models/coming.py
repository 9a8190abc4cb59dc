"""The rows of users who come or go, over the catalogue of a model; what they change in a Gram; whether they can go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from offdiag import packed, ranking
from offdiag.data.ids import positions
from offdiag.data.roll import Roll, fingerprints
from offdiag.errors import OffdiagError
from offdiag.gramian import EXACT_FLOAT32, ROUNDING, Facts, Gram, add_histograms, as_matrix, check_left, gram, is_exact
from offdiag.gramian_sparse import BELIEVED, SparseGram
from offdiag.models.settings import checked_item_ids

if TYPE_CHECKING:
    from offdiag.gramian_sparse import SparseGram

NOT_IN_COMMON = "two of their items do not have that many users in common"
NOTHING = 1e-6  # of the smallest weight of a user
LARGEST = 2.0**53  # whole numbers up to here are told apart
CHECKED_ITEMS = 400  # up to so many, what is left of a Gram is checked to be one: s³ flops
NEVER_THERE = (
    "these users cannot have been in the data of this model: {why}; forget only users that it was fitted on or updated "
    "with, with the same values (nothing was changed)"
)


@dataclass(frozen=True, eq=False)
class Catalogue:
    """The items after users came."""

    item_ids: NDArray[Any]
    at: NDArray[np.int64] | None  # column before of each item, −1 for new ones; None: the same items
    by_id: bool  # items are known by id, so that columns need not stay where they are


def rows_of(item_ids: NDArray[Any], X: Any, sign: int) -> tuple[sparse.csr_array, Catalogue]:
    """Rows over the catalogue that it will be; only those who come (+1) can bring new items."""
    matrix = as_matrix(X)
    if hasattr(X, "matrix") and hasattr(X, "item_ids"):
        return _by_id(matrix, checked_item_ids(X.item_ids, matrix.shape[1]), item_ids, sign)
    m, width = len(item_ids), matrix.shape[1]
    if width == m:
        return matrix, Catalogue(item_ids, None, by_id=False)
    numbered = np.array_equal(item_ids, np.arange(m))
    if sign > 0 and width > m and numbered:
        at = np.concatenate([np.arange(m), np.full(width - m, -1)])
        return matrix, Catalogue(np.arange(width), at, by_id=False)
    more = (
        "" if sign < 0 else ", or more for new items" if numbered else "; new items need Interactions, which have ids"
    )
    raise OffdiagError(f"expected rows over the {m} items of the model{more}, received {width} columns")


def _by_id(
    matrix: sparse.csr_array, ids: NDArray[Any], item_ids: NDArray[Any], sign: int
) -> tuple[sparse.csr_array, Catalogue]:
    if (ids.dtype.kind == "U") != (item_ids.dtype.kind == "U"):
        names = {True: "text", False: "whole numbers"}
        raise OffdiagError(
            f"the item ids of the model are {names[item_ids.dtype.kind == 'U']}, those received are "
            f"{names[ids.dtype.kind == 'U']}; read the data with the same type (text_ids=True reads text)"
        )
    used = np.flatnonzero(np.bincount(matrix.indices, minlength=len(ids)))
    where = np.full(len(ids), -1, dtype=np.int64)
    where[used] = positions(ids[used], item_ids)
    unknown = used[where[used] < 0]
    catalogue = Catalogue(item_ids, None, by_id=True)
    if len(unknown):
        if sign < 0:
            names_of = ranking.shorten(ids[unknown].tolist())
            raise OffdiagError(NEVER_THERE.format(why=f"the catalogue has no item {names_of}"))
        joined = np.concatenate([item_ids, _fitting(ids[unknown], item_ids)])
        order = (
            np.argsort(joined, kind="stable") if bool((item_ids[:-1] < item_ids[1:]).all()) else np.arange(len(joined))
        )
        at = np.where(order < len(item_ids), order, -1)
        catalogue = Catalogue(joined[order], at, by_id=True)
        place = np.empty(len(joined), dtype=np.int64)
        place[order] = np.arange(len(joined))
        where[where >= 0] = place[where[where >= 0]]
        where[unknown] = place[len(item_ids) :]
    shape = (matrix.shape[0], len(catalogue.item_ids))
    return as_matrix(sparse.csr_array((matrix.data, where[matrix.indices], matrix.indptr), shape=shape)), catalogue


def _fitting(ids: NDArray[Any], item_ids: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers in a type that joins the others without becoming a fraction."""
    if np.result_type(ids, item_ids).kind in "iuU":
        return ids
    other = ids.astype(item_ids.dtype)
    if not np.array_equal(other, ids) or (other < 0).any() != (ids < 0).any():
        raise OffdiagError(f"the item ids of the model are {item_ids.dtype}; received {ids.dtype} ids that do not fit")
    return other


def on_the_roll(roll: Roll, X: Any, rows: sparse.csr_array, item_ids: NDArray[Any], sign: int) -> Roll:
    """The roll after the change; an error tells whose history is not on it."""
    there = np.flatnonzero(np.diff(rows.indptr))
    words = fingerprints(roll.salt, rows, item_ids)[there]
    if sign > 0:
        return roll.with_(words)
    places = roll.places(words)
    missing = there[places < 0]
    if len(missing):
        ids = getattr(X, "user_ids", None)
        who = f"row {missing[0]}" if ids is None else f"user {np.asarray(ids)[missing[:1]].tolist()[0]!r}"
        why = f"nobody in it has the history of {who}, who was never there, was forgotten already, or had other items"
        raise OffdiagError(NEVER_THERE.format(why=f"{why} or values"))
    return roll.without(places)


def facts_after(G: Gram | SparseGram, rows: sparse.csr_array, sign: int) -> Facts:
    """Counts after the change; those that fall below 0 show that a user was never there."""
    n_u = np.diff(rows.indptr)
    counts = np.bincount(rows.indices, minlength=G.n_items).astype(np.int64)
    sums = np.bincount(rows.indices, weights=rows.data.astype(np.float64), minlength=G.n_items)
    activity = add_histograms(G.activity, sign * np.bincount(n_u).astype(np.int64))
    item_counts = G.item_counts + sign * counts
    if activity.min(initial=0) < 0:
        raise OffdiagError(NEVER_THERE.format(why="nobody in it has as many items as one of them"))
    if item_counts.min(initial=0) < 0:
        raise OffdiagError(NEVER_THERE.format(why="one of their items has fewer users than this"))
    item_sums = np.where(item_counts == 0, 0.0, G.item_sums + sign * sums)
    return {"activity": activity, "item_counts": item_counts, "item_sums": item_sums}


def part_after(
    G: Gram | SparseGram,
    before: NDArray[np.float64],
    rows: sparse.csr_array,
    items: NDArray[np.int64],
    facts: Facts,
    sign: int,
    known: bool,
    peaks: NDArray[np.float64],
) -> NDArray[np.float64]:
    """G[items, items] after the change; what nobody shares any more is 0.

    ``known``: who goes is on the roll; ``peaks``: the most that the diagonal of each item ever was.
    """
    if not np.isfinite(before).all():
        raise OffdiagError("the Gram of this model holds numbers that are not finite: fit it again")
    of_them = gram(rows[:, items], G.user_power, dtype=np.float64)
    moved = packed.unpack(of_them.values, len(items)).astype(np.float64, copy=False)
    if sign > 0:
        after = before + moved
        if after.max(initial=0.0) >= LARGEST and bool((rows.data != 1).any()):
            raise OffdiagError(
                f"values of up to {rows.data.max():g}: beside their squares the other users would be lost to rounding; "
                "scale the values down or binarise them (nothing was changed)"
            )
        return after
    g = np.diagonal(before)
    live = facts["item_counts"][items] > 0
    exact, least = is_exact(G.user_power, before, moved, peaks[items]), least_of_ones(G)
    after = _left(before, moved, np.sqrt(np.outer(g, g)), least, exact, known)
    if not exact and not least:
        check_left(np.diagonal(after)[live], peaks[items][live])
    after[~live], after[:, ~live] = 0.0, 0.0
    if 0 < len(items) <= CHECKED_ITEMS and not known:
        lowest = float(linalg.eigvalsh(after)[0])
        if lowest < -1e-9 * float(np.trace(before)):
            raise OffdiagError(NEVER_THERE.format(why="what would be left is no sum over users"))
    return after


def _left(
    before: NDArray[np.float64], moved: NDArray[np.float64], size: Any, least: float, exact: bool, known: bool
) -> NDArray[np.float64]:
    """before − moved, and exactly 0 where only rounding would be left; ``size`` is √(G_ii G_jj).

    The rounding of a sum is that of its largest past, not of what it is now: it can leave less than nothing of a user
    who was there, so whether she was is told by the roll, and by the sums only where there is none.
    """
    after: NDArray[np.float64] = before - moved
    nothing: Any = 0.0 if exact else np.maximum(ROUNDING * before, least)
    if not known and (after < -(0.0 if exact else np.maximum(nothing, BELIEVED * size))).any():
        raise OffdiagError(NEVER_THERE.format(why=NOT_IN_COMMON))
    after[after <= nothing] = 0.0
    return after


def least_of_ones(G: Gram | SparseGram) -> float:
    """Far below what any pair of 0/1 data counts, but above what a long life of sums leaves; 0 for other data."""
    if not np.array_equal(G.item_sums, G.item_counts):
        return 0.0
    n = np.flatnonzero(G.activity)
    return NOTHING * float((np.maximum(n, 1.0) ** -G.user_power).min(initial=1.0))


def counted(G: Gram | SparseGram) -> bool:
    """Whether G counts users: then Σv = Σv² = n for every item, so that every value v is 1, and nothing is rounded."""
    if G.user_power != 0 or not np.array_equal(G.item_sums, G.item_counts):
        return False
    return np.array_equal(G.diagonal(), G.item_counts)


def summed(
    G: Gram | SparseGram, rows: sparse.csr_array, facts: Facts, sign: int, known: bool, peaks: NDArray[np.float64]
) -> Gram | SparseGram:
    """A change of so many items that the whole Gram is counted; as ``part_after``."""
    if not isinstance(G, Gram):
        return G.summed(rows, sign, facts, known, peaks)
    other = gram(rows, G.user_power, dtype=G.dtype)
    if sign > 0:
        return G + other
    left, m, least = G - other, G.n_items, least_of_ones(G)
    exact, g = is_exact(G.user_power, G.values, other.values, peaks), G.own_diagonal()
    for i in np.flatnonzero(other.item_counts):
        at = packed.positions(m, np.array([i]), np.arange(m))[0]
        row, gone = (values[at].astype(np.float64) for values in (G.values, other.values))
        left.values[at] = _left(row, gone, np.sqrt(g[i] * g), least, exact, known)
    if not exact and not least:
        live = (facts["item_counts"] > 0) & (other.item_counts > 0)
        check_left(left.own_diagonal()[live], peaks[live])
    for i in np.flatnonzero((facts["item_counts"] == 0) & (other.item_counts > 0)):
        left.values[packed.positions(m, np.array([i]), np.arange(m))[0]] = 0
    return left


def wide_enough(G: Gram | SparseGram, rows: sparse.csr_array, facts: Facts) -> Gram | SparseGram:
    """In double precision when there is more to tell apart than single precision can: values, or too many users."""
    if G.dtype == np.float32 and (int(facts["activity"].sum()) > EXACT_FLOAT32 or bool((rows.data != 1).any())):
        return G.astype(np.float64)
    return G


def sums_of(matrix: sparse.csr_array) -> tuple[float, ...]:
    """Enough to notice that somebody has changed a matrix."""
    return (
        *matrix.shape,
        matrix.nnz,
        float(matrix.data.sum(dtype=np.float64)),
        int(matrix.indices.sum(dtype=np.int64)),
    )


def check_same(matrix: sparse.csr_array, sums: tuple[float, ...] | None) -> None:
    if sums is not None and sums_of(matrix) != sums:
        raise OffdiagError(
            "the matrix this model was fitted on has been changed since, and its Gram was not counted yet; fit again, "
            "or read model.gram_ before you change the matrix"
        )
