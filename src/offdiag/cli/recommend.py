"""`offdiag recommend`: the best items for histories that are typed or read from a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from offdiag.cli import console, inputs
from offdiag.cli.commands import IncludeSeen, Json, ModelFile
from offdiag.cli.inputs import Columns
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    from offdiag.recommendations import Recommendations

EXAMPLES = ('offdiag recommend films.od --history "Alien,Blade Runner" -k 5',)


def recommend(
    model: ModelFile,
    history: Annotated[
        list[str] | None, Option(metavar="IDS", help='Item ids separated by commas ("" for none); once per user.')
    ] = None,
    histories: Annotated[str | None, Option(metavar="DATA", help="A table of interactions: one list per user.")] = None,
    k: Annotated[int, Option("-k", "--k", help="How many items.")] = 10,
    allow: Annotated[Path | None, Option(metavar="FILE", help="Recommend only these ids, one per line.")] = None,
    block: Annotated[Path | None, Option(metavar="FILE", help="Never recommend these ids, one per line.")] = None,
    include_seen: IncludeSeen = False,
    strict: Annotated[
        bool, Option("--strict", help="Reject ids that the model does not know, instead of ignoring them.")
    ] = False,
    json: Json = False,
    columns: Columns = Columns(),  # noqa: B008 - frozen
) -> None:
    """Recommend items for histories typed here or read from a file."""
    import offdiag as od

    if bool(history) == (histories is not None):
        raise OffdiagError('recommend needs --history "id,id,…" or --histories FILE, one of the two')
    fitted = od.load(model)
    rows: Any
    if histories is not None:
        rows = inputs.read_for(fitted, histories, columns)
        users = rows.user_ids.tolist()
    else:
        rows = [inputs.parse_history(text, fitted) for text in history or []]
        users = list(range(1, len(rows) + 1))
    lists = fitted.recommend(
        rows,
        k=k,
        exclude_seen=not include_seen,
        allow=None if allow is None else inputs.read_ids(allow, fitted),
        block=None if block is None else inputs.read_ids(block, fitted),
        strict=strict,
    )
    inputs.note_unknown([item for unknown in lists.unknown_in_histories for item in unknown])
    inputs.note_unknown(lists.unknown_in_filters, " (--allow, --block)")
    if json:
        console.show_json(
            [
                {"user": user, "items": [{"item": i, "score": s} for i, s in items], "unknown": unknown}
                for user, items, unknown in zip(users, lists, lists.unknown, strict=True)
            ]
        )
    else:
        show(users, lists)


def show(users: Sequence[Any], lists: Recommendations) -> None:
    one = len(users) == 1
    rows = [
        [*([] if one else [user]), rank, item, f"{score:.4f}"]
        for user, items in zip(users, lists, strict=True)
        for rank, (item, score) in enumerate(items, 1)
    ]
    console.show_table([*([] if one else ["user"]), ">rank", "item", ">score"], rows)
