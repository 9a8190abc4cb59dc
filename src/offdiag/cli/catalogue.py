"""`offdiag catalogue`: show, attach, replace or remove the products that a model file keeps."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from typer import Argument, Option

from offdiag.cli import console, inputs, model_change, outputs, products
from offdiag.cli.commands import Json, KeyFile, ModelFile
from offdiag.errors import EarlierFormatWarning, OffdiagError
from offdiag.files import switch

if TYPE_CHECKING:
    from offdiag import Catalogue
    from offdiag.models.recommender import Recommender

EXAMPLES = (
    "offdiag catalogue films.od films.csv --columns title=name,link=page",
    "offdiag catalogue films.od",
)


def catalogue(
    model: ModelFile,
    file: Annotated[
        str | None, Argument(metavar="FILE", help="A table of products, of any kind that `offdiag fit` reads.")
    ] = None,
    named: Annotated[
        str | None,
        Option(
            "--columns",
            metavar="NAME=COLUMN,…",
            help="Its columns, e.g. item=sku,title=name. Default: found by usual names.",
        ),
    ] = None,
    remove: Annotated[bool, Option("--remove", help="Take the catalogue out of the model file.")] = False,
    out: model_change.Out = None,
    form: Annotated[str | None, Option("--format", help="Format of FILE, as in `offdiag fit`.")] = None,
    separator: Annotated[str | None, Option(help="Separator of its columns. Default: detected.")] = None,
    encoding: Annotated[str, Option(help="Encoding of a text file, e.g. latin-1.")] = "utf-8",
    query: Annotated[str | None, Option(help="What to select from a database.")] = None,
    table: Annotated[str | None, Option(help="Of a database a table, of a workbook a sheet.")] = None,
    key_file: KeyFile = None,
    json: Json = False,
) -> None:
    """Keep the titles, categories, images, prices, links and groups of the items in a model file.

    Titles are then shown by every command, and items can be named by them. Without FILE, show what the model has.
    The file is replaced in one step; what the model has learned is not changed.
    """
    if remove and file is not None:
        raise OffdiagError("--remove takes the catalogue away, FILE gives one; leave one of them out")
    if file is None and not remove:
        given = {"--out": out, "--columns": named, "--format": form, "--query": query, "--table": table}
        if option := next((name for name, value in given.items() if value is not None), None):
            raise OffdiagError(f"{option} is about a new catalogue; give FILE or --remove")
        import offdiag as od

        _show(model, od.load(model), json)
        return
    separator = separator if separator is None else inputs.SEPARATORS.get(separator, separator)
    how: dict[str, Any] = {
        "format": form, "separator": separator, "encoding": encoding, "query": query, "table": table,
    }  # fmt: skip
    target = model_change.target_of(model, out, [] if file is None else [file])
    outputs.check_file(target, "")
    found = None if file is None else products.read(file, named, "--columns", **how)
    fitted = replace(model, target, found, key_file)
    if found is not None:
        products.note_coverage(found, fitted)
    _show(target, fitted, json)


def replace(model: str, target: str, found: Catalogue | None, key_file: str | None) -> Recommender:
    """Write the model with this catalogue."""

    def change(fitted: Recommender) -> None:
        with products.hints("--columns"):
            fitted.catalogue_ = found

    return rewrite(model, target, key_file, change)


def rewrite(model: str, target: str, key_file: str | None, change: Callable[[Recommender], None]) -> Recommender:
    """Write a model that was changed without its users; a file for update and forget is written again with it."""
    import offdiag as od
    from offdiag import persist

    with switch.changing(target) as unchanged, console.working() as work:
        work.begin(f"reading {os.path.basename(model)}")
        fitted: Recommender = od.load(model, key=key_file)
        about = persist.describe(model)
        updatable = "gram" in about or switch.living_path(Path(os.path.realpath(model))).exists()
        if updatable:
            from offdiag.living.past import ledger_of

            ledger_of(fitted)  # reads the living state, which names the model file that it belongs to
        change(fitted)
        work.begin("saving")
        first_format = fitted._past.first_format
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EarlierFormatWarning)
            persist.save(
                fitted, target, metrics=about["metrics"], updatable=updatable, key=key_file, progress=work,
                ready=unchanged,
            )  # fmt: skip
    if first_format:
        from offdiag.living.state import REVEALED

        console.note(f"{target}: {REVEALED.format(living=switch.living_path(Path(target)).name)}")
    return fitted


def _show(file: str, model: Recommender, json: bool) -> None:
    """What the model has, with the most popular items as examples."""
    found, facts = model.catalogue_, products.facts(model)
    if json:
        console.show_json({"file": file, "catalogue": facts})
        return
    console.show_pairs({"catalogue": products.facts_text(facts) if facts else "none", "file": outputs.saved_text(file)})
    if found is not None:
        top = model.item_ids_[np.argsort(-model.popularity_, kind="stable")[:5]].tolist()
        outputs.show_lists(found.select(top).to_polars())
