"""What the commands have in common: shared arguments and options, the layout of their help, options from fields."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer import Argument, Option
from typer.core import TyperCommand, TyperGroup

from offdiag import model_list, wording
from offdiag.cli import help_page
from offdiag.errors import OffdiagError

Json = Annotated[bool, Option("--json", help="Print one JSON document instead of tables.")]
ModelFile = Annotated[str, Argument(metavar="MODEL", help="A file written by `offdiag fit`.")]
ModelFiles = Annotated[list[str], Argument(metavar="MODEL", help="One or more model files.")]


def complete_model(incomplete: str) -> list[str]:
    """Names of models, for the shell."""
    return [name for name in model_list.COMMANDS if name.startswith(incomplete)]


def complete_metric(incomplete: str) -> list[str]:
    """Names of metrics at the usual lengths, for the shell."""
    from offdiag.evaluation import KNOWN_METRICS

    return [name for kind in KNOWN_METRICS for k in (10, 20, 50, 100) if (name := f"{kind}@{k}").startswith(incomplete)]


ModelName = Annotated[
    str,
    Option("--model", metavar="NAME", autocompletion=complete_model, help=f"One of {', '.join(model_list.COMMANDS)}."),
]
DataFile = Annotated[str, Argument(metavar="DATA", help="A table of interactions, or a known data set's name.")]
DataOrSynthetic = Annotated[
    str | None, Argument(metavar="DATA", help="Your own table or a known data set. Default: synthetic data.")
]
Users = Annotated[int, Option("--users", min=1, help="Users of the synthetic catalogue.")]
Items = Annotated[int, Option("--items", min=1, help="Items of the synthetic catalogue.")]
Metrics = Annotated[
    list[str] | None,
    Option(
        "--metric",
        metavar="NAME",
        autocompletion=complete_metric,
        help="What to measure; repeatable. Default: recall@20, recall@50, ndcg@100.",
    ),
]
IncludeSeen = Annotated[bool, Option("--include-seen", help="Also recommend items of the history.")]
Seed = Annotated[int, Option("--seed", min=0, help="Seed of every random choice: same seed, same result.")]
Updatable = Annotated[bool, Option("--updatable", help="Also store what `offdiag update` and `offdiag forget` need.")]
Event = Annotated[str | None, Option("--event", metavar="COLUMN", help="With --updatable: column of event ids.")]
KeyFile = Annotated[
    str | None,
    Option(
        "--key-file",
        metavar="FILE",
        help="Keys of living states; created if missing. Default: OFFDIAG_KEY, OFFDIAG_KEY_FILE or your configuration.",
    ),
]
DEFAULT_METRICS = ("recall@20", "recall@50", "ndcg@100")


class _OwnHelp:
    """The help of `cli/help_page.py`, the same with every version of typer."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(help_page.text(self, ctx))


class Command(_OwnHelp, TyperCommand):
    pass


class Group(_OwnHelp, TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            near = wording.suggestion(name, self.list_commands(ctx))
            raise OffdiagError(f"no such command {name!r}{near or f'; see {ctx.command_path} --help'}")
        return super().resolve_command(ctx, args)


def parameter(name: str, kind: Any, default: Any, about: Any) -> inspect.Parameter:
    """A parameter that Typer turns into an option; ``about`` is what typer.Option returns."""
    annotated: Any = Annotated  # built at run time, so not a type for the checker
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotated[kind, about])


def with_parameters(command: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> Callable[..., None]:
    """The function with these parameters, as Typer reads them."""
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def new_application() -> typer.Typer:
    """`offdiag` without its commands."""
    app = typer.Typer(
        name="offdiag",
        cls=Group,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Recommendation with linear autoencoders: exact, fast, explainable.",
    )
    app.callback(invoke_without_command=True)(_top)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        from offdiag import __version__

        print(f"offdiag {__version__}")
        raise typer.Exit


def _top(
    context: typer.Context,
    version: Annotated[
        bool, Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    print_help(context)


def print_help(context: typer.Context) -> None:
    """For a group that is called without a command."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
