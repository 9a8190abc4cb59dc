"""Users who are added and removed after the fit: plan the change, compute it, commit it, and certify it.

A linear model knows its users only through the Gram, which is a sum over users. So ``update`` and ``forget`` give the
result of a fit with the same settings on the users after the change; ``_follow`` of a model finds its weights on a
changed Gram.
"""

from __future__ import annotations

import copy
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag._kernels.interrupts import Shield
from offdiag.errors import OffdiagError
from offdiag.gramian.packed import Gram
from offdiag.gramian.user_weights import Facts
from offdiag.living import order, past, user_rows
from offdiag.living.certificate import Certificate, difference, digest_of
from offdiag.living.ledger import Roll
from offdiag.living.user_rows import Catalogue, Sums
from offdiag.progress import Progress

if TYPE_CHECKING:
    from offdiag.gramian.sparse import SparseGram
    from offdiag.living.order import Histories
    from offdiag.models.recommender import Recommender

SUMS_ONLY = "sums"  # what was changed for users who were added; the weights follow with those who leave
SMALL, LARGE = 2_000, 5_000  # items of a change: from SMALL on, half the catalogue means a new fit; from LARGE on, any


@dataclass(frozen=True, eq=False)
class Change:
    """A Gram before and after, for ``_follow``; all numbers are without the factor ``scale``."""

    G: Gram | SparseGram  # after
    items: NDArray[np.int64]  # of the added or removed users, columns of the new catalogue, ascending
    before: NDArray[np.float64]  # G[items, items]
    after: NDArray[np.float64]
    places: NDArray[np.int64] | None  # place of every old column in the new catalogue, −1: dropped; None: unchanged
    item_ids: NDArray[Any]  # the new catalogue
    hold: Callable[[], None] = lambda: None  # defers Ctrl-C from here on: old weights are being overwritten


@dataclass(frozen=True, eq=False)
class NewWeights:
    """The result of a change."""

    attributes: dict[str, Any]  # weights_ and the other attributes that a fit would set
    method: str
    residual: float  # how far the weights are from optimal, relative
    weight_error: float  # the largest difference from the weights of a new fit, estimated


@dataclass(frozen=True, eq=False)
class Plan:
    """The users to add or remove, and the effect on items and counts; nothing has been changed yet."""

    sign: int  # +1: add, −1: remove
    rows: sparse.csr_array  # of these users, over the catalogue
    catalogue: Catalogue  # with their new items
    sums: Sums  # before, over this catalogue
    facts: Facts  # after
    low_sums: NDArray[np.float64]  # the remainders of the sums among the facts
    items: NDArray[np.int64]  # of these users, columns of the catalogue, ascending
    gone: NDArray[np.int64]  # those left without users, which are removed from the catalogue
    roll: Roll | None  # after; None for a model fitted on a Gram, which does not know its users
    histories: Histories | None = None  # of these users in order, for a model that learned the order

    @property
    def kept(self) -> NDArray[np.int64]:
        """Columns of the catalogue that stay."""
        return np.setdiff1d(np.arange(len(self.catalogue.item_ids)), self.gone)

    @property
    def item_ids(self) -> NDArray[Any]:
        """The ids of the items that stay."""
        return self.catalogue.item_ids[self.kept]

    def part_after(self, before: NDArray[np.float64]) -> tuple[NDArray[np.float64], Sums]:
        """G[items, items] after the change, and the sums with its remainders."""
        G, rows, items = self.sums.G, self.rows, self.items
        if self.roll is None:
            return user_rows.part_after(G, before, rows, items, self.facts, self.sign), self.sums
        after, low = user_rows.exact_part(self.sums, before, rows, items, self.facts, self.sign)
        return after, self.sums.with_low(items, low, self.low_sums)

    def sums_after(self) -> Sums:
        """All sums after a change of so many items that the whole Gram is counted again, or of a model of order."""
        if self.histories is not None:
            return order.sums_after(self.sums, self.rows, self.histories, self.sign)
        if self.roll is not None:
            return user_rows.exact_sums(self.sums, self.rows, self.sign)
        G = user_rows.widen(self.sums.G, self.rows, self.facts)
        return Sums(user_rows.sum_after(G, self.rows, self.facts, self.sign), None)

    def change(self, G: Gram | SparseGram, before: NDArray[np.float64], after: NDArray[np.float64]) -> Change:
        """The input of ``_follow``; removed items are in neither part."""
        stay = np.isin(self.items, self.gone, invert=True)
        return Change(
            G,
            np.searchsorted(self.kept, self.items[stay]),
            before[np.ix_(stay, stay)],
            after[np.ix_(stay, stay)],
            _places(self.catalogue.at, self.kept, len(self.catalogue.item_ids)),
            self.item_ids,
        )


