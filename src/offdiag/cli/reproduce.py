"""`offdiag reproduce PAPER`: reproduce figures and claims of papers.

Steck (2020) is a group with a command per figure and takes any data; the theory papers are one command each.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from offdiag.cli import commands, console, inputs
from offdiag.cli.inputs import FilteredColumns, reads_data
from offdiag.cli.options import DataOrSynthetic, Items, Json, Seed, Users
from offdiag.errors import OffdiagError


class _Papers(commands.Group):
    """A group whose error for an unknown name lists the known ones."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None:
            known = ", ".join(self.list_commands(ctx))
            raise OffdiagError(f"{ctx.command_path} knows {known}; received {args[0]!r}")
        return super().resolve_command(ctx, args)


def _group(text: str) -> typer.Typer:
    example = commands.epilog(["offdiag reproduce steck2020 figure1"])
    group = typer.Typer(cls=_Papers, help=text, epilog=example, rich_markup_mode="markdown")
    group.callback(invoke_without_command=True)(commands.print_help)
    return group


app = _group("Reproduce the figures and claims of papers.")
steck2020 = _group("Steck (2020), Autoencoders that don't overfit towards the Identity.")
app.add_typer(steck2020, name="steck2020")

Out = Annotated[
    str | None,
    Option("--out", "-o", metavar="FOLDER", help="Where the page and figures go. Default: the paper's name."),
]
Size = Annotated[
    str, Option("--size", metavar="SIZE", help="small: seconds to a minute; paper: the sizes of the paper, minutes.")
]
Mnist = Annotated[
    str | None,
    Option("--mnist", metavar="FOLDER", help="MNIST in its IDX files, .gz or not. Default: synthetic images."),
]
Cifar10 = Annotated[
    str | None, Option("--cifar10", metavar="FOLDER", help="CIFAR-10, binary version. Default: synthetic images.")
]


def _command(group: typer.Typer, name: str, *examples: str, text: str | None = None) -> Callable[[Any], Any]:
    path = "offdiag reproduce" if group is app else "offdiag reproduce steck2020"
    shown = commands.epilog([f"{path} {name} {example}" for example in examples])
    return group.command(name, cls=commands.Command, help=text, epilog=shown)


@_command(app, "mianjy2018", "--size small")
def mianjy2018(out: Out = None, size: Size = "paper", seed: Seed = 0, json: Json = False) -> None:
    """Mianjy, Arora & Vidal (2018), On the Implicit Bias of Dropout."""
    _theory("mianjy2018", out, size, seed, json)


def _on_images(paper: str) -> Callable[..., None]:
    """The command of a theory paper that also trains on images."""

    def command(
        out: Out = None, size: Size = "paper", mnist: Mnist = None, cifar10: Cifar10 = None, seed: Seed = 0,
        json: Json = False,
    ) -> None:  # fmt: skip
        _theory(paper, out, size, seed, json, mnist=mnist, cifar10=cifar10)

    return command


_command(
    app, "pal2020", "--mnist mnist --cifar10 cifar-10-batches-bin",
    text="Pal, Lane, Vidal & Haeffele (2020), On the Regularization Properties of Structured Dropout.",
)(_on_images("pal2020"))  # fmt: skip
_command(
    app, "pretorius2018", "--mnist mnist",
    text="Pretorius, Kroon & Kamper (2018), Learning Dynamics of Linear Denoising Autoencoders.",
)(_on_images("pretorius2018"))  # fmt: skip


def _theory(paper: str, out: str | None, size: str, seed: int, json: bool, **images: str | None) -> None:
    """Run a theory paper, write its page, and print which claims held; exit code 1 if a number is not as expected."""
    from offdiag.cli import demo_study
    from offdiag.papers import page
    from offdiag.plots import papers

    if size not in ("small", "paper"):
        raise OffdiagError(f"--size must be small or paper, received {size!r}")
    folder = Path(out or paper)
    demo_study.check_folder(folder)
    papers.load_matplotlib()  # now, not after minutes of work
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
        console.show_written(files[:2])
    if not all(c.ok for c in checks):
        raise typer.Exit(1)


