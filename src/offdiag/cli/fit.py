"""`offdiag fit`: take settings from options, fit a model to a table, save it to a file."""

from __future__ import annotations

import os
import time
from typing import Annotated, Any

import typer

from offdiag import catalogue, wording
from offdiag.cli import cluster_fit, console, evaluate, info, inputs, log_inputs, model_options
from offdiag.cli.inputs import Columns
from offdiag.cli.options import (
    DEFAULT_METRICS,
    AtLeast,
    DataFile,
    Event,
    Json,
    KeyFile,
    Metrics,
    MinItems,
    MinUsers,
    Seed,
    Updatable,
)
from offdiag.errors import OffdiagError

EXAMPLE = (
    "Examples: `offdiag fit ratings.csv --value rating --at-least 4 --out films.od --validate`, "
    "`offdiag fit ratings.csv --model rdlae --set max_diagonal=0.2 --out films.od`"
)


def fit(
    context: typer.Context,
    data: DataFile,
    out: Annotated[str, typer.Option("--out", "-o", metavar="MODEL", help="The model file to write.")],
    model: Annotated[str, typer.Option("--model", help=f"{', '.join(catalogue.COMMANDS)}.")] = model_options.DEFAULT,
    more: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any setting of the model by name; repeatable."),
    ] = None,
    at_least: AtLeast = None,
    min_users: MinUsers = 1,
    min_items: MinItems = 1,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Sparse: a killed fit resumes from here; removed when the model is saved."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Fit on Dask workers: tcp://HOST:PORT, or local:2 for two here."),
    ] = None,
    keep: Annotated[
        int | None, typer.Option(help="With --cluster, full rank: only this many weights for each item.")
    ] = None,
    updatable: Updatable = False,
    event: Event = None,
    key_file: KeyFile = None,
    validate: Annotated[
        bool, typer.Option("--validate", help="Measure on held-out users first, then fit on everyone.")
    ] = False,
    metric: Metrics = None,
    seed: Seed = 0,
    json: Json = False,
    columns: Columns = Columns(),  # noqa: B008 - frozen
) -> None:
    """Learn a model from a table of interactions and save it to one file.

    Settings that are not given are chosen from the data (auto). For details see docs/api.md.
    """
    import offdiag as od
    from offdiag import persist
    from offdiag.living import past
    from offdiag.models.block_checkpoints import BlockCheckpoints

    named = model_options.assignments(more, "set")
    model_options.check_named(model, named)
    learner = model_options.new_model(model, model_options.with_more(context.obj, named), seed)
    model_options.check_target(out, data)
    if metric and not validate:
        raise OffdiagError("--metric says what --validate measures; add --validate")
    _check_where(learner, model, checkpoint, cluster, keep, validate)
    check_updatable(type(learner), updatable, event, min_users, min_items, key_file)
    if updatable and cluster is not None:
        raise OffdiagError("--cluster and --updatable do not go together; leave one of them out")
    if checkpoint is not None:
        BlockCheckpoints.refuse(checkpoint, out)
    start = time.perf_counter()
    result = None
    inter: Any
    reports: list[Any] = []
    with console.working() as work:
        if cluster is not None:
            inter, reports = cluster_fit.learn(
                learner, data, columns, cluster, work,
                at_least=at_least, min_users=min_users, min_items=min_items, keep=keep,
            )  # fmt: skip
        else:
            work.begin(f"reading {inputs.name_of(data)}")
            inter, ledger = read(data, columns, at_least, min_users, min_items, updatable, event)
            if validate:
                work.begin("validating")
                split = od.split.strong(inter, held_out=0.1, seed=seed)
                result = measured(learner, split, metric or DEFAULT_METRICS, work)
            work.begin(f"fitting {type(learner).__name__}")
            learner.fit(inter, progress=work, **({} if checkpoint is None else {"checkpoint": checkpoint}))
        if updatable:
            past.keep_ledger(learner, ledger)
        persist.save(learner, out, metrics=result, updatable=updatable, key=key_file, progress=work)
        if checkpoint is not None:
            BlockCheckpoints.clear(checkpoint)
    ended = model_options.outcome(vars(learner))
    if ended.get("stopped") == "interrupted":
        console.note(f"interrupted; the best model found by then is saved to {out}")
    about = {
        "model": type(learner).__name__,
        "settings": learner.settings_,
        **ended,
        "users": inter.n_users,
        "items": inter.n_items,
        "interactions": inter.nnz,
        "metrics": None if result is None else result.to_dict(),
        "seconds": time.perf_counter() - start,
        "file": out,
        "bytes": os.path.getsize(out),
        **({} if cluster is None else {"cluster": cluster_fit.facts(reports)}),
    }
    if json:
        console.show_json(about)
        return
    console.show_pairs(
        {
            "model": about["model"],
            "settings": info.settings_text(learner.settings_, learner.get_params()),
            "learned from": f"{inter.n_users:,} users, {inter.n_items:,} items, {inter.nnz:,} interactions",
            **model_options.outcome_pairs(ended),
            **({} if cluster is None else cluster_fit.pairs(reports)),
            "time": console.seconds(time.perf_counter() - start),
            "saved to": f"{out} ({wording.size(os.path.getsize(out))})",
            **info.key_pairs(out, key_file),
        }
    )
    if result is not None:
        console.say(f"\nMeasured on {result.n_users:,} users held out of a first fit:")
        console.show_table(["metric", ">mean", ">standard error"], evaluate.metric_rows(result.to_dict()))


