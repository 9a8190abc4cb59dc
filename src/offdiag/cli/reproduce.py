"""`offdiag reproduce PAPER`: reproduce figures and claims of papers.

Steck (2020) is a group with a command per figure and takes any data; the theory papers are one command each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from offdiag.cli import console, inputs
from offdiag.cli.inputs import Columns, reads_data
from offdiag.errors import OffdiagError

EXAMPLE = "Example: `offdiag reproduce steck2020 figure1`"


class _Listed(TyperGroup):
    """A group whose error for an unknown name lists the known ones."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None:
            known = ", ".join(self.list_commands(ctx))
            raise OffdiagError(f"{ctx.command_path} knows {known}; received {args[0]!r}")
        return super().resolve_command(ctx, args)


def _group(text: str) -> typer.Typer:
    group = typer.Typer(cls=_Listed, help=text, epilog=EXAMPLE, rich_markup_mode="markdown")

    @group.callback(invoke_without_command=True)
    def _top(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            print(context.get_help())

    return group


app = _group("Reproduce the figures of papers, from your data or from a synthetic catalogue.")
steck2020 = _group("Steck (2020), Autoencoders that don't overfit towards the Identity.")
app.add_typer(steck2020, name="steck2020")

Out = Annotated[
    str | None,
    typer.Option("--out", "-o", metavar="FOLDER", help="Where page, figures and numbers go. Default: PAPER."),
]
HowBig = Annotated[
    str,
    typer.Option("--size", metavar="SIZE", help="small: seconds to a minute; paper: the sizes of the paper, minutes."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of everything that is drawn.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
Mnist = Annotated[
    str | None,
    typer.Option("--mnist", metavar="FOLDER", help="MNIST in its IDX files, .gz or not; without it, synthetic images."),
]
Cifar10 = Annotated[
    str | None,
    typer.Option("--cifar10", metavar="FOLDER", help="CIFAR-10, binary version (data_batch_1.bin …); or synthetic."),
]


@app.command(epilog="Example: `offdiag reproduce mianjy2018 --size small`")
def mianjy2018(out: Out = None, size: HowBig = "paper", seed: Seed = 0, json: Json = False) -> None:
    """Mianjy, Arora & Vidal (2018), On the Implicit Bias of Dropout."""
    _theory("mianjy2018", out, size, seed, json)


@app.command(epilog="Example: `offdiag reproduce pal2020 --mnist mnist --cifar10 cifar-10-batches-bin`")
def pal2020(
    out: Out = None,
    size: HowBig = "paper",
    mnist: Mnist = None,
    cifar10: Cifar10 = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Pal, Lane, Vidal & Haeffele (2020), On the Regularization Properties of Structured Dropout."""
    _theory("pal2020", out, size, seed, json, mnist=mnist, cifar10=cifar10)


@app.command(epilog="Example: `offdiag reproduce pretorius2018 --mnist mnist`")
def pretorius2018(
    out: Out = None,
    size: HowBig = "paper",
    mnist: Mnist = None,
    cifar10: Cifar10 = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Pretorius, Kroon & Kamper (2018), Learning Dynamics of Linear Denoising Autoencoders."""
    _theory("pretorius2018", out, size, seed, json, mnist=mnist, cifar10=cifar10)


def _theory(paper: str, out: str | None, size: str, seed: int, json: bool, **images: str | None) -> None:
    """Run a theory paper, write its page, and print which claims held; exit code 1 if a number is not as expected."""
    from importlib import import_module

    from offdiag.cli import demo
    from offdiag.papers import page
    from offdiag.plots import papers

    if size not in ("small", "paper"):
        raise OffdiagError(f"--size must be small or paper, received {size!r}")
    folder = Path(out or paper)
    demo.check_folder(folder)
    papers.check()  # now, not after minutes of work
    run = import_module(f"offdiag.papers.{paper}").run
    with console.working() as work:
        found = run(size=size, seed=seed, progress=work, **images)
        work.begin("drawing")
        files = page.write(found, folder)
    checks = page.checks(found)
    if json:
        console.show_json(page.as_json(found) | {"files": files})
    else:
        console.say(
            f"{found.title} ({found.authors}), size {size}, {console.seconds(found.seconds)}; data: {found.data}"
        )
        console.show_table(["verdict", "where", "measured"], [[c.verdict, c.where, c.measured] for c in found.claims])
        rows = [[c.name, c.shown, c.expected, c.verdict] for c in checks]
        console.show_table(["number", ">here", ">expected", "met"], rows)
        for name in files[:2]:
            console.say(f"written: {console.printable(name)}")
    if not all(c.ok for c in checks):
        raise typer.Exit(1)


@steck2020.command(epilog="Example: `offdiag reproduce steck2020 figure1 ratings.csv --value rating --at-least 4`")
@reads_data
def figure1(
    data: Annotated[
        str | None,
        typer.Argument(metavar="[DATA]", help="A table or known data set; without it, a synthetic catalogue."),
    ] = None,
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="FOLDER", help="Where the page and the numbers go.")
    ] = "steck2020",
    ranks: Annotated[
        str | None, typer.Option("--ranks", help="Ranks of the curve, divided by commas. Default: 10 to 1,000.")
    ] = None,
    rank: Annotated[
        int | None, typer.Option("--rank", help="Rank of the histograms. Default: the largest of the curve.")
    ] = None,
    dropout: Annotated[str, typer.Option(help="Of all models: probability of dropping an item, or auto.")] = "auto",
    l2: Annotated[str, typer.Option("--l2", help="Of all models: penalty on the weights, or auto.")] = "auto",
    held_out: Annotated[
        float, typer.Option(help="Share of users measured on; as many more are set aside, unused.")
    ] = 0.1,
    metric: Annotated[str, typer.Option("--metric", help="What is measured, e.g. recall@20.")] = "ndcg@100",
    users: Annotated[int, typer.Option("--users", min=1, help="Users of the synthetic catalogue.")] = 6000,
    items: Annotated[int, typer.Option("--items", min=1, help="Items of the synthetic catalogue.")] = 1000,
    at_least: Annotated[float | None, typer.Option(help="Keep values of at least this and count each as 1.")] = None,
    min_users: Annotated[int, typer.Option(min=0, help="Keep users with at least this many items.")] = 1,
    min_items: Annotated[int, typer.Option(min=0, help="Keep items with at least this many users.")] = 1,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the catalogue, the split and the fits.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
    columns: Columns = Columns(),  # noqa: B008 - frozen
) -> None:
    """Figure 1: accuracy against rank for EDLAE, the zero-diagonal model and DLAE, and how close similar items are.

    All models get the same dropout and l2; with auto, the values chosen for the full-rank EDLAE.
    """
    from offdiag.cli import demo, steck2020_figure1
    from offdiag.papers.steck2020 import figure1_page
    from offdiag.papers.steck2020.figure1 import parsed_ranks, run

    number = console.number_or_auto
    settings: Any = {"dropout": number("dropout")(dropout), "l2": number("l2")(l2)}
    some_ranks = parsed_ranks(ranks)
    demo.check_folder(Path(out))
    with console.working() as work:
        if data is None:
            work.begin("inventing a catalogue")
            inter = demo.invented(users, items, seed)
            source = f"a synthetic catalogue (seed {seed})"
        else:
            work.begin(f"reading {inputs.name_of(data)}")
            inter = inputs.prepared(inputs.read(data, columns), columns, data, at_least, min_users, min_items)
            source = inputs.name_of(data)
        figure = run(
            inter,
            source,
            ranks=some_ranks,
            rank=rank,
            held_out=held_out,
            metric=metric,
            seed=seed,
            work=work,
            **settings,
        )
        files = figure1_page.write(figure, Path(out))
    if json:
        console.show_json(figure1_page.as_json(figure) | {"files": files})
    else:
        steck2020_figure1.show(figure, files)


@steck2020.command(epilog="Example: `offdiag reproduce steck2020 table1 --data ml-20m=ml-20m.zip --data netflix=nf`")
def table1(
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            metavar="NAME=PATH",
            help="ml-20m, netflix, msd, ml-1m, ml-100k, lastfm or citeulike-a, and where it is; several times for "
            "several. Without it, a synthetic catalogue.",
        ),
    ] = None,
    rank: Annotated[
        int | None,
        typer.Option(
            "--rank", help="Of the low-rank rows. Default: 1,000 as published, a twentieth of small catalogues."
        ),
    ] = None,
    trials: Annotated[int, typer.Option("--trials", help="Settings tried for each row; 0: automatic settings.")] = 20,
    seconds_per_row: Annotated[
        float | None, typer.Option("--seconds-per-row", help="Tune each row for at most so long, nets eight times.")
    ] = None,
    rows: Annotated[
        str | None, typer.Option("--rows", help="Some of the rows, divided by commas, e.g. dlae,edlae,edlae-full.")
    ] = None,
    out: Annotated[
        str,
        typer.Option("--out", "-o", metavar="FOLDER", help="Where the tables go; finished rows are found there again."),
    ] = "steck2020",
    users: Annotated[int, typer.Option("--users", min=1, help="Users of the synthetic catalogue.")] = 6000,
    items: Annotated[int, typer.Option("--items", min=1, help="Items of the synthetic catalogue.")] = 1000,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Of the catalogue, the split, the tuning and the fits.")
    ] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
) -> None:
    """Table 1: five low-rank autoencoders, five published rivals and the full-rank family, tuned on validation users.

    Shown next to the published values, with standard errors, time and memory. A stopped run resumes where it was.
    """
    from offdiag.cli import demo, steck2020_table1
    from offdiag.papers.steck2020 import table1_page

    given = steck2020_table1.asked(data, users, items)
    some = steck2020_table1.parsed_rows(rows)
    demo.check_folder(Path(out))
    found, files = steck2020_table1.make(
        given, Path(out), rank=rank, trials=trials, seconds=seconds_per_row, rows=some, seed=seed
    )
    said = table1_page.as_json(found)
    if json:
        console.show_json(said | {"files": files})
    else:
        steck2020_table1.show(said, files)
