"""`offdiag similar`: the items most similar to an item."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from offdiag.cli import console, inputs, outputs
from offdiag.cli.commands import Json, ModelFile
from offdiag.errors import OffdiagError

EXAMPLES = (
    'offdiag similar films.od "Alien" "Blade Runner"',
    "offdiag similar films.od --all --out similar.parquet",
)


def similar(
    model: ModelFile,
    items: Annotated[list[str] | None, Argument(metavar="ITEM", help="One or more item ids.")] = None,
    every: Annotated[bool, Option("--all", help="For every item of the model, instead of ITEM.")] = False,
    k: Annotated[int, Option("-k", "--k", help="How many items for each.")] = 10,
    space: Annotated[str, Option(help="score, or for low-rank embeddings encoder or decoder.")] = "score",
    allow: Annotated[Path | None, Option(metavar="FILE", help="List only these ids, one per line.")] = None,
    block: Annotated[Path | None, Option(metavar="FILE", help="Never list these ids, one per line.")] = None,
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
    ids = fitted.item_ids_.tolist() if every else inputs.parse_items(items or [], fitted)
    lists = fitted.similar(
        ids,
        k=k,
        space=space,
        allow=None if allow is None else inputs.read_ids(allow, fitted),
        block=None if block is None else inputs.read_ids(block, fitted),
    )
    inputs.note_unknown(lists.unknown_in_filters, " (--allow, --block)")
    if json:
        pairs = zip(ids, lists, strict=True)
        console.show_json([{"item": i, "similar": [{"item": j, "score": s} for j, s in others]} for i, others in pairs])
    elif wanted is not None:
        with console.working() as work:
            outputs.note_lists(wanted.write([lists], work, len(lists)))
    else:
        for item, others in zip(ids, lists, strict=True):
            rows = [[rank, other, f"{score:.4f}"] for rank, (other, score) in enumerate(others, 1)]
            console.show_table([">rank", f"similar to {console.printable(item)}", ">score"], rows)
