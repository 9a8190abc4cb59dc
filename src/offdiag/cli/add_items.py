"""`offdiag add-items`: add products that nobody has chosen yet to a model file, by what is known about them."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from offdiag import wording
from offdiag.cli import catalogue, console, inputs, model_change, outputs, products
from offdiag.cli.commands import Json, KeyFile, ModelFile
from offdiag.errors import FeaturesWarning, OffdiagError

if TYPE_CHECKING:
    from offdiag.models.new_items import NewItems
    from offdiag.models.recommender import Recommender

EXAMPLES = (
    "offdiag add-items films.od films.csv --categories genre --text plot",
    "offdiag add-items films.od --remove 4711,4712",
)
SHOWN = 10  # new items on the screen


def add_items(
    model: ModelFile,
    file: Annotated[
        str | None, Argument(metavar="PRODUCTS", help="A table of products: new ones, or all that there are.")
    ] = None,
    item: Annotated[str | None, Option(metavar="COLUMN", help="Its column of item ids. Default: found.")] = None,
    categories: Annotated[str | None, Option(metavar="COLUMNS", help="Columns of categories and tags.")] = None,
    text: Annotated[str | None, Option(metavar="COLUMNS", help="Columns of free text.")] = None,
    numbers: Annotated[str | None, Option(metavar="COLUMNS", help="Columns of numbers.")] = None,
    boost: Annotated[float, Option(help="Scores of these items are multiplied by it; above 1, they show up more.")] = 1,
    remove: Annotated[str | None, Option(metavar="ITEMS", help="Remove added items, separated by commas.")] = None,
    out: model_change.Out = None,
    form: Annotated[str | None, Option("--format", help="Format of PRODUCTS, as in `offdiag fit`.")] = None,
    separator: Annotated[str | None, Option(help="Separator of its columns. Default: detected.")] = None,
    encoding: Annotated[str, Option(help="Encoding of a text file, e.g. latin-1.")] = "utf-8",
    key_file: KeyFile = None,
    json: Json = False,
) -> None:
    """Add new products to a model without a fit: they are recommended from what they are like.

    Rows of products that the model knows are needed the first time, to compare with; later it has their features.
    `offdiag update` gives a new product weights of its own, once users have chosen it.
    """
    if (file is None) == (remove is None):
        raise OffdiagError("expected a table PRODUCTS of items to add, or --remove ITEMS; give one of them")
    start = time.perf_counter()
    target = model_change.target_of(model, out, [] if file is None else [file])
    outputs.check_file(target, "")
    left_out: list[str] = []

    def change(fitted: Recommender) -> None:
        if remove is not None:
            ids = [one.strip() for one in remove.split(",") if one.strip()]
            fitted.remove_items([_id_like(one, fitted) for one in ids])
            return
        separated = separator if separator is None else inputs.SEPARATORS.get(separator, separator)
        how: dict[str, Any] = {"format": form, "separator": separated, "encoding": encoding}
        columns = {"categories": categories, "text": text, "numbers": numbers}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", FeaturesWarning)
            fitted.add_items(_read(fitted, file or "", item, columns, how), boost=boost)
        left_out.extend(str(one.message) for one in caught if issubclass(one.category, FeaturesWarning))

    fitted = catalogue.rewrite(model, target, key_file, change)
    for note in left_out:
        console.note(note)
    _show(target, fitted, time.perf_counter() - start, json)


def _read(fitted: Recommender, file: str, item: str | None, columns: dict[str, str | None], how: dict[str, Any]) -> Any:
    """The features of the products, in the columns of those that the model has."""
    import offdiag as od

    named = {role: [one.strip() for one in text.split(",")] for role, text in columns.items() if text is not None}
    known = fitted.item_features_
    if known is not None and named:
        options = ", ".join(f"--{role}" for role in named)
        raise OffdiagError(f"the model has features already, and new items get the same; leave out {options}")
    found = od.read_features(file, item, **named, like=known, **how)  # type: ignore[arg-type]
    for note in found.notes:
        console.note(note)
    return found


def _id_like(text: str, fitted: Recommender) -> Any:
    """An item as typed, of the type of the model's ids."""
    return int(text) if fitted.item_ids_.dtype.kind in "iu" and text.lstrip("-").isdigit() else text


def facts(new: NewItems, fitted: Recommender) -> list[dict[str, Any]]:
    """Each new item and what it is like, JSON-ready."""
    shop = fitted.catalogue_
    return [
        products.with_cells(
            {"item": item, "like": [{"item": other, "weight": weight} for other, weight in new.like[item]]},
            shop, ("title",),
        )
        for item in new.items.tolist()
    ]  # fmt: skip


def _show(file: str, fitted: Recommender, seconds: float, json: bool) -> None:
    new = fitted.new_items_
    if json:
        about = {"file": file, "n_items": len(fitted.item_ids_), "new_items": facts(new, fitted), "seconds": seconds}
        console.show_json(about)
        return
    shown = [
        f"{products.label(item, fitted.catalogue_)}: like "
        + ", ".join(products.label(other, fitted.catalogue_) for other, _ in new.like[item][:3])
        for item in new.items[:SHOWN].tolist()
    ]
    console.show_pairs(
        {
            "new items": f"{len(new):,} of {len(fitted.item_ids_):,} items",
            "such as": "; ".join(shown) or "none",
            "time": wording.seconds(seconds),
            "saved to": outputs.saved_text(file),
        }
    )
