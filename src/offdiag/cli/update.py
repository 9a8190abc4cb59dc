"""`offdiag update`: add the events of a log that a saved model has not counted yet."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from offdiag import wording
from offdiag.cli import console, inputs, log_inputs, model_change, outputs
from offdiag.cli.commands import Json, KeyFile
from offdiag.cli.log_inputs import LogColumns

if TYPE_CHECKING:
    from offdiag.living.certificate import Certificate

EXAMPLES = (
    "offdiag update films.od ratings.csv",
    "offdiag update films.od env:EVENTS_DB --query 'select user, item from events'",
)


def update(
    model: model_change.UpdatableFile,
    events: Annotated[
        list[str], typer.Argument(metavar="EVENTS", help="New events, or the whole log: files or a database.")
    ],
    out: model_change.Out = None,
    key_file: KeyFile = None,
    json: Json = False,
    columns: LogColumns = LogColumns(),  # noqa: B008 - frozen
) -> None:
    """Add new events to a model, exactly as a new fit would.

    EVENTS may hold the whole log: no event is counted twice. If a user is already in the model, EVENTS must hold all
    of their events. Running it again changes nothing; if a run was killed, run the command again.
    """
    from offdiag.living.events import plan_update

    start = time.perf_counter()
    steps: list[Certificate] = []
    with model_change.open_model(model, out, events, key_file) as change:
        change.work.begin("reading " + ", ".join(map(inputs.name_of, events)))
        table = log_inputs.read_logs(events, change.ledger.recipe, columns)
        change.work.begin("comparing with the model")
        plan = plan_update(change.ledger, table)
        if plan.new_events or change.target != model:
            steps = change.commit(plan)
    fitted, target = change.fitted, change.target
    seconds = time.perf_counter() - start
    if json:
        console.show_json(
            {
                "file": target,
                "events": {"new": plan.new_events, "known": plan.old_events},
                "users": {"new": plan.new_users, "changed": plan.changed_users},
                "changes": [asdict(step) for step in steps],
                "n_users": fitted.n_users_,
                "n_items": len(fitted.item_ids_),
                "seconds": seconds,
            }
        )
    elif not plan.new_events:
        console.say(f"nothing new: all {plan.old_events:,} events are in {console.printable(model)} already")
    else:
        console.show_pairs(
            {
                **log_inputs.column_pairs(change.ledger.recipe, columns),
                "events": f"{plan.new_events:,} new, {plan.old_events:,} counted before",
                "users": f"{plan.new_users:,} new, {plan.changed_users:,} changed",
                **_step_pairs(steps),
                "model": f"{fitted.n_users_:,} users, {len(fitted.item_ids_):,} items",
                "time": wording.seconds(seconds),
                "saved to": outputs.saved_text(target),
            }
        )


def _step_pairs(steps: list[Certificate]) -> dict[str, str]:
    pairs = {}
    for step in steps:
        what = {"update": "histories added", "forget": "histories removed"}[step.action]
        items = [f"{len(step.new_items):,} new items"] * bool(step.new_items)
        items += [f"{len(step.gone_items):,} items gone"] * bool(step.gone_items)
        pairs[what] = ", ".join([f"{step.users:,}", f"by {step.method}", *items])
    if steps:
        pairs["weights"] = model_change.weight_error_text(max(step.weight_error for step in steps), "a new fit")
    return pairs
