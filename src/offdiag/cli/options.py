"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from offdiag import catalogue

Json = Annotated[bool, Option("--json", help="Print one JSON document instead of tables.")]
ModelFile = Annotated[str, Argument(metavar="MODEL", help="A file written by `offdiag fit`.")]
ModelFiles = Annotated[list[str], Argument(metavar="MODEL", help="One or more model files.")]
ModelName = Annotated[str, Option("--model", metavar="NAME", help=f"{', '.join(catalogue.COMMANDS)}.")]
DataFile = Annotated[str, Argument(metavar="DATA", help="A table of interactions, or a known data set's name.")]
DataOrSynthetic = Annotated[
    str | None, Argument(metavar="DATA", help="Your own table or a known data set; default: synthetic data.")
]
Users = Annotated[int, Option("--users", min=1, help="Users of the synthetic catalogue.")]
Items = Annotated[int, Option("--items", min=1, help="Items of the synthetic catalogue.")]
Metrics = Annotated[
    list[str] | None,
    Option("--metric", metavar="NAME", help="e.g. ndcg@100; repeatable. Default: recall@20, recall@50, ndcg@100."),
]
IncludeSeen = Annotated[bool, Option("--include-seen", help="Let items of the history be recommended again.")]
Seed = Annotated[int, Option("--seed", min=0, help="Seed of every random choice: same seed, same result.")]
Updatable = Annotated[bool, Option("--updatable", help="Also store what `offdiag update` and `offdiag forget` need.")]
Event = Annotated[str | None, Option("--event", metavar="COLUMN", help="With --updatable: column of event ids.")]
KeyFile = Annotated[
    str | None,
    Option(
        "--key-file",
        metavar="FILE",
        help="Keys of living states; made if missing. Default: OFFDIAG_KEY, OFFDIAG_KEY_FILE, or your configuration.",
    ),
]
DEFAULT_METRICS = ("recall@20", "recall@50", "ndcg@100")