def read(
    data: str, columns: Columns, at_least: float | None, min_users: int, min_items: int, updatable: bool, event: Any
) -> tuple[Any, Any]:
    """The interactions, and the ledger of an updatable model."""
    if updatable:
        return log_inputs.read_first(data, columns, event, at_least)
    return inputs.prepared(inputs.read(data, columns), columns, data, at_least, min_users, min_items), None


def _check_where(
    learner: Any, model: str, checkpoint: str | None, cluster: str | None, keep: int | None, validate: bool
) -> None:
    """Check that the options about where and how the fit runs are compatible."""
    if checkpoint is not None and not learner.checkpoints_in_folder:
        raise OffdiagError(f"--checkpoint is for sparse models, received --model {model}; leave it out")
    if keep is not None and cluster is None:
        raise OffdiagError("--keep is for full-rank models with --cluster; offdiag compress makes a saved model small")
    if cluster is not None and (checkpoint is not None or validate):
        other = "--checkpoint" if checkpoint is not None else "--validate"
        raise OffdiagError(f"--cluster and {other} do not go together; leave one of them out")


def check_updatable(
    cls: Any, updatable: bool, event: str | None, min_users: int, min_items: int, key_file: str | None
) -> None:
    """Check that later events can be counted in the same way, and that there is a place for the key."""
    from offdiag.files import keys

    if not updatable:
        if event is not None:
            raise OffdiagError("--event names the ids by which --updatable tells events apart; add --updatable")
        if key_file is not None:
            raise OffdiagError("--key-file is for what --updatable stores; add --updatable")
        return
    keys.keys_of(key_file)
    if not cls.can_change:
        raise OffdiagError(f"{cls.__name__} cannot be updated; leave --updatable out")
    if min_users > 1 or min_items > 1:
        raise OffdiagError(
            "--updatable does not go with --min-users and --min-items: whether a user or an item counts would depend "
            "on all the others; leave them out, or filter the table before"
        )


def measured(learner: Any, split: Any, metrics: Any, work: console.Work) -> Any:
    """Fit on the training part and measure on the test users; neural networks stop early by the validation users."""
    import offdiag as od

    also = {"validation": split.validation} if learner.stops_early else {}
    trial = learner.fit(split.train, progress=work, **also)
    if getattr(trial, "stopped_", None) == "interrupted":
        raise KeyboardInterrupt  # the final fit has not started, so there is nothing worth saving
    return od.evaluate(trial, split.test, metrics=metrics, progress=work)
