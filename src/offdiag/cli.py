"""The command line: results on stdout, messages on stderr, exit code 2 and one line for a user's mistake."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from offdiag import console, facts, reading
from offdiag.errors import OffdiagError
from offdiag.reading import Columns, reads_data

app = typer.Typer(
    name="offdiag",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    help="Recommendation with linear autoencoders: exact, fast, explainable.",
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
ModelFile = Annotated[str, typer.Argument(metavar="MODEL", help="A file written by `offdiag fit`.")]
DataFile = Annotated[str, typer.Argument(metavar="DATA", help="A table of interactions, or a known data set's name.")]
Metrics = Annotated[
    list[str] | None,
    typer.Option("--metric", help="e.g. ndcg@100; give it several times. Default: recall@20, recall@50, ndcg@100."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of every random choice: the same seed, the same result.")]
DEFAULT_METRICS = ("recall@20", "recall@50", "ndcg@100")


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point: runs one command and returns the exit code."""
    return console.run(app, argv)


def _version(wanted: bool) -> None:
    if wanted:
        from offdiag import __version__

        print(f"offdiag {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command(epilog="Example: `offdiag fit ratings.csv --value rating --at-least 4 --out films.od --validate`")
@reads_data
def fit(
    data: DataFile,
    out: Annotated[str, typer.Option("--out", "-o", metavar="MODEL", help="The model file to write.")],
    model: Annotated[str, typer.Option("--model", help="edlae, dlae, ease or popularity.")] = "edlae",
    dropout: Annotated[str | None, typer.Option(help="Probability of dropping an item, or auto.")] = None,
    l2: Annotated[str | None, typer.Option("--l2", help="Penalty on the weights, or auto.")] = None,
    kept_weight: Annotated[
        float | None, typer.Option(help="EDLAE: weight of entries that were not dropped, 0 to 1.")
    ] = None,
    user_power: Annotated[str | None, typer.Option(help="A user of n items counts n^-power per item; or auto.")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32 or float64.")] = None,
    storage: Annotated[str | None, typer.Option(help="packed (half the memory) or dense.")] = None,
    at_least: Annotated[float | None, typer.Option(help="Keep values of at least this and count each as 1.")] = None,
    min_users: Annotated[int, typer.Option(min=0, help="Keep users with at least this many items.")] = 1,
    min_items: Annotated[int, typer.Option(min=0, help="Keep items with at least this many users.")] = 1,
    validate: Annotated[
        bool, typer.Option("--validate", help="Measure on held-out users first, then fit on everyone.")
    ] = False,
    metric: Metrics = None,
    seed: Seed = 0,
    json: Json = False,
    columns: Columns = Columns(),  # noqa: B008 - frozen
) -> None:
    """Learn a model from a table of interactions and save it to one file.

    Settings that are not given are chosen from the data (auto).
    """
    import offdiag as od
    from offdiag import persist

    number = console.number_or_auto
    given = {
        "dropout": number("dropout")(dropout),
        "l2": number("l2")(l2),
        "kept_weight": kept_weight,
        "user_power": number("user-power")(user_power),
        "dtype": dtype,
        "storage": storage,
    }
    learner = _new_model(model, {name: value for name, value in given.items() if value is not None})
    _check_target(out, data)
    start = time.perf_counter()
    result = None
    with console.working() as work:
        work.begin(f"reading {Path(data).name}")
        inter = reading.prepared(reading.read(data, columns), columns, data, at_least, min_users, min_items)
        if validate:
            work.begin("validating")
            split = od.split.strong(inter, held_out=0.1, seed=seed)
            trial = learner.fit(split.train, progress=work)
            result = od.evaluate(trial, split.test, metrics=metric or DEFAULT_METRICS, progress=work)
        work.begin(f"fitting {type(learner).__name__}")
        learner.fit(inter, progress=work)
        persist.save(learner, out, metrics=result, progress=work)
    about = {
        "model": type(learner).__name__,
        "settings": learner.settings_,
        "users": inter.n_users,
        "items": inter.n_items,
        "interactions": inter.nnz,
        "metrics": None if result is None else result.to_dict(),
        "seconds": time.perf_counter() - start,
        "file": out,
        "bytes": os.path.getsize(out),
    }
    if json:
        console.show_json(about)
        return
    console.show_pairs(
        {
            "model": about["model"],
            "settings": facts.settings_text(learner.settings_, learner.get_params()),
            "learned from": f"{inter.n_users:,} users, {inter.n_items:,} items, {inter.nnz:,} interactions",
            "time": console.seconds(time.perf_counter() - start),
            "saved to": f"{out} ({facts.size(os.path.getsize(out))})",
        }
    )
    if result is not None:
        console.say(f"\nMeasured on {result.n_users:,} users held out of a first fit:")
        console.show_table(["metric", ">mean", ">standard error"], _metric_rows(result.to_dict()))


@app.command(epilog="Example: `offdiag evaluate new-users.csv edlae.od ease.od --metric ndcg@100 --metric hit@10`")
@reads_data
def evaluate(
    data: DataFile,
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help="One or more model files.")],
    targets: Annotated[
        str | None,
        typer.Option("--targets", metavar="FILE", help="What to predict; then all of DATA is the history."),
    ] = None,
    fold_in: Annotated[
        float,
        typer.Option(help="Share of each user's items that is shown; the rest is hidden and predicted."),
    ] = 0.8,
    metric: Metrics = None,
    include_seen: Annotated[
        bool, typer.Option("--include-seen", help="Let items of the history be recommended again.")
    ] = False,
    seed: Seed = 0,
    json: Json = False,
    columns: Columns = Columns(),  # noqa: B008
) -> None:
    """Measure saved models on users they were not trained on, and compare them with the first, user by user.

    The users of DATA must not have been in the training data: a model file holds no users, so this cannot be checked.
    """
    import offdiag as od
    from offdiag.ranking import encode

    if not 0 < fold_in < 1:
        raise OffdiagError(f"--fold-in takes a number between 0 and 1, received {fold_in:g}; for example 0.8")
    loaded = [od.load(path) for path in models]
    catalogue = set(loaded[0].item_ids_.tolist())
    for path, other in zip(models, loaded, strict=True):
        if set(other.item_ids_.tolist()) != catalogue:
            raise OffdiagError(
                f"the models must know the same items to be compared, but {models[0]!r} and {path!r} differ; "
                "fit both on the same data, or evaluate them one by one"
            )
    text_ids = loaded[0].item_ids_.dtype.kind not in "iu"
    with console.working() as work:
        work.begin(f"reading {Path(data).name}")
        inter = _known_items(reading.read(data, columns, text_ids=text_ids), loaded[0], data)
        if targets is None:
            part = od.split.weak(inter, held_out=1 - fold_in, seed=seed).test
            items = inter.item_ids
        else:
            hidden = _known_items(reading.read(targets, columns, text_ids=text_ids), loaded[0], targets)
            given = od.split.given(inter, hidden)
            part, items = given.test, given.train.item_ids
        results = []
        for path, fitted in zip(models, loaded, strict=True):
            work.begin(f"evaluating {Path(path).name}")
            rows = [
                encode(od.Interactions(matrix, part.user_ids, items), fitted.item_ids_)[0]
                for matrix in (part.histories, part.targets)
            ]
            held_out = type(part)(rows[0], rows[1], part.user_ids)
            results.append(
                od.evaluate(
                    fitted,
                    held_out,
                    metrics=metric or DEFAULT_METRICS,
                    exclude_seen=not include_seen,
                    progress=work,
                )
            )
    pairs = [(path, other.compare(results[0])) for path, other in zip(models[1:], results[1:], strict=True)]
    console.note("these figures hold only if the users were not in the training data; a model file cannot tell")
    if json:
        console.show_json(
            {
                "data": data,
                "models": [
                    {"file": path, "model": type(m).__name__, **result.to_dict()}
                    for path, m, result in zip(models, loaded, results, strict=True)
                ],
                "comparisons": [{"file": path, "against": models[0], **test.to_dict()} for path, test in pairs],
            }
        )
        return
    names = list(results[0].mean)
    console.show_table(
        ["model", *(f">{name}" for name in names)],
        [
            [path, *(_with_error(result.mean[n], result.sem[n]) for n in names)]
            for path, result in zip(models, results, strict=True)
        ],
    )
    left_out = results[0].n_without_targets
    rest = f"; {left_out:,} without anything to predict left out" if left_out else ""
    console.say(f"{results[0].n_users:,} users, mean ± standard error{rest}")
    if pairs:
        console.say(f"\nDifference from {console.printable(models[0])}, paired over users:")
        console.show_table(
            ["model", "metric", ">difference", ">standard error", ">p"],
            [
                [path, n, f"{test.difference[n]:+.4f}", _number(test.sem[n]), _p(test.p_value[n])]
                for path, test in pairs
                for n in names
            ],
        )


