"""`offdiag update` and `offdiag forget`: a saved model follows an event log, all of a change or none of it."""

from __future__ import annotations

import json as json_text
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from offdiag import container
from offdiag.cli import choosing, console, exclusive, facts, logs, reading
from offdiag.cli.logs import LogColumns
from offdiag.cli.options import Json
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    from offdiag.data.events import Plan
    from offdiag.data.ledger import Ledger

UPDATE_EXAMPLE = (
    "Examples: `offdiag update films.od ratings.csv`, "
    "`offdiag update films.od env:EVENTS_DB --query 'select user, item from events'`"
)
FORGET_EXAMPLE = (
    "Examples: `offdiag forget films.od --users rows-of-ann.csv --certificate ann.json`, "
    "`offdiag forget films.od --users ids.txt --events ratings.csv --prove`"
)
UpdatableFile = Annotated[str, typer.Argument(metavar="MODEL", help="A file written by `offdiag fit --updatable`.")]
Out = Annotated[
    str | None, typer.Option("--out", "-o", metavar="NEW", help="Write the changed model there; default MODEL itself.")
]


def update(
    model: UpdatableFile,
    events: Annotated[
        list[str], typer.Argument(metavar="EVENTS...", help="New events, or the whole log: files or a database.")
    ],
    out: Out = None,
    json: Json = False,
    columns: LogColumns = LogColumns(),  # noqa: B008 - frozen
) -> None:
    """Count the events that a model has not counted yet, exactly as a new fit would.

    EVENTS may hold the whole log: what was counted before is not counted twice. A user who is in the model already
    needs all her events in EVENTS. Running it again changes nothing; a run that was killed is simply run again.
    """
    from offdiag.data import events as log

    start = time.perf_counter()
    target = _target(model, out, events)
    with exclusive.changing(target) as unchanged, console.working() as work:
        fitted, ledger = _loaded(model)
        work.begin("reading " + ", ".join(map(reading.name_of, events)))
        table = logs.read_logs(events, ledger.recipe, columns)
        work.begin("comparing with the model")
        plan = log.coming(ledger, table)
        steps = _changed(fitted, plan, False, work) if plan.new_events else []
        if plan.new_events or target != model:
            _save(fitted, plan.ledger, target, unchanged, work)
    about = {
        "file": target,
        "events": {"new": plan.new_events, "known": plan.old_events},
        "users": {"new": plan.new_users, "changed": plan.changed_users},
        "changes": [step.to_dict() for step in steps],
        "n_users": fitted.n_users_,
        "n_items": len(fitted.item_ids_),
        "seconds": time.perf_counter() - start,
    }
    if json:
        console.show_json(about)
        return
    if not plan.new_events:
        console.say(f"nothing new: all {plan.old_events:,} events are in {console.printable(model)} already")
        return
    console.show_pairs(
        {
            "events": f"{plan.new_events:,} new, {plan.old_events:,} counted before",
            "users": f"{plan.new_users:,} new, {plan.changed_users:,} changed",
            **_step_pairs(steps),
            "model": f"{fitted.n_users_:,} users, {len(fitted.item_ids_):,} items",
            "time": console.seconds(about["seconds"]),
            "saved to": f"{target} ({facts.size(os.path.getsize(target))})",
        }
    )


def forget(
    model: UpdatableFile,
    users: Annotated[
        str,
        typer.Option("--users", metavar="FILE", help="All rows of the users; or only their ids, with --events."),
    ],
    events: Annotated[
        str | None, typer.Option("--events", metavar="SOURCE", help="A log that holds their rows, among others.")
    ] = None,
    users_query: Annotated[
        str | None, typer.Option("--users-query", help="Selects the ids, where --users is a database beside --events.")
    ] = None,
    prove: Annotated[
        bool, typer.Option("--prove", help="Also fit anew on what is left, and measure the largest difference.")
    ] = False,
    certificate: Annotated[
        str | None, typer.Option("--certificate", metavar="FILE", help="Write the certificate there, as JSON.")
    ] = None,
    out: Out = None,
    json: Json = False,
    columns: LogColumns = LogColumns(),  # noqa: B008 - frozen
) -> None:
    """Take users out of a model, exactly as if they had never been there, and certify it.

    All of them or none: a user who is not in the model, or whose rows are not those that were counted, is an error.
    """
    from offdiag.data import events as log

    target = _target(model, out, [users, *([] if events is None else [events])])
    for other in (model, users, events or "", target) if certificate is not None else ():
        choosing.check_target(str(certificate), other, "certificate", "certificate.json")
    if certificate is not None and Path(certificate).resolve() == Path(target).resolve():
        raise OffdiagError(f"--certificate and --out are the same file {certificate!r}; choose two names")
    if users_query is not None and events is None:
        raise OffdiagError("--users-query goes with --events; without it --query selects the rows of --users")
    with exclusive.changing(target) as unchanged, console.working() as work:
        fitted, ledger = _loaded(model)
        work.begin(f"reading {reading.name_of(users)}")
        ids = None if events is None else logs.read_ids(users, ledger.recipe, columns, users_query)
        if events is not None:
            work.begin(f"reading {reading.name_of(events)}")
        else:
            logs.check_rows(users, ledger.recipe, columns)
        table = logs.read_rows(users if events is None else events, ledger.recipe, columns, ids)
        plan = log.leaving(ledger, table, ids)
        steps = _changed(fitted, plan, prove, work)
        about = _certificate(fitted, plan, steps, target)
        with _certified(certificate, about):
            _save(fitted, plan.ledger, target, unchanged, work)
    if json:
        console.show_json(about)
        return
    console.show_pairs(_certificate_pairs(about, target, certificate))


