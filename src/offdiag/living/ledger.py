"""What an updatable model has counted, as keyed digests. No id and no row can be read from it.

A Gram does not know users, only sums over them, so subtracting a history that was never learned often leaves no trace
of the mistake. The roll detects it: every history to be forgotten must be on it, and is removed from it.

The ledger of a model fitted on a log knows more. For every user it holds a digest of the id, one of the history, the
number of items in it, and the digests of the events. So the same log may be read repeatedly: events in the ledger are
not counted twice. A forgotten user leaves nothing here.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag.data.columns import Cleaning, Roles
from offdiag.data.interactions import Interactions
from offdiag.data.sequences import sequences_of
from offdiag.data.sparse_rows import positions_of_rows
from offdiag.living import digests
from offdiag.living.digests import Digests, Hashes, Hashing


@dataclass(frozen=True, eq=False)
class Roll:
    hashes: Hashing
    histories: Digests  # ascending, one for each user; without empty histories

    @classmethod
    def of(cls, matrix: sparse.csr_array, item_ids: NDArray[Any]) -> Roll:
        """All rows, under a new key."""
        hashes = Hashes()
        found = hashes.histories(matrix, item_ids)
        return cls(hashes, np.sort(found[np.diff(matrix.indptr) > 0]))

    def places(self, found: Digests) -> NDArray[np.int64]:
        """The place of each of these histories, equal ones at different places; −1 for those not on the roll."""
        order = np.argsort(found, kind="stable")
        wanted = found[order]
        again = np.arange(len(wanted)) - np.searchsorted(wanted, wanted)  # the n-th of its kind
        at = np.searchsorted(self.histories, wanted) + again
        inside = at < len(self.histories)
        inside[inside] = self.histories[at[inside]] == wanted[inside]
        places = np.empty(len(found), dtype=np.int64)
        places[order] = np.where(inside, at, -1)
        return places

    def with_(self, found: Digests) -> Roll:
        found = np.sort(found)
        return replace(self, histories=np.insert(self.histories, np.searchsorted(self.histories, found), found))

    def without(self, places: NDArray[np.int64]) -> Roll:
        return replace(self, histories=np.delete(self.histories, places))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Its arrays in the living state; the key is kept elsewhere."""
        return {"histories": digests.words_of(self.histories)}

    @classmethod
    def from_arrays(cls, hashes: Hashing, arrays: dict[str, NDArray[Any]]) -> Roll:
        """The roll of a file; raises ValueError, KeyError or TypeError if it is invalid."""
        histories = digests.read_digests(arrays["histories"])
        if np.any(histories[1:] < histories[:-1]):
            raise ValueError("the roll is out of order")
        return cls(hashes, histories)


@dataclass(frozen=True)
class Recipe:
    """How rows become histories, as in the first fit; later events are read the same way."""

    text_users: bool = False
    text_items: bool = False
    duplicates: str = "once"  # rule for repeated pairs: "sum" or "once"
    at_least: float | None = None
    columns: Roles = field(default_factory=Roles)
    cleaning: Cleaning = field(default_factory=Cleaning)
    keep: str = "pairs"  # or "events": every row is an event, also a repeated one
    order: str | None = None  # what makes up a history in order: the "place" of each event, or also its "time"

    @property
    def event_rule(self) -> str:
        """Whether equal rows are one event ("once"), or events of their own."""
        return "sum" if self.keep == "events" else self.duplicates


