"""``od.auto``: from data to the best model within a time budget."""

from __future__ import annotations

import warnings
from typing import Any, Unpack

from offdiag import checks
from offdiag.autopilot.clock import Clock
from offdiag.autopilot.entrants import entrants
from offdiag.autopilot.holding_out import Holding, Serve, hold_out
from offdiag.autopilot.outcome import Autopilot, Row
from offdiag.autopilot.race import Race
from offdiag.autopilot.sight import look
from offdiag.data.interactions import Interactions
from offdiag.data.read import read
from offdiag.data.split import Split
from offdiag.errors import InterruptedFitWarning
from offdiag.evaluation import Result, evaluate, parse_metric
from offdiag.models.recommender import Recommender
from offdiag.models.source import Reading, data_of
from offdiag.progress import Progress, reporter


def auto(
    data: Any,
    *,
    seconds: float = 300.0,
    metric: str | None = None,
    serve: Serve | None = None,
    split: Split | None = None,
    seed: int = 0,
    progress: Progress | bool | None = None,
    **reading: Unpack[Reading],
) -> Autopilot:
    """The best model for some data within a time budget, fitted on all of it, and how sure that is.

    ``data`` is what ``fit`` takes. It is held out as the model will be judged: ``serve="next"`` predicts the next
    choice (the default where the order is known), "known" finds hidden items of the users it learns from (the default
    otherwise), "new" serves users it has not seen; or give a ``split`` with validation users. Families are tried from
    cheap to dear, the settings of the best are searched, and the best are blended if that wins on users that did not
    choose the blend. The test users are asked once, about the chosen and the automatic model.

    ``seconds`` is the budget of all of that; the automatic model is fitted even if it takes longer. Ctrl-C ends the
    race and gives the best so far.

    Example:
        >>> import offdiag as od
        >>> found = od.auto(od.synthetic.interactions(300, 40, 3_000, seed=0), seconds=5, metric="ndcg@10")
        >>> found.model.recommend([[]], k=3).lengths
        array([3])
    """
    progress = reporter(progress)
    seconds = checks.number("seconds", seconds, 0, above=True)
    checks.whole("seed", seed, 0)
    inter = data_of(data, reading)
    inter = inter if isinstance(inter, Interactions) else read(inter)
    clock = Clock(seconds, progress)
    sight = look(inter)
    holding = hold_out(inter, sight, serve, seed) if split is None else _given(split, serve, sight.ordered)
    metric = metric or holding.metric
    parse_metric(metric)
    race = Race(holding.split, metric, clock, seed)
    stopped = "done"
    try:
        race.run(entrants(sight, holding.serve))
        race.tune()
        race.blend()
    except KeyboardInterrupt:
        if race.automatic is None:
            raise
        stopped = "interrupted"
        warnings.warn(
            "the autopilot was interrupted; the best model so far is fitted on all data",
            InterruptedFitWarning,
            stacklevel=2,
        )
    if stopped == "done" and clock.left() <= 0:
        stopped = "seconds"
    chosen, test = race.best, _ask_test_users(race)
    unfitted: Recommender = race.models[chosen]._unfitted_copy()
    model = unfitted.fit(inter, progress=clock.stage(f"fitting {chosen.family} on everything"))
    clock.done()
    notes = list(race.notes)
    if clock.elapsed() > seconds and len(race.models) == 1:
        notes.append(f"{seconds:g} seconds are too few for more than one model: this is the automatic one")
    return Autopilot(
        model=model, chosen=chosen, rows=tuple(race.rows), metric=metric, serve=holding.serve,
        sights=(*sight.sentences, holding.sentence), test=test, notes=tuple(notes), seconds=clock.elapsed(),
        stopped=stopped,
    )  # fmt: skip


def _ask_test_users(race: Race) -> dict[str, Result]:
    """Once, about the chosen and the automatic model, both fitted on train."""

    def ask(row: Row) -> Result:
        return evaluate(race.models[row], race.split.test, [race.metric])

    assert race.automatic is not None
    automatic = ask(race.automatic)
    return {"chosen": automatic if race.best is race.automatic else ask(race.best), "automatic": automatic}


def _given(split: Split, serve: Serve | None, ordered: bool) -> Holding:
    from offdiag.tuning.trial_runner import validation_of

    validation_of(split)
    chosen: Serve = serve or ("next" if ordered else "known")
    return Holding(split, chosen, "ndcg@10" if chosen == "next" else "ndcg@20", "held out as given")
