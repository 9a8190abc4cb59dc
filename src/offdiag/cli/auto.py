"""`offdiag auto`: the best model for a table within a time budget, and how sure that is."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option

from offdiag import wording
from offdiag.cli import console, fit, inputs, outputs, products
from offdiag.cli.commands import DataFile, Json, Seed, complete_metric
from offdiag.cli.inputs import FilteredColumns
from offdiag.errors import OffdiagError
from offdiag.report import writer

if TYPE_CHECKING:
    from offdiag import Autopilot

EXAMPLES = ("offdiag auto log.csv --minutes 5 --out model.od", "offdiag auto log.csv --serve new --plot race.svg")


def auto(
    data: DataFile,
    minutes: Annotated[float, Option(help="Time for everything; the automatic model is fitted in any case.")] = 5.0,
    serve: Annotated[
        Literal["known", "new", "next"] | None,
        Option(help="Whom it will serve: known users, new users, or anyone's next choice. Default: by the data."),
    ] = None,
    metric: Annotated[
        str | None, Option(metavar="NAME", autocompletion=complete_metric, help="What to maximise.")
    ] = None,
    out: Annotated[
        str | None, Option("--out", "-o", metavar="MODEL", help="Save the model, fitted on everyone, there.")
    ] = None,
    plot: Annotated[str | None, Option(metavar="FILE", help="Draw accuracy against time into this SVG file.")] = None,
    catalogue: products.CatalogueFile = None,
    catalogue_columns: products.CatalogueColumns = None,
    seed: Seed = 0,
    json: Json = False,
    columns: FilteredColumns = FilteredColumns(),  # noqa: B008 - frozen
) -> None:
    """Find the best model for a table by itself.

    It looks at the data, holds out as the model will be judged, tries families from cheap to dear, searches the
    settings of the best and blends them if that helps. Test users are asked once. Ctrl-C keeps the best so far.
    """
    import offdiag as od
    from offdiag import plots

    if minutes <= 0:
        raise OffdiagError(f"expected --minutes above 0, received {minutes:g}")
    for name, option, example in ((out, "out", "model.od"), (plot, "plot", "race.svg")):
        if name is not None:
            outputs.check_file(name, data, option, example)
    shop = products.given(catalogue, catalogue_columns)
    with console.working() as work:
        work.begin(f"reading {inputs.name_of(data)}")
        every = columns.time is not None and columns.negative != "net"  # models of order learn from every event
        inter = inputs.read_filtered(data, replace(columns, in_order=columns.in_order or every))
        work.begin("trying models")
        found = od.auto(inter, seconds=60 * minutes, metric=metric, serve=serve, seed=seed, progress=work)
        if found.stopped == "interrupted":
            console.note("interrupted; continuing with the best model so far")
        if shop is not None:
            products.attach(found.model, shop)
        if plot is not None:
            writer.replace_text(Path(plot), plots.race(found).svg())
        if out is not None:
            fit.save(found.model, out, None, None, found.test["chosen"], work)
    about = as_json(found) | {"file": out, "bytes": None if out is None else os.path.getsize(out), "plot": plot}
    if json:
        console.show_json(about)
    else:
        show(found, about)


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
        "rows": found.to_dicts(),
        "seconds": found.seconds,
        "stopped": found.stopped,
    }


def show(found: Autopilot, about: dict[str, Any]) -> None:
    """Print the same: what was seen, the table, the verdict."""
    pairs: dict[str, Any] = {
        "seen": list(found.sights),
        "chosen": f"{found.chosen.family} ({about['model']})",
        "settings": [found.repeat],
        "test": found.verdict,
        **({"notes": about["notes"]} if about["notes"] else {}),
        "time": wording.seconds(found.seconds),
    }
    if about["plot"] is not None:
        pairs["plot"] = about["plot"]
    if about["file"] is not None:
        pairs["saved to"] = outputs.saved_text(about["file"])
    console.show_pairs(pairs)
    console.say("\nTried, on the validation users:")
    rows = []
    for row in found.ranked:
        result = row.result
        mean = "-" if result is None else wording.with_error(result.mean[found.metric], result.sem[found.metric])
        seconds = "-" if result is None else wording.seconds(row.fit_seconds)
        rows.append(
            [row.family, mean, seconds, wording.size(row.n_bytes) if row.n_bytes else "-", row.note or row.state]
        )
    console.show_table(["family", f">{found.metric}", ">fit", ">size", "note"], rows)
