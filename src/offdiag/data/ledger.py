"""The ledger of an updatable model: what has been counted, as keyed hashes. No id and no row can be read from it.

For every user there are a hash of her id, a fingerprint of her history, how many items it holds, and the hashes of her
events. So the same log may be read again and again: what is in the ledger is not counted twice, and what shall be
taken out must be what was put in. A user who is forgotten leaves nothing here.
"""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offdiag.data import keyed, roll
from offdiag.data.interactions import Interactions
from offdiag.data.keyed import Words
from offdiag.data.order import positions_of_rows
from offdiag.data.roll import Roll

# The first word of what is hashed, so that a user, an event and an entry of a history are never mistaken for another.
USER, EVENT = 1, 2


@dataclass(frozen=True)
class Recipe:
    """How rows become histories, as in the first fit; later events are read in the same way."""

    text_users: bool = False
    text_items: bool = False
    duplicates: str = "once"  # of a pair that comes more than once: "sum" or "once"
    at_least: float | None = None
    columns: dict[str, str | int] = field(default_factory=dict)  # user, item and, if there were any, value, time, event


@dataclass(frozen=True, eq=False)
class Entries:
    """Some users of a ledger: ascending hashes, and along them what is known of each."""

    users: Words
    histories: Words  # fingerprint of each history
    sizes: NDArray[np.int64]  # items in it
    starts: NDArray[np.int64]  # where the events of each user begin, and the end
    events: Words  # ascending within each user

    def select(self, which: NDArray[Any]) -> Entries:
        """The users at these places, in that order."""
        starts, picked = positions_of_rows(self.starts, which)
        return Entries(self.users[which], self.histories[which], self.sizes[which], starts, self.events[picked])


@dataclass(frozen=True, eq=False)
class Ledger:
    salt: bytes
    recipe: Recipe
    entries: Entries

    @classmethod
    def empty(cls, recipe: Recipe) -> Ledger:
        """Nobody yet, and a new key."""
        none, start = np.zeros(0, np.uint64), np.zeros(1, np.int64)
        return cls(secrets.token_bytes(keyed.KEY_BYTES), recipe, Entries(none, none, start[:0], start, none))

    @property
    def n_users(self) -> int:
        return len(self.entries.users)

    @property
    def n_events(self) -> int:
        return len(self.entries.events)

    def user_hashes(self, ids: NDArray[Any]) -> Words:
        return keyed.siphash(self.salt, USER, keyed.id_codes(self.salt, ids)) if len(ids) else np.zeros(0, np.uint64)

    def places(self, users: Words) -> NDArray[np.int64]:
        """Where each user stands, −1 for those who are not here."""
        known = self.entries.users
        if not len(known):
            return np.full(len(users), -1, np.int64)
        at = np.minimum(np.searchsorted(known, users), len(known) - 1)
        return np.where(known[at] == users, at, -1).astype(np.int64)

    def counted(self, events: Words, owners: Words, users: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of the events are here as those of their users: event i is of ``owners[users[i]]``."""
        place = self.places(owners)
        some = self.entries.select(place[place >= 0])
        # Both words are hashes, so that their exclusive or stands for the pair.
        known = np.sort(some.events ^ np.repeat(some.users, np.diff(some.starts)))
        pairs = events ^ owners[users]
        found = np.zeros(len(events), dtype=bool)
        if len(known):
            order = np.argsort(pairs)  # in order, the search runs through memory once
            wanted = pairs[order]
            at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
            found[order] = known[at] == wanted
        return found

    def holds(self, events: Words) -> NDArray[np.bool_]:
        """Which of the events are here, whoever they belong to."""
        ordered = np.unique(events)
        at = np.minimum(np.searchsorted(ordered, self.entries.events), len(ordered) - 1)  # few among many: one pass
        return np.isin(events, ordered[np.unique(at[ordered[at] == self.entries.events])])

    def fingerprints(self, inter: Interactions) -> Words:
        """One word for the history of each row."""
        return roll.fingerprints(self.salt, inter.matrix, inter.item_ids)

    def roll(self) -> Roll:
        """The histories alone."""
        return Roll(self.salt, np.sort(self.entries.histories[self.entries.sizes > 0]))

    def replaced(self, gone: Words, come: Entries) -> Ledger:
        """Without these users, and with those."""
        old = self.entries.select(np.flatnonzero(~np.isin(self.entries.users, gone)))
        order = np.argsort(np.concatenate([old.users, come.users]), kind="stable")
        both = Entries(
            np.concatenate([old.users, come.users]),
            np.concatenate([old.histories, come.histories]),
            np.concatenate([old.sizes, come.sizes]),
            np.concatenate([old.starts[:-1], come.starts + old.starts[-1]]),
            np.concatenate([old.events, come.events]),
        )
        return replace(self, entries=both.select(order))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a model file holds of it, as `ledger.*`."""
        entries = self.entries
        return {
            "salt": np.frombuffer(self.salt, np.uint8),
            "users": entries.users,
            "histories": entries.histories,
            "sizes": entries.sizes,
            "starts": entries.starts,
            "events": entries.events,
        }

    def about(self) -> dict[str, Any]:
        """The recipe, for the header of the file."""
        return asdict(self.recipe)

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], about: dict[str, Any]) -> Ledger:
        """The ledger of a file; ValueError, KeyError or TypeError where it makes no sense."""
        salt, users, histories, sizes, starts, events = (
            arrays[name] for name in ("salt", "users", "histories", "sizes", "starts", "events")
        )
        words = all(part.dtype == np.uint64 and part.ndim == 1 for part in (users, histories, events))
        counts = all(part.dtype == np.int64 and part.ndim == 1 for part in (sizes, starts))
        if salt.dtype != np.uint8 or salt.shape != (keyed.KEY_BYTES,) or not words or not counts:
            raise TypeError("the ledger has parts of a wrong type")
        if not len(users) == len(histories) == len(sizes) == len(starts) - 1:
            raise ValueError("the parts of the ledger do not fit each other")
        if (
            starts[0] != 0
            or starts[-1] != len(events)
            or np.any(np.diff(starts) < 0)
            or np.any(users[1:] <= users[:-1])
        ):
            raise ValueError("the ledger is out of order")
        recipe = Recipe(**about)
        bound = recipe.at_least
        if bound is not None and not (type(bound) in (int, float) and np.isfinite(bound)):
            raise ValueError("the ledger has no number for the least value")
        if recipe.duplicates not in ("sum", "once") or not isinstance(recipe.columns, dict):
            raise ValueError("the ledger says no way of reading rows")
        return cls(salt.tobytes(), recipe, Entries(users, histories, sizes, starts, events))
