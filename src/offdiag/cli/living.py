"""`offdiag update` and `offdiag forget`: a saved model follows an event log, all of a change or none of it."""

from __future__ import annotations

import json as json_text
import os
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from offdiag import wording
from offdiag.cli import console, inputs, log_inputs, model_options
from offdiag.cli.log_inputs import LogColumns
from offdiag.cli.options import Json, KeyFile
from offdiag.errors import EarlierFormatWarning, OffdiagError
from offdiag.files import keys, lock, switch

if TYPE_CHECKING:
    from offdiag.living.events import Plan
    from offdiag.living.ledger import Ledger

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
    key_file: KeyFile = None,
    json: Json = False,
    columns: LogColumns = LogColumns(),  # noqa: B008 - frozen
) -> None:
    """Count the events that a model has not counted yet, exactly as a new fit would.

    EVENTS may hold the whole log: what was counted before is not counted twice. Of a user who is in the model already,
    all events must be in EVENTS. Running it again changes nothing; a run that was killed is simply run again.
    """
    from offdiag.living import events as log

    start = time.perf_counter()
    target = _target(model, out, events)
    change = _Change(model, target, key_file)
    with lock.changing(target, change.settle) as unchanged, console.working() as work:
        fitted, ledger = change.load()
        work.begin("reading " + ", ".join(map(inputs.name_of, events)))
        table = log_inputs.read_logs(events, ledger.recipe, columns)
        work.begin("comparing with the model")
        plan = log.coming(ledger, table)
        steps = _changed(fitted, plan, False, work) if plan.new_events else []
        if plan.new_events or target != model:
            change.save(fitted, plan.ledger, unchanged, work)
    about = {
        "file": target,
        "events": {"new": plan.new_events, "known": plan.old_events},
        "users": {"new": plan.new_users, "changed": plan.changed_users},
        "changes": [asdict(step) for step in steps],
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
            "saved to": f"{target} ({wording.size(os.path.getsize(target))})",
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
        str | None, typer.Option("--users-query", help="Selects the ids, where --users is a database next to --events.")
    ] = None,
    prove: Annotated[
        bool, typer.Option("--prove", help="Also fit again on what is left, and measure the largest difference.")
    ] = False,
    certificate: Annotated[
        str | None, typer.Option("--certificate", metavar="FILE", help="Write the certificate there, as JSON.")
    ] = None,
    rotate_key: Annotated[
        bool,
        typer.Option("--rotate-key", help="Take a new key and destroy the old one: older copies become unreadable."),
    ] = False,
    out: Out = None,
    key_file: KeyFile = None,
    json: Json = False,
    columns: LogColumns = LogColumns(),  # noqa: B008 - frozen
) -> None:
    """Take users out of a model, exactly as if they had never been there, and certify it.

    All of them or none: a user who is not in the model, or whose rows are not those that were counted, is an error.
    A run that was killed is simply run again.
    """
    from offdiag.living import events as log

    target = _target(model, out, [users, *([] if events is None else [events])])
    for other in (model, users, events or "", target) if certificate is not None else ():
        model_options.check_target(str(certificate), other, "certificate", "certificate.json")
    if certificate is not None and Path(certificate).resolve() == Path(target).resolve():
        raise OffdiagError(f"--certificate and --out are the same file {certificate!r}; choose two names")
    if users_query is not None and events is None:
        raise OffdiagError("--users-query goes with --events; without it --query selects the rows of --users")
    if rotate_key and target != model:
        raise OffdiagError("--rotate-key and --out do not go together: the old file would stay readable; leave one out")
    change = _Change(model, target, key_file)
    with lock.changing(target, change.settle) as unchanged, console.working() as work:
        fitted, ledger = change.load()
        work.begin(f"reading {inputs.name_of(users)}")
        ids = None if events is None else log_inputs.read_ids(users, ledger.recipe, columns, users_query)
        if events is not None:
            work.begin(f"reading {inputs.name_of(events)}")
        else:
            log_inputs.check_rows(users, ledger.recipe, columns)
        table = log_inputs.read_rows(users if events is None else events, ledger.recipe, columns, ids)
        about = change.done_before(log.request_of(ledger, table, ids), ledger, certificate)
        if about is None:
            plan = log.leaving(ledger, table, ids)
            steps = _changed(fitted, plan, prove, work)
            about = _certificate(fitted, plan, steps, target)
            change.save(fitted, plan.ledger, unchanged, work, rotate_key, _note(plan, about, certificate))
            about |= _shown_once(plan, steps)
    if json:
        console.show_json(about)
        return
    console.show_pairs(_certificate_pairs(about, target, certificate))


