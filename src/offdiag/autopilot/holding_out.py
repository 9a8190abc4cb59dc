"""How to hold out, as the model will be judged: new users, a part of known users' items, or what comes next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import checks
from offdiag.autopilot.sight import Sight
from offdiag.data.interactions import Interactions
from offdiag.data.moments import moment_of
from offdiag.data.sparse_rows import row_of_entries
from offdiag.data.split import HeldOut, Split, by_time, last_out, strong
from offdiag.data.split_halves import halves
from offdiag.errors import OffdiagError

Serve = Literal["known", "new", "next"]
MOST_USERS = 20_000  # that are held out for validation, and as many for test
SHARE = 0.1  # of the users, for new ones
HIDDEN = 0.2  # of the items of a known user


@dataclass(frozen=True, eq=False)
class Holding:
    """A split, whom it serves and why."""

    split: Split
    serve: Serve
    metric: str  # the usual one for this kind of question
    sentence: str


def hold_out(inter: Interactions, sight: Sight, serve: Serve | None, seed: int, at: Any = None) -> Holding:
    """The split for whom the model will serve; None: what comes next if the order is known, else known users.

    With ``at``, a date or a number, what comes from then on is for the test.
    """
    if serve is not None:
        checks.choice("serve", serve, get_args(Serve))
    if not sight.users_with_two:
        raise OffdiagError(
            "expected users with two items or more, of whom something can be held out, received none: no model can be "
            "compared with another; od.Popularity().fit(data) is what such data supports"
        )
    if at is not None:
        if serve not in (None, "next"):
            raise OffdiagError(
                f"at={at!r} holds out what comes next, received serve={serve!r}; leave one of the two out"
            )
        return _from_date(inter, at)
    chosen: Serve = serve or ("next" if sight.ordered else "known")
    why = "" if serve else " (the default here; serve= changes it)"
    if chosen == "next":
        if not sight.ordered:
            raise OffdiagError('serve="next" needs an order, received data without; name the column of times, time=…')
        said = "the last choice of each user is held out for the test, the one before it for validation"
        return _checked(Holding(last_out(inter), chosen, "ndcg@10", said + why))
    if chosen == "new":
        if inter.n_users < 3:
            raise OffdiagError(
                f'serve="new" holds users out for validation and for the test, received {inter.n_users} of them; '
                'at least 3 are needed, or serve="known"'
            )
        n = max(1, min(MOST_USERS, round(SHARE * inter.n_users)))
        said = f"{n:,} users are held out for validation and {n:,} for the test; a fifth of their items is hidden"
        return _checked(Holding(strong(inter, held_out=n, seed=seed), chosen, "ndcg@20", said + why))
    each = min(MOST_USERS, sight.users_with_two // 2)
    late = sight.drift.in_time
    which = "the last fifth" if late else "a random fifth"
    said = f"{which} of the items of {each:,} users is hidden for validation, of {each:,} others for the test"
    if late:
        why += "; for parts at random give split=od.split.weak(data, 0.2, 0.1)"
    split = halves(inter, HIDDEN, MOST_USERS, seed, latest=late)
    return _checked(Holding(split, chosen, "ndcg@20", said + why))


def _from_date(inter: Interactions, at: Any) -> Holding:
    """From the date on for the test, and as much before it for validation, at most half of what comes before."""
    times = inter.times if inter.events is None else inter.events.times
    if times is None:
        raise OffdiagError(f"at={at!r} needs times, received data without; name the column of times, time=…")
    moment = moment_of(at)
    before = np.sort(times[times < moment])
    later = len(times) - len(before)
    if not len(before) or not later:
        by_time(inter, at)  # says what is wrong
    earlier = before[max(len(before) - later, len(before) // 2)]
    split = by_time(inter, moment, earlier)
    n = int(np.count_nonzero(np.diff(split.test.targets.indptr)))
    said = (
        f"what {n:,} users chose from {at} on is held out for the test, and as much before it for validation "
        f"({len(before) - int(np.searchsorted(before, earlier)):,} events)"
    )
    return _checked(Holding(split, "next", "ndcg@20", said))


def _checked(holding: Holding) -> Holding:
    """Both parts must have somebody to find something for; what users have already is in no list and no target."""
    holding = _without_repeats(holding)
    held = {"validation": holding.split.validation, "the test": holding.split.test}
    for name, part in held.items():
        if part is None or not part.targets.nnz:
            raise OffdiagError(
                f"no item could be held out for {name}: too few users have enough of them; give more data, another "
                "serve=, or a split of your own"
            )
    return holding


def _without_repeats(holding: Holding) -> Holding:
    """The same without targets that are in the history of their user."""
    split = holding.split
    assert split.validation is not None
    parts = [_unseen(part) for part in (split.validation, split.test)]
    repeats = split.test.targets.nnz - parts[1].targets.nnz
    if not repeats and parts[0].targets.nnz == split.validation.targets.nnz:
        return holding
    share = 100 * repeats / split.test.targets.nnz
    said = f"; {share:.0f} % of these choices repeat an item of the same user, which is in no list, and are left out"
    return replace(holding, split=Split(split.train, *parts), sentence=holding.sentence + said)


def _unseen(part: HeldOut) -> HeldOut:
    m = part.targets.shape[1]
    theirs, had = (row_of_entries(one.indptr) * m + one.indices for one in (part.targets, part.histories))
    new = ~np.isin(theirs, had)
    indptr = np.concatenate([[0], np.cumsum(new)])[part.targets.indptr]
    targets = sparse.csr_array((part.targets.data[new], part.targets.indices[new], indptr), shape=part.targets.shape)
    times = None if part.target_times is None else part.target_times[new]
    return replace(part, targets=targets, target_times=times)


def part_of_users(split: Split, n: int, seed: int) -> Split:
    """Some users to learn from; where validation is about users that are learned from, it is about the same ones."""
    rng = np.random.default_rng(seed)
    some = np.sort(rng.choice(split.train.n_users, min(n, split.train.n_users), replace=False))
    held = split.validation
    assert held is not None
    if np.array_equal(held.user_ids, split.train.user_ids):
        held = some_users(held, some)
    return replace(split, train=split.train.select_users(positions=some), validation=held)


def some_users(held: HeldOut, some: NDArray[np.intp]) -> HeldOut:
    """A part of the users who are asked, by their positions."""
    return HeldOut(
        held.histories[some], held.targets[some], held.user_ids[some], held.item_ids,
        None if held.ordered is None else held.ordered.select_users(positions=some),
    )  # fmt: skip