@dataclass(frozen=True, eq=False)
class Outcome:
    """What ``commit`` assigns, and a new fit to compare it with, if requested."""

    sums: Sums
    learned: NewWeights
    fresh: Recommender | None = None
    gap: float | None = None  # of the objectives


def change_users(
    model: Recommender, X: Any, sign: int, *, prove: bool, progress: Progress | None, solve: bool = True
) -> Certificate:
    """Add (+1) or remove (−1) users; an error or an interrupt leaves the model unchanged.

    Without ``solve`` only the sums of a model of order are changed: another change must follow.
    """
    begin = time.perf_counter()
    past.check_changeable(model)
    G = past.gram_of(model, progress)
    plan = make_plan(model, G, X, sign)
    nonce = secrets.token_hex(16)
    before = digest_of(plan.roll, nonce, past.fingerprint_of(model))
    with Shield() as shield:
        shield.release()
        if solve:
            outcome = compute(model, plan, shield, prove=prove, progress=progress)
        else:
            outcome = Outcome(plan.sums_after(), NewWeights({}, SUMS_ONLY, 0.0, 0.0))
            shield.hold()
        commit(model, plan, outcome)
        certificate = _certify(model, plan, outcome, nonce, before, begin)
        model._past = replace(model._past, certificate=certificate)
    return certificate


def exchange_users(
    model: Recommender, come: Any, gone: Any, *, prove: bool = False, progress: Progress | None = None
) -> list[Certificate]:
    """Add users and then remove others, either None; in this order no item is lost in between.

    A model of order is solved once for both, so the first certificate is about its sums alone.
    """
    both = model.knows_order and come is not None and gone is not None
    now = copy.copy(model) if both else model  # an error leaves no model with sums of one kind and weights of another
    steps = []
    if come is not None:
        steps.append(change_users(now, come, 1, prove=False, progress=progress, solve=not both))
    if gone is not None:
        steps.append(change_users(now, gone, -1, prove=prove, progress=progress))
    if both:
        vars(model).update(vars(now))
    return steps


def make_plan(model: Recommender, G: Gram | SparseGram, X: Any, sign: int) -> Plan:
    """Step 1, without side effects: the users to add or remove, and their items. Impossible changes raise an error."""
    X, histories = model._histories_of(X)
    rows, catalogue = user_rows.rows_of(model.item_ids_, X, sign)
    if not rows.shape[0]:  # no users, no new items
        catalogue = replace(catalogue, item_ids=model.item_ids_, at=None)
    roll = past.roll_of(model)
    ordered = None
    if histories is not None:
        histories = histories.over(X.item_ids, catalogue.item_ids)
        ordered = histories.digested()
    if roll is not None:
        roll = user_rows.roll_after(roll, X, rows, catalogue.item_ids, sign, ordered)
    sums = Sums(G, model._past.low)
    if catalogue.at is not None:
        sums = sums.moved(catalogue.at)
    if roll is None:
        facts, low_sums = user_rows.facts_after(sums.G, rows, sign), np.zeros(0)
    else:
        facts, low_sums = user_rows.exact_facts(sums, rows, sign)
    if sign < 0 and sums.G.n_interactions and not facts["item_counts"].any():
        raise OffdiagError(
            "these are all users of the model, and nothing would be left: delete it (nothing was changed)"
        )
    items = np.unique(rows.indices).astype(np.int64)
    gone = items[facts["item_counts"][items] == 0] if catalogue.by_id else items[:0]
    return Plan(sign, rows, catalogue, sums, facts, low_sums, items, gone, roll, histories)