@app.command(epilog='Example: `offdiag recommend films.od --history "Alien,Blade Runner" -k 5`')
@reads_data
def recommend(
    model: ModelFile,
    history: Annotated[
        list[str] | None,
        typer.Option("--history", help='Item ids divided by commas ("" = none); give it once per person.'),
    ] = None,
    histories: Annotated[
        str | None,
        typer.Option("--histories", metavar="DATA", help="A table of interactions: a list per user."),
    ] = None,
    k: Annotated[int, typer.Option("-k", "--k", help="How many items.")] = 10,
    allow: Annotated[
        Path | None, typer.Option("--allow", metavar="FILE", help="Recommend only these ids, one per line.")
    ] = None,
    block: Annotated[
        Path | None, typer.Option("--block", metavar="FILE", help="Never recommend these ids, one per line.")
    ] = None,
    include_seen: Annotated[
        bool, typer.Option("--include-seen", help="Let items of the history be recommended again.")
    ] = False,
    json: Json = False,
    columns: Columns = Columns(),  # noqa: B008
) -> None:
    """Recommend items for histories typed here or read from a file."""
    import offdiag as od

    if bool(history) == (histories is not None):
        raise OffdiagError('recommend needs --history "id,id,…" or --histories FILE, one of the two')
    fitted = od.load(model)
    asked: Any
    if histories is not None:
        asked = reading.read(histories, columns, text_ids=fitted.item_ids_.dtype.kind not in "iu")
        users = asked.user_ids.tolist()
    else:
        asked = [reading.typed_history(text, fitted) for text in history or []]
        users = list(range(1, len(asked) + 1))
    answer = fitted.recommend(
        asked,
        k=k,
        exclude_seen=not include_seen,
        allow=None if allow is None else reading.listed_ids(allow, fitted),
        block=None if block is None else reading.listed_ids(block, fitted),
    )
    _report_unknown([item for unknown in answer.unknown for item in unknown], fitted)
    if json:
        console.show_json(
            [
                {"user": user, "items": [{"item": i, "score": s} for i, s in listed], "unknown": unknown}
                for user, listed, unknown in zip(users, answer, answer.unknown, strict=True)
            ]
        )
        return
    rows = [
        [user, rank, item, f"{score:.4f}"]
        for user, listed in zip(users, answer, strict=True)
        for rank, (item, score) in enumerate(listed, 1)
    ]
    one = len(users) == 1
    head = [">rank", "item", ">score"] if one else ["user", ">rank", "item", ">score"]
    console.show_table(head, [row[1:] if one else row for row in rows])


