"""`offdiag similar`: the items most similar to an item."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from offdiag.cli import console, inputs
from offdiag.cli.commands import Json, ModelFile

EXAMPLES = ('offdiag similar films.od "Alien" "Blade Runner"',)


def similar(
    model: ModelFile,
    items: Annotated[list[str], Argument(metavar="ITEM", help="One or more item ids.")],
    k: Annotated[int, Option("-k", "--k", help="How many items for each.")] = 10,
    space: Annotated[str, Option(help="score, or for low-rank embeddings encoder or decoder.")] = "score",
    json: Json = False,
) -> None:
    """Show the items most similar to an item.

    By score: what a user who has only this item is recommended. Or by the cosine of embeddings.
    """
    import offdiag as od

    fitted = od.load(model)
    ids = inputs.parse_items(items, fitted)
    lists = list(zip(ids, fitted.similar(ids, k=k, space=space), strict=True))
    if json:
        console.show_json([{"item": i, "similar": [{"item": j, "score": s} for j, s in others]} for i, others in lists])
        return
    for item, others in lists:
        rows = [[rank, other, f"{score:.4f}"] for rank, (other, score) in enumerate(others, 1)]
        console.show_table([">rank", f"similar to {console.printable(item)}", ">score"], rows)