def compute(model: Recommender, plan: Plan, shield: Shield, *, prove: bool, progress: Progress | None) -> Outcome:
    """Step 2: the Gram and the weights after the change. Ends with Ctrl-C deferred: old numbers are overwritten."""
    if not plan.rows.shape[0]:
        shield.hold()
        return Outcome(plan.sums, NewWeights({}, "nothing to do", 0.0, 0.0))
    if plan.histories is None and len(plan.items) < min(max(SMALL, plan.sums.G.n_items // 2), LARGE):
        return _compute_part(model, plan, shield, prove, progress)
    sums = plan.sums_after().without(plan.gone)
    learned = refit(model, sums.G, plan.item_ids, progress)
    fresh = model._refit(sums.G, progress, plan.item_ids) if prove else None
    learned, gap = _compared(model, learned, fresh, sums.G)
    shield.hold()
    return Outcome(sums, learned, fresh, gap)


def _compute_part(model: Recommender, plan: Plan, shield: Shield, prove: bool, progress: Progress | None) -> Outcome:
    """Replace G[items, items], in place if possible, and update the weights; an error restores it."""
    before = plan.sums.G.part(plan.items)
    after, sums = plan.part_after(before)
    G = user_rows.widen(plan.sums.G, plan.rows, plan.facts)
    in_place = G is model._past.gram and isinstance(G, Gram) and G.values.flags.writeable
    shield.hold()
    try:
        put = G.put if plan.roll is None else partial(user_rows.put_exactly, G)
        sums = replace(sums, G=put(plan.items, after, plan.facts)).without(plan.gone)
        shield.release()
        change = replace(plan.change(sums.G, before, after), hold=shield.hold)
        # The proof comes first: it may fail, and the old numbers are about to be overwritten.
        fresh = model._refit(sums.G, progress, plan.item_ids) if prove else None
        learned = model._follow(change, progress)
        learned, gap = _compared(model, learned, fresh, sums.G)
        shield.hold()
    except BaseException:
        shield.hold()
        if in_place:
            facts: Facts = {"activity": G.activity, "item_counts": G.item_counts, "item_sums": G.item_sums}
            model._past = replace(model._past, gram=G.put(plan.items, before, facts))
        raise
    return Outcome(sums, learned, fresh, gap)


def _compared(
    model: Recommender, learned: NewWeights, fresh: Recommender | None, G: Gram | SparseGram
) -> tuple[NewWeights, float | None]:
    """The new weights, or those of the fit they are proved against if these are better by more than the tolerance."""
    gap = None if fresh is None else model._objective_gap(learned.attributes, fresh, G)
    if fresh is None or gap is None or not gap > model._tolerances()[0]:
        return learned, gap
    return _taken(fresh), 0.0


def commit(model: Recommender, plan: Plan, outcome: Outcome) -> None:
    """Step 3: the model takes everything in one assignment."""
    G = outcome.sums.G
    remembered = replace(model._past, gram=G, low=outcome.sums.low, roll=plan.roll)
    if plan.rows.shape[0]:  # these describe the old users; the caller may know a new ledger
        remembered = replace(remembered, source=None, source_sums=None, histories=None, user_ids=None, ledger=None)
    vars(model).update(
        outcome.learned.attributes,
        item_ids_=plan.item_ids,
        popularity_=G.item_sums.copy(),
        n_users_=G.n_users,
        counts_users_=np.array_equal(G.item_sums, G.item_counts),
        _past=remembered,
    )


def _certify(model: Recommender, plan: Plan, outcome: Outcome, nonce: str, before: str, begin: float) -> Certificate:
    """Made after the commit, from the model after the change: the old inverse may have been overwritten."""
    learned, catalogue = outcome.learned, plan.catalogue
    tolerance, bound = model._tolerances()
    return Certificate(
        action="update" if plan.sign > 0 else "forget",
        users=plan.rows.shape[0],
        interactions=int(plan.rows.nnz),
        n_users=model.n_users_,
        n_items=len(model.item_ids_),
        new_items=[] if catalogue.at is None else catalogue.item_ids[catalogue.at < 0].tolist(),
        gone_items=catalogue.item_ids[plan.gone].tolist(),
        method=learned.method,
        residual=learned.residual,
        tolerance=tolerance,
        weight_error=learned.weight_error,
        bound=bound,
        proof=None if outcome.fresh is None else difference(model.weights_, outcome.fresh.weights_),
        objective_gap=outcome.gap,
        nonce=nonce,
        before=before,
        after=digest_of(plan.roll, nonce, past.fingerprint_of(model)),
        seconds=time.perf_counter() - begin,
    )


def refit(model: Recommender, G: Gram | SparseGram, item_ids: NDArray[Any], progress: Progress | None) -> NewWeights:
    """The same settings on the changed Gram: always right, never cheap."""
    return _taken(model._refit(G, progress, item_ids))


def _taken(fresh: Recommender) -> NewWeights:
    """What another fit has learned."""
    apart = ("item_ids_", "popularity_", "n_users_", "counts_users_", "settings_", "columns_")
    learned = {name: value for name, value in vars(fresh).items() if name.endswith("_") and name not in apart}
    return NewWeights(learned, "refit", 0.0, 0.0)


def _places(at: NDArray[np.int64] | None, kept: NDArray[np.int64], m_grown: int) -> NDArray[np.int64] | None:
    """The new place of every old column."""
    if at is None and len(kept) == m_grown:
        return None
    m_old = m_grown if at is None else int(np.count_nonzero(at >= 0))
    origin = (np.arange(m_grown) if at is None else at)[kept]
    places = np.full(m_old, -1, dtype=np.int64)
    places[origin[origin >= 0]] = np.flatnonzero(origin >= 0)
    return places