@app.command(epilog='Example: `offdiag similar films.od "Alien" "Blade Runner"`')
def similar(
    model: ModelFile,
    items: Annotated[list[str], typer.Argument(metavar="ITEM...", help="One or more item ids.")],
    k: Annotated[int, typer.Option("-k", "--k", help="How many items for each.")] = 10,
    json: Json = False,
) -> None:
    """Items that somebody with only this one item would be recommended."""
    import offdiag as od

    fitted = od.load(model)
    asked = reading.typed_ids(items, fitted)
    for item in asked:
        reading.check_item(item, fitted)
    answer = fitted.similar(asked, k=k)
    if json:
        console.show_json(
            [
                {"item": item, "similar": [{"item": i, "score": s} for i, s in listed]}
                for item, listed in zip(asked, answer, strict=True)
            ]
        )
        return
    for item, listed in zip(asked, answer, strict=True):
        rows = [[rank, other, f"{score:.4f}"] for rank, (other, score) in enumerate(listed, 1)]
        console.show_table([">rank", f"similar to {console.printable(item)}", ">score"], rows)


@app.command(epilog='Example: `offdiag explain films.od --history "Alien,Blade Runner" --item "Brazil"`')
def explain(
    model: ModelFile,
    history: Annotated[str, typer.Option("--history", help="Item ids divided by commas.")],
    item: Annotated[str, typer.Option("--item", help="The item whose score is to be explained.")],
    json: Json = False,
) -> None:
    """Show what each item of a history adds to the score of another item. The parts sum to the score exactly."""
    import offdiag as od

    fitted = od.load(model)
    (target,) = reading.typed_ids([item], fitted)
    reading.check_item(target, fitted)
    reason = fitted.explain([reading.typed_history(history, fitted)], target)
    _report_unknown(reason.unknown, fitted)
    parts = list(zip(reason.items.tolist(), reason.contributions.tolist(), strict=True))
    if json:
        console.show_json(
            {
                "item": reason.item,
                "score": reason.score,
                "contributions": [{"item": i, "contribution": c} for i, c in parts],
                "unknown": reason.unknown,
            }
        )
        return
    console.show_bars(f"score of {console.printable(reason.item)}", reason.score, parts)