@dataclass(frozen=True, eq=False)
class Entries:
    """Some users of a ledger: ascending digests, and the data of each."""

    users: Digests
    histories: Digests
    sizes: NDArray[np.int64]  # items in each history
    starts: NDArray[np.int64]  # where the events of each user begin, and the end
    events: Digests  # ascending within each user

    def select(self, which: NDArray[Any]) -> Entries:
        """The users at these places, in that order."""
        starts, picked = positions_of_rows(self.starts, which)
        return Entries(self.users[which], self.histories[which], self.sizes[which], starts, self.events[picked])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Its arrays in the living state."""
        return {
            "users": digests.words_of(self.users),
            "histories": digests.words_of(self.histories),
            "sizes": self.sizes,
            "starts": self.starts,
            "events": digests.words_of(self.events),
        }

    def check(self) -> Entries:
        """Raises ValueError if the parts do not fit each other."""
        starts = self.starts
        if not len(self.users) == len(self.histories) == len(self.sizes) == len(starts) - 1:
            raise ValueError("the parts of the ledger do not fit each other")
        if starts[0] != 0 or starts[-1] != len(self.events) or np.any(np.diff(starts) < 0):
            raise ValueError("the ledger is out of order")
        return self


@dataclass(frozen=True, eq=False)
class Ledger:
    hashes: Hashing
    recipe: Recipe
    entries: Entries

    @classmethod
    def empty(cls, recipe: Recipe) -> Ledger:
        """No users yet, and a new key."""
        none, start = np.zeros(0, digests.DIGEST), np.zeros(1, np.int64)
        return cls(Hashes(), recipe, Entries(none, none, start[:0], start, none))

    @property
    def n_users(self) -> int:
        return len(self.entries.users)

    @property
    def n_events(self) -> int:
        return len(self.entries.events)

    def places(self, users: Digests) -> NDArray[np.int64]:
        """The place of each user, −1 for those not in the ledger."""
        return digests.places(self.entries.users, users)

    def counted(self, events: Digests, owners: Digests, place: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which events are counted for their owners, who are among the users at these places (−1: in none)."""
        some = self.entries.select(place[place >= 0])
        known = digests.pairs(some.events, np.repeat(some.users, np.diff(some.starts)))
        return digests.places(known, digests.pairs(events, owners)) >= 0

    def event_counts(self, place: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many events of the user at each place are counted; 0 for users not in the ledger (−1)."""
        counts = np.append(np.diff(self.entries.starts), 0)
        return counts[place]  # −1 selects the last

    def holds(self, events: Digests) -> NDArray[np.bool_]:
        """Which of the events are in the ledger, for any user."""
        return digests.places(self.entries.events, events) >= 0

    def histories(self, inter: Interactions) -> Digests:
        """One digest for the history of each row, in its order if that was learned."""
        if self.recipe.order is None:
            return self.hashes.histories(inter.matrix, inter.item_ids)
        sequences = sequences_of(inter)
        assert sequences is not None  # as ``events._histories`` has checked
        assert isinstance(self.hashes, Hashes)  # models of order are younger than any other kind
        if self.recipe.order == "place":
            sequences = replace(sequences, times=None)
        return self.hashes.sequences(sequences, inter.item_ids)

    def roll(self) -> Roll:
        """The digests of the histories alone."""
        return Roll(self.hashes, np.sort(self.entries.histories[self.entries.sizes > 0]))

    def replace_users(self, gone: Digests, come: Entries) -> Ledger:
        """The ledger without the users ``gone``, and with ``come``."""
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

    def about(self) -> dict[str, Any]:
        """The recipe, for the header of the file."""
        about = asdict(self.recipe) | {"columns": self.recipe.columns.present()}
        if self.recipe.cleaning == Cleaning():
            del about["cleaning"]
        if self.recipe.order is None:  # as earlier versions wrote and read it
            del about["keep"], about["order"]
        return about

    @classmethod
    def from_arrays(cls, hashes: Hashing, arrays: dict[str, NDArray[Any]], about: dict[str, Any]) -> Ledger:
        """The ledger of a file; raises ValueError, KeyError or TypeError if it is invalid."""
        users, histories, events = (digests.read_digests(arrays[name]) for name in ("users", "histories", "events"))
        sizes, starts = arrays["sizes"], arrays["starts"]
        if any(part.dtype != np.int64 or part.ndim != 1 for part in (sizes, starts)):
            raise TypeError("the ledger has parts of a wrong type")
        entries = Entries(users, histories, sizes, starts, events).check()
        if np.any(users[1:] <= users[:-1]):
            raise ValueError("the ledger is out of order")
        return cls(hashes, read_recipe(about), entries)


def read_recipe(about: dict[str, Any]) -> Recipe:
    cleaning = Cleaning(**about.get("cleaning", {}))
    recipe = Recipe(**about | {"columns": Roles(**about["columns"]), "cleaning": cleaning})
    bound = recipe.at_least
    if bound is not None and not (type(bound) in (int, float) and np.isfinite(bound)):
        raise ValueError("the ledger has no number for the least value")
    if recipe.duplicates not in ("sum", "once"):
        raise ValueError("the ledger says no way of reading rows")
    if recipe.keep not in ("pairs", "events") or recipe.order not in (None, "place", "time"):
        raise ValueError("the ledger says no way of reading histories in order")
    return recipe
