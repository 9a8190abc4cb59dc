"""Features of items on the command line: read with notes, from the kinds that --feature-columns names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from offdiag.cli import console
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from offdiag import Features
    from offdiag.models.recommender import Recommender

KINDS = ("item", "categories", "text", "numbers", "vectors")
FeatureFile = Annotated[
    str | None,
    Option("--features", metavar="FILE", help="A table of what is known about items: categories, text, numbers, …"),
]
FeatureColumns = Annotated[
    str | None,
    Option(
        "--feature-columns", metavar="KIND=COLUMN,…",
        help="Its columns, e.g. item=sku,categories=brand,text=title. Default: found.",
    ),
]  # fmt: skip


def given(features: str | None, columns: str | None) -> Features | None:
    """The table of --features and --feature-columns; what was guessed or left out is printed."""
    import offdiag as od

    if features is None:
        if columns is not None:
            raise OffdiagError("--feature-columns names columns of a table of features; add --features FILE")
        return None
    try:
        found = od.read_features(features, **parse_columns(columns or ""))
    except OffdiagError as error:
        raise OffdiagError(re.sub(r"\b(item|categories)=(…|\[…\])", r"--feature-columns \1=…", str(error))) from None
    for note in found.notes:
        console.note(note)
    return found


def check(learner: Recommender, features: str | None, model: str) -> None:
    """Check that this model learns from features, before anything is read."""
    if features is not None and "feature_weight" not in learner.get_params():
        raise OffdiagError(f"--features is for models of the linear family, received --model {model}; leave it out")


def noted(known: Features | None, item_ids: NDArray[Any]) -> Features | None:
    """The same features; which items lack them, or are not in the data, is printed; other items alone are an error."""
    if known is None:
        return None
    from offdiag.data.features import check_features

    try:
        found = check_features(known, item_ids)
    except OffdiagError as error:
        raise OffdiagError(str(error).replace("with item=…", "with --feature-columns item=COLUMN")) from None
    for note in found.notes:
        console.note(note)
    return known


def parse_columns(text: str) -> dict[str, Any]:
    """``item=sku,categories=brand,categories=3``: the arguments of od.read_features; a kind may have many columns."""
    found: dict[str, Any] = {}
    for part in (part.strip() for part in text.split(",") if part.strip()):
        kind, mark, column = (word.strip() for word in part.partition("="))
        if not mark or not column or kind not in KINDS:
            raise OffdiagError(
                f"--feature-columns takes KIND=COLUMN separated by commas, KIND one of {', '.join(KINDS)}, "
                f"received {part!r}"
            )
        name = int(column) if re.fullmatch(r"[0-9]+", column) else column
        if kind == "item" and kind in found:
            raise OffdiagError("--feature-columns takes one column of item ids, received two; leave one out")
        found[kind] = name if kind == "item" else [*found.get(kind, []), name]
    return found
