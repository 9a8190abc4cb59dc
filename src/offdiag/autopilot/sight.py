"""What can be seen in the data before anything is learned: size, order, repeats, values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from offdiag.autopilot.drift import NO_DRIFT, Drift, drift_of
from offdiag.data.features import Features, check_features
from offdiag.data.interactions import Interactions
from offdiag.data.sequences import sequences_of


@dataclass(frozen=True)
class Sight:
    """Facts about the data that decide how to hold out and what to try."""

    n_users: int
    n_items: int
    n_interactions: int
    ordered: bool  # events are in order, by times or as a sequence
    timed: bool  # times are known
    repeats: float  # share of events whose item the user had before; 0 where repeats were not kept
    valued: bool  # not all values are 1
    users_with_two: int  # users of whom something can be held out
    disliked: int = 0  # dislikes
    described: int | None = None  # items with features; None where no features were given
    drift: Drift = NO_DRIFT  # within the rows of a table without times

    @property
    def sentences(self) -> list[str]:
        """What it sees, in words."""
        mean = self.n_interactions / max(self.n_users, 1)
        said = [
            f"{self.n_users:,} users, {self.n_items:,} items, {self.n_interactions:,} interactions, "
            f"{mean:.1f} per user; {self.users_with_two:,} users have two or more"
        ]
        if self.timed:
            said.append("times are known, so the order of choices is")
        elif self.ordered:
            said.append("choices are in order, without times")
        elif self.drift.in_time:
            said.append(
                "no times, but the rows of a user seem to be in order of time: what comes last varies "
                f"{self.drift.ratio:.1f} times as much as chance, and no item has its place"
            )
        else:
            said.append("no times and no order: a history is a set (name the column of times if there is one)")
        if self.repeats:
            said.append(f"{100 * self.repeats:.0f} % of the events repeat an item of the same user")
        if self.valued:
            said.append("values differ; models of order count events instead")
        if self.disliked:
            said.append(f"{self.disliked:,} dislikes are known, and no list will have what a user dislikes")
        if self.described is not None:
            share = 100 * self.described / self.n_items
            said.append(f"features describe {self.described:,} of {self.n_items:,} items ({share:.0f} %)")
        return said


def look(inter: Interactions, features: Features | None = None) -> Sight:
    """The facts about some interactions; features of none of their items are an error."""
    sequences = sequences_of(inter)
    repeats = 0.0
    if inter.events is not None and inter.events.n_events:
        repeats = 1 - inter.nnz / inter.events.n_events
    timed = sequences is not None and sequences.times is not None
    sizes = np.diff(inter.matrix.indptr)
    return Sight(
        inter.n_users, inter.n_items, inter.nnz, sequences is not None, timed, float(repeats),
        bool((inter.matrix.data != 1).any()), int((sizes > 1).sum()),
        0 if inter.dislikes is None else int(inter.dislikes.nnz),
        None if features is None else check_features(features, inter.item_ids).n_covered,
        NO_DRIFT if sequences is not None else drift_of(inter),
    )  # fmt: skip