class _Change:
    """One run of a command that changes a model: where it is read and written, and what an earlier run left to do."""

    def __init__(self, model: str, target: str, key_file: str | None) -> None:
        self._model, self._target, self._key = model, target, key_file
        self._finished: switch.Note | None = None

    def settle(self) -> None:
        """Finish what a killed run has begun; called with the lock held."""
        self._finished = switch.complete(Path(os.path.realpath(self._model)), keys.keys_of(self._key))
        if self._finished is not None:
            console.note(f"finished a change of {console.printable(self._model)} that had been interrupted")

    def load(self) -> tuple[Any, Ledger]:
        import offdiag as od
        from offdiag.living import exact_change

        fitted = od.load(self._model, key=self._key)
        ledger = exact_change.ledger_of(fitted)
        if ledger is None:
            raise OffdiagError(
                f"expected a model that was fitted with offdiag fit --updatable, received {self._model!r}, which does "
                "not say what it has counted (is its file .living missing?); fit it again with --updatable"
            )
        return fitted, ledger

    def done_before(self, request: str | None, ledger: Ledger, certificate: str | None) -> dict[str, Any] | None:
        """The certificate of this very request, if an interrupted run has carried it out."""
        if request is None:
            return None
        if self._finished is not None and self._finished.request == request and self._finished.certificate is not None:
            found: dict[str, Any] = json_text.loads(self._finished.certificate)
            return found
        if certificate is None or not os.path.isfile(certificate):
            return None
        try:
            about: dict[str, Any] = json_text.loads(Path(certificate).read_text("utf-8"))
            same = about["subject"] == subject_of(ledger, about["nonce"], request)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return about if same else None

    def save(
        self,
        fitted: Any,
        ledger: Ledger,
        unchanged: Any,
        work: console.Work,
        rotate_key: bool = False,
        note: switch.Note | None = None,
    ) -> None:
        from offdiag import persist
        from offdiag.living import state

        fitted._ledger = ledger
        work.begin("saving")
        first_format = fitted._first_format
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EarlierFormatWarning)  # said below, in the way of a command
            self._write(persist, fitted, unchanged, work, rotate_key, note)
        if first_format:
            beside = switch.living_path(Path(self._target)).name
            console.note(f"{console.printable(self._target)}: {state.REVEALED.format(living=beside)}")

    def _write(
        self, persist: Any, fitted: Any, unchanged: Any, work: console.Work, rotate_key: bool, note: switch.Note | None
    ) -> None:
        persist.save(
            fitted,
            self._target,
            updatable=True,
            key=self._key,
            rotate_key=rotate_key,
            note=note,
            progress=work,
            ready=unchanged,
        )


def subject_of(ledger: Ledger, nonce: str, request: str) -> str:
    """Who was forgotten, as a digest that only the holder of the model's key can compare with anybody."""
    from offdiag.living import exact_change

    return exact_change.digest_of(ledger.roll(), nonce, request)


def _note(plan: Plan, about: dict[str, Any], certificate: str | None) -> switch.Note:
    text = json_text.dumps(console.plain(about), indent=2, ensure_ascii=False) + "\n"
    path = None if certificate is None else os.path.abspath(certificate)
    return switch.Note(certificate=text, certificate_path=path, request=plan.request)


def _target(model: str, out: str | None, sources: list[str]) -> str:
    """Where the changed model goes, checked before any work is done."""
    if out is None or (os.path.exists(out) and os.path.exists(model) and os.path.samefile(out, model)):
        out = model
    for source in sources:
        if os.path.exists(source) and os.path.exists(model) and os.path.samefile(source, model):
            raise OffdiagError(f"expected a model and a log, received {source!r} as both; name the other one")
        model_options.check_target(out, source)
    return out


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
    """What may be kept as a proof: no user, no item, and nothing that depends on which or how many items they had."""
    import secrets
    from datetime import UTC, datetime

    from offdiag import __version__

    done: dict[str, Any] = {"action": "forget", "nonce": secrets.token_hex(16)}
    if steps:
        done = steps[-1].to_dict()
    return {
        **done,
        "users": plan.changed_users,
        "n_users": fitted.n_users_,
        "n_items": len(fitted.item_ids_),
        "subject": subject_of(plan.ledger, done["nonce"], str(plan.request)),
        "model": type(fitted).__name__,
        "file": os.path.basename(target),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "offdiag_version": __version__,
    }


def _shown_once(plan: Plan, steps: list[Any]) -> dict[str, Any]:
    """What is on the screen of whoever forgets, but not in the certificate: it depends on how much they had."""
    return {
        "method": steps[-1].method if steps else "nothing to do",
        "interactions": sum(step.interactions for step in steps),
        "events": plan.old_events,
        "gone_items": sum(len(step.gone_items) for step in steps),
    }


def _certificate_pairs(about: dict[str, Any], target: str, certificate: str | None) -> dict[str, str]:
    pairs = {"forgotten": f"users: {about['users']:,}"}
    if "interactions" in about:
        pairs["forgotten"] += f", interactions: {about['interactions']:,}, events: {about['events']:,}"
        nothing = about["method"] == "nothing to do"
        pairs["how"] = "nothing of theirs was in the weights" if nothing else f"by {about['method']}"
    pairs |= {
        "model": f"{about['n_users']:,} users, {about['n_items']:,} items",
    }
    if about.get("gone_items"):
        pairs["model"] += f" ({about['gone_items']:,} items gone)"
    if "residual" in about:
        pairs["residual"] = f"at most {about['residual']:.2g}, accepted up to {about['tolerance']:.2g}"
        pairs["weights"] = _near(about["weight_error"], "a fit without them")
        if about["proof"] is not None:
            pairs["proof"] = f"largest difference from a fit without them, measured: {about['proof']:.2g}"
        pairs |= {"before": about["before"], "after": about["after"]}
    pairs["saved to"] = f"{target} ({wording.size(os.path.getsize(target))})"
    return pairs | ({} if certificate is None else {"certificate": certificate})
