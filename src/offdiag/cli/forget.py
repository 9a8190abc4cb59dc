"""`offdiag forget`: remove users from a saved model, and issue a certificate."""

from __future__ import annotations

import json as json_text
import os
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from offdiag.cli import console, inputs, log_inputs, model_change, outputs
from offdiag.cli.commands import Json, KeyFile
from offdiag.cli.log_inputs import LogColumns
from offdiag.errors import OffdiagError
from offdiag.files import switch

if TYPE_CHECKING:
    from offdiag.living.certificate import Certificate
    from offdiag.living.events import LogPlan
    from offdiag.living.ledger import Ledger
    from offdiag.models.recommender import Recommender

EXAMPLES = (
    "offdiag forget films.od --users rows-of-ann.csv --certificate ann.json",
    "offdiag forget films.od --users ids.txt --events ratings.csv --prove",
)


def forget(
    model: model_change.UpdatableFile,
    users: Annotated[
        str,
        typer.Option("--users", metavar="FILE", help="All rows of the users or, with --events, only their ids."),
    ],
    events: Annotated[
        str | None, typer.Option("--events", metavar="SOURCE", help="A log that holds their rows, among others.")
    ] = None,
    users_query: Annotated[
        str | None, typer.Option("--users-query", help="With --events, if --users is a database: what selects the ids.")
    ] = None,
    prove: Annotated[
        bool, typer.Option("--prove", help="Also fit again on what is left and measure the largest difference.")
    ] = False,
    certificate: Annotated[
        str | None, typer.Option("--certificate", metavar="FILE", help="Write the certificate there, as JSON.")
    ] = None,
    rotate_key: Annotated[
        bool,
        typer.Option("--rotate-key", help="Use a new key and destroy the old one: older copies become unreadable."),
    ] = False,
    out: model_change.Out = None,
    key_file: KeyFile = None,
    json: Json = False,
    columns: LogColumns = LogColumns(),  # noqa: B008 - frozen
) -> None:
    """Remove users from a model exactly, and certify it.

    The model is then that of a fit without them. All of them or none: a user who is not in the model, or whose rows are
    not those that were counted, is an error. If a run was killed, run the command again.
    """
    from offdiag.living import events as log

    sources = [users, *([] if events is None else [events])]
    target = model_change.target_of(model, out, sources)
    for other in (model, users, events or "", target) if certificate is not None else ():
        outputs.check_file(str(certificate), other, "certificate", "certificate.json")
    if certificate is not None and Path(certificate).resolve() == Path(target).resolve():
        raise OffdiagError(f"--certificate and --out are the same file {certificate!r}; choose two names")
    if users_query is not None and events is None:
        raise OffdiagError("--users-query goes with --events; without it --query selects the rows of --users")
    if rotate_key and target != model:
        raise OffdiagError("--rotate-key and --out do not go together: the old file would stay readable; leave one out")
    with model_change.open_model(model, target, sources, key_file) as change:
        ledger, work = change.ledger, change.work
        work.begin(f"reading {inputs.name_of(users)}")
        ids = None if events is None else log_inputs.read_ids(users, ledger.recipe, columns, users_query)
        if events is not None:
            work.begin(f"reading {inputs.name_of(events)}")
        else:
            log_inputs.check_rows(users, ledger.recipe, columns)
        table = log_inputs.read_rows(users if events is None else events, ledger.recipe, columns, ids)
        about = _certificate_of(log.request_of(ledger, table, ids), ledger, change.finished, certificate)
        if not about:
            plan = log.plan_forget(ledger, table, ids)

            def note(steps: list[Certificate]) -> switch.Note:
                about.update(_new_certificate(change.fitted, plan, steps, target))
                return _note(plan, about, certificate)

            about |= _screen_only(plan, change.commit(plan, prove=prove, rotate_key=rotate_key, note=note))
    if json:
        console.show_json(about)
        return
    console.show_pairs(log_inputs.column_pairs(ledger.recipe, columns) | _certificate_pairs(about, target, certificate))


def _certificate_of(
    request: str | None, ledger: Ledger, finished: switch.Note | None, certificate: str | None
) -> dict[str, Any]:
    """The certificate of this request if an interrupted run has completed it, otherwise {}."""
    if request is None:
        return {}
    if finished is not None and finished.request == request and finished.certificate is not None:
        found: dict[str, Any] = json_text.loads(finished.certificate)
        return found
    if certificate is None or not os.path.isfile(certificate):
        return {}
    try:
        about: dict[str, Any] = json_text.loads(Path(certificate).read_text("utf-8"))
        same = about["subject"] == subject_of(ledger, about["nonce"], request)
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return about if same else {}


def subject_of(ledger: Ledger, nonce: str, request: str) -> str:
    """The forgotten users, as a digest that only the holder of the model's key can check against a user."""
    from offdiag.living.certificate import digest_of

    return digest_of(ledger.roll(), nonce, request)


def _note(plan: LogPlan, about: dict[str, Any], certificate: str | None) -> switch.Note:
    text = json_text.dumps(console.plain(about), indent=2, ensure_ascii=False) + "\n"
    path = None if certificate is None else os.path.abspath(certificate)
    return switch.Note(certificate=text, certificate_path=path, request=plan.request)


def _new_certificate(fitted: Recommender, plan: LogPlan, steps: list[Certificate], target: str) -> dict[str, Any]:
    """What may be kept as proof: no user, no item, and nothing that depends on which or how many items they had."""
    from offdiag import __version__

    done = steps[-1].to_dict() if steps else {"action": "forget", "nonce": secrets.token_hex(16)}
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


def _screen_only(plan: LogPlan, steps: list[Certificate]) -> dict[str, Any]:
    """Shown on the screen, but not in the certificate, because it depends on how much data the users had."""
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
    pairs["model"] = f"{about['n_users']:,} users, {about['n_items']:,} items"
    if about.get("gone_items"):
        pairs["model"] += f" ({about['gone_items']:,} items gone)"
    if "residual" in about:
        pairs["residual"] = f"at most {about['residual']:.2g}, accepted up to {about['tolerance']:.2g}"
        pairs["weights"] = model_change.weight_error_text(about["weight_error"], "a fit without them")
        if about["proof"] is not None:
            pairs["proof"] = f"largest difference from a fit without them, measured: {about['proof']:.2g}"
            if about["objective_gap"] is not None:
                pairs["proof"] += f"; its objective is at most {about['objective_gap']:.2g} above that of the fit"
        pairs |= {"before": about["before"], "after": about["after"]}
    pairs["saved to"] = outputs.saved_text(target)
    return pairs | ({} if certificate is None else {"certificate": certificate})
