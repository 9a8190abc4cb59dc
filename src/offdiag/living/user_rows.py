"""The rows of users to add or remove, over the catalogue of a model: their effect on a Gram, and the checks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import wording
from offdiag.data.ids import positions
from offdiag.data.sequences import Sequences
from offdiag.errors import OffdiagError
from offdiag.gramian import exact, layout
from offdiag.gramian.packed import EXACT_FLOAT32, ROUNDING, Gram, as_matrix, check_left, gram, is_exact
from offdiag.gramian.sparse import BELIEVED, SparseGram
from offdiag.gramian.user_weights import Facts, add_histograms
from offdiag.living.digests import Hashes
from offdiag.living.ledger import Roll
from offdiag.models.fields import check_item_ids

NOT_IN_COMMON = "two of their items do not have that many users in common"
NOTHING = 1e-6  # relative to the smallest weight of a user
LARGEST = 2.0**53  # whole numbers up to here are exact
BATCH_ITEMS = 1_500
CHECKED_ITEMS = 400  # up to this many, the remaining Gram is checked to be a valid one: s³ flops
NEVER_THERE = (
    "these users cannot have been in the data of this model: {why}; forget only users that it was fitted on or updated "
    "with, with the same values (nothing was changed)"
)


@dataclass(frozen=True, eq=False)
class Catalogue:
    """The items after users were added."""

    item_ids: NDArray[Any]
    at: NDArray[np.int64] | None  # old column of each item, −1 for new ones; None: the same items
    by_id: bool  # items are identified by id, so that columns may move


def rows_of(item_ids: NDArray[Any], X: Any, sign: int) -> tuple[sparse.csr_array, Catalogue]:
    """Rows over the new catalogue; only added users (+1) can have new items."""
    matrix = as_matrix(X)
    if hasattr(X, "matrix") and hasattr(X, "item_ids"):
        return _by_id(matrix, check_item_ids(X.item_ids, matrix.shape[1]), item_ids, sign)
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
            names_of = wording.shorten(ids[unknown].tolist())
            raise OffdiagError(NEVER_THERE.format(why=f"the catalogue has no item {names_of}"))
        joined = np.concatenate([item_ids, _as_type_of(item_ids, ids[unknown])])
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


def _as_type_of(item_ids: NDArray[Any], ids: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers in a type that joins the existing ids without becoming floating point."""
    if np.result_type(ids, item_ids).kind in "iuU":
        return ids
    other = ids.astype(item_ids.dtype)
    if not np.array_equal(other, ids) or (other < 0).any() != (ids < 0).any():
        raise OffdiagError(f"the item ids of the model are {item_ids.dtype}; received {ids.dtype} ids that do not fit")
    return other


def roll_after(
    roll: Roll, X: Any, rows: sparse.csr_array, item_ids: NDArray[Any], sign: int, ordered: Sequences | None = None
) -> Roll:
    """The roll after the change; users to forget must be on it, with their history in order if that is given."""
    there = np.flatnonzero(np.diff(rows.indptr))
    if ordered is None:
        words = roll.hashes.histories(rows, item_ids)[there]
    else:
        assert isinstance(roll.hashes, Hashes)  # models of order are younger than any other kind
        words = roll.hashes.sequences(ordered, item_ids)[there]
    if sign > 0:
        return roll.with_(words)
    places = roll.places(words)
    missing = there[places < 0]
    if len(missing):
        ids = getattr(X, "user_ids", None)
        who = f"row {missing[0]}" if ids is None else f"user {np.asarray(ids)[missing[:1]].tolist()[0]!r}"
        why = f"no user in it has the history of {who}, who was never there, was forgotten already, or had other items"
        raise OffdiagError(NEVER_THERE.format(why=f"{why} or values"))
    return roll.without(places)


def facts_after(G: Gram | SparseGram, rows: sparse.csr_array, sign: int) -> Facts:
    """Counts after the change; a negative count shows that a user was never in the model."""
    n_u = np.diff(rows.indptr)
    counts = np.bincount(rows.indices, minlength=G.n_items).astype(np.int64)
    sums = np.bincount(rows.indices, weights=rows.data.astype(np.float64), minlength=G.n_items)
    activity = add_histograms(G.activity, sign * np.bincount(n_u).astype(np.int64))
    item_counts = G.item_counts + sign * counts
    if activity.min(initial=0) < 0:
        raise OffdiagError(NEVER_THERE.format(why="no user in it has as many items as one of them"))
    if item_counts.min(initial=0) < 0:
        raise OffdiagError(NEVER_THERE.format(why="one of their items has fewer users than this"))
    item_sums = np.where(item_counts == 0, 0.0, G.item_sums + sign * sums)
    return {"activity": activity, "item_counts": item_counts, "item_sums": item_sums}


