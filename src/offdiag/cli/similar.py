"""`offdiag similar`: the items most similar to an item."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from offdiag.cli import console, inputs, outputs, products
from offdiag.cli.commands import Json, ModelFile
from offdiag.cli.item_lookup import Lookup
from offdiag.errors import OffdiagError

EXAMPLES = (
    'offdiag similar films.od "Alien" "Blade Runner"',
    "offdiag similar films.od --all --out similar.parquet",
)


def similar(
    model: ModelFile,
    items: Annotated[list[str] | None, Argument(metavar="ITEM", help="One or more item ids or titles.")] = None,
    every: Annotated[bool, Option("--all", help="For every item of the model, instead of ITEM.")] = False,
    k: Annotated[int, Option("-k", "--k", help="How many items for each.")] = 10,
    space: Annotated[str, Option(help="score, or for low-rank embeddings encoder or decoder.")] = "score",
    allow: Annotated[Path | None, Option(metavar="FILE", help="List only these ids, one per line.")] = None,
    block: Annotated[Path | None, Option(metavar="FILE", help="Never list these ids, one per line.")] = None,
    also: products.With = None,
    out: outputs.Out = None,
    rows_per_file: outputs.RowsPerFile = None,
    to: outputs.To = None,
    json: Json = False,
) -> None:
    """Show the items most similar to an item.

    By score: what a user who has only this item is recommended. Or by the cosine of embeddings.
    """
    import offdiag as od

    if every == bool(items):
        raise OffdiagError("similar needs one ITEM or more, or --all, one of the two")
    wanted = outputs.destination(out, rows_per_file, to, json, reads=[model])
    fitted = od.load(model)
    catalogue, shown = products.shown(fitted, None, also)
    ids = fitted.item_ids_.tolist() if every else Lookup(fitted).items(items or [])
    lists = fitted.similar(
        ids,
        k=k,
        space=space,
        allow=None if allow is None else inputs.read_ids(allow, fitted),
        block=None if block is None else inputs.read_ids(block, fitted),
    ).with_catalogue(catalogue, shown)
    inputs.note_unknown(lists.unknown_in_filters, " (--allow, --block)")
    if json:
        each = [
            {"item": i, "similar": [products.with_cells({"item": j, "score": s}, catalogue, shown) for j, s in others]}
            for i, others in zip(ids, lists, strict=True)
        ]
        console.show_json([products.with_cells(one, catalogue, ("title",)) for one in each])
    elif wanted is not None:
        with console.working() as work:
            outputs.note_lists(wanted.write([lists], work, len(lists)))
    else:
        table = lists.to_polars()
        at = 0
        for item, n in zip(ids, lists.lengths.tolist(), strict=True):
            if (label := products.label(item, catalogue)) != str(item):
                console.say(f"{console.printable(label)}:")
            part = table.slice(at, n).drop("item").rename({"similar": f"similar to {console.printable(item)}"})
            outputs.show_lists(part)
            at += n
