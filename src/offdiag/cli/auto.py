"""`offdiag auto`: the best model for a table within a time budget, and how sure that is."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option

from offdiag import wording
from offdiag.cli import console, fit, group_options, inputs, item_features, outputs, products
from offdiag.cli.commands import DataFile, Json, Seed, complete_metric
from offdiag.cli.inputs import FilteredColumns
from offdiag.errors import OffdiagError
from offdiag.report import writer

if TYPE_CHECKING:
    from offdiag import Autopilot

EXAMPLES = (
    "offdiag auto log.csv --minutes 5 --out model.od",
    "offdiag auto log.csv --serve new --plot race.svg",
    "offdiag auto log.csv --time day --at 2024-06-01 --features products.csv",
)


def auto(
    data: DataFile,
    minutes: Annotated[float, Option(help="Time for everything; the automatic model is fitted in any case.")] = 5.0,
    serve: Annotated[
        Literal["known", "new", "next"] | None,
        Option(help="Whom it will serve: known users, new users, or anyone's next choice. Default: by the data."),
    ] = None,
    at: Annotated[
        str | None, Option(metavar="DATE", help="Judge it by what is chosen from this date or number on; needs --time.")
    ] = None,
    metric: Annotated[
        str | None, Option(metavar="NAME", autocompletion=complete_metric, help="What to maximise.")
    ] = None,
    out: Annotated[
        str | None, Option("--out", "-o", metavar="MODEL", help="Save the model, fitted on everyone, there.")
    ] = None,
    plot: Annotated[str | None, Option(metavar="FILE", help="Draw accuracy against time into this SVG file.")] = None,
    resume: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Keep what is measured there, so that a run that was killed continues. Default: MODEL.race.",
        ),
    ] = None,
    features: item_features.FeatureFile = None,
    feature_columns: item_features.FeatureColumns = None,
    groups: group_options.Groups = None,
    group_column: group_options.GroupColumn = None,
    catalogue: products.CatalogueFile = None,
    catalogue_columns: products.CatalogueColumns = None,
    seed: Seed = 0,
    json: Json = False,
    columns: FilteredColumns = FilteredColumns(),  # noqa: B008 - frozen
) -> None:
    """Find the best model for a table by itself.

    It looks at the data, holds out as the model will be judged, tries families from cheap to dear, searches the
    settings of the best and blends them if that helps. Test users are asked once. Ctrl-C keeps the best so far; after
    a kill, the same command continues.
    """
    import offdiag as od
    from offdiag import plots
    from offdiag.autopilot import journal

    if minutes <= 0:
        raise OffdiagError(f"expected --minutes above 0, received {minutes:g}")
    kept = resume or (None if out is None else f"{out}.race")
    for name, option, example in ((out, "out", "model.od"), (plot, "plot", "race.svg"), (kept, "resume", "best.race")):
        if name is not None:
            outputs.check_file(name, data, option, example)
    shop = products.given(catalogue, catalogue_columns)
    known = item_features.given(features, feature_columns)
    with console.working() as work:
        work.begin(f"reading {inputs.name_of(data)}")
        every = columns.time is not None and columns.negative != "net"  # models of order learn from every event
        inter = inputs.read_filtered(data, replace(columns, in_order=columns.in_order or every))
        work.begin("")  # the race says what it does
        given: dict[str, Any] = {
            "item_features": item_features.noted(known, inter.item_ids),
            "groups": group_options.read(groups, group_column, inter.item_ids),
        }
        try:
            found = od.auto(
                inter, seconds=60 * minutes, metric=metric, serve=serve, at=_moment(at), seed=seed, resume=kept,
                progress=work, **given,
            )  # fmt: skip
        except OffdiagError as error:
            raise OffdiagError(_as_options(str(error))) from None
        if found.stopped == "interrupted":
            more = "" if kept is None else "; the same command continues the race"
            console.note(f"interrupted; continuing with the best model so far{more}")
        if shop is not None:
            products.attach(found.model, shop)
        if plot is not None:
            writer.replace_text(Path(plot), plots.race(found).svg())
        if out is not None:
            fit.save(found.model, out, None, None, found.test["chosen"], work)
            if resume is None and kept is not None and found.stopped != "interrupted":
                journal.remove(kept)
    about = as_json(found) | {"file": out, "bytes": None if out is None else os.path.getsize(out), "plot": plot}
    if json:
        console.show_json(about)
    else:
        show(found, about)


def _moment(at: str | None) -> float | str | None:
    """A number, or the text of a date."""
    try:
        return None if at is None else float(at)
    except ValueError:
        return at


def _as_options(text: str) -> str:
    return re.sub(r"\b(serve|at|history_decay)= ?", lambda found: f"--{found[1].replace('_', '-')} ", text)


def as_json(found: Autopilot) -> dict[str, Any]:
    """Everything, as JSON."""
    return {
        "model": type(found.model).__name__,
        "settings": found.model.settings_,
        "metric": found.metric,
        "serve": found.serve,
        "seen": list(found.sights),
        "test": {name: result.to_dict() for name, result in found.test.items()},
        "gain": found.gain.to_dict(),
        "verdict": found.verdict,
        "notes": [*found.notes, *found.advice],
        "again": found.repeat,
        "command": found.command,
        "history_decay": found.history_decay,
        "rows": found.to_dicts(),
        "seconds": found.seconds,
        "stopped": found.stopped,
    }


def show(found: Autopilot, about: dict[str, Any]) -> None:
    """Print the same: what was seen, the table, the verdict."""
    from offdiag.autopilot.outcome import report_cells

    pairs: dict[str, Any] = {
        "seen": "; ".join(_as_options(one) for one in found.sights),
        "chosen": f"{found.chosen.family} ({about['model']})",
        "test": found.verdict,
        **({"notes": "; ".join(_as_options(one) for one in about["notes"])} if about["notes"] else {}),
        "again": [found.command or found.repeat],
        "time": wording.seconds(found.seconds),
    }
    if about["plot"] is not None:
        pairs["plot"] = about["plot"]
    if about["file"] is not None:
        pairs["saved to"] = outputs.saved_text(about["file"])
    console.show_pairs(pairs)
    console.say("\nTried, on the validation users:")
    (family, metric, *_), *rows = report_cells(found)
    head = [family, f">{metric}", ">fit", ">memory", ">size", "note"]
    measured = [row for row in rows if row[1] != "–"]
    console.show_table(head, measured, narrow=([*head[:3], head[5]], [[*row[:3], row[5]] for row in measured]))
    for row in rows:
        if row[1] == "–":
            console.say(f"{row[0]}: {row[5]}", hang=2)
