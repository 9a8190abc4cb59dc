"""The second stage of a race: the settings of the best families are searched.

If a blend of the rows as they are already wins, its best part is tuned within it, as it will be used. Else, or
with what is left, each of the best families gets a part of the time first; the one that is ahead then gets what is
left, and continues its search where it was.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, cast

from offdiag import wording
from offdiag.autopilot import blending
from offdiag.autopilot.outcome import COMPLETE, Row
from offdiag.autopilot.race import Race
from offdiag.errors import InterruptedFitWarning, NotEnoughMemory, OffdiagError
from offdiag.models.fields import settings_of
from offdiag.models.recommender import Recommender
from offdiag.protocols import Learner
from offdiag.tuning import tune
from offdiag.tuning.for_blend import BlendBench
from offdiag.tuning.search import tune_on

FITS = 6  # with time for fewer, settings are not searched
SEARCHED = 3  # families, at most
TRIALS = 60  # of one family in one round
TIME = 0.8  # of what is left, at most; the rest is for the blend
FIRST = 0.5  # of that, for the first round


def run(race: Race) -> None:
    """Search the settings of the best families, first of each, then of the one that is ahead."""
    contenders = [
        row
        for row in race.measured
        if row.state == COMPLETE and row.family in race.entrants and race.entrants[row.family].tunable
    ][:SEARCHED]
    if find_spec("optuna") is None:
        if contenders:
            race.notes.append("settings were not searched: optuna is missing; pip install 'offdiag[tune]'")
        return
    joint = _search_for_blend(race)
    if not contenders:
        return
    while len(contenders) > 1 and FIRST * _time(race) / len(contenders) < FITS * _cost(race, contenders[-1]):
        contenders.pop()  # too dear to share the time
    if _time(race) < FITS * _cost(race, contenders[0]):
        fit, left = wording.seconds(race.cost(contenders[0])), wording.seconds(max(_time(race), 0.0))
        if not joint:
            race.notes.append(
                f"settings were not searched: {contenders[0].family} takes {fit} per fit, and {left} were left"
            )
        return
    if len(contenders) > 1:
        each = FIRST * _time(race) / len(contenders)
        for row in contenders:
            _search(race, row, each, TRIALS)
    families = [row.family for row in contenders]
    ahead = next(row for row in race.measured if row.family in families)
    _search(race, ahead, _time(race), 2 * TRIALS)


def _search_for_blend(race: Race) -> bool:
    """Search the settings of the best part of a blend within it, if such a blend surely wins as it is."""
    likely = blending.choose_parts(race)
    if not likely or _time(race) < FITS * _cost(race, likely[0]):
        return False
    found = blending.company(race)
    if found is None or _time(race) < FITS * _cost(race, found.row):
        return False
    others = [race.model(row) for row in found.others]
    try:
        bench = BlendBench(race.data(found.row), race.metric, others, found.shares, race.seed)
    except NotEnoughMemory as error:
        race.notes.append(f"the settings of {found.row.family} were not searched for a blend: {error}")
        return False
    _search(race, found.row, _time(race), 2 * TRIALS, bench)
    return True


def _time(race: Race) -> float:
    left = race.clock.left()
    return min(TIME * left, left - blending.seconds(race))


def _cost(race: Race, row: Row) -> float:
    return max(race.cost(row), 1e-3)


def _search(race: Race, row: Row, seconds: float, trials: int, bench: BlendBench | None = None) -> None:
    """Search the settings of a family for some seconds; a row for the best, if it has other than automatic ones."""
    if seconds <= _cost(race, row):
        return
    entrant = race.entrants[row.family]
    model = entrant.model
    kept = {name: value for name, value in _given(model).items() if name not in _searched(model)}
    also: dict[str, Any] = {name: what for name, what in race.also.items() if name == "groups" or row.features}
    study = race.journal.study(row.family + " for a blend" * (bench is not None))
    words: dict[str, Any] = {"seconds": seconds, "seed": race.seed, "fixed": kept or None, "study": study}
    words["progress"] = race.clock.stage(f"tuning {row.family}{' for a blend' * (bench is not None)}")
    cls = cast("type[Learner]", type(model))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InterruptedFitWarning)  # od.auto says it
            if bench is None:
                found = tune(cls, race.data(row), race.metric, trials, **words, **also)
            else:
                found = tune_on(bench, cls, trials, **words)
    except OffdiagError as error:
        race.notes.append(f"the settings of {row.family} were not searched: {wording.one_line(error)}")
        return
    if found.best.origin != "automatic":
        _enter(race, row, cast(Recommender, found.model), len(found.trials), for_blend=bench is not None)
    if found.stopped == "interrupted":
        raise KeyboardInterrupt


def _enter(race: Race, row: Row, model: Recommender, trials: int, *, for_blend: bool = False) -> None:
    """Fit and measure the best settings; they replace those of an earlier round."""
    note = f"tuned{' for a blend' * for_blend}, {trials} trials"
    made = replace(row, trials=trials, state=COMPLETE, note=note, result=None, for_blend=for_blend)
    known = race.journal.rows.get(made.name)
    earlier = next((one for one in race.rows if one.name == made.name), None)
    if known is not None and known.trials == trials and known is not earlier:
        race.remember(known)
    elif earlier is None or earlier.trials != trials:
        begin = time.perf_counter()
        race.fit(model, made, race.data(made).train, race.clock.stage(f"fitting {row.family} with the best settings"))
        made.fit_seconds = time.perf_counter() - begin
        race.add(made, model)
    else:
        return
    if earlier is not None:
        race.rows.remove(earlier)
        race.models.pop(earlier, None)


def _given(model: Recommender) -> dict[str, Any]:
    """The settings of an entrant that differ from the defaults of its class."""
    return {name: value for name, value in model.get_params().items() if value != settings_of(model)[name].default}


def _searched(model: Recommender) -> set[str]:
    return {name for name, known in settings_of(model).items() if known.search is not None}