@dataclass(frozen=True, eq=False)
class Sums:
    """The Gram of a model and the remainders of its sums (``offdiag.gramian.exact``), if there are any."""

    G: Gram | SparseGram
    low: SparseGram | None

    def moved(self, at: NDArray[np.int64]) -> Sums:
        return Sums(self.G.moved(at), None if self.low is None else self.low.moved(at))

    def without(self, gone: NDArray[np.int64]) -> Sums:
        """Only the items that are left."""
        return self.moved(np.setdiff1d(np.arange(self.G.n_items), gone)) if len(gone) else self

    def with_low(self, items: NDArray[np.int64], part: NDArray[np.float64], sums: NDArray[np.float64]) -> Sums:
        """The remainders of G[items, items] and of the column sums replaced."""
        if self.low is None and not part.any() and not sums.any():
            return self
        base = exact.nothing(self.G) if self.low is None else self.low
        facts: Facts = {"activity": base.activity, "item_counts": base.item_counts, "item_sums": sums}
        return replace(self, low=exact.pruned(base.put_exactly(items, part, facts, np.float64)))


def exact_facts(sums: Sums, rows: sparse.csr_array, sign: int) -> tuple[Facts, NDArray[np.float64]]:
    """The facts after a change with their sums exact, and the remainders of these."""
    G = sums.G
    facts = facts_after(G, rows, sign)
    low = np.zeros(G.n_items) if sums.low is None else sums.low.item_sums
    high, low = exact.sums_after(G.item_sums, low, rows, sign)
    live = facts["item_counts"] > 0
    return {**facts, "item_sums": np.where(live, high, 0.0)}, np.where(live, low, 0.0)