@app.command(epilog="Examples: `offdiag info films.od`, `offdiag info ratings.csv --value rating`")
@reads_data
def info(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A model file, or a table of interactions.")],
    json: Json = False,
    columns: Columns = Columns(),  # noqa: B008
) -> None:
    """Say what is in a model file or in a table of interactions."""
    if facts.is_model(file):
        about = facts.of_model(file)
        pairs = facts.model_pairs(about)
    else:
        with console.working() as work:
            work.begin(f"reading {Path(file).name}")
            about = facts.of_data(file, reading.read(file, columns))
        pairs = facts.data_pairs(about)
    if json:
        console.show_json(about)
        return
    console.show_pairs(pairs)
    if about["kind"] == "model" and about.get("metrics"):
        console.say("\nMeasured on held-out users:")
        console.show_table(["metric", ">mean", ">standard error"], _metric_rows(about["metrics"]))


@app.command(epilog="Examples: `offdiag datasets`, `offdiag datasets ml-1m --download`")
def datasets(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One data set; without it, all.")] = None,
    download: Annotated[bool, typer.Option("--download", help="Fetch it now, and check it.")] = False,
    folder: Annotated[
        str | None,
        typer.Option("--folder", help="Where its files are, or shall be put. Default: the user's cache."),
    ] = None,
    json: Json = False,
) -> None:
    """List the public data sets that can be read by name: address, licence, size, how to load."""
    if name is None:
        if download or folder is not None:
            raise OffdiagError("--download and --folder go with one data set; name it, e.g. offdiag datasets ml-1m")
        known = facts.all_datasets()
        if json:
            console.show_json(known)
            return
        console.show_table(["name", "what", "here"], [[d["name"], d["about"], d["here"]] for d in known])
        console.say("\noffdiag datasets NAME tells more; --download fetches it. Mind the licence of each.")
        return
    about = facts.of_dataset(name, folder)
    if download:
        import offdiag as od

        console.note(f"licence: {about['licence']}")
        with console.working() as work:
            work.begin(f"downloading {name}")
            od.datasets.download(name, folder, progress=work)
        about = facts.of_dataset(name, folder)
    if json:
        console.show_json(about)
    else:
        console.show_pairs(facts.dataset_pairs(about))


