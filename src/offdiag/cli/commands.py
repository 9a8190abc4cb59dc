"""The commands: what each takes and in which order it calls the library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from offdiag.cli import (
    answers,
    compress,
    console,
    fit,
    forget,
    inputs,
    model_options,
    reproduce,
    serve,
    tune,
    update,
)
from offdiag.cli import info as facts
from offdiag.cli.inputs import Columns, reads_data
from offdiag.cli.options import (
    DEFAULT_METRICS,
    AtLeast,
    DataFile,
    Json,
    KeyFile,
    Metrics,
    MinItems,
    MinUsers,
    ModelFile,
    Seed,
)
from offdiag.errors import OffdiagError

app = typer.Typer(
    name="offdiag",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    help="Recommendation with linear autoencoders: exact, fast, explainable.",
)
app.add_typer(reproduce.app, name="reproduce", rich_help_panel="Papers")


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
    at_least: AtLeast = None,
    min_users: MinUsers = 1,
    min_items: MinItems = 1,
    seed: Seed = 0,
    json: Json = False,
    columns: Columns = Columns(),  # noqa: B008
) -> None:
    """Compare popularity, EASE, DLAE and EDLAE on new users, recommend with reasons, write an HTML report."""
    from offdiag.cli import demo as demonstration

    demonstration.check_folder(Path(out))
    with console.working() as work:
        if data is None:
            work.begin("inventing a catalogue")
            inter = demonstration.invented(users, items, seed)
            source = f"an invented catalogue (seed {seed})"
        else:
            work.begin(f"reading {inputs.name_of(data)}")
            inter = inputs.prepared(inputs.read(data, columns), columns, data, at_least, min_users, min_items)
            source = inputs.name_of(data)
        outcome = demonstration.run(inter, source, seed, work)
        study = demonstration.write(outcome, inter, Path(out), work, with_data=data is None)
    if json:
        console.show_json(demonstration.as_json(study, Path(out)))
    else:
        demonstration.show(study, Path(out))


app.command(cls=model_options.SettingsCommand, epilog=fit.EXAMPLE)(reads_data(fit.fit))
app.command(epilog=tune.EXAMPLE)(reads_data(tune.tune))
app.command(epilog=compress.EXAMPLE)(reads_data(compress.compress))
app.command(epilog=update.EXAMPLE)(reads_data(update.update))
app.command(epilog=forget.EXAMPLE)(reads_data(forget.forget))
app.command(epilog=serve.EXAMPLE)(serve.serve)


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
    with console.working() as work:
        measured = answers.measure(
            data,
            models,
            targets,
            fold_in=fold_in,
            metrics=metric or DEFAULT_METRICS,
            exclude_seen=not include_seen,
            seed=seed,
            columns=columns,
            work=work,
        )
    for text in measured.notes:
        console.note(text)
    if json:
        console.show_json(answers.measured_json(measured, data))
    else:
        answers.show_measured(measured)


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
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse ids that the model does not know, instead of ignoring them.")
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
        asked = inputs.read_for(fitted, histories, columns)
        users = asked.user_ids.tolist()
    else:
        asked = [inputs.typed_history(text, fitted) for text in history or []]
        users = list(range(1, len(asked) + 1))
    answer = fitted.recommend(
        asked,
        k=k,
        exclude_seen=not include_seen,
        allow=None if allow is None else inputs.listed_ids(allow, fitted),
        block=None if block is None else inputs.listed_ids(block, fitted),
        strict=strict,
    )
    answers.note_unknown([item for unknown in answer.unknown_in_histories for item in unknown])
    answers.note_unknown(answer.unknown_in_filters, " (--allow, --block)")
    if json:
        console.show_json(answers.recommendations_json(users, answer))
    else:
        answers.show_recommendations(users, answer)


@app.command(epilog='Example: `offdiag similar films.od "Alien" "Blade Runner"`')
def similar(
    model: ModelFile,
    items: Annotated[list[str], typer.Argument(metavar="ITEM...", help="One or more item ids.")],
    k: Annotated[int, typer.Option("-k", "--k", help="How many items for each.")] = 10,
    space: Annotated[
        str, typer.Option("--space", help="score, or the cosine of low-rank embeddings: encoder or decoder.")
    ] = "score",
    json: Json = False,
) -> None:
    """Items that somebody with only this one item would be recommended, or whose embedding is most like its own."""
    import offdiag as od

    fitted = od.load(model)
    asked = inputs.typed_ids(items, fitted)
    for item in asked:
        inputs.check_item(item, fitted)
    answer = fitted.similar(asked, k=k, space=space)
    if json:
        console.show_json(answers.similar_json(asked, answer))
    else:
        answers.show_similar(asked, answer)


@app.command(
    epilog='Examples: `offdiag explain films.od --history "Alien,Blade Runner" --item Brazil`, '
    "`offdiag explain films.od --pair Alien Aliens`"
)
def explain(
    model: ModelFile,
    history: Annotated[str | None, typer.Option("--history", help="Item ids divided by commas.")] = None,
    item: Annotated[str | None, typer.Option("--item", help="The item whose score is to be explained.")] = None,
    pair: Annotated[
        tuple[str, str] | None,
        typer.Option("--pair", metavar="ITEM OTHER", help="Two items: what a weight says beyond co-occurrence."),
    ] = None,
    key_file: KeyFile = None,
    json: Json = False,
) -> None:
    """Show what each item of a history adds to the score of another item, and its rank without that item.

    The parts sum to the score exactly. With --pair, show through which items two items have something in common; this
    needs a model that was saved with `--updatable`, and its key.
    """
    import offdiag as od

    asked = [name for name, value in (("--history", history), ("--item", item)) if value is not None]
    if pair is None and len(asked) < 2:
        missing = "--item" if asked == ["--history"] else "--history" if asked else "--history and --item"
        raise OffdiagError(f"explain needs --history and --item, or --pair; missing: {missing}")
    if pair is not None and asked:
        raise OffdiagError(f"--pair explains two items on their own, received {' and '.join(asked)} as well; leave out")
    fitted = od.load(model, key=key_file)
    if pair is not None:
        two = inputs.typed_ids(list(pair), fitted)
        for one in two:
            inputs.check_item(one, fitted)
        between = fitted.explain_pair(*two)
        if json:
            console.show_json(between.to_dict())
        else:
            answers.show_pair(between)
        return
    (target,) = inputs.typed_ids([item or ""], fitted)
    inputs.check_item(target, fitted)
    reason = fitted.explain([inputs.typed_history(history or "", fitted)], target)
    answers.note_unknown(reason.unknown)
    if json:
        console.show_json(answers.explanation_json(reason))
    else:
        answers.show_explanation(reason)


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
            work.begin(f"reading {inputs.name_of(file)}")
            about = facts.of_data(file, inputs.read(file, columns))
        pairs = facts.data_pairs(about)
    if json:
        console.show_json(about)
        return
    console.show_pairs(pairs)
    if about["kind"] == "model" and about.get("metrics"):
        console.say("\nMeasured on held-out users:")
        console.show_table(["metric", ">mean", ">standard error"], answers.metric_rows(about["metrics"]))


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
