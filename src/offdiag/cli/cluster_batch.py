"""`offdiag recommend --cluster`: lists of many users, written by Dask workers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from offdiag.cli import console, inputs, model_inputs
from offdiag.cli.cluster_fit import column_arguments, is_partitioned
from offdiag.cli.model_inputs import ModelColumns
from offdiag.data.columns import Cleaning
from offdiag.data.table import Keep
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    from offdiag.list_files import Written
    from offdiag.models.recommender import Recommender


def refuse(given: dict[str, bool]) -> None:
    """Options that say what happens in this process."""
    for option, used in given.items():
        if used:
            raise OffdiagError(f"--cluster and {option} do not go together; leave one of them out")


def recommend(
    model: Recommender,
    file: str,
    data: str | None,
    columns: ModelColumns,
    address: str,
    out: str | None,
    k: int,
    options: dict[str, Any],
) -> Written:
    """Lists for the users of a table: partitions that the workers read, or a table that is read here and spread."""
    import offdiag as od

    if data is None or out is None:
        raise OffdiagError('--cluster writes files of lists; add --histories DATA and --out "lists/part-*.parquet"')
    aged = any(options.get(name) is not None for name in ("history_decay", "history_half_life"))
    keep: Keep = "events" if aged or model.knows_order else "pairs"
    with console.working() as work:
        work.begin(f"connecting to {address}")
        with od.cluster.connect(address) as client:
            work.begin(f"reading {inputs.name_of(data)}")
            if is_partitioned(data) and inputs.cleaning(columns) == Cleaning():
                known = model.columns_.present() if model.columns_ is not None else {}
                parts = od.cluster.read(
                    data, **(known | column_arguments(columns)), duplicates=columns.duplicates, keep=keep,  # type: ignore[arg-type]
                    text_ids=columns.text_ids or model.item_ids_.dtype.kind not in "iu", client=client, progress=work,
                )  # fmt: skip
            else:
                columns = replace(columns, in_order=columns.in_order or aged)
                parts = od.cluster.read(model_inputs.read_for(model, data, columns), keep=keep, client=client)
            work.begin("recommending")
            return od.cluster.recommend(file, parts, k, out=out, client=client, progress=work, **options)
