"""The last stage of a race: the best rows of up to four families as one, if that wins.

The validation users are divided in two. The shares that suit one half are tested on the other, both ways, so that every
user decides once, never about shares that it chose. The blend is kept only if it is surely better than the best row.
A look before settings are searched says whether a blend of the rows as they are would win: then the settings of its
best part are searched within it (``company``), because what is best alone is too smooth next to a smooth part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from offdiag import memory, wording
from offdiag.autopilot.holding_out import some_users
from offdiag.autopilot.outcome import COMPLETE, Row
from offdiag.autopilot.race import Race
from offdiag.evaluation import evaluate
from offdiag.measured import Result, decide, paired_t_test, standard_error
from offdiag.models import blend_shares
from offdiag.models.blend import Blend
from offdiag.models.blend_shares import Candidates
from offdiag.models.blended_parts import blended
from offdiag.models.recommender import Recommender
from offdiag.ranking import encode

PARTS = 4  # of a blend, at most
COMPLEMENTS = 0.5  # a part of a blend reaches at least this share of the best
ASKED = 5  # times that the parts are asked for scores: for candidates, then for units and lists, validation and test


@dataclass(frozen=True, eq=False)
class Company:
    """A row whose settings may be searched, and the other parts of a blend that already wins."""

    row: Row
    others: list[Row]
    shares: NDArray[np.float64]  # of the row, then of the others


def company(race: Race) -> Company | None:
    """The best part that can be tuned and the other parts, if a blend of the parts as they are surely wins."""
    parts = choose_parts(race)
    lead = next((row for row in parts if _tunable(race, row)), None)
    if lead is None or len(parts) < 2 or race.clock.left() <= seconds(race):
        return None
    parts = [lead, *(row for row in parts if row is not lead)]
    models = [race.model(row) for row in parts]
    if any(model.knows_order for model in models):
        return None
    race.clock.stage("a look at a blend")("", 0.0)
    held = race.data(lead).validation
    assert held is not None
    _, found = _candidates(models, held, race.seed)
    half = np.random.default_rng(race.seed).random(len(found.n_targets)) < 0.5
    if half.all() or not half.any():
        return None
    alone = max((blend_shares.accuracies(found, one) for one in np.eye(len(parts))), key=lambda one: float(one.mean()))
    theirs = [blend_shares.accuracies(found, blend_shares.best_shares(found.some(some))) for some in (half, ~half)]
    difference, sem, _, _ = paired_t_test(np.where(half, theirs[1], theirs[0]) - alone)
    shares = blend_shares.best_shares(found)
    used = np.flatnonzero(shares)
    if decide(difference, sem) != "better" or not shares[0] or len(used) < 2:
        return None
    return Company(lead, [parts[p] for p in used[1:]], shares[used])


def _tunable(race: Race, row: Row) -> bool:
    return race.entrants[row.family].tunable and not row.features and row.history_decay is None


def run(race: Race) -> None:
    """Blend the best rows of different families; kept only if it wins on users that did not choose the shares."""
    known = race.journal.rows.get("blend")
    if known is not None:
        race.remember(known)
        race.notes.append(known.note)
        return
    parts = choose_parts(race)
    if len(parts) < 2 or race.clock.left() <= sum(row.fit_seconds for row in parts if row not in race.models):
        return
    before = memory.begin_peak()
    names = " + ".join(row.family for row in parts)
    models = [race.model(row) for row in parts]
    race.clock.stage("blending")("", 0.0)
    held = race.data(parts[0]).validation
    assert held is not None
    users, found = _candidates(models, held, race.seed)
    gap = _gained(race, race.measured[0], models, held, users, found)
    if gap is None:
        race.notes.append(f"a blend of {names} was not tried: too few validation users")
        return
    difference, sem, _, _ = paired_t_test(gap)
    said = wording.with_error(difference, sem, "+")
    if decide(difference, sem) != "better":
        race.notes.append(f"a blend of {names} was not kept: {said} on users that did not choose its shares")
        return
    shares = blend_shares.best_shares(found)
    used = [p for p in range(len(models)) if shares[p] > 0]
    names = " + ".join(parts[p].family for p in used)
    row = Row(
        "blend", "Blend", COMPLETE, parts=[parts[p].name for p in used], ones=parts[0].ones,
        fit_seconds=sum(parts[p].fit_seconds for p in used), memory=memory.peak_since(before),
        note=f"the blend of {names} gained {said} on users that did not choose its shares",
        result=_plus(race.measured[0], gap, race.metric),
    )  # fmt: skip
    race.add(row, Blend.of([models[p] for p in used], shares[used].tolist()))
    race.notes.append(row.note)


def _gained(
    race: Race, best: Row, models: list[Recommender], held: Any, users: NDArray[np.intp], found: Candidates
) -> NDArray[np.float64] | None:
    """What blends gain over the best row, user by user, with shares that users of the other half chose."""
    single = cast(Result, best.result).per_user[race.metric]
    first_half = np.random.default_rng(race.seed).random(len(single)) < 0.5
    chosen_by = [half[users] for half in (first_half, ~first_half)]
    if not all(some.any() for some in chosen_by):
        return None
    asked = np.flatnonzero(np.diff(held.targets.indptr))
    gap = np.empty(len(single))
    for chosen, judge in zip(chosen_by, (~first_half, first_half), strict=True):
        blend = Blend.of(models, blend_shares.best_shares(found.some(chosen)).tolist())
        theirs = evaluate(blend, some_users(held, asked[judge]), [race.metric])
        gap[judge] = theirs.per_user[race.metric] - single[judge]
    return gap


def _plus(row: Row, gap: NDArray[np.float64], metric: str) -> Result:
    """The result of a row and the gain of each user, who chose no shares of their own."""
    assert row.result is not None
    values = row.result.per_user[metric] + gap
    return replace(
        row.result, mean={metric: float(values.mean())}, sem={metric: standard_error(values)},
        per_user={metric: values},
    )  # fmt: skip


def seconds(race: Race) -> float:
    """What this stage and the last fit will take, from what it took to fit and measure the parts."""
    parts = choose_parts(race)
    missing = sum(row.fit_seconds for row in parts if row not in race.models)
    again = sum(row.fit_seconds for row in parts)
    return missing + again + ASKED * sum(row.result.seconds for row in parts if row.result is not None)


def choose_parts(race: Race) -> list[Row]:
    """The best row of each kind of family, best first, as far as they can be parts of one model.

    Of one kind, what was tuned for a blend comes before what is best alone.
    """
    first: dict[str, Row] = {}
    best = race.measured[0]
    for row in sorted(race.measured, key=lambda row: not row.for_blend):
        entrant = race.entrants.get(row.family)
        if entrant is None or entrant.model.keeps_rows or "groups" in race.also:
            continue
        if row.ones == best.ones and not row.settings.get("dislike_weight"):
            first.setdefault(entrant.kind, row)
    ranked = sorted(first.values(), key=lambda row: -row.value(race.metric))
    if not ranked:
        return []
    least = COMPLEMENTS * ranked[0].value(race.metric)
    return [row for row in ranked if row.value(race.metric) >= least][:PARTS]


def _candidates(models: list[Recommender], held: Any, seed: int) -> tuple[NDArray[np.intp], Candidates]:
    """Positions of validation users within the per-user results, and their candidates."""
    weights, recency = blended(models, np.ones(len(models)))
    asked = held.histories if recency is None else held.ordered
    rows = encode(asked, models[0].item_ids_, recency)[0]
    with_targets = np.flatnonzero(np.diff(held.targets.indptr))
    users = np.arange(len(with_targets))
    if len(users) > 2 * blend_shares.USERS:
        users = np.sort(np.random.default_rng(seed).choice(users, 2 * blend_shares.USERS, replace=False))
    chosen = with_targets[users]
    return users, blend_shares.candidates(weights, rows[chosen], held.targets[chosen])
