"""`offdiag compress`: make a model file smaller, and show the cost in accuracy."""

from __future__ import annotations

import math
import os
import re
import time
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from offdiag import wording
from offdiag.cli import console, evaluate, outputs
from offdiag.cli.commands import DEFAULT_METRICS, Json, Metrics, ModelFile, Seed
from offdiag.cli.model_inputs import ModelColumns
from offdiag.errors import OffdiagError

EXAMPLES = ("offdiag compress films.od small.od --max-bytes 20MB --data new-users.csv",)
_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def compress(
    model: ModelFile,
    out: Annotated[str, Argument(metavar="OUT", help="The file to write; it may be MODEL itself.")],
    keep: Annotated[int | None, Option(help="Keep at most this many weights per item.")] = None,
    storage: Annotated[str, Option(help="How a weight is stored: float32, float16 or int8.")] = "int8",
    max_bytes: Annotated[
        str | None,
        Option(metavar="SIZE", help="Largest size of the weights, e.g. 20MB. Default: a tenth, unless --keep."),
    ] = None,
    data: Annotated[str | None, Option(metavar="DATA", help="Measure both models on the users of this table.")] = None,
    metric: Metrics = None,
    seed: Seed = 0,
    json: Json = False,
    columns: ModelColumns = ModelColumns(),  # noqa: B008 - frozen
) -> None:
    """Make a linear model smaller and show the cost in accuracy.

    The strongest weights are kept, in a few bits each. With --data, both models are measured on hidden items of its
    users, who must not have been in the training data: on training users, both look better than they are.
    """
    import offdiag as od
    from offdiag import persist

    if metric and data is None:
        raise OffdiagError("--metric says what is measured on --data; add --data TABLE")
    budget = None if max_bytes is None else bytes_of(max_bytes)
    outputs.check_file(out, data or "")
    start = time.perf_counter()
    evaluation = None
    before = os.path.getsize(model) if os.path.isfile(model) else 0
    with console.working() as work:
        work.begin(f"compressing {Path(model).name}")
        whole = od.load(model)
        small = od.compress(whole, keep=keep, storage=storage, max_bytes=budget, progress=work)  # type: ignore[arg-type]
        if data is not None:
            names = [model, out] if model != out else [f"{model} before", f"{out} after"]
            models = list(zip(names, [whole, small], strict=True))
            evaluation = evaluate.measure(models, data, columns, metric or DEFAULT_METRICS, work, seed=seed)
            evaluation.notes.append(
                "these figures hold only if the model did not learn from these users, whom it would know too well "
                "before and after; a model file holds no users, so this cannot be checked"
            )
        persist.save(small, out, progress=work)  # last: an error in DATA must not leave a file
    about = {
        "model": type(small).__name__,
        "file": out,
        "items": len(small.item_ids_),
        **small.compressed_,
        "file_bytes": os.path.getsize(out),
        "file_bytes_before": before,
        "seconds": time.perf_counter() - start,
        "measured": None if evaluation is None else evaluation.to_dict(),
    }
    if evaluation is not None:
        evaluation.show_notes()
    if json:
        console.show_json(about)
        return
    per_item = about["entries"] / max(about["items"], 1)
    console.show_pairs(
        {
            "model": about["model"],
            "weights before": f"{wording.size(about['bytes_before'])}, {about['weights_before']}",
            "weights after": f"{wording.size(about['bytes'])}, {about['storage']}, "
            f"{about['bytes'] / max(about['bytes_before'], 1):.3g} of it",
            "kept": f"{about['entries']:,} weights, {per_item:.1f} for each item on average",
            "time": wording.seconds(about["seconds"]),
            "saved to": f"{about['file']} ({wording.size(about['file_bytes'])}, "
            f"before {wording.size(about['file_bytes_before'])})",
        }
    )
    if evaluation is not None:
        console.say()
        evaluation.show()


def bytes_of(text: str, option: str = "--max-bytes") -> int:
    """20MB, 1.5 GB, 64KiB, 5000: a number of bytes, at least 1."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([kmgt]?)(i?)b?\s*", text, re.IGNORECASE | re.ASCII)
    number = 0.0
    if found and (found[2] or not found[3]):
        number = float(found[1]) * (1024 if found[3] else 1000) ** _UNITS[found[2].lower()]
    if not 1 <= number <= 1e18:
        raise OffdiagError(f"{option} takes a size such as 20MB or 500kB, received {text!r}")
    return math.floor(number)
