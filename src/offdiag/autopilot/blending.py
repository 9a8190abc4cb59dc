"""The last stage of a race: the best rows of up to three families as one, if that wins.

The shares are chosen on one half of the validation users, and the blend is kept only if it is better than its best part
on the other half, by more than two standard errors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from offdiag import memory, wording
from offdiag.autopilot.outcome import COMPLETE, Row
from offdiag.autopilot.race import Race
from offdiag.evaluation import evaluate, paired_t_test
from offdiag.models import blend_shares
from offdiag.models.blend import Blend
from offdiag.models.blended_parts import blended
from offdiag.models.recommender import Recommender
from offdiag.ranking import encode

PARTS = 3  # of a blend, at most
COMPLEMENTS = 0.5  # a part of a blend reaches at least this share of the best


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
    some = np.random.default_rng(race.seed).random(len(users)) < 0.5
    if not some.any() or some.all():
        race.notes.append(f"a blend of {names} was not tried: too few validation users")
        return
    trial = Blend.of(models, blend_shares.best_shares(found.some(some)).tolist())
    result = evaluate(trial, held, [race.metric])
    single = parts[0].result
    assert single is not None
    gap = (result.per_user[race.metric] - single.per_user[race.metric])[users[~some]]
    difference, sem, _, _ = paired_t_test(gap)
    said = wording.with_error(difference, sem, "+")
    if not difference > 2 * sem:
        race.notes.append(f"a blend of {names} was not kept: {said} on users that did not choose its shares")
        return
    shares = blend_shares.best_shares(found)
    used = [p for p in range(len(models)) if shares[p] > 0]
    names = " + ".join(parts[p].family for p in used)
    row = Row(
        "blend", "Blend", COMPLETE, parts=[parts[p].name for p in used], ones=parts[0].ones,
        fit_seconds=sum(parts[p].fit_seconds for p in used), memory=memory.peak_since(before),
        note=f"the blend of {names} gained {said} on users that did not choose its shares",
    )  # fmt: skip
    race.add(row, Blend.of([models[p] for p in used], shares[used].tolist()))
    race.notes.append(row.note)


def choose_parts(race: Race) -> list[Row]:
    """The best row of each kind of family, best first, as far as they can be parts of one model."""
    first: dict[str, Row] = {}
    best = race.measured[0]
    for row in race.measured:
        entrant = race.entrants.get(row.family)
        if entrant is None or entrant.model.keeps_rows or "groups" in race.also:
            continue
        if row.ones == best.ones and not row.settings.get("dislike_weight"):
            first.setdefault(entrant.kind, row)
    ranked = list(first.values())
    if not ranked:
        return []
    least = COMPLEMENTS * ranked[0].value(race.metric)
    return [row for row in ranked if row.value(race.metric) >= least][:PARTS]


def _candidates(models: list[Recommender], held: Any, seed: int) -> tuple[Any, blend_shares.Candidates]:
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