@app.command(epilog="Examples: `offdiag demo`, `offdiag demo ratings.csv --value rating --at-least 4 --out films`")
@reads_data
def demo(
    data: Annotated[
        str | None,
        typer.Argument(metavar="[DATA]", help="Your own table; without it, an invented catalogue."),
    ] = None,
    out: Annotated[str, typer.Option("--out", "-o", metavar="FOLDER", help="Where the report and model go.")] = "demo",
    users: Annotated[int, typer.Option("--users", min=1, help="Users of the invented catalogue.")] = 6000,
    items: Annotated[int, typer.Option("--items", min=1, help="Items of the invented catalogue.")] = 1000,
    at_least: Annotated[float | None, typer.Option(help="Keep values of at least this and count each as 1.")] = None,
    min_users: Annotated[int, typer.Option(min=0, help="Keep users with at least this many items.")] = 1,
    min_items: Annotated[int, typer.Option(min=0, help="Keep items with at least this many users.")] = 1,
    seed: Seed = 0,
    json: Json = False,
    columns: Columns = Columns(),  # noqa: B008
) -> None:
    """Compare popularity, EASE, DLAE and EDLAE on new users, recommend with reasons, write an HTML report."""
    from offdiag import demo as demonstration

    with console.working() as work:
        if data is None:
            work.begin("inventing a catalogue")
            inter = demonstration.invented(users, items, seed)
            source = f"invented: {users:,} users and {items:,} items asked for, seed {seed}"
        else:
            work.begin(f"reading {Path(data).name}")
            inter = reading.prepared(reading.read(data, columns), columns, data, at_least, min_users, min_items)
            source = Path(data).name
        outcome = demonstration.run(inter, source, seed, work)
        study = demonstration.write(outcome, inter, Path(out), work, with_data=data is None)
    if json:
        console.show_json(demonstration.as_json(study, Path(out)))
    else:
        demonstration.show(study, Path(out))


def _new_model(name: str, settings: dict[str, Any]) -> Any:
    import offdiag as od

    kinds = {"edlae": od.EDLAE, "dlae": od.DLAE, "ease": od.EASE, "popularity": od.Popularity}
    if name.lower() not in kinds:
        raise OffdiagError(f"--model takes {', '.join(kinds)}, received {name!r}")
    model: Any = kinds[name.lower()]()
    known = model.get_params()
    for setting in settings:
        if setting not in known:
            has = ", ".join(f"--{s.replace('_', '-')}" for s in known) or "no settings"
            raise OffdiagError(f"{name} does not take --{setting.replace('_', '-')}; it takes {has}")
    return model.set_params(**settings)


def _check_target(out: str, data: str) -> None:
    """Say now, not after a long fit, that the model cannot be written there."""
    folder = Path(out).resolve().parent
    if Path(out).is_dir():
        raise OffdiagError(f"--out takes a file name, received the folder {out!r}; add a name such as model.od")
    if not folder.is_dir():
        raise OffdiagError(f"cannot save to {out!r}: the folder {str(folder)!r} does not exist; create it first")
    if not os.access(folder, os.W_OK):
        raise OffdiagError(f"cannot save to {out!r}: no permission to write in {str(folder)!r}; choose another folder")
    if os.path.exists(out) and os.path.exists(data) and os.path.samefile(out, data):
        raise OffdiagError(f"--out is the data file {data!r} itself; choose another name")


def _known_items(inter: Any, model: Any, source: str) -> Any:
    """Only the columns the model knows, and a note about the others."""
    from offdiag.ranking import positions

    known = positions(inter.item_ids, model.item_ids_) >= 0
    if not known.any():
        raise OffdiagError(
            f"the model knows none of the {inter.n_items:,} items in {source!r}; is it the model of this data, "
            "and is --item the right column?"
        )
    if known.all():
        return inter
    kept = inter.select_items(known)
    console.note(
        f"{inter.n_items - kept.n_items:,} of {inter.n_items:,} items in {source} are unknown to the model; "
        f"{inter.nnz - kept.nnz:,} of {inter.nnz:,} interactions are left out"
    )
    return kept


def _report_unknown(unknown: list[Any], model: Any) -> None:
    if unknown:
        shown = list(dict.fromkeys(map(str, unknown)))
        more = f" and {len(shown) - 5:,} more" if len(shown) > 5 else ""
        console.note(f"not in the model's catalogue, left out: {', '.join(map(repr, shown[:5]))}{more}")


def _metric_rows(metrics: dict[str, Any]) -> list[list[str]]:
    return [[name, _number(mean), _number(metrics["sem"].get(name))] for name, mean in metrics["mean"].items()]


def _number(value: float | None) -> str:
    return "-" if value is None or value != value else f"{value:.4f}"


def _with_error(mean: float, sem: float) -> str:
    return f"{mean:.4f}" if sem != sem else f"{mean:.4f} ± {sem:.4f}"


def _p(value: float) -> str:
    return "-" if value != value else f"{value:.2g}"


if __name__ == "__main__":
    raise SystemExit(main())
