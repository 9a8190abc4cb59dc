"""What the commands have in common: shared arguments and options, the layout of their help, options from fields."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer import Argument, Option
from typer.core import TyperCommand, TyperGroup

from offdiag import model_list

Json = Annotated[bool, Option("--json", help="Print one JSON document instead of tables.")]
ModelFile = Annotated[str, Argument(metavar="MODEL", help="A file written by `offdiag fit`.")]
ModelFiles = Annotated[list[str], Argument(metavar="MODEL", help="One or more model files.")]
ModelName = Annotated[str, Option("--model", metavar="NAME", help=f"One of {', '.join(model_list.COMMANDS)}.")]
DataFile = Annotated[str, Argument(metavar="DATA", help="A table of interactions, or a known data set's name.")]
DataOrSynthetic = Annotated[
    str | None, Argument(metavar="DATA", help="Your own table or a known data set. Default: synthetic data.")
]
Users = Annotated[int, Option("--users", min=1, help="Users of the synthetic catalogue.")]
Items = Annotated[int, Option("--items", min=1, help="Items of the synthetic catalogue.")]
Metrics = Annotated[
    list[str] | None,
    Option("--metric", metavar="NAME", help="What to measure; repeatable. Default: recall@20, recall@50, ndcg@100."),
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


class _NarrowHelp:
    """Help that fits into 80 columns: no placeholder for a flag, N for a number with bounds."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # of Typer
        for param in params:
            if param.metavar is None and getattr(param, "is_flag", False):
                param.metavar = ""
            elif param.metavar is None and getattr(param, "min", None) is not None:
                param.metavar = "N"
        return params


class Command(_NarrowHelp, TyperCommand):
    pass


class Group(_NarrowHelp, TyperGroup):
    pass


def parameter(name: str, kind: Any, default: Any, about: Any) -> inspect.Parameter:
    """A parameter that Typer turns into an option; ``about`` is what typer.Option returns."""
    annotated: Any = Annotated  # built at run time, so not a type for the checker
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotated[kind, about])


def with_parameters(command: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> Callable[..., None]:
    """The function with these parameters, as Typer reads them."""
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def epilog(examples: Sequence[str]) -> str:
    """The end of a help text: one example per line."""
    return "\n\n".join([f"Example{'s' * (len(examples) > 1)}:", *(f"- `{example}`" for example in examples)])


def new_application() -> typer.Typer:
    """`offdiag` without its commands."""
    app = typer.Typer(
        name="offdiag",
        cls=Group,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
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
        print(context.get_help())
