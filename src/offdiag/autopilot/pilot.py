"""``od.auto``: from data to the best model within a time budget."""

from __future__ import annotations

import os
import warnings
from typing import Any, Unpack

from offdiag import checks
from offdiag.autopilot import blending, families, journal, searching
from offdiag.autopilot.clock import Clock
from offdiag.autopilot.entrants import entrants
from offdiag.autopilot.holding_out import Holding, Serve, hold_out
from offdiag.autopilot.journal import Journal
from offdiag.autopilot.outcome import Autopilot, Row
from offdiag.autopilot.race import Race
from offdiag.autopilot.sight import Sight, look
from offdiag.data.features import Features
from offdiag.data.groups import read_groups
from offdiag.data.interactions import Interactions
from offdiag.data.prepare import binarize
from offdiag.data.read import read
from offdiag.data.read_features import read_features
from offdiag.data.split import Split
from offdiag.errors import InterruptedFitWarning, OffdiagError
from offdiag.evaluation import Result, parse_metric
from offdiag.models.source import Reading, data_of
from offdiag.progress import Progress, reporter
from offdiag.tuning.trial_runner import validation_of


def auto(
    data: Any,
    *,
    seconds: float = 300.0,
    metric: str | None = None,
    serve: Serve | None = None,
    at: Any = None,
    split: Split | None = None,
    item_features: Any = None,
    groups: Any = None,
    resume: str | os.PathLike[str] | None = None,
    seed: int = 0,
    progress: Progress | bool | None = None,
    **reading: Unpack[Reading],
) -> Autopilot:
    """The best model for some data within a time budget, fitted on all of it, and how sure that is.

    ``data`` is what ``fit`` takes. It is held out as the model will be judged: ``serve="next"`` predicts the next
    choice (the default where the order is known), "known" finds hidden items of the users it learns from (the default
    otherwise), "new" serves users it has not seen; ``at`` is a date from which on all choices are held out; or give a
    ``split`` with validation users. Families are tried from cheap to dear, the settings of the best are searched, and
    the best are blended if that wins on users that did not choose the blend. The test users are asked once, about the
    chosen and the automatic model.

    ``item_features`` (``od.read_features``) are used if they surely help; ``groups`` of items are kept apart by every
    model, as in ``fit``. ``seconds`` is the budget of all; the automatic model is fitted even if it takes longer.
    Ctrl-C ends the race and gives the best so far. With ``resume``, a file, a run that was killed continues: nothing
    is measured twice, and the time that it took counts.

    Example:
        >>> import offdiag as od
        >>> found = od.auto(od.synthetic.interactions(300, 40, 3_000, seed=0), seconds=2, metric="ndcg@10")
        >>> found.model.recommend([[]], k=3).lengths
        array([3])
    """
    progress = reporter(progress)
    seconds = checks.number("seconds", seconds, 0, above=True)
    checks.whole("seed", seed, 0)
    inter = data_of(data, reading)
    inter = inter if isinstance(inter, Interactions) else read(inter)
    also = _side(inter, item_features, groups)
    sight = look(inter, also.get("item_features"))
    if split is not None and at is not None:
        raise OffdiagError("a split and at= both say what is held out; leave one of the two out")
    holding = hold_out(inter, sight, serve, seed, at) if split is None else _given(split, serve, sight.ordered)
    metric = metric or holding.metric
    parse_metric(metric)
    kept = Journal(resume, _header(holding, metric, seed, also) if resume is not None else {})
    clock = Clock(seconds, progress, kept.spent, kept.beat)
    race = Race(holding.split, metric, clock, seed, kept, also)
    try:
        stopped = _run(race, sight, holding)
    finally:
        kept.close()
    chosen, test = race.best, _ask_test_users(race)
    race.models.clear()  # room for the fit on everything
    everything = binarize(inter) if chosen.ones else inter
    model = race.fit_row(chosen, everything, clock.stage(f"fitting {chosen.family} on everything"))
    kept.beat(clock.elapsed())
    clock.done()
    notes = list(race.notes)
    if kept.spent:
        notes.append(f"continued a run of {kept.spent:.0f} s: {len(kept.known)} models were measured before")
    if clock.elapsed() > seconds and len(race.measured) == 1:
        notes.append(f"{seconds:g} seconds are too few for more than one model: this is the automatic one")
    return Autopilot(
        model=model, chosen=chosen, rows=tuple(race.rows), metric=metric, serve=holding.serve,
        sights=(*sight.sentences, holding.sentence), test=test, notes=tuple(notes), seconds=clock.elapsed(),
        stopped=stopped, budget=seconds, grouped="groups" in also,
    )  # fmt: skip


def _run(race: Race, sight: Sight, holding: Holding) -> str:
    """All stages, until the time is up or Ctrl-C; how it ended."""
    taking_part = entrants(sight, holding.serve, race.clock.seconds)
    if "groups" in race.also:
        taking_part, left_out = families.only_taking_groups(taking_part)
        race.notes.append(f"left out, because they do not learn from groups: {', '.join(left_out)}")
    try:
        families.run(race, taking_part, valued=sight.valued, recency=holding.serve == "next")
        searching.run(race)
        blending.run(race)
    except KeyboardInterrupt:
        if race.automatic is None:
            raise
        warnings.warn(
            "the autopilot was interrupted; the best model so far is fitted on all data",
            InterruptedFitWarning,
            stacklevel=3,
        )
        return "interrupted"
    return "done" if race.clock.left() > 0 else "seconds"


def _ask_test_users(race: Race) -> dict[str, Result]:
    """Once, about the chosen and the automatic model, both fitted on train."""

    def ask(row: Row) -> Result:
        return race.ask(row, race.model(row), "test")

    assert race.automatic is not None
    automatic = ask(race.automatic)
    return {"chosen": automatic if race.best is race.automatic else ask(race.best), "automatic": automatic}


def _side(inter: Interactions, item_features: Any, groups: Any) -> dict[str, Any]:
    """What fits take besides the data, checked before anything is fitted."""
    if item_features is not None and groups is not None:
        raise OffdiagError("features and groups of items do not go together; leave one of the two out")
    if groups is not None:
        return {"groups": read_groups(groups, inter.item_ids)}
    if item_features is None:
        return {}
    return {"item_features": item_features if isinstance(item_features, Features) else read_features(item_features)}


def _header(holding: Holding, metric: str, seed: int, also: dict[str, Any]) -> dict[str, Any]:
    """What a journal must agree about, to be continued; the budget may differ."""
    about: dict[str, Any] = {"data": journal.fingerprint(holding.split), "metric": metric, "serve": holding.serve}
    return about | {"seed": seed, "besides": journal.digest_of(also)}


def _given(split: Split, serve: Serve | None, ordered: bool) -> Holding:
    validation_of(split)
    chosen: Serve = serve or ("next" if ordered else "known")
    return Holding(split, chosen, "ndcg@10" if chosen == "next" else "ndcg@20", "held out as given")