@_command(steck2020, "figure1", "ratings.csv --value rating --at-least 4")
@reads_data
def figure1(
    data: DataOrSynthetic = None,
    out: Annotated[
        str, Option("--out", "-o", metavar="FOLDER", help="Where the page and the numbers go.")
    ] = "steck2020",
    ranks: Annotated[str | None, Option(help="Ranks of the curve, separated by commas. Default: 10 to 1,000.")] = None,
    rank: Annotated[int | None, Option(help="Rank of the histograms. Default: the largest of the curve.")] = None,
    dropout: Annotated[str, Option(help="Dropout probability of all models, or auto.")] = "auto",
    l2: Annotated[str, Option(help="Penalty on the weights of all models, or auto.")] = "auto",
    held_out: Annotated[float, Option(help="Share of users to measure on; as many more are set aside, unused.")] = 0.1,
    metric: Annotated[str, Option(help="What is measured, e.g. recall@20.")] = "ndcg@100",
    seed: Seed = 0,
    users: Users = 6000,
    items: Items = 1000,
    json: Json = False,
    columns: FilteredColumns = FilteredColumns(),  # noqa: B008 - frozen
) -> None:
    """Figure 1: accuracy by rank, and how close similar items are.

    For EDLAE, the zero-diagonal model and DLAE, all with the same dropout and l2; with auto, the values chosen for the
    full-rank EDLAE.
    """
    from offdiag.cli import demo_study
    from offdiag.cli import steck2020 as paper
    from offdiag.papers.steck2020 import figure1_page
    from offdiag.papers.steck2020.figure1 import parse_ranks, run

    given: Any = {name: console.number_or_auto(name, text) for name, text in (("dropout", dropout), ("l2", l2))}
    given |= {"ranks": parse_ranks(ranks), "rank": rank, "held_out": held_out, "metric": metric, "seed": seed}
    demo_study.check_folder(Path(out))
    with console.working() as work:
        inter, source = inputs.read_or_generate(data, columns, users, items, seed, work)
        figure = run(inter, source, work=work, **given)
        files = figure1_page.write(figure, Path(out))
    if json:
        console.show_json(figure1_page.as_json(figure) | {"files": files})
    else:
        paper.show_figure1(figure, files)


@_command(steck2020, "table1", "--data ml-20m=ml-20m.zip --data netflix=nf")
def table1(
    data: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=PATH",
            help="ml-20m, netflix, msd, ml-1m, ml-100k, lastfm or citeulike-a, and where it is; repeatable. "
            "Default: a synthetic catalogue.",
        ),
    ] = None,
    rank: Annotated[
        int | None,
        Option(help="Rank of the low-rank rows. Default: 1,000 as published, a twentieth of small catalogues."),
    ] = None,
    trials: Annotated[int, Option(help="Settings tried for each row; 0: automatic settings.")] = 20,
    seconds_per_row: Annotated[
        float | None, Option(help="Time limit for tuning a row, eight times that for nets.")
    ] = None,
    rows: Annotated[
        str | None, Option(help="Only these rows, separated by commas, e.g. dlae,edlae,edlae-full.")
    ] = None,
    out: Annotated[
        str, Option("--out", "-o", metavar="FOLDER", help="Where the tables go; finished rows there are not redone.")
    ] = "steck2020",
    users: Users = 6000,
    items: Items = 1000,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Table 1: low-rank autoencoders compared with published rivals.

    Five low-rank autoencoders, five published rivals and the full-rank family, tuned on validation users and shown next
    to the published values, with standard errors, time and memory. A stopped run resumes where it was.
    """
    from offdiag.cli import demo_study
    from offdiag.cli import steck2020 as paper
    from offdiag.papers.steck2020 import table1_page

    sources = paper.table1_sources(data, users, items)
    some = None if rows is None else [part.strip() for part in rows.split(",") if part.strip()]
    demo_study.check_folder(Path(out))
    found, files = paper.make_table1(
        sources, Path(out), rank=rank, trials=trials, seconds=seconds_per_row, rows=some, seed=seed
    )
    about = table1_page.as_json(found)
    if json:
        console.show_json(about | {"files": files})
    else:
        paper.show_table1(about, files)
