"""`offdiag demo`: the study of `demo.py` on synthetic data or a table, as a report and a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from offdiag.cli import console, inputs
from offdiag.cli.inputs import Columns
from offdiag.cli.options import AtLeast, Json, MinItems, MinUsers, Seed

EXAMPLE = "Examples: `offdiag demo`, `offdiag demo ratings.csv --value rating --at-least 4 --out films`"


def demo(
    data: Annotated[
        str | None,
        typer.Argument(metavar="[DATA]", help="Your own table; without it, a synthetic catalogue."),
    ] = None,
    out: Annotated[str, typer.Option("--out", "-o", metavar="FOLDER", help="Where the report and model go.")] = "demo",
    users: Annotated[int, typer.Option("--users", min=1, help="Users of the synthetic catalogue.")] = 6000,
    items: Annotated[int, typer.Option("--items", min=1, help="Items of the synthetic catalogue.")] = 1000,
    at_least: AtLeast = None,
    min_users: MinUsers = 1,
    min_items: MinItems = 1,
    seed: Seed = 0,
    json: Json = False,
    columns: Columns = Columns(),  # noqa: B008 - frozen
) -> None:
    """Compare popularity, EASE, DLAE and EDLAE on new users, recommend with reasons, write an HTML report."""
    from offdiag.cli import demo as study_of

    study_of.check_folder(Path(out))
    with console.working() as work:
        if data is None:
            work.begin("inventing a catalogue")
            inter = study_of.invented(users, items, seed)
            source = f"a synthetic catalogue (seed {seed})"
        else:
            work.begin(f"reading {inputs.name_of(data)}")
            inter = inputs.prepared(inputs.read(data, columns), columns, data, at_least, min_users, min_items)
            source = inputs.name_of(data)
        outcome = study_of.run(inter, source, seed, work)
        study = study_of.write(outcome, inter, Path(out), work, with_data=data is None)
    if json:
        console.show_json(study_of.as_json(study, Path(out)))
    else:
        study_of.show(study, Path(out))
