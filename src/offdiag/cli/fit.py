"""`offdiag fit`: take settings from options, fit a model to a table, save it to a file."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer import Option

from offdiag import wording
from offdiag.cli import (
    cluster_fit,
    console,
    group_options,
    inputs,
    item_features,
    log_inputs,
    model_options,
    outputs,
    products,
)
from offdiag.cli.commands import DEFAULT_METRICS, DataFile, Event, Json, KeyFile, Metrics, ModelName, Seed, Updatable
from offdiag.cli.inputs import FilteredColumns
from offdiag.data.catalogue import check_catalogue
from offdiag.errors import OffdiagError
from offdiag.files import keys

if TYPE_CHECKING:
    from offdiag import Interactions, Result
    from offdiag.cluster import Parts, Report
    from offdiag.living.ledger import Ledger
    from offdiag.models.recommender import Recommender
    from offdiag.protocols import Learner

EXAMPLES = (
    "offdiag fit ratings.csv --value rating --at-least 4 --out films.od",
    "offdiag fit ratings.csv --catalogue films.csv -o films.od",
    "offdiag fit orders.csv --groups products.csv --group-column style -o shop.od",
    "offdiag fit ratings.csv --features films.csv -o films.od",
    "offdiag fit ratings.csv --model rdlae --set max_diagonal=0.2 -o films.od",
)


def fit(
    context: typer.Context,
    data: DataFile,
    out: Annotated[str, Option("--out", "-o", metavar="MODEL", help="The model file to write.")],
    model: ModelName = model_options.DEFAULT,
    more: Annotated[
        list[str] | None, Option("--set", metavar="NAME=VALUE", help="Any setting of the model by name; repeatable.")
    ] = None,
    checkpoint: Annotated[
        str | None, Option(metavar="FOLDER", help="Sparse models: a killed fit resumes from here. Removed at the end.")
    ] = None,
    cluster: Annotated[
        str | None,
        Option(metavar="ADDRESS", help="Fit on Dask workers: tcp://HOST:PORT, or local:2 for two on this machine."),
    ] = None,
    keep: Annotated[
        int | None, Option(help="With --cluster, full-rank models: keep only this many weights per item.")
    ] = None,
    features: item_features.FeatureFile = None,
    feature_columns: item_features.FeatureColumns = None,
    catalogue: products.CatalogueFile = None,
    catalogue_columns: products.CatalogueColumns = None,
    groups: group_options.Groups = None,
    group_column: group_options.GroupColumn = None,
    updatable: Updatable = False,
    event: Event = None,
    key_file: KeyFile = None,
    validate: Annotated[
        bool, Option("--validate", help="Measure on held-out users first, then fit on all users.")
    ] = False,
    metric: Metrics = None,
    seed: Seed = 0,
    json: Json = False,
    columns: FilteredColumns = FilteredColumns(),  # noqa: B008 - frozen
) -> None:
    """Learn a model from a table and save it to one file.

    Settings that are not given are chosen from the data (auto). For details see docs/api.md.
    """
    import offdiag as od
    from offdiag import persist
    from offdiag.files.block_checkpoints import BlockCheckpoints
    from offdiag.tuning import gain

    named = model_options.assignments(more, "set")
    model_options.check_named(model, named)
    learner = model_options.new_model(model, model_options.with_more(context.obj, named), seed)
    persist.check_fileable(type(learner))
    outputs.check_file(out, data)
    if metric and not validate:
        raise OffdiagError("--metric says what --validate measures; add --validate")
    if checkpoint is not None and not learner.checkpoints_in_folder:
        raise OffdiagError(f"--checkpoint is for sparse models, received --model {model}; leave it out")
    if keep is not None and cluster is None:
        raise OffdiagError("--keep is for full-rank models with --cluster; offdiag compress makes a saved model small")
    group_options.check(learner, groups, group_column)
    item_features.check(learner, features, model)
    local = {
        "--dislike-below": columns.dislike_below is not None,
        "--groups": groups is not None,
        "--validate": validate,
        "--updatable": updatable,
    }
    if cluster is not None and any(local.values()):
        option = next(name for name, given in local.items() if given)
        raise OffdiagError(f"--cluster and {option} do not go together; leave one of them out")
    columns = with_events(columns, learner)
    check_updatable(learner, updatable, event, columns, key_file)
    if checkpoint is not None:
        BlockCheckpoints.refuse(checkpoint, out)
    start = time.perf_counter()
    result = popular = ledger = None
    if catalogue is not None:
        outputs.check_file(out, catalogue)
    shop = products.given(catalogue, catalogue_columns)
    known = item_features.given(features, feature_columns)
    inter: Interactions | Parts
    reports: list[Report] = []
    with console.working() as work:
        if cluster is not None:
            inter, reports = cluster_fit.learn(
                learner, data, columns, cluster, work, keep=keep, checkpoint=checkpoint, features=known
            )
        else:
            work.begin(f"reading {inputs.name_of(data)}")
            inter, ledger = read(data, columns, learner, updatable, event)
            if shop is not None:
                with products.hints("--catalogue-columns"):
                    check_catalogue(shop, inter.item_ids)  # before the long part
            kinds = group_options.read(groups, group_column, inter.item_ids)
            if validate:
                work.begin("validating")
                split = od.split.strong(inter, held_out=0.1, seed=seed)
                result = gain.measure(
                    cast("Learner", learner), split, metric or DEFAULT_METRICS, work, groups=kinds, item_features=known
                )
                popular = gain.measure(od.Popularity(), split, metric or DEFAULT_METRICS, work)
            work.begin(f"fitting {type(learner).__name__}")
            also: dict[str, Any] = {} if checkpoint is None else {"checkpoint": checkpoint}
            if kinds is not None:
                also["groups"] = kinds
            if known is not None:
                also["item_features"] = item_features.noted(known, inter.item_ids)
            learner.fit(inter, progress=work, **also)
        if shop is not None:
            products.attach(learner, shop)
        save(learner, out, ledger, key_file, result, work, popular)
        if checkpoint is not None:
            BlockCheckpoints.clear(checkpoint)
    ended = outputs.outcome(vars(learner))
    about = {
        "model": type(learner).__name__,
        "settings": learner.settings_,
        **ended,
        "users": inter.n_users,
        "items": inter.n_items,
        "interactions": inter.nnz,
        "catalogue": products.facts(learner),
        **({} if (kinds_found := group_options.facts(learner)) is None else {"groups": kinds_found}),
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
            "settings": outputs.settings_list(learner.settings_, learner.get_params()),
            "learned from": f"{inter.n_users:,} users, {inter.n_items:,} items, {inter.nnz:,} interactions",
            **outputs.outcome_pairs(ended),
            **({} if cluster is None else cluster_fit.pairs(reports)),
            **({"groups": group_options.facts_text(kinds_found)} if kinds_found else {}),
            **({"catalogue": products.facts_text(facts)} if (facts := about["catalogue"]) else {}),
            "time": wording.seconds(about["seconds"]),
            "saved to": outputs.saved_text(out),
            **outputs.key_pairs(out, key_file),
        }
    )
    if result is not None:
        outputs.show_metrics(f"Measured on {result.n_users:,} users held out of a first fit", result.to_dict())


def with_events(columns: FilteredColumns, learner: Recommender) -> FilteredColumns:
    """Every event counts for a model of order, as in Python, if times say in which; otherwise --in-order says so."""
    every = learner.knows_order and columns.time is not None and columns.negative != "net"
    return replace(columns, in_order=columns.in_order or every)


def read(
    data: str, columns: FilteredColumns, learner: Recommender, updatable: bool, event: str | None
) -> tuple[Interactions, Ledger | None]:
    """The interactions, and the ledger of an updatable model."""
    if updatable:
        from offdiag.living.order import order_of

        return log_inputs.read_first(data, columns, event, order_of(learner))
    return inputs.read_filtered(data, columns), None


def check_updatable(
    learner: Recommender, updatable: bool, event: str | None, columns: FilteredColumns, key_file: str | None
) -> None:
    """Check that later events can be counted in the same way, and that there is a place for the key."""
    if not updatable:
        if event is not None:
            raise OffdiagError("--event names the ids by which --updatable tells events apart; add --updatable")
        if key_file is not None:
            raise OffdiagError("--key-file is for what --updatable stores; add --updatable")
        return
    from offdiag.living import past

    keys.keys_of(key_file)
    name = type(learner).__name__
    if not learner.can_change:
        raise OffdiagError(f"{name} cannot be updated; leave --updatable out")
    if not past.can_follow(learner):
        raise OffdiagError(f"a {name} with neighbours cannot be updated; leave --neighbours or --updatable out")
    if getattr(learner, "prior_weight", "auto") not in ("auto", 0.0):
        raise OffdiagError(f"a {name} with a prior cannot be updated; leave --prior-weight or --updatable out")
    if columns.dislike_below is not None:
        raise OffdiagError("--updatable does not go with --dislike-below: dislikes are not kept; leave one out")
    if max(columns.min_users, columns.min_items) > 1:
        raise OffdiagError(
            "--updatable does not go with --min-users and --min-items: whether a user or an item counts would depend "
            "on all the others; leave them out, or filter the table before"
        )


def save(
    learner: Recommender, out: str, ledger: Ledger | None, key_file: str | None, result: Result | None,
    work: console.Work, popular: Result | None = None,
) -> None:  # fmt: skip
    """Save a fitted model, updatable if it has a ledger, with its metrics next to those of popularity.

    A note says if its fit was interrupted.
    """
    from offdiag import persist
    from offdiag.living import past

    if ledger is not None:
        past.keep_ledger(learner, ledger)
    metrics = None if result is None else result.to_dict()
    if metrics is not None and popular is not None:
        metrics["popularity"] = popular.to_dict()
    persist.save(learner, out, metrics=metrics, updatable=ledger is not None, key=key_file, progress=work)
    if getattr(learner, "stopped_", None) == "interrupted":
        console.note(f"interrupted; the best model found by then is saved to {out}")
