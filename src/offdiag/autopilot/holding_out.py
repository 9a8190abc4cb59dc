"""How to hold out, as the model will be judged: new users, a part of known users' items, or what comes next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from offdiag import checks
from offdiag.autopilot.sight import Sight
from offdiag.data.interactions import Interactions
from offdiag.data.moments import moment_of
from offdiag.data.split import HeldOut, Split, by_time, last_out, strong, weak
from offdiag.errors import OffdiagError

Serve = Literal["known", "new", "next"]
MOST_USERS = 10_000  # that are held out for validation, and as many for test
SHARE = 0.1


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
    said = "a fifth of each user's items is hidden for the test and a tenth for validation, at random"
    return _checked(Holding(weak(inter, held_out=0.2, validation=0.1, seed=seed), chosen, "ndcg@20", said + why))


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
    """Both parts must have somebody to find something for."""
    held = {"validation": holding.split.validation, "the test": holding.split.test}
    for name, part in held.items():
        if part is None or not part.targets.nnz:
            raise OffdiagError(
                f"no item could be held out for {name}: too few users have enough of them; give more data, another "
                "serve=, or a split of your own"
            )
    return holding


def part_of_users(split: Split, n: int, seed: int) -> Split:
    """Some users to learn from; where validation is about users that are learned from, it is about the same ones."""
    rng = np.random.default_rng(seed)
    some = np.sort(rng.choice(split.train.n_users, min(n, split.train.n_users), replace=False))
    held = split.validation
    assert held is not None
    if np.array_equal(held.user_ids, split.train.user_ids):
        held = HeldOut(
            held.histories[some], held.targets[some], held.user_ids[some], held.item_ids,
            None if held.ordered is None else held.ordered.select_users(positions=some),
        )  # fmt: skip
    return replace(split, train=split.train.select_users(positions=some), validation=held)
