"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
ModelFile = Annotated[str, typer.Argument(metavar="MODEL", help="A file written by `offdiag fit`.")]
DataFile = Annotated[str, typer.Argument(metavar="DATA", help="A table of interactions, or a known data set's name.")]
Metrics = Annotated[
    list[str] | None,
    typer.Option("--metric", help="e.g. ndcg@100; repeatable. Default: recall@20, recall@50, ndcg@100."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of every random choice: the same seed, the same result.")]
AtLeast = Annotated[float | None, typer.Option(help="Keep values of at least this and count each as 1.")]
MinUsers = Annotated[int, typer.Option(min=0, help="Keep users with at least this many items.")]
MinItems = Annotated[int, typer.Option(min=0, help="Keep items with at least this many users.")]
Updatable = Annotated[
    bool, typer.Option("--updatable", help="Also store what `offdiag update` and `offdiag forget` need.")
]
Event = Annotated[str | None, typer.Option("--event", metavar="COLUMN", help="With --updatable: column of event ids.")]
KeyFile = Annotated[
    str | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        help="Keys of living states; made if missing. Default: OFFDIAG_KEY, OFFDIAG_KEY_FILE, or your configuration.",
    ),
]
DEFAULT_METRICS = ("recall@20", "recall@50", "ndcg@100")
