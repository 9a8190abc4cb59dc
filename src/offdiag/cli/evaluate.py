"""`offdiag evaluate`: the accuracy of saved models on unseen users, and how they differ."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from offdiag.cli import cluster_batch, console, inputs, model_inputs, outputs
from offdiag.cli.commands import DEFAULT_METRICS, DataFile, IncludeSeen, Json, Metrics, ModelFiles, Seed
from offdiag.cli.model_inputs import ModelColumns
from offdiag.cli.outputs import mean_and_error, number
from offdiag.cli.recency_options import HistoryDecay, HistoryHalfLife
from offdiag.errors import OffdiagError

if TYPE_CHECKING:
    import polars as pl

    from offdiag import Interactions, Result
    from offdiag.evaluation import Comparison
    from offdiag.models.recommender import Recommender

EXAMPLES = (
    "offdiag evaluate new-users.csv edlae.od ease.od --metric ndcg@100",
    "offdiag evaluate new-users.csv edlae.od ease.od --out accuracy.parquet",
)
FOLD_IN = 0.8  # share of each user's items that the models see


def evaluate(
    data: DataFile,
    models: ModelFiles,
    targets: Annotated[
        str | None, typer.Option(metavar="FILE", help="The items to predict; DATA then holds only the histories.")
    ] = None,
    fold_in: Annotated[
        float, typer.Option(help="Share of each user's items that the models see; the rest is predicted.")
    ] = FOLD_IN,
    metric: Metrics = None,
    bands: Annotated[
        bool, typer.Option("--bands", help="Also by popularity: head, middle, tail, and new items.")
    ] = False,
    include_seen: IncludeSeen = False,
    history_decay: HistoryDecay = None,
    history_half_life: HistoryHalfLife = None,
    seed: Seed = 0,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Measure on Dask workers: tcp://HOST:PORT, or local:2.")
    ] = None,
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the table to FILE: .parquet, .csv, .jsonl or .ndjson.")
    ] = None,
    to: outputs.To = None,
    json: Json = False,
    columns: ModelColumns = ModelColumns(),  # noqa: B008 - frozen
) -> None:
    """Measure models on new users, and compare each with the first.

    The users of DATA must not have been in the training data: a model file holds no users, so this cannot be checked.
    On a terminal tables; in a pipe CSV, a row per model and metric, with --bands also per band.
    """
    import offdiag as od

    if not 0 < fold_in < 1:
        raise OffdiagError(f"--fold-in takes a number between 0 and 1, received {fold_in:g}; for example 0.8")
    if cluster is not None:
        cluster_batch.refuse({"--bands": bands})
    wanted = outputs.destination(out, None, to, json, reads=[data, *models])
    with console.working() as work:
        evaluation = measure(
            [(file, od.load(file)) for file in models], data, columns, metric or DEFAULT_METRICS, work,
            seed=seed, targets=targets, fold_in=fold_in, exclude_seen=not include_seen, bands=bands,
            history_decay=history_decay, history_half_life=history_half_life, cluster=cluster,
        )  # fmt: skip
    evaluation.notes.append(
        "these figures hold only if the models did not learn from these users; a model file holds no users, "
        "so this cannot be checked"
        if targets is None
        else "these figures hold only if the models did not learn from the targets; this cannot be checked"
    )
    evaluation.show_notes()
    if json:
        console.show_json(evaluation.to_dict())
    elif wanted is not None:
        wanted.write_table(evaluation.table())
    else:
        evaluation.show()


@dataclass
class Evaluation:
    """Results of several models on the same users, and notes for the reader."""

    data: str
    files: list[str]
    kinds: list[str]
    results: list[Result] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def comparisons(self) -> list[tuple[str, Comparison]]:
        """Every other model compared with the first."""
        first, *others = self.results
        return [(file, other.compare(first)) for file, other in zip(self.files[1:], others, strict=True)]

    def to_dict(self) -> dict[str, Any]:
        return {
            "data": self.data,
            "models": [
                {"file": file, "model": kind, **result.to_dict()}
                for file, kind, result in zip(self.files, self.kinds, self.results, strict=True)
            ],
            "comparisons": [
                {"file": file, "against": self.files[0], **test.to_dict()} for file, test in self.comparisons()
            ],
            "notes": self.notes,
        }

    def show_notes(self) -> None:
        for text in self.notes:
            console.note(text)

    def table(self) -> pl.DataFrame:
        """A row per model and metric, with the paired difference from the first model."""
        import polars as pl

        differences: list[Comparison | None] = [None, *(test for _, test in self.comparisons())]
        rows = [
            (
                file, kind, name, result.mean[name], result.sem[name], result.n_users,
                *((None, None, None) if test is None else (test.difference[name], test.sem[name], test.p_value[name])),
            )
            for file, kind, result, test in zip(self.files, self.kinds, self.results, differences, strict=True)
            for name in result.mean
        ]  # fmt: skip
        if self.results[0].bands is not None:
            return self._table_of_bands(rows)
        kinds = {"file": pl.String, "model": pl.String, "metric": pl.String, "mean": pl.Float64, "sem": pl.Float64}
        more = {"difference": pl.Float64, "difference_sem": pl.Float64, "p_value": pl.Float64}
        return pl.DataFrame(rows, {**kinds, "n_users": pl.Int64, **more}, orient="row").fill_nan(None)

    def _table_of_bands(self, all_items: list[Any]) -> pl.DataFrame:
        """The same with a row per band: its metrics, its share of the targets, and its share of the places."""
        import polars as pl

        rows = [(*row[:2], "all", *row[2:6]) for row in all_items]
        for file, kind, result in zip(self.files, self.kinds, self.results, strict=True):
            for band in [] if result.bands is None else result.bands.rows:
                found = {**band.mean, "targets": band.targets, **band.exposure}
                rows += [(file, kind, band.name, name, found[name], band.sem.get(name), band.n_users) for name in found]
        text: dict[str, Any] = dict.fromkeys(("file", "model", "band", "metric"), pl.String)
        numbers = {"mean": pl.Float64, "sem": pl.Float64, "n_users": pl.Int64}
        return pl.DataFrame(rows, text | numbers, orient="row").fill_nan(None)

    def show(self) -> None:
        first = self.results[0]
        names = list(first.mean)
        each = list(zip(self.files, self.results, strict=True))
        console.show_table(
            ["model", *(head for name in names for head in (f">{name}", ">±"))],
            [[file, *(cell for n in names for cell in mean_and_error(result, n))] for file, result in each],
            narrow=(
                ["model", "metric", ">mean", ">±"],
                [[file, n, *mean_and_error(result, n)] for file, result in each for n in names],
            ),
        )
        left_out = first.n_without_targets
        rest = f"; {left_out:,} without anything to predict left out" if left_out else ""
        console.say(f"{first.n_users:,} users, mean ± standard error{rest}")
        for file, result in each:
            if result.bands is not None:
                heads, rows = result.bands.cells()
                console.say(f"\nBy popularity, {console.printable(file)}:")
                narrow = [[row[0], head, cell] for row in rows for head, cell in zip(heads[1:], row[1:], strict=True)]
                console.show_table(
                    [heads[0], *(f">{head}" for head in heads[1:])], rows, narrow=(["band", "", ">value"], narrow)
                )
        if first.bands is not None:
            console.say(
                "head, middle, tail: a third of the interactions each; targets: what a band deserves; exposure: the "
                "share of places that it gets"
            )
        if len(self.files) > 1:
            console.say(f"\nDifference from {console.printable(self.files[0])}, paired over users:")
            console.show_table(
                ["model", "metric", ">difference", ">±", ">p"],
                [
                    [file, n, f"{test.difference[n]:+.4f}", number(test.sem[n]), number(test.p_value[n], ".2g")]
                    for file, test in self.comparisons()
                    for n in names
                ],
            )


def measure(
    models: Sequence[tuple[str, Recommender]], data: str, columns: ModelColumns, metrics: Sequence[str],
    work: console.Work, *, seed: int, targets: str | None = None, fold_in: float = FOLD_IN, exclude_seen: bool = True,
    bands: bool = False, history_decay: float | None = None, history_half_life: float | None = None,
    cluster: str | None = None,
) -> Evaluation:  # fmt: skip
    """Hide some of each user's items, or take ``targets``, and measure how well each model finds them."""
    import offdiag as od
    from offdiag.ranking import encode

    _check_same_items(models)
    evaluation = Evaluation(data, [file for file, _ in models], [type(model).__name__ for _, model in models])
    first = models[0][1]
    by_age = history_decay is not None or history_half_life is not None
    in_order = by_age or any(model.reads_order for _, model in models)
    columns = replace(columns, in_order=columns.in_order or in_order)
    work.begin(f"reading {inputs.name_of(data)}")
    inter = _known_items(model_inputs.read_for(first, data, columns), first, data, evaluation.notes)
    if targets is None:
        part, items = od.split.weak(inter, held_out=1 - fold_in, seed=seed).test, inter.item_ids
    else:
        hidden = model_inputs.read_for(first, targets, columns)
        given = od.split.given(inter, _known_items(hidden, first, targets, evaluation.notes))
        part, items = given.test, given.train.item_ids
    if in_order and (later := part.users_with_later_history()):
        evaluation.notes.append(
            f"{later:,} of {len(part.user_ids):,} users have a history that continues after a target: where the order "
            "counts, models are asked about the past; give later items to predict with --targets"
        )
    with ExitStack() as opened:
        workers = None if cluster is None else opened.enter_context(od.cluster.connect(cluster))
        for file, model in models:
            work.begin(f"evaluating {Path(file).name}")
            histories, wanted = (
                encode(od.Interactions(matrix, part.user_ids, items), model.item_ids_)[0]
                for matrix in (part.histories, part.targets)
            )
            held_out = type(part)(histories, wanted, part.user_ids, ordered=part.ordered)
            how: dict[str, Any] = {
                "bands": bands, "exclude_seen": exclude_seen, "history_decay": history_decay,
                "history_half_life": history_half_life, "progress": work,
            }  # fmt: skip
            evaluation.results.append(
                od.evaluate(model, held_out, metrics, **how)
                if workers is None
                else od.cluster.evaluate(file, held_out, metrics, client=workers, **how)
            )
    return evaluation


def _check_same_items(models: Sequence[tuple[str, Recommender]]) -> None:
    (first, one), *others = models
    for file, other in others:
        if set(other.item_ids_.tolist()) != set(one.item_ids_.tolist()):
            raise OffdiagError(
                f"the models must know the same items to be compared, but {first!r} and {file!r} differ; "
                "fit both on the same data, or evaluate them one by one"
            )


def _known_items(inter: Interactions, model: Recommender, source: str, notes: list[str]) -> Interactions:
    """Only the columns that the model knows, with a note about the others."""
    from offdiag.data.ids import positions

    known = positions(inter.item_ids, model.item_ids_) >= 0
    if not known.any():
        raise OffdiagError(
            f"the model knows none of the {inter.n_items:,} items in {source!r}; is it the model of this data, "
            "and is --item the right column?"
        )
    if known.all():
        return inter
    kept = inter.select_items(known)
    notes.append(
        f"{inter.n_items - kept.n_items:,} of {inter.n_items:,} items in {source} are unknown to the model; "
        f"{inter.nnz - kept.nnz:,} of {inter.nnz:,} interactions are left out"
    )
    return kept
