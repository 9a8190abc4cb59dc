"""How to hold out, as the model will be judged: new users, a part of known users' items, or what comes next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from offdiag import checks
from offdiag.autopilot.sight import Sight
from offdiag.data.interactions import Interactions
from offdiag.data.split import Split, last_out, strong, weak
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


def hold_out(inter: Interactions, sight: Sight, serve: Serve | None, seed: int) -> Holding:
    """The split for whom the model will serve; None: what comes next if the order is known, else known users."""
    if serve is not None:
        checks.choice("serve", serve, get_args(Serve))
    if not sight.users_with_two:
        raise OffdiagError(
            "expected users with two items or more, of whom something can be held out, received none: no model can be "
            "compared with another; od.Popularity().fit(data) is what such data supports"
        )
    chosen: Serve = serve or ("next" if sight.ordered else "known")
    why = "" if serve else " (serve= says otherwise)"
    if chosen == "next":
        if not sight.ordered:
            raise OffdiagError('serve="next" needs an order, received data without; name the column of times, time=…')
        said = "the last choice of each user is held out for the test, the one before it for validation"
        return Holding(last_out(inter), chosen, "ndcg@10", said + why)
    if chosen == "new":
        n = max(1, min(MOST_USERS, round(SHARE * inter.n_users)))
        said = f"{n:,} users are held out for validation and {n:,} for the test; a fifth of their items is hidden"
        return Holding(strong(inter, held_out=n, seed=seed), chosen, "ndcg@20", said + why)
    said = "a fifth of each user's items is hidden for the test and a tenth for validation, at random"
    return Holding(weak(inter, held_out=0.2, validation=0.1, seed=seed), chosen, "ndcg@20", said + why)
