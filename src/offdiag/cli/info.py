"""`offdiag info`: describe a model file or a table of interactions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from offdiag import wording
from offdiag.cli import console, inputs, outputs, products
from offdiag.cli.commands import Json
from offdiag.cli.inputs import Columns
from offdiag.wording import size

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from offdiag import Interactions

EXAMPLES = ("offdiag info films.od", "offdiag info ratings.csv --value rating")
MOST_POPULAR = 10


def info(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A model file, or a table of interactions.")],
    json: Json = False,
    columns: Columns = Columns(),  # noqa: B008 - frozen
) -> None:
    """Describe a model file or a table of interactions."""
    if is_model(file):
        about = describe_model(file)
        pairs = _model_pairs(about)
    else:
        with console.working() as work:
            work.begin(f"reading {inputs.name_of(file)}")
            about = describe_data(file, inputs.read(file, columns))
        pairs = _data_pairs(about)
    if json:
        console.show_json(about)
        return
    console.show_pairs(pairs)
    if about["kind"] == "model" and about.get("metrics"):
        outputs.show_metrics("Measured on held-out users", about["metrics"])


def is_model(path: str) -> bool:
    """Whether a file starts like a saved model: a small length in 8 bytes, then JSON. Text never does."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        head = file.read(9)
    return len(head) == 9 and head[7] == 0 and head[8:] == b"{"


def describe_model(path: str) -> dict[str, Any]:
    """The header of a model file, and its most popular items."""
    import offdiag as od
    from offdiag import persist

    about = persist.describe(path)
    model = od.load(path)  # mapped, not read: this also detects a damaged file
    popular = _top(model.item_ids_, model.popularity_)
    popular = [products.with_cells(one, model.catalogue_, ("title",)) for one in popular]
    return {
        "kind": "model", "file": path, **about, "most_popular": popular, "catalogue": products.facts(model),
        "new_items": model.new_items_.items.tolist(),
    }  # fmt: skip


def describe_data(path: str, inter: Interactions) -> dict[str, Any]:
    """The size and shape of a table of interactions."""
    users, per_item = np.diff(inter.matrix.indptr), np.bincount(inter.matrix.indices, minlength=inter.n_items)
    values = inter.matrix.data
    return {
        "kind": "data",
        "file": path,
        "users": inter.n_users,
        "items": inter.n_items,
        "interactions": inter.nnz,
        "density": inter.nnz / max(inter.n_users * inter.n_items, 1),
        "items_per_user": _spread(users),
        "users_per_item": _spread(per_item),
        "values": {"least": float(values.min(initial=np.inf)), "most": float(values.max(initial=0))},
        "times": None if inter.times is None else [inter.times.min().item(), inter.times.max().item()],
        "most_popular": _top(inter.item_ids, per_item),
    }


def _spread(counts: NDArray[np.int64]) -> dict[str, float]:
    if not len(counts):
        return {"least": 0, "median": 0, "mean": 0, "most": 0}
    return {
        "least": int(counts.min()),
        "median": float(np.median(counts)),
        "mean": float(counts.mean()),
        "most": int(counts.max()),
    }


def _top(ids: NDArray[Any], counts: NDArray[Any]) -> list[dict[str, Any]]:
    order = np.argsort(-np.asarray(counts), kind="stable")[:MOST_POPULAR]
    return [{"item": ids[i].item(), "total": float(counts[i])} for i in order]


def _model_pairs(about: dict[str, Any]) -> dict[str, Any]:
    weights = sum(part["bytes"] for name, part in about["tensors"].items() if name.startswith("weights."))
    return {
        "model": about["model"],
        "settings": outputs.settings_list(about["settings"], about["params"]),
        "learned from": f"{about['n_users']:,} users, {about['n_items']:,} items",
        **({"new items": f"{len(new):,}, such as {wording.shorten(new)}"} if (new := about["new_items"]) else {}),
        **_column_pairs(about),
        **outputs.outcome_pairs(outputs.outcome(about["learned"])),
        "weights": f"{about['weights']}, {size(weights)}",
        **({"catalogue": products.facts_text(about["catalogue"])} if about["catalogue"] else {}),
        **_updatable_pairs(about),
        "file": f"{about['file']}, {size(about['bytes'])}",
        "saved": f"{about['created']} by offdiag {about['offdiag_version']}",
        "most popular": _popular(about),
    }


def _column_pairs(about: dict[str, Any]) -> dict[str, str]:
    names = about.get("columns") or {}
    return {"columns": inputs.column_text(names)} if names else {}


def _updatable_pairs(about: dict[str, Any]) -> dict[str, str]:
    if about["living"] is not None:
        living = about["living"]
        return {"updatable": f"by {living['file']}, {size(living['bytes'])}, encrypted with key {living['key']}"}
    if "gram" in about:
        return {"updatable": "in the first file format, which could reveal histories; the next change converts it"}
    return {}


def _data_pairs(about: dict[str, Any]) -> dict[str, Any]:
    def spread(key: str) -> str:
        s = about[key]
        return f"{s['least']:,} to {s['most']:,}, {s['median']:g} median, {s['mean']:.1f} on average"

    low, high = about["values"]["least"], about["values"]["most"]
    return {
        "file": about["file"],
        "users": f"{about['users']:,}",
        "items": f"{about['items']:,}",
        "interactions": f"{about['interactions']:,} ({100 * about['density']:.3g} % of all possible ones)",
        "items per user": spread("items_per_user"),
        "users per item": spread("users_per_item"),
        "values": "none" if not about["interactions"] else f"all {low:g}" if low == high else f"{low:g} to {high:g}",
        "most popular": _popular(about),
    }


def _popular(about: dict[str, Any]) -> list[str]:
    return [f"{top.get('title') or top['item']} ({top['total']:,.0f})" for top in about["most_popular"][:5]]
