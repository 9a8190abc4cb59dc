"""`offdiag demo`: the study of `demo_study.py` on synthetic data or a table, as a report and a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from offdiag.cli import console, inputs
from offdiag.cli.inputs import FilteredColumns
from offdiag.cli.options import DataOrSynthetic, Items, Json, Seed, Users

EXAMPLES = ("offdiag demo", "offdiag demo ratings.csv --value rating --at-least 4 --out films")


def demo(
    data: DataOrSynthetic = None,
    out: Annotated[str, typer.Option("--out", "-o", metavar="FOLDER", help="Where the report and model go.")] = "demo",
    users: Users = 6000,
    items: Items = 1000,
    seed: Seed = 0,
    json: Json = False,
    columns: FilteredColumns = FilteredColumns(),  # noqa: B008 - frozen
) -> None:
    """Compare four models on new users and write an HTML report.

    Popularity, EASE, DLAE and EDLAE; some of the new users get recommendations with reasons.
    """
    from offdiag.cli import demo_study

    demo_study.check_folder(Path(out))
    with console.working() as work:
        inter, source = inputs.read_or_generate(data, columns, users, items, seed, work)
        study = demo_study.run(inter, source, seed, work)
        study = demo_study.write(study, inter, Path(out), work, with_data=data is None)
    if json:
        console.show_json(demo_study.as_json(study, Path(out)))
    else:
        demo_study.show(study, Path(out))
