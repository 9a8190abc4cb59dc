"""Users of a model of order: their histories as sequences, counted into its sums and identified by their digests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from offdiag import memory
from offdiag.data.ids import positions
from offdiag.data.interactions import Interactions
from offdiag.data.sequences import Sequences, sequences_of
from offdiag.errors import OffdiagError
from offdiag.gramian import exact, layout
from offdiag.gramian.order import UNIT_BITS, Ageing, count_units, examples_of
from offdiag.gramian.order_gram import OrderGram
from offdiag.gramian.packed import gram
from offdiag.gramian.sparse import SparseGram
from offdiag.living.digests import Hashes
from offdiag.living.ledger import Roll
from offdiag.living.user_rows import Sums, exact_sums
from offdiag.progress import Progress

if TYPE_CHECKING:
    from offdiag.models.recommender import Recommender

UNIT = 2.0**-UNIT_BITS  # whoever is in the model: a unit chosen from its first users would be a trace of them
MANY_ITEMS = "fit it again on the changed data, or keep fewer items with od.prepare.min_counts(items=...)"


@dataclass(frozen=True, eq=False)
class Histories:
    """The events of some users in order, and how a model counts them."""

    sequences: Sequences
    ageing: Ageing
    later: bool
    every_event: bool = True  # False: each pair of user and item once, at its latest time

    @property
    def order(self) -> str:
        """What identifies a history besides its items: their "place", or also the "time" of each if that counts."""
        return "place" if self.ageing.half_life is None else "time"

    def over(self, ids: NDArray[Any], item_ids: NDArray[Any]) -> Histories:
        """The same over another catalogue that has all their items."""
        return replace(self, sequences=self.sequences.renumber_items(positions(ids, item_ids)))

    def digested(self) -> Sequences:
        """What identifies these histories: the items in order, and the times if they count."""
        return self.sequences if self.order == "time" else replace(self.sequences, times=None)

    def checksum(self) -> tuple[float, ...]:
        """Numbers that detect a later change of the arrays."""
        items, times = self.sequences.items, self.sequences.times
        places = np.arange(1, len(items) + 1)
        return (len(items), int(items @ places), 0.0 if times is None else float(times.astype(np.float64) @ places))


def count(
    histories: Histories, matrix: sparse.csr_array, item_ids: NDArray[Any], user_power: float, progress: Progress | None
) -> tuple[OrderGram, SparseGram | None, Roll]:
    """The exact sums over all users of a fit, the remainders of their Gram, and the digests of their histories."""
    m, sequences = matrix.shape[1], histories.sequences
    memory.require(16 * m * m, f"adding to or taking from a model of {m:,} items exactly", MANY_ITEMS)
    pairs, low = exact.count(gram(matrix, user_power, progress=progress), matrix)
    sums = count_units(sequences, m, histories.ageing, UNIT, later=histories.later, user_power=user_power)
    hashes = Hashes()
    found = hashes.sequences(histories.digested(), item_ids)
    roll = Roll(hashes, np.sort(found[sequences.lengths > 0]))
    G = OrderGram(
        **pairs.arrays(), user_power=user_power, sources=sums.A, targets=sums.K, examples=examples_of(sequences),
        unit=np.array([UNIT]),
    )  # fmt: skip
    return G, low, roll


def sums_after(sums: Sums, rows: sparse.csr_array, histories: Histories, sign: int) -> Sums:
    """All sums after these users, over the same catalogue, are added (+1) or removed (−1)."""
    G, sequences = sums.G, histories.sequences
    assert isinstance(G, OrderGram)
    m = G.n_items
    memory.require(2 * (m * m + layout.size(m)) * 8, f"a change of a model of {m:,} items", MANY_ITEMS)
    pairs = exact_sums(sums, rows, sign)
    assert isinstance(pairs.G, OrderGram)
    theirs = count_units(
        sequences, m, histories.ageing, float(G.unit[0]), later=histories.later, user_power=G.user_power
    )
    return replace(pairs, G=G.with_users(pairs.G, theirs, examples_of(sequences), sign))


def order_of(model: Recommender) -> str | None:
    """What identifies a history of this model, fitted or not, as in ``Histories.order``; None if only its items do."""
    if not (model.knows_order and model.can_change):
        return None
    return "place" if model.get_params()["half_life"] is None else "time"


def ordered_events(X: Any, name: str, *, timed: bool) -> Sequences:
    """The events of Interactions in order; anything without an order is an error that says how to read one."""
    sequences = sequences_of(X) if isinstance(X, Interactions) else None
    if sequences is None:
        received = "Interactions without times" if isinstance(X, Interactions) else type(X).__name__
        raise OffdiagError(
            f"{name} learns from the order of events, but received {received}; read the table with "
            "time=<column>, with keep='events' if its rows are in order, or with format='sequence' if its lines are "
            "`user item item …`"
        )
    if timed and sequences.times is None:
        raise OffdiagError(
            "a half-life needs times, but these events have only an order; use decay and history_decay, or read with "
            "time=<column>"
        )
    return sequences
