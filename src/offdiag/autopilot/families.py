"""The first stage of a race: the families with automatic settings, from cheap to dear, then what may add to the best.

A dear family whose cost follows the number of users is looked at on a part of them first. Values taken as 1, features
of the items, and a history that fades are tried where the data has them; each must win over the same row without.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from offdiag import wording
from offdiag.autopilot.clock import OutOfTime
from offdiag.autopilot.entrants import Entrant, with_features
from offdiag.autopilot.holding_out import part_of_users
from offdiag.autopilot.outcome import COMPLETE, FAILED, NO_GAIN, SKIPPED, Row
from offdiag.autopilot.race import Race
from offdiag.errors import NotEnoughMemory, OffdiagError
from offdiag.evaluation import evaluate
from offdiag.measured import SURE
from offdiag.models.spectral import Spectral

SHARE = 1 / 3  # of the time left, at most, for one family
LOOKED_AT = 0.05  # of the time left: what takes more is looked at on a part of the users first
USERS = 8  # one user in so many is in that part
FEWEST = 2_000  # users of the part, at least
LATE = 0.05  # what is behind on the part by less than this share may catch up on all users
SMOOTH = "smooth"  # the family
OUTER_POWERS = (0.3, 0.5)  # other than its own
DECAYS = (0.9, 0.8, 0.65, 0.5)  # of the history of models without order


def run(race: Race, entrants: list[Entrant], *, valued: bool = False, recency: bool = False) -> None:
    """One entrant after the other; raises only if the automatic one fails."""
    race.entrants = {entrant.family: entrant for entrant in entrants}
    for entrant in entrants:
        _enter(race, entrant)
        if entrant.automatic and valued:
            _try_ones(race, entrant)
    _try_outer_powers(race)
    if "item_features" in race.also:
        _try_features(race)
    if recency:
        _try_recency(race)


def _enter(race: Race, entrant: Entrant, **facts: bool) -> Row | None:
    """Fit and measure an entrant; None if that was not possible, with a row that says why."""
    most = None if entrant.automatic else max(race.clock.left() * SHARE, 0.0)
    known = race.journal.rows.get(entrant.family)
    if most is not None and not (known is not None and known.result is not None):
        if refused := _too_dear(race, entrant, most, known):
            race.leave_out(entrant, refused)
            return None
        if _is_behind_on_a_part(race, entrant, most):
            return None
    try:
        row = race.measure(entrant.family, entrant.model, most, **facts)
    except OutOfTime:
        race.leave_out(entrant, f"its fit was stopped after {wording.seconds(most or 0.0)}", seconds=most or 0.0)
        return None
    except NotEnoughMemory as error:
        if entrant.automatic:
            raise
        race.leave_out(entrant, str(error))
        return None
    except OffdiagError as error:
        if entrant.automatic:
            raise
        race.leave_out(entrant, str(error), FAILED)
        return None
    if entrant.automatic:
        race.automatic = row
    return row


def _too_dear(race: Race, entrant: Entrant, most: float, known: Row | None) -> str:
    """Why there is no time for it; "" if there is."""
    if not most:
        return "no time was left"
    if entrant.seconds > most:
        left = wording.seconds(max(race.clock.left(), 0.0))
        return f"a fit takes about {wording.seconds(entrant.seconds)}, {left} were left"
    if known is not None and known.state == SKIPPED and known.fit_seconds > 0.9 * most:
        return f"a fit takes more than {wording.seconds(known.fit_seconds)}"
    return ""


def _is_behind_on_a_part(race: Race, entrant: Entrant, most: float) -> bool:
    """Whether a dear family loses on a part of the users against the best row that is cheap to fit there."""
    n = race.split.train.n_users
    cheap = [row for row in race.measured if row.fit_seconds < entrant.seconds / 4 and not row.features]
    if not (entrant.by_users and cheap and entrant.seconds > LOOKED_AT * race.clock.left() and n > FEWEST):
        return False
    part = part_of_users(race.data(cheap[0]), max(n // USERS, FEWEST), race.seed)
    held = part.validation
    assert held is not None
    stage = race.clock.stage(f"a look at {entrant.family} on {part.train.n_users:,} users", most / 2)
    try:
        first = race.fit_row(cheap[0], part.train, stage)
        model = race.fit(entrant.model._validate(), cheap[0], part.train, stage)
        theirs, ours = (evaluate(one, held, [race.metric]) for one in (first, model))
    except (OutOfTime, OffdiagError):
        return False  # the fit on all users will say more
    test, name = theirs.compare(ours), race.metric
    if not test.difference[name] > SURE * test.sem[name] + LATE * theirs.mean[name]:
        return False
    gap = wording.with_error(-test.difference[name], test.sem[name], "+")
    race.leave_out(entrant, f"{gap} against {cheap[0].family} when both learn from {part.train.n_users:,} users")
    return True


def _try_ones(race: Race, entrant: Entrant) -> None:
    """Where values differ: the automatic model on all values as 1; if it wins, all others learn from that, too."""
    usual = race.automatic
    assert usual is not None
    twin = replace(entrant, family=f"{entrant.family}, values as 1", automatic=False, model=entrant.model._validate())
    if (row := _enter(race, twin, ones=True)) is None:
        return
    gap = race.compare(row, usual)
    said = wording.with_error(gap.difference[race.metric], gap.sem[race.metric], "+")
    if race.beats(row, usual):
        race.ones = True
        race.entrants[twin.family] = twin
        race.notes.append(f"all values are taken as 1: {said} over values as they are")
    else:
        _keep_if_better(race, row, usual)


def _try_features(race: Race) -> None:
    """The two best families that can learn from features, with them."""
    able = [row for row in race.measured if row.family in race.entrants and race.entrants[row.family].takes_features]
    for row in able[:2]:
        twin = with_features(race.entrants[row.family])
        twin = replace(twin, model=type(twin.model)(**twin.model.get_params()), flops=1.5 * twin.flops)
        race.entrants[twin.family] = twin
        if (made := _enter(race, twin, features=True)) is not None:
            _keep_if_better(race, made, row)


def _try_outer_powers(race: Race) -> None:
    """The smooth part with other powers of popularity around its decomposition, which is not made again."""
    base = next((row for row in race.measured if row.family == SMOOTH), None)
    if base is None or race.clock.left() <= 0:
        return
    family = f"{SMOOTH}, another power"
    race.entrants[family] = replace(race.entrants[SMOOTH], family=family)
    if (known := race.journal.rows.get(family)) is not None:
        race.remember(known)
        return
    if base not in race.models:
        return
    fitted = cast(Spectral, race.models[base])
    tried = {}
    for power in OUTER_POWERS:
        row = replace(base, family=family, note=f"outer_power={power:g}", state=COMPLETE)
        row.result = race.ask(row, fitted.with_outer_power(power), "validation")
        tried[power] = row
    best = max(tried, key=lambda power: tried[power].value(race.metric))
    if tried[best].value(race.metric) > base.value(race.metric):
        race.add(tried[best], fitted.with_outer_power(best))


def _try_recency(race: Race) -> None:
    """The best model that does not know the order, asked with histories in which the past fades; no fit is needed."""
    rows = [row for row in race.measured if not race.entrants[row.family].model.knows_order and row.settings]
    if not rows or race.clock.left() <= 0:
        return
    best = rows[0]
    family = f"{best.family}, recent first"
    race.entrants[family] = replace(race.entrants[best.family], family=family, tunable=False, automatic=False)
    if (known := race.journal.rows.get(family)) is not None:
        race.remember(known)
        return
    model = race.model(best)
    tried = [replace(best, family=family, history_decay=decay, note="", state=COMPLETE) for decay in DECAYS]
    for row in tried:
        row.result = race.ask(row, model, "validation")
    winner = max(tried, key=lambda row: row.value(race.metric))
    race.add(winner, model.with_history_decay(winner.history_decay))
    winner.note = f"recommended with history_decay={winner.history_decay:g}"
    _keep_if_better(race, winner, best)


def _keep_if_better(race: Race, row: Row, without: Row) -> None:
    """What a row has more must win: by more than two standard errors, paired."""
    if row.state == NO_GAIN or race.beats(row, without):
        return
    gap = race.compare(row, without)
    said = wording.with_error(gap.difference[race.metric], gap.sem[race.metric], "+")
    row.state, row.note = NO_GAIN, f"{said} over {without.family}"


def in_words(values: list[str]) -> str:
    """'a, b and c'."""
    return values[0] if len(values) == 1 else f"{', '.join(values[:-1])} and {values[-1]}"


def only_taking_groups(entrants: list[Entrant]) -> tuple[list[Entrant], list[str]]:
    """The entrants that learn from groups, one of them automatic, and the families that are left out."""
    taking = [entrant for entrant in entrants if entrant.takes_groups]
    left_out = [entrant.family for entrant in entrants if not entrant.takes_groups]
    if not any(entrant.automatic for entrant in taking):
        taking[-1] = replace(taking[-1], automatic=True)
    return sorted(taking, key=lambda one: (not one.automatic, one.flops)), left_out
