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

from offdiag import wording
from offdiag.cli import commands, console, help_page, inputs, outputs, steck2020
from offdiag.cli.commands import Json, Seed
from offdiag.errors import OffdiagError


class _Papers(commands.Group):
    """A group whose error for an unknown name lists the known ones."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None:
            known = ", ".join(self.list_commands(ctx))
            raise OffdiagError(f"{ctx.command_path} knows {known}; received {args[0]!r}")
        return super().resolve_command(ctx, args)


def _group(text: str) -> typer.Typer:
    example = help_page.epilog(["offdiag reproduce steck2020 figure1"])
    group = typer.Typer(cls=_Papers, help=text, epilog=example, rich_markup_mode=None)
    group.callback(invoke_without_command=True)(commands.print_help)
    return group


Out = Annotated[
    str | None,
    Option("--out", "-o", metavar="FOLDER", help="Where the page and figures go. Default: the paper's name."),
]
Size = Annotated[
    str, Option("--size", metavar="SIZE", help="small: up to a minute; paper: sizes near the paper's, up to an hour.")
]
Mnist = Annotated[
    str | None,
    Option("--mnist", metavar="FOLDER", help="MNIST as IDX files, .gz or not. Default: synthetic images."),
]
Cifar10 = Annotated[
    str | None, Option("--cifar10", metavar="FOLDER", help="CIFAR-10, binary version. Default: synthetic images.")
]


def _mianjy2018(out: Out = None, size: Size = "paper", seed: Seed = 0, json: Json = False) -> None:
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


def _theory(paper: str, out: str | None, size: str, seed: int, json: bool, **images: str | None) -> None:
    """Run a theory paper, write its page, and print which claims held; exit code 1 if a number is not as expected."""
    from offdiag.papers import page
    from offdiag.plots import papers

    if size not in ("small", "paper"):
        raise OffdiagError(f"--size must be small or paper, received {size!r}")
    folder = Path(out or paper)
    outputs.check_folder(folder)
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
            f"{found.title} ({found.authors}), size {size}, {wording.seconds(found.seconds)}; data: {found.data}"
        )
        console.show_table(["verdict", "where", "measured"], [[c.verdict, c.where, c.measured] for c in found.claims])
        rows = [[c.name, c.shown, c.expected, c.verdict] for c in checks]
        console.show_table(["number", ">here", ">expected", "met"], rows)
        console.show_written(files[:2])
    if not all(c.ok for c in checks):
        raise typer.Exit(1)


def _add(group: typer.Typer, path: str, command: Callable[..., None], example: str, text: str | None = None) -> None:
    """Add a command to a group: its name is the last word of the path."""
    shown = help_page.epilog([f"offdiag reproduce {path} {example}"])
    group.command(path.split()[-1], cls=commands.Command, help=text, epilog=shown)(command)


app = _group("Reproduce the figures and claims of papers.")
_steck2020 = _group("Steck (2020), Autoencoders that don't overfit towards the Identity.")
app.add_typer(_steck2020, name="steck2020")
_add(_steck2020, "steck2020 figure1", inputs.reads_data(steck2020.figure1), "ratings.csv --value rating --at-least 4")
_add(_steck2020, "steck2020 table1", steck2020.table1, "--data ml-20m=ml-20m.zip --data netflix=nf")
_add(app, "mianjy2018", _mianjy2018, "--size small")
_add(
    app, "pal2020", _on_images("pal2020"), "--mnist mnist --cifar10 cifar-10-batches-bin",
    "Pal, Lane, Vidal & Haeffele (2020), On the Regularization Properties of Structured Dropout.",
)  # fmt: skip
_add(
    app, "pretorius2018", _on_images("pretorius2018"), "--mnist mnist",
    "Pretorius, Kroon & Kamper (2018), Learning Dynamics of Linear Denoising Autoencoders.",
)  # fmt: skip
