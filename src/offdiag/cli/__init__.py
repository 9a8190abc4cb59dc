"""The command line, the only package that prints: results to stdout, messages to stderr. One file per command."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point: run one command and return the exit code."""
    try:
        from offdiag.cli import console

        app = application()
    except KeyboardInterrupt:  # while the libraries load
        sys.stderr.write("offdiag: interrupted; what was there before is kept\n")
        return 130
    return console.run(app, argv)


@functools.cache
def application() -> typer.Typer:
    """Every command with its example, in the order of the help."""
    from offdiag.cli import (
        compress,
        console,
        datasets,
        demo_command,
        evaluate,
        explain,
        fit,
        forget,
        info,
        inputs,
        model_options,
        recommend,
        reproduce,
        serve,
        similar,
        tune,
        update,
    )  # fmt: skip

    app = console.new_application()
    for command, example in (
        (demo_command.demo, demo_command.EXAMPLE),
        (fit.fit, fit.EXAMPLE),
        (tune.tune, tune.EXAMPLE),
        (compress.compress, compress.EXAMPLE),
        (update.update, update.EXAMPLE),
        (forget.forget, forget.EXAMPLE),
        (serve.serve, serve.EXAMPLE),
        (evaluate.evaluate, evaluate.EXAMPLE),
        (recommend.recommend, recommend.EXAMPLE),
        (similar.similar, similar.EXAMPLE),
        (explain.explain, explain.EXAMPLE),
        (info.info, info.EXAMPLE),
        (datasets.datasets, datasets.EXAMPLE),
    ):
        reads = "columns" in command.__annotations__
        cls = model_options.SettingsCommand if command is fit.fit else None
        app.command(cls=cls, epilog=example)(inputs.reads_data(command) if reads else command)
    app.add_typer(reproduce.app, name="reproduce", rich_help_panel="Papers")
    return app
