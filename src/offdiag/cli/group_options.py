"""--groups of `offdiag fit` and `offdiag tune`: items that are variants of one thing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from offdiag import Catalogue
    from offdiag.models.recommender import Recommender

Groups = Annotated[
    str | None,
    Option(metavar="FILE", help="A table of items and their groups (sizes, episodes): none explains another."),
]
GroupColumn = Annotated[str | None, Option(metavar="COLUMN", help="Column of --groups. Default: found by its name.")]


def check(learner: Recommender, groups: str | None, column: str | None) -> None:
    """Raise now if the model takes no groups."""
    from offdiag.models import grouping

    if groups is not None:
        grouping.check_taken(learner)
    elif column is not None:
        raise OffdiagError("--group-column names a column of --groups; add --groups FILE")


def read(groups: str | None, column: str | None, item_ids: NDArray[Any]) -> Catalogue | None:
    """The groups of the items of the data."""
    from offdiag.data.groups import read_groups

    if groups is None:
        return None
    try:
        return read_groups(groups, item_ids, column)
    except OffdiagError as error:
        text = str(error).replace("call it group, or name it: od.read_catalogue(source, group=…)", "use --group-column")
        raise OffdiagError(text) from None


def facts(model: Recommender) -> dict[str, Any] | None:
    """How many groups of two items or more a model has."""
    import numpy as np

    from offdiag.data.groups import group_numbers

    if model.groups_ is None:
        return None
    sizes = np.bincount(group_numbers(model.groups_, model.item_ids_))
    return {"groups": int((sizes > 1).sum()), "items": int(sizes[sizes > 1].sum()), "largest": int(sizes.max())}


def facts_text(found: dict[str, Any]) -> str:
    return f"{found['groups']:,} groups of {found['items']:,} items, at most {found['largest']:,} in one"