@contextmanager
def _certified(path: str | None, about: dict[str, Any]) -> Iterator[None]:
    """The certificate is whole on the disk before the model takes its place, and gets its name right after."""
    if path is None:
        yield
        return
    text = json_text.dumps(console.plain(about), indent=2, ensure_ascii=False) + "\n"
    with container.replacing(Path(path)) as file:
        file.write(text.encode("utf-8", errors="backslashreplace"))
        file.flush()
        os.fsync(file.fileno())
        yield


def _target(model: str, out: str | None, sources: list[str]) -> str:
    """Where the changed model goes, checked before any work is done."""
    if out is None or (os.path.exists(out) and os.path.exists(model) and os.path.samefile(out, model)):
        out = model
    for source in sources:
        if os.path.exists(source) and os.path.exists(model) and os.path.samefile(source, model):
            raise OffdiagError(f"expected a model and a log, received {source!r} as both; name the other one")
        choosing.check_target(out, source)
    return out


def _loaded(model: str) -> tuple[Any, Ledger]:
    import offdiag as od

    fitted = od.load(model)
    if fitted._ledger is None:
        raise OffdiagError(
            f"expected a model that was fitted with offdiag fit --updatable, received {model!r}, which does not say "
            "what it has counted; fit it again with --updatable"
        )
    return fitted, fitted._ledger


def _changed(fitted: Any, plan: Plan, prove: bool, work: console.Work) -> list[Any]:
    """Both halves of the plan; who changes comes before who was leaves, so that no item is lost in between."""
    steps = []
    if plan.add is not None:
        work.begin("updating")
        fitted.update(plan.add, progress=work)
        steps.append(fitted.last_change)
    if plan.remove is not None:
        work.begin("forgetting")
        steps.append(fitted.forget(plan.remove, prove=prove, progress=work))
    return steps


def _save(fitted: Any, ledger: Ledger, target: str, unchanged: Any, work: console.Work) -> None:
    from offdiag import persist

    fitted._ledger = ledger
    work.begin("saving")
    persist.save(fitted, target, updatable=True, progress=work, ready=unchanged)


def _step_pairs(steps: list[Any]) -> dict[str, str]:
    pairs = {}
    for step in steps:
        what = {"update": "histories added", "forget": "histories removed"}[step.action]
        items = [f"{len(step.new_items):,} new items"] * bool(step.new_items)
        items += [f"{len(step.gone_items):,} items gone"] * bool(step.gone_items)
        pairs[what] = ", ".join([f"{step.users:,}", f"by {step.method}", *items])
    if steps:
        pairs["weights"] = _near(max(step.weight_error for step in steps), "a new fit")
    return pairs


def _near(error: float, what: str) -> str:
    return f"within {error:.2g} of {what} (estimated)" if error else f"those of {what}"


def _certificate(fitted: Any, plan: Plan, steps: list[Any], target: str) -> dict[str, Any]:
    """What may be kept as a proof: no user and no item, not even those that left with their last user, only numbers."""
    from datetime import UTC, datetime

    from offdiag import __version__

    done: dict[str, Any] = {"action": "forget", "method": "nothing to do", "interactions": 0}
    if steps:
        done = steps[-1].to_dict()
    for name in {"new_items", "gone_items"} & set(done):
        done[name] = len(done[name])
    return {
        **done,
        "users": plan.changed_users,
        "n_users": fitted.n_users_,
        "n_items": len(fitted.item_ids_),
        "events": plan.old_events,
        "model": type(fitted).__name__,
        "file": os.path.basename(target),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "offdiag_version": __version__,
    }


def _certificate_pairs(about: dict[str, Any], target: str, certificate: str | None) -> dict[str, str]:
    gone = about.get("gone_items", 0)
    left = f"{about['n_users']:,} users, {about['n_items']:,} items"
    by = f"by {about['method']}" if about["method"] != "nothing to do" else "nothing of theirs was in the weights"
    pairs = {
        "forgotten": f"users: {about['users']:,}, interactions: {about['interactions']:,}, events: {about['events']:,}",
        "how": by,
        "model": left + (f" ({gone:,} items gone)" if gone else ""),
    }
    if "residual" in about:
        pairs["residual"] = f"{about['residual']:.2g}, accepted up to {about['tolerance']:.2g}"
        pairs["weights"] = _near(about["weight_error"], "a fit without them")
        if about["proof"] is not None:
            pairs["proof"] = f"largest difference from a fit without them, measured: {about['proof']:.2g}"
        pairs |= {"before": about["before"], "after": about["after"]}
    pairs["saved to"] = f"{target} ({facts.size(os.path.getsize(target))})"
    return pairs | ({} if certificate is None else {"certificate": certificate})