def exact_part(
    sums: Sums, before: NDArray[np.float64], rows: sparse.csr_array, items: NDArray[np.int64], facts: Facts, sign: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """G[items, items] and its remainders after a change of users; those to remove are known to be in the model."""
    check_finite(before)
    low = np.zeros_like(before) if sums.low is None else sums.low.part(items)
    some = sparse.csr_array(rows[:, items])
    together = layout.unpack(gram(some, sums.G.user_power, dtype=np.float64).values, len(items))
    after, low = exact.part_after(before, low, some, sums.G.user_power, sign, together.astype(np.float64, copy=False))
    if sign > 0:
        check_largest(after, rows)
    else:
        live = facts["item_counts"][items] > 0
        for part in (after, low):
            part[~live], part[:, ~live] = 0.0, 0.0
        low[after <= 0] = 0.0  # below 0 only in files of earlier versions, with rounded sums
        after[after < 0] = 0.0
    return after, low


def check_finite(part: NDArray[np.float64]) -> None:
    if not np.isfinite(part).all():
        raise OffdiagError("the Gram of this model holds numbers that are not finite: fit it again")


def check_largest(after: NDArray[np.float64], rows: sparse.csr_array) -> None:
    if after.max(initial=0.0) >= LARGEST and bool((rows.data != 1).any()):
        raise OffdiagError(
            f"values of up to {rows.data.max():g}: next to their squares the other users would be lost to rounding; "
            "scale the values down or binarise them (nothing was changed)"
        )


def part_after(
    G: Gram | SparseGram,
    before: NDArray[np.float64],
    rows: sparse.csr_array,
    items: NDArray[np.int64],
    facts: Facts,
    sign: int,
) -> NDArray[np.float64]:
    """The same for a model fitted on a Gram, which does not know its users, only sums.

    The sums may already have been rounded. Pairs that no user shares any more are 0.
    """
    check_finite(before)
    of_them = gram(rows[:, items], G.user_power, dtype=np.float64)
    moved = layout.unpack(of_them.values, len(items)).astype(np.float64, copy=False)
    if sign > 0:
        after = before + moved
        check_largest(after, rows)
        return after
    g = np.diagonal(before)
    live = facts["item_counts"][items] > 0
    whole, least = is_exact(G.user_power, before, moved), least_of_ones(G)
    after = _subtract(before, moved, np.sqrt(np.outer(g, g)), least, whole)
    if not whole and not least:
        check_left(np.diagonal(after)[live], g[live])
    after[~live], after[:, ~live] = 0.0, 0.0
    if 0 < len(items) <= CHECKED_ITEMS:
        from scipy import linalg

        lowest = float(linalg.eigvalsh(after)[0])
        if lowest < -1e-9 * float(np.trace(before)):
            raise OffdiagError(NEVER_THERE.format(why="what would be left is not a sum over users"))
    return after


def _subtract(
    before: NDArray[np.float64], moved: NDArray[np.float64], size: Any, least: float, whole: bool
) -> NDArray[np.float64]:
    """before − moved, and exactly 0 where only a rounding error would remain; ``size`` is √(G_ii G_jj)."""
    after: NDArray[np.float64] = before - moved
    nothing: Any = 0.0 if whole else np.maximum(ROUNDING * before, least)
    if (after < -(0.0 if whole else np.maximum(nothing, BELIEVED * size))).any():
        raise OffdiagError(NEVER_THERE.format(why=NOT_IN_COMMON))
    after[after <= nothing] = 0.0
    return after


def least_of_ones(G: Gram | SparseGram) -> float:
    """Far below the count of any pair in 0/1 data, but above the rounding error of many changes; 0 for other data."""
    if not np.array_equal(G.item_sums, G.item_counts):
        return 0.0
    n = np.flatnonzero(G.activity)
    return NOTHING * float((np.maximum(n, 1.0) ** -G.user_power).min(initial=1.0))


def counts_users(G: Gram | SparseGram) -> bool:
    """Whether G counts users: then Σv = Σv² = n for every item, so that every value v is 1, and nothing is rounded."""
    if G.user_power != 0 or not np.array_equal(G.item_sums, G.item_counts):
        return False
    return np.array_equal(G.diagonal(), G.item_counts)


def sum_after(G: Gram | SparseGram, rows: sparse.csr_array, facts: Facts, sign: int) -> Gram | SparseGram:
    """As ``part_after``, for a change of so many items that the whole Gram is counted again."""
    if not isinstance(G, Gram):
        return G.summed(rows, sign, facts)
    other = gram(rows, G.user_power, dtype=G.dtype)
    if sign > 0:
        return G + other
    left, m, least = G - other, G.n_items, least_of_ones(G)
    whole, g = is_exact(G.user_power, G.values, other.values), G.own_diagonal()
    for i in np.flatnonzero(other.item_counts):
        at = layout.positions(m, np.array([i]), np.arange(m))[0]
        row, gone = (values[at].astype(np.float64) for values in (G.values, other.values))
        left.values[at] = _subtract(row, gone, np.sqrt(g[i] * g), least, whole)
    if not whole and not least:
        live = (facts["item_counts"] > 0) & (other.item_counts > 0)
        check_left(left.own_diagonal()[live], g[live])
    for i in np.flatnonzero((facts["item_counts"] == 0) & (other.item_counts > 0)):
        left.values[layout.positions(m, np.array([i]), np.arange(m))[0]] = 0
    return left


def exact_sums(sums: Sums, rows: sparse.csr_array, sign: int) -> Sums:
    """A change of many items of a model that knows its users: in batches of users, which is exact in any order."""
    counts = sums.G.user_power == 0 and bool((rows.data == 1).all()) and counts_users(sums.G)
    if counts:
        facts = facts_after(sums.G, rows, sign)
        return Sums(sum_after(widen(sums.G, rows, facts), rows, facts, sign), None)
    for some in _batches(rows):
        items = np.unique(some.indices).astype(np.int64)
        facts, low_sums = exact_facts(sums, some, sign)
        after, low = exact_part(sums, sums.G.part(items), some, items, facts, sign)
        G = put_exactly(widen(sums.G, some, facts), items, after, facts, copy=True)
        sums = replace(sums, G=G).with_low(items, low, low_sums)
    return sums


def put_exactly(
    G: Gram | SparseGram, items: NDArray[np.int64], part: NDArray[np.float64], facts: Facts, *, copy: bool = False
) -> Gram | SparseGram:
    """G[items, items] and the facts replaced by numbers that are already exact."""
    if isinstance(G, Gram):
        return (G.copy() if copy else G).put(items, part, facts)
    return G.put_exactly(items, part, facts)


def _batches(rows: sparse.csr_array) -> Iterator[sparse.csr_array]:
    """Consecutive users with up to BATCH_ITEMS items together, or one user with more."""
    lo, seen = 0, np.zeros(rows.shape[1], dtype=bool)
    for u in range(rows.shape[0]):
        own = rows.indices[rows.indptr[u] : rows.indptr[u + 1]]
        if u > lo and int(seen.sum()) + len(own) > BATCH_ITEMS:
            yield sparse.csr_array(rows[lo:u])
            lo, seen = u, np.zeros(rows.shape[1], dtype=bool)
        seen[own] = True
    yield sparse.csr_array(rows[lo:])


def widen(G: Gram | SparseGram, rows: sparse.csr_array, facts: Facts) -> Gram | SparseGram:
    """In double precision where single precision is not exact: for values other than 1, or too many users."""
    if G.dtype == np.float32 and (int(facts["activity"].sum()) > EXACT_FLOAT32 or bool((rows.data != 1).any())):
        return G.astype(np.float64)
    return G
